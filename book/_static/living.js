// The picture of the front page: points on a circle, two of a colour, that descend InfoNCE. It moves
// for some seconds, then rests; where motion is not wanted, it shows the end at once.
(() => {
  "use strict";
  const NAMESPACE = "http://www.w3.org/2000/svg";
  const PAIRS = 6;
  const TEMPERATURE = 0.3;
  const STEP = 0.012;
  const STEPS = 300; // five seconds at sixty frames a second
  const RADIUS = 100;

  // Twice the gradient of the loss with both views as anchors: every other point pushes with its
  // softmax weight, as seen from either end; the partner pulls.
  function forces(angles) {
    const weights = angles.map((a, i) => {
      const row = angles.map((b, j) => (i === j ? 0 : Math.exp(Math.cos(a - b) / TEMPERATURE)));
      const sum = row.reduce((x, y) => x + y);
      return row.map((value) => value / sum);
    });
    return angles.map((a, i) =>
      angles.reduce((force, b, j) => {
        const pull = j === (i ^ 1) ? 2 : 0;
        return force + (pull - weights[i][j] - weights[j][i]) * Math.sin(b - a);
      }, 0),
    );
  }

  function start() {
    const figure = document.querySelector(".cl-living");
    if (!figure) return;
    const picture = figure.querySelector("svg");
    const button = figure.querySelector("button");
    const still = matchMedia("(prefers-reduced-motion: reduce)");
    let angles = [];
    let left = 0;
    let frame = 0;

    function add(name, attributes) {
      const made = document.createElementNS(NAMESPACE, name);
      for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
      picture.append(made);
      return made;
    }

    picture.replaceChildren();
    add("circle", { class: "cl-living-circle", r: RADIUS });
    const chords = Array.from({ length: PAIRS }, (_, k) => add("path", { "data-pair": k }));
    const points = Array.from({ length: 2 * PAIRS }, (_, i) => add("circle", { "data-pair": i >> 1, r: 8 }));

    function draw() {
      const at = angles.map((a) => [RADIUS * Math.cos(a), RADIUS * Math.sin(a)]);
      points.forEach((point, i) => {
        point.setAttribute("cx", at[i][0].toFixed(2));
        point.setAttribute("cy", at[i][1].toFixed(2));
      });
      chords.forEach((chord, k) => chord.setAttribute("d", `M${at[2 * k].join()}L${at[2 * k + 1].join()}`));
    }

    function step() {
      const force = forces(angles);
      angles = angles.map((a, i) => a + STEP * force[i]);
      left -= 1;
    }

    function move() {
      step();
      draw();
      if (left > 0) frame = requestAnimationFrame(move);
      else delete figure.dataset.moving;
    }

    function begin() {
      cancelAnimationFrame(frame);
      angles = Array.from({ length: 2 * PAIRS }, () => 2 * Math.PI * Math.random());
      left = STEPS;
      if (still.matches) {
        while (left > 0) step();
        draw();
      } else {
        figure.dataset.moving = "";
        move();
      }
    }

    button.hidden = false;
    button.addEventListener("click", begin);
    begin();
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
