// Runs before the first paint, so that a dark page does not flash white. It is no module: those run later.
(() => {
  const theme = localStorage.getItem("ottla.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
