// Repairs to the theme's markup, for readers who use the keyboard or a screen reader.
(() => {
  "use strict";

  // What scrolls sideways must be reachable by keyboard, and only that: no needless tab stops.
  const SCROLLING = [
    ".math", "mjx-container[display]", ".cl-wide", "pre", ".cell_output .output", ".cl-statement",
    ".pst-scrollable-table-container", "figure",
  ].join(",");

  function reach(element) {
    const style = getComputedStyle(element);
    const scrolls =
      /auto|scroll/.test(style.overflowX) && element.scrollWidth > element.clientWidth + 1;
    // The theme's own look at it, at some moment of a change of layout, may have ended in -1.
    const missed = element.getAttribute("tabindex") !== "0";
    if (scrolls && missed && !element.querySelector('[tabindex="0"]')) {
      element.tabIndex = 0;
      element.dataset.reach = "";
    } else if (!scrolls && element.dataset.reach === "") {
      element.removeAttribute("tabindex");
      delete element.dataset.reach;
    }
  }

  // A formula in running text that is wider than its line gets a box of its own.
  function fit(formula) {
    const block = formula.closest("p, li, td, dd, figcaption, div");
    const wide = formula.firstElementChild?.getBoundingClientRect().width > block?.clientWidth;
    formula.classList.toggle("cl-wide", Boolean(wide));
    // What stays with it on its line does so as long as the line is wide enough for both.
    const kept = formula.closest(".cl-kept");
    kept?.classList.remove("cl-loose");
    if (kept?.getBoundingClientRect().width > block?.clientWidth) kept.classList.add("cl-loose");
  }

  function reachAll() {
    document.querySelectorAll(".cl-stacked:not([role])").forEach(stack);
    document.querySelectorAll("mjx-container:not([display])").forEach(fit);
    // Inner boxes first: one that can be reached spares the box around it a tab stop.
    [...document.querySelectorAll(SCROLLING)].reverse().forEach(reach);
  }

  // Tables whose rows are laid out below each other on a phone: the roles that they lose there, and
  // for each cell the name of its column.
  function stack(table) {
    const columns = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.split(",")[0]);
    table.setAttribute("role", "table");
    for (const part of [table.tHead, ...table.tBodies]) part.setAttribute("role", "rowgroup");
    for (const row of table.rows) {
      row.setAttribute("role", "row");
      const head = row.parentElement === table.tHead;
      [...row.cells].forEach((cell, at) => {
        cell.setAttribute("role", head ? "columnheader" : cell.scope ? "rowheader" : "cell");
        if (cell.tagName === "TD" && cell.colSpan === 1) cell.dataset.label ??= columns[at];
      });
    }
  }

  // A formula that is not set yet has no size and no words: it gets about the size that it will have,
  // so that little moves when it is set, and its TeX as its name.
  async function hold() {
    await window.MathJax?.startup?.promise;
    for (const formula of window.MathJax?.startup?.document?.math ?? []) {
      const marker = formula.lazyMarker;
      if (!marker?.isConnected) continue;
      marker.removeAttribute("aria-hidden");
      marker.setAttribute("role", "img");
      marker.setAttribute("aria-label", formula.math.trim());
      marker.className = formula.display ? "cl-unset cl-unset-display" : "cl-unset";
      const letters = formula.math.replace(/\\[a-zA-Z]+|[{}^_\s]/g, (part) => (part[0] === "\\" ? "x" : ""));
      if (!formula.display) marker.style.width = `${Math.min(0.5 * letters.length, 12)}em`;
    }
  }

  // A link into a folded part opens it; not every browser does so by itself.
  function unfold() {
    let place = "";
    try {
      place = decodeURIComponent(location.hash.slice(1));
    } catch {
      return; // no UTF-8
    }
    const target = document.getElementById(place);
    let fold = target?.closest("details:not([open])");
    if (!fold) return;
    for (; fold; fold = fold.parentElement.closest("details")) fold.open = true;
    target.scrollIntoView();
  }

  function repair() {
    // Where there is room, the lines of a part stand open beside its numbers, their names below.
    if (matchMedia("(min-width: 75rem)").matches) {
      const folds = document.querySelectorAll(".cl-claim-page :is(.cl-part-code, .cl-names)");
      for (const fold of folds) fold.open = true;
    }
    hold();
    addEventListener("hashchange", unfold);
    unfold();
    const sidebar = document.getElementById("pst-primary-sidebar");
    sidebar?.setAttribute("role", "region");
    sidebar?.setAttribute("aria-label", "Book");
    for (const toggle of document.querySelectorAll("summary:has(.toctree-toggle)")) {
      const page = toggle.closest("li")?.querySelector("a")?.textContent.trim();
      toggle.setAttribute("aria-label", `Pages below ${page}`);
    }
    // A list whose entries are not list items; and a role that the standard has dropped.
    document.querySelector(".citation-list")?.removeAttribute("role");
    for (const entry of document.querySelectorAll(".citation")) entry.removeAttribute("role");

    const article = document.querySelector(".bd-article, .cl-opened");
    if (!article) return;
    let waiting = 0;
    const later = () => {
      clearTimeout(waiting);
      waiting = setTimeout(reachAll, 100);
    };
    // Formulas arrive late, folded parts open, the window changes its width.
    new ResizeObserver(later).observe(article);
    new MutationObserver(later).observe(article, { childList: true, subtree: true });
    article.addEventListener("toggle", later, true);
    later();
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", repair);
  else repair();
})();
