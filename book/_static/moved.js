// Figures, exercises and sections that stand in another chapter since two chapters were divided: their
// old address leads to the new one. Page -> page -> ids.
(() => {
  const MOVED = {
    "6-landscape.html": {
      "6-training.html": [
        "ex-landscape-noise", "ex-landscape-rank", "fig-basic", "fig-basic-measures", "fig-noise-level",
        "fig-noise-map", "fig-one-hot", "fig-one-hot-measures", "fig-square", "fig-square-measures"
      ]
    },
    "6-dynamics.html": {
      "6-training.html": ["fig-simplified", "fig-simplified-measures"],
      "6-warm-starts.html": [
        "a-warm-start-with-a-predictor-comes-nearest", "ex-dynamics-chance", "ex-dynamics-loss",
        "fig-decides-ncl", "fig-norms", "fig-norms-measures", "fig-predictor", "fig-predictor-measures"
      ]
    }
  };

  function follow() {
    const id = location.hash.slice(1);
    const pages = MOVED[location.pathname.split("/").pop()];
    if (!id || !pages || document.getElementById(id)) return;
    const page = Object.keys(pages).find((name) => pages[name].includes(id));
    if (page) location.replace(page + "#" + id);
  }
  addEventListener("hashchange", follow);
  follow();
})();
