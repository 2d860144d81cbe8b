// The card of a claim, beside a link to its row of the ledger: on hover and on keyboard focus.
(() => {
  "use strict";
  const GAP = 6;

  function start() {
    const data = document.getElementById("cl-cards");
    if (!data) return;
    const cards = JSON.parse(data.textContent);
    const card = document.createElement("div");
    card.id = "cl-card";
    card.className = "cl-card";
    card.setAttribute("role", "tooltip");
    card.hidden = true;
    document.body.append(card);
    let link = null; // whose card is shown
    let waiting = 0;

    function line(name, text) {
      const made = document.createElement("div");
      made.className = `cl-card-${name}`;
      made.textContent = text;
      card.append(made);
      return made;
    }

    // Below the link, or above it where the window ends.
    function put() {
      const at = link.getClientRects()[0];
      const below = at.bottom + GAP + card.offsetHeight <= innerHeight || at.top < card.offsetHeight + GAP;
      const width = document.documentElement.clientWidth;
      const left = Math.max(GAP, Math.min(at.left, width - card.offsetWidth - GAP));
      card.style.left = `${left + scrollX}px`;
      card.style.top = `${(below ? at.bottom + GAP : at.top - GAP - card.offsetHeight) + scrollY}px`;
    }

    async function show(asked) {
      clearTimeout(waiting);
      if (asked === link) return;
      hide();
      link = asked;
      const { place, title, verdict, statement } = cards[link.dataset.claim];
      card.replaceChildren();
      line("place", place);
      line("title", title);
      if (verdict) line("verdict", `Verdict: ${verdict}`); // a word of the glossary has none
      const formulas = statement.includes("\\(");
      const math = window.MathJax?.startup?.promise;
      const told = statement && (math || !formulas) ? line("statement", statement) : null;
      link.setAttribute("aria-describedby", card.id);
      card.hidden = false;
      put();
      if (!told || !formulas) return;
      await math;
      if (!told.isConnected) return;
      window.MathJax.startup.document.options.lazyAlwaysTypeset = [card]; // not as it comes into view
      await window.MathJax.typesetPromise([told]);
      if (asked === link) put();
    }

    function hide() {
      clearTimeout(waiting);
      link?.removeAttribute("aria-describedby");
      link = null;
      card.hidden = true;
    }

    // Time to move from the link into its card.
    function leave() {
      clearTimeout(waiting);
      waiting = setTimeout(() => link !== document.activeElement && hide(), 300);
    }

    for (const one of document.querySelectorAll("a[data-claim]")) {
      one.addEventListener("pointerenter", (event) => {
        if (event.pointerType !== "mouse") return; // a tap follows the link
        clearTimeout(waiting);
        waiting = setTimeout(() => show(one), link ? 0 : 150);
      });
      one.addEventListener("pointerleave", leave);
      one.addEventListener("focus", () => one.matches(":focus-visible") && show(one));
      one.addEventListener("blur", () => link === one && hide());
    }
    card.addEventListener("pointerenter", () => clearTimeout(waiting));
    card.addEventListener("pointerleave", leave);
    addEventListener("keydown", (event) => event.key === "Escape" && hide());
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
