// A footnote beside its reference, on hover or focus. The link still works: a click goes to the note.
{
  let box, timer;
  const close = () => { clearTimeout(timer); box?.remove(); box = undefined; };
  const open = (ref) => {
    close();
    const note = document.getElementById(decodeURIComponent(ref.hash.slice(1)));
    if (!note) return;
    box = Object.assign(document.createElement("div"), { className: "ui-note" });
    box.setAttribute("role", "note");
    for (const child of note.childNodes) box.append(child.cloneNode(true));
    for (const named of box.querySelectorAll("[id]")) named.removeAttribute("id");
    ref.after(box);
    const at = ref.getBoundingClientRect();
    const frame = (box.offsetParent || document.body).getBoundingClientRect();
    const room = document.documentElement.clientWidth - box.offsetWidth - 16;
    box.style.left = `${Math.max(16, Math.min(at.left - 24, room)) - frame.left}px`;
    const below = at.bottom + 6 + box.offsetHeight < innerHeight;
    box.style.top = `${(below ? at.bottom + 6 : at.top - 6 - box.offsetHeight) - frame.top}px`;
    box.addEventListener("pointerenter", () => clearTimeout(timer));
    box.addEventListener("pointerleave", later);
  };
  const later = () => { clearTimeout(timer); timer = setTimeout(close, 250); };
  for (const ref of document.querySelectorAll("a.fnref")) {
    ref.addEventListener("pointerenter", (event) => {
      if (event.pointerType !== "mouse") return; // a finger taps: the link does its work
      clearTimeout(timer);
      timer = setTimeout(open, 120, ref);
    });
    ref.addEventListener("pointerleave", later);
    ref.addEventListener("focus", () => { if (ref.matches(":focus-visible")) open(ref); });
    ref.addEventListener("blur", later);
    ref.addEventListener("click", close);
  }
  addEventListener("keydown", (event) => { if (event.key === "Escape") close(); });
}
