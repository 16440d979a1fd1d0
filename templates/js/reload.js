// Only while `make serve` runs: reload this page when it was made again, show the problems of the book.
{
  const here = decodeURIComponent(location.pathname.slice(1)).replace(/(^|\/)$/, "$1index.html");
  const KEY = "ui-place";

  // Keep the reader's place: the last id above the top of the window, and how far below it.
  const place = () => {
    let last = { id: "", offset: scrollY };
    for (const element of document.querySelectorAll("main [id]")) {
      const top = element.getBoundingClientRect().top;
      if (top > 80) break;
      last = { id: element.id, offset: -top };
    }
    return last;
  };
  const kept = sessionStorage.getItem(KEY);
  if (kept) {
    sessionStorage.removeItem(KEY);
    const { page, id, offset } = JSON.parse(kept);
    const settle = () => {
      const anchor = id && document.getElementById(id);
      const top = anchor ? anchor.getBoundingClientRect().top + scrollY : 0;
      scrollTo({ top: top + offset, behavior: "instant" });
    };
    if (page === here) {
      history.scrollRestoration = "manual";
      settle();
      document.fonts.ready.then(settle); // a face that arrives late moves the lines
    }
  }

  let overlay;
  const show = (problems) => {
    overlay?.remove();
    overlay = undefined;
    if (!problems.length) return;
    overlay = Object.assign(document.createElement("aside"), { className: "ui-overlay" });
    overlay.setAttribute("aria-label", "Problems in the book");
    const close = Object.assign(document.createElement("button"), { type: "button", textContent: "Hide" });
    close.addEventListener("click", () => overlay.remove());
    const list = document.createElement("ol");
    for (const p of problems) {
      const item = document.createElement("li");
      item.className = p.level;
      item.append(Object.assign(document.createElement("code"), { textContent: `${p.path}:${p.line}` }), ` ${p.code} ${p.message}`);
      if (p.hint) item.append(Object.assign(document.createElement("small"), { textContent: p.hint }));
      list.append(item);
    }
    const title = `${problems.length} problem${problems.length === 1 ? "" : "s"}`;
    // Errors stand open over the page; warnings wait in a corner.
    const fold = Object.assign(document.createElement("details"), { open: problems.some((p) => p.level === "error") });
    fold.append(Object.assign(document.createElement("summary"), { textContent: title }), list);
    overlay.append(close, fold);
    document.body.append(overlay);
  };

  const events = new EventSource(`/ui-events?page=${encodeURIComponent(here)}&seen=${document.documentElement.dataset.uiSeen}`);
  events.addEventListener("problems", (event) => show(JSON.parse(event.data)));
  events.addEventListener("changed", (event) => {
    const pages = JSON.parse(event.data);
    if (!pages.includes(here)) return;
    sessionStorage.setItem(KEY, JSON.stringify({ page: here, ...place() }));
    location.reload();
  });
}
