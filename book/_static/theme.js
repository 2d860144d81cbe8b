// On pages beside the book: the theme that its pages were last read in, or the system's, now and
// when that changes.
{
  const system = matchMedia("(prefers-color-scheme: dark)");
  const set = () => {
    const chosen = localStorage.getItem("theme");
    const dark = chosen === "dark" || (chosen !== "light" && system.matches);
    document.documentElement.dataset.theme = dark ? "dark" : "light";
  };
  set();
  system.addEventListener("change", set);
}
