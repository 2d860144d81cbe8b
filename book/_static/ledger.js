// The ledger page: filters whose state lives in the address, and statements that are fetched from
// the claims' own pages when they are opened.
(() => {
  "use strict";
  const NAMES = ["paper", "chapter", "kind", "verdict", "grade", "rung"];
  // A claim's id: then only what it rests on is shown, or only what rests on it.
  const REACHED = { below: "rests on", above: "is used by" };
  const STATE = [...NAMES, "words", ...Object.keys(REACHED)];
  const pageOf = (key) => `../claims/${key}.html`;

  // Addresses of old say "q", which the theme's search takes for its own: it looks after this.
  const old = new URLSearchParams(location.search);
  if (document.querySelector(".cl-filters") && old.has("q")) {
    if (!old.has("words")) old.set("words", old.get("q"));
    old.delete("q");
    history.replaceState(null, "", `${location.pathname}?${old}${location.hash}`);
  }

  // What the address points to; "" where it is no UTF-8.
  function place() {
    try {
      return decodeURIComponent(location.hash.slice(1));
    } catch {
      return "";
    }
  }

  function start() {
    const form = document.querySelector(".cl-filters");
    const claims = [...document.querySelectorAll(".cl-claim")];
    if (!form || !claims.length) return;
    dress(claims);

    const words = new Map(claims.map((c) => [c, c.textContent.toLowerCase()]));
    const count = form.querySelector(".cl-count");
    const near = { below: new Map(), above: new Map() };
    for (const claim of claims) {
      const { id, rests } = claim.dataset;
      const others = rests ? rests.split(" ") : [];
      near.below.set(id, others);
      for (const other of others) near.above.set(other, [...(near.above.get(other) ?? []), id]);
    }

    function reach(name, from) {
      const found = new Set([from]);
      for (const id of found) for (const next of near[name].get(id) ?? []) found.add(next);
      return found;
    }

    // The claims that the words find, by the search of the whole site, or the few that come nearest;
    // null until they are known, and where its index cannot be had: then the words of the rows
    // themselves count.
    const NEAREST = 10;
    let sought = { query: "", ids: null };
    function seek(query) {
      if (sought.query === query) return sought.ids;
      const asked = { query, ids: null };
      sought = asked;
      const ids = (entries) => entries.filter(({ kind }) => kind === "claim").map(({ id }) => id);
      window
        .clFind(query)
        .then(async (found) => {
          const whole = ids(found);
          const near = whole.length ? whole : ids((await window.clFindNear(query, "claim")).entries).slice(0, NEAREST);
          asked.near = !whole.length && near.length > 0;
          asked.ids = new Set(near);
        })
        .catch(() => {})
        .finally(() => {
          if (sought !== asked) return;
          form.dataset.searched = query;
          apply();
        });
      return null;
    }

    // In the order of the search, where words are sought; otherwise in that of the papers.
    let ordered = null;
    function order(ids) {
      if (ids === ordered) return;
      ordered = ids;
      const rank = new Map([...(ids ?? [])].map((id, at) => [id, at]));
      const at = (claim) => rank.get(claim.dataset.id) ?? rank.size;
      claims[0].parentNode.append(...[...claims].sort((one, other) => at(one) - at(other)));
    }

    function apply() {
      const query = form.elements.words.value.trim();
      const ids = query ? seek(query) : null;
      order(ids);
      const plain = query.toLowerCase().replace(/["“”„]/g, "").split(/\s+/);
      const asked = Object.keys(REACHED).filter((n) => near.below.has(form.elements[n].value));
      const reached = asked.map((n) => reach(n, form.elements[n].value));
      let shown = 0;
      for (const claim of claims) {
        const fits =
          NAMES.every((n) => !form.elements[n].value || claim.dataset[n] === form.elements[n].value) &&
          (ids ? ids.has(claim.dataset.id) : plain.every((w) => words.get(claim).includes(w))) &&
          reached.every((set) => set.has(claim.dataset.id));
        claim.hidden = !fits;
        shown += fits;
      }
      const told = asked.map((n) => `: ${form.elements[n].value} and what it ${REACHED[n]}`);
      const nearest = ids && sought.near ? "No claim has all these words; the nearest: " : "";
      count.textContent = `${nearest}${shown} of ${claims.length} claims${told.join("")}`;
    }

    function read() {
      const state = new URLSearchParams(location.search);
      for (const name of STATE) {
        form.elements[name].value = state.get(name) ?? "";
        if (form.elements[name].selectedIndex === -1) form.elements[name].value = "";
      }
      apply();
    }

    function write() {
      const state = new URLSearchParams();
      for (const name of STATE) {
        if (form.elements[name].value) state.set(name, form.elements[name].value);
      }
      const query = state.toString();
      history.replaceState(null, "", location.pathname + (query ? `?${query}` : ""));
      apply();
    }

    // A link to one row wins over the filters, and opens it.
    function target() {
      const row = document.getElementById(place());
      const claim = row?.closest(".cl-claim");
      if (!claim) return;
      if (claim.hidden) {
        form.reset();
        apply();
      }
      claim.querySelector("details").open = true;
      row.scrollIntoView({ block: "center" });
    }

    form.addEventListener("input", write);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => {
      // What is hidden has no default to go back to.
      for (const name of Object.keys(REACHED)) form.elements[name].value = "";
      setTimeout(write);
    });
    addEventListener("popstate", read);
    addEventListener("hashchange", target);
    form.hidden = false;
    read();
    target();
  }

  // The rows as the page has them are a plain table. A fold comes below each, and the roles that a
  // table loses where a row is laid out as a card.
  function dress(claims) {
    const table = claims[0].closest("table");
    const roles = { thead: "rowgroup", tr: "row", "thead th": "columnheader" };
    table.setAttribute("role", "table");
    for (const [names, role] of Object.entries(roles)) {
      for (const one of table.querySelectorAll(names)) one.setAttribute("role", role);
    }
    const span = table.tHead.rows[0].cells.length;
    for (const claim of claims) {
      const row = claim.rows[0];
      claim.dataset.paper = claim.dataset.id.split("/")[0];
      claim.setAttribute("role", "rowgroup");
      for (const cell of row.cells) cell.setAttribute("role", cell.scope ? "rowheader" : "cell");
      const details = document.createElement("details");
      const summary = document.createElement("summary");
      const of = document.createElement("span");
      of.className = "cl-hidden";
      of.textContent = ` of ${claim.dataset.id}`;
      summary.append("Statement", of);
      details.append(summary);
      details.addEventListener("toggle", () => details.open && open(details, row.id));
      const below = claim.insertRow();
      below.className = "cl-more";
      below.setAttribute("role", "row");
      const cell = below.insertCell();
      cell.colSpan = span;
      cell.setAttribute("role", "cell");
      cell.append(details);
    }
  }

  // One formula set at a time: MathJax may stop midway to load an extension.
  let queue = Promise.resolve();

  async function open(details, key) {
    if (details.dataset.typeset) return;
    details.dataset.typeset = "asked";
    const told = document.createElement("div");
    told.setAttribute("role", "status");
    told.textContent = "Loading";
    details.append(told);
    try {
      const answer = await fetch(pageOf(key));
      if (!answer.ok) throw new Error(answer.statusText);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      told.replaceWith(page.querySelector(".cl-opened"));
    } catch {
      const link = document.createElement("a");
      link.href = pageOf(key);
      link.textContent = "its own page";
      told.replaceChildren("It could not be loaded here; it stands on ", link, ".");
      delete details.dataset.typeset;
      details.addEventListener("toggle", () => told.remove(), { once: true });
      return;
    }
    queue = queue.then(async () => {
      // Until its script has come, window.MathJax is only its configuration.
      while (!window.MathJax?.startup?.promise) await new Promise((go) => setTimeout(go, 50));
      await window.MathJax.startup.promise;
      await window.MathJax.typesetPromise([details]);
      details.dataset.typeset = "done";
    });
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
