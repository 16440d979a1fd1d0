// Keys, and the list of keys. Never while typing, never with Ctrl, Alt or Meta, never in a box that scrolls.
{
  const KEYS = [
    ["/ or s", "search"],
    ["← or p", "previous chapter"],
    ["→ or n", "next chapter"],
    ["c", "contents"],
    ["t", "light or dark"],
    ["?", "this list"],
    ["Esc", "close"],
  ];
  const press = (name) => document.querySelector(`[data-ui="${name}"]`)?.click();
  const turn = (rel) => { const link = document.querySelector(`link[rel="${rel}"]`); if (link) location.href = link.href; };

  let help;
  const build = () => {
    const dialog = Object.assign(document.createElement("dialog"), { className: "ui-dialog ui-helping", id: "ui-help" });
    dialog.setAttribute("aria-labelledby", "ui-help-title");
    const title = Object.assign(document.createElement("h2"), { id: "ui-help-title", textContent: "Keys" });
    const list = document.createElement("dl");
    for (const [keys, what] of KEYS) {
      const term = document.createElement("dt");
      keys.split(" or ").forEach((key, i) => {
        if (i) term.append(" or ");
        term.append(Object.assign(document.createElement("kbd"), { textContent: key }));
      });
      list.append(term, Object.assign(document.createElement("dd"), { textContent: what }));
    }
    const form = Object.assign(document.createElement("form"), { method: "dialog" });
    form.append(Object.assign(document.createElement("button"), { className: "ui-button ui-find", textContent: "Close" }));
    dialog.append(title, list, form);
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
    document.body.append(dialog);
    return dialog;
  };
  document.querySelector('[data-ui="help"]')?.addEventListener("click", () => { help ??= build(); help.showModal(); });

  const contents = () => {
    const nav = document.getElementById("ui-contents");
    if (nav && getComputedStyle(nav).display === "none") nav.showPopover?.();
    (nav?.querySelector("[aria-current]") || nav?.querySelector("a"))?.focus();
  };
  const actions = {
    "/": () => press("search"), s: () => press("search"),
    ArrowLeft: () => turn("prev"), p: () => turn("prev"),
    ArrowRight: () => turn("next"), n: () => turn("next"),
    t: () => press("theme"), "?": () => press("help"), c: contents,
  };
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
    const at = event.target;
    if (at.closest?.("input, textarea, select, [contenteditable], dialog")) return;
    if (event.key.startsWith("Arrow") && (at.scrollWidth > at.clientWidth + 1 && at !== document.body)) return;
    const action = actions[event.key];
    if (!action || (event.shiftKey && event.key !== "?" && event.key !== "/")) return;
    event.preventDefault();
    action();
  });
}
