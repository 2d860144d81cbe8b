// Figures with sliders: all frames are in the page, a slider or a switch (two radio buttons) chooses
// which one is shown. The site loads this once; in a notebook it comes with every figure.
(() => {
  "use strict";

  function enliven(figure) {
    figure.dataset.live = "";
    const frames = JSON.parse(figure.querySelector("script").textContent);
    const image = figure.querySelector("img");
    const says = figure.querySelector(".cl-says");
    const controls = [...figure.querySelectorAll("input[type=range], .cl-switch")];
    const sliders = controls.filter((c) => c.type === "range");
    const first = Number(figure.dataset.first);
    const common = image.alt.slice(0, image.alt.length - frames[first].says.length);
    let timer = 0;

    function show(place, aloud = true) {
      image.src = frames[place].source;
      image.alt = common + frames[place].says;
      clearTimeout(timer);
      // One sentence when the slider rests, not one for each value that it passes.
      if (aloud) timer = setTimeout(() => (says.textContent = frames[place].says), 150);
    }

    const value = (c) => Number((c.type === "range" ? c : c.querySelector(":checked")).value);
    const size = (c) => (c.type === "range" ? Number(c.max) + 1 : 2);
    const chosen = () => controls.reduce((sum, c) => sum * size(c) + value(c), 0);

    for (const slider of sliders) {
      slider.value = slider.defaultValue; // some browsers keep what was chosen before a reload
      const words = JSON.parse(slider.dataset.words);
      slider.dataset.lmSuppressShortcuts = "true"; // JupyterLab's, which take the arrow keys
      slider.addEventListener("input", () => {
        slider.setAttribute("aria-valuetext", words[slider.value]);
        slider.nextElementSibling.textContent = words[slider.value];
        show(chosen());
      });
    }
    // A notebook that is open twice shows a figure twice, and buttons of one name are one group.
    const own = `-${Math.random()}`;
    for (const button of figure.querySelectorAll(".cl-switch input")) {
      button.name += own;
      button.checked = button.defaultChecked;
      button.dataset.lmSuppressShortcuts = "true";
      button.addEventListener("change", () => show(chosen()));
    }
    figure.querySelector(".cl-sliders").hidden = false;
    // The other frames are files: fetched when the figure comes near, so that a slider does not wait.
    const near = new IntersectionObserver((seen) => {
      if (!seen.some((e) => e.isIntersecting)) return;
      near.disconnect();
      for (const frame of frames) new Image().src = frame.source;
    }, { rootMargin: "400px" });
    if (!frames[0].source.startsWith("data:")) near.observe(figure);
    addEventListener("beforeprint", () => show(first, false));
    addEventListener("afterprint", () => show(chosen(), false));
  }

  function start() {
    document.querySelectorAll(".cl-explore:not([data-live])").forEach(enliven);
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
