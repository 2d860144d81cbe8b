// The page of the search: what find.js finds for the words in the address.
(() => {
  "use strict";
  const MOST = 40;

  async function start() {
    const field = document.querySelector("main .bd-search input");
    const list = document.getElementById("search-results");
    const count = document.getElementById("search-count");
    const query = new URLSearchParams(location.search).get("q") ?? "";
    for (const one of document.querySelectorAll(".bd-search input")) one.value = query;
    field.focus();
    if (!query.trim()) return;
    let found;
    try {
      found = await window.clFindNear(query);
    } catch (error) {
      count.textContent = `The index of the search could not be loaded: ${error.message}. Reload the page.`;
      return;
    }
    list.replaceChildren(...found.entries.slice(0, MOST).map(shown));
    count.textContent = found.note + told(found.entries.length, found.whole, query);
  }

  function told(number, whole, query) {
    if (!number) return `Nothing found for ${query}. Fewer words find more; the ledger can be filtered by paper and kind.`;
    const most = number > MOST ? `, the best ${MOST} of them here` : "";
    if (!whole) return `Nothing has all words of ${query}. ${number} found with most of them${most}`;
    const part = number > whole ? `: ${whole} with all words, ${number - whole} with most of them` : "";
    return `${number} found for ${query}${part}${most}`;
  }

  function shown(entry) {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = document.documentElement.dataset.content_root + entry.address;
    link.textContent = entry.kind === "claim" ? `${entry.place}: ${entry.title}` : entry.title;
    const says = document.createElement("p");
    if (entry.verdict) {
      const verdict = document.createElement("span");
      verdict.className = `cl-verdict cl-${entry.verdict}`;
      verdict.textContent = entry.verdict === "todo" ? "not yet checked" : entry.verdict;
      says.append(verdict, " ");
    }
    says.append(entry.says);
    item.append(link);
    if (entry.kind !== "claim" && entry.place) item.append(` in ${entry.place}`);
    item.append(says);
    return item;
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
