// The theme that the book's pages were last read in, or the system's; and their macros.
{
  const chosen = localStorage.getItem("theme");
  const system = matchMedia("(prefers-color-scheme: dark)").matches;
  const dark = chosen === "dark" || (chosen !== "light" && system);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}
window.MathJax = {{ mathjax }};
