// The page itself: moved sections, folded targets, boxes that scroll, where the reader is.
{
  // A section that moved to another page: old links still arrive.
  const moves = document.getElementById("ui-moves");
  const arrive = () => {
    const id = decodeURIComponent(location.hash.slice(1));
    if (!id) return;
    const place = document.getElementById(id);
    if (!place) {
      const target = moves && JSON.parse(moves.textContent)[id];
      if (target) location.replace(target);
      return;
    }
    for (let box = place.closest("details:not([open])"); box; box = box.parentElement?.closest("details:not([open])")) {
      box.open = true;
      place.scrollIntoView();
    }
  };
  addEventListener("hashchange", arrive);
  arrive();

  // The contents open at the current chapter.
  const contents = document.getElementById("ui-contents");
  const centre = () => {
    const here = contents?.querySelector("[aria-current]");
    if (here && contents.clientHeight) contents.scrollTop = here.offsetTop - contents.clientHeight / 3;
  };
  centre();
  contents?.addEventListener("toggle", centre);

  // A box takes part in the keyboard's round only while something is hidden in it.
  const boxes = new ResizeObserver((changes) => {
    // All reading before any writing: a long chapter has hundreds of boxes.
    const seen = changes.map(({ target }) => [target, target.scrollWidth > target.clientWidth + 1]);
    for (const [box, hidden] of seen) {
      if (hidden) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
      if (box.matches(".ui-scroll")) {
        box.toggleAttribute("data-hidden", hidden);
        for (const [name, value] of [["role", "region"], ["aria-label", box.dataset.name]]) {
          if (hidden) box.setAttribute(name, value);
          else box.removeAttribute(name);
        }
      }
      const wrap = box.parentElement.querySelector(".ui-wrap");
      if (wrap && !box.parentElement.matches(".ui-wrapped")) wrap.hidden = !hidden;
    }
  });
  for (const box of document.querySelectorAll(".ui-scroll, figure.code pre, .math.display")) {
    if (box.matches(".ui-scroll")) box.dataset.name = box.getAttribute("aria-label");
    boxes.observe(box);
  }

  // The outline follows the reader.
  const links = [...document.querySelectorAll(".ui-outline a")];
  const heads = links.map((a) => document.getElementById(decodeURIComponent(a.hash.slice(1))));
  let waiting = false;
  const follow = () => {
    waiting = false;
    let now = -1;
    heads.forEach((head, i) => { if (head && head.getBoundingClientRect().top < 120) now = i; });
    if (innerHeight + scrollY >= document.documentElement.scrollHeight - 4 && scrollY > 0) now = heads.length - 1;
    links.forEach((a, i) => {
      if (a.classList.toggle("ui-now", i === now)) a.setAttribute("aria-current", "true");
      else a.removeAttribute("aria-current");
    });
  };
  if (links.length) {
    addEventListener("scroll", () => { if (!waiting) { waiting = true; requestAnimationFrame(follow); } }, { passive: true });
    follow();
  }
}
