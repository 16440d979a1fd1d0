// Two buttons over each code block. Copied is the text of the block, which is the fence's source, byte for byte.
{
  const write = async (text) => {
    if (navigator.clipboard && isSecureContext) return navigator.clipboard.writeText(text);
    const area = Object.assign(document.createElement("textarea"), { value: text });
    area.setAttribute("aria-hidden", "true");
    area.style.cssText = "position:fixed;opacity:0";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy"); // pages over plain http have no other way
    area.remove();
    if (!done) throw new Error("copy refused");
  };
  const button = (name, kind) => {
    const made = Object.assign(document.createElement("button"), { type: "button", textContent: name });
    made.className = kind;
    return made;
  };
  for (const strip of document.querySelectorAll("figure.code > .ui-strip")) {
    const figure = strip.parentElement;
    const code = figure.querySelector("pre > code");
    const fill = Object.assign(document.createElement("span"), { className: "ui-fill" });
    const wrap = button("Wrap", "ui-wrap");
    const copy = button("Copy", "ui-copy");
    wrap.hidden = true; // until page.js has seen lines that end outside of the block
    wrap.setAttribute("aria-pressed", "false");
    wrap.addEventListener("click", () => {
      const wrapped = figure.classList.toggle("ui-wrapped");
      wrap.setAttribute("aria-pressed", String(wrapped));
    });
    let back;
    copy.addEventListener("click", async () => {
      try {
        await write(code.textContent);
        copy.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(code);
        copy.textContent = "Selected";
      }
      clearTimeout(back);
      back = setTimeout(() => { copy.textContent = "Copy"; }, 1600);
    });
    strip.append(fill, wrap, copy);
  }
}
