// Light or dark: the system's choice until the reader makes one. Choosing what the system says forgets the choice.
{
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const button = document.querySelector('[data-ui="theme"]');
  const dark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const show = () => button?.setAttribute("aria-pressed", String(dark()));
  button?.addEventListener("click", () => {
    const wanted = dark() ? "light" : "dark";
    const asSystem = (wanted === "dark") === system.matches;
    if (asSystem) delete root.dataset.theme;
    else root.dataset.theme = wanted;
    try {
      if (asSystem) localStorage.removeItem("ui-theme");
      else localStorage.setItem("ui-theme", wanted);
    } catch { /* no memory here (private mode): the choice holds for this page */ }
    show();
  });
  system.addEventListener("change", show);
  show();
}
