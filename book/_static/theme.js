// On pages beside the book: the theme that its pages were last read in, or the system's.
{
  const chosen = localStorage.getItem("theme");
  const system = matchMedia("(prefers-color-scheme: dark)").matches;
  const dark = chosen === "dark" || (chosen !== "light" && system);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}
