// Search. The index is a script that is fetched when search is first opened; the text of the sections follows
// and adds excerpts. Words are cut as in build/bookpress/web/search.py: change both together.
const bookSearch = (() => {
  const root = document.currentScript?.dataset.root ?? "";
  const STOP = new Set((
    "a an and are as at be but by can do does for from had has have how i if in into is it its me my of on or so than that"
    + " the their then there these they this to was we were what when where which who why will with you your"
  ).split(" "));
  const COMPOUND = /[\p{L}\p{N}]+(?:[_\-./:]+[\p{L}\p{N}]+)*/gu;
  const PIECE = /[0-9]+(?:\.[0-9]+)+|[\p{L}\p{N}]+/gu;
  const CJK = /[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+/g;
  const LONGEST = 40;
  const LIMIT = 30;

  // --- words ---

  // A query as units: the pieces of a compound must all be there, or its joined form.
  const units = (query) => {
    const out = [];
    for (const [word] of query.normalize("NFKC").matchAll(COMPOUND)) {
      let end = 0;
      for (const run of word.matchAll(CJK)) {
        plain(word.slice(end, run.index), out);
        const chars = run[0];
        if (chars.length === 1) out.push({ pieces: [chars], joined: "", words: [chars] });
        for (let i = 0; i + 1 < chars.length; i++) out.push({ pieces: [chars.slice(i, i + 2)], joined: "", words: [chars.slice(i, i + 2)] });
        end = run.index + chars.length;
      }
      plain(word.slice(end), out);
    }
    return out;
  };
  const plain = (text, out) => {
    for (const [word] of text.matchAll(COMPOUND)) {
      const all = [...word.matchAll(PIECE)].map((m) => m[0].toLowerCase());
      const pieces = all.filter((p) => !STOP.has(p) && p.length <= LONGEST);
      const joined = all.join("");
      const whole = all.length > 1 && all.length <= 6 && joined.length <= LONGEST && !/^[0-9.]+$/.test(joined);
      if (pieces.length || whole) out.push({ pieces, joined: whole ? joined : "", words: all });
    }
  };

  // --- the index ---

  let index, texts, terms, places;
  const receive = (kind, data) => {
    if (kind === "texts") {
      texts = data.split("\n");
    } else {
      index = data;
      fetchOnce("text"); // after the index, which answers alone on a slow link
      terms = data.terms.split("\n");
      places = data.places.split("\n");
      index.mean = data.sizes.reduce((a, b) => a + b, 0) / Math.max(1, data.sizes.length);
    }
    ui?.refresh();
  };

  // First term not before `word`, by code units as Python sorts code points (equal below U+10000).
  const first = (word) => {
    let low = 0, high = terms.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (terms[middle] < word) low = middle + 1; else high = middle;
    }
    return low;
  };
  const postings = (at, visit) => {
    let section = -1;
    for (const item of places[at].split(" ")) {
      const value = parseInt(item, 36);
      section += value >> 3;
      visit(section, value & 7);
    }
  };

  // Best score of one word in each section. `open`: it may go on (the reader is still typing, or it is a stem).
  const scores = (word, open, headings) => {
    const found = new Map();
    const add = (at, share) => {
      const rarity = Math.log(1 + index.sections.length / (places[at].split(" ").length + 0.5));
      postings(at, (section, weight) => {
        const size = 0.75 + 0.25 * index.sizes[section] / index.mean;
        const often = weight & 3 ? 1 + 0.4 * ((weight & 3) - 1) : 1;
        const head = weight & 4 ? headings * (index.sections[section][3] === 1 ? 3.5 : 2.5) : 0;
        const score = share * rarity * (often / size + head);
        if (score > (found.get(section) || 0)) found.set(section, score);
      });
    };
    let at = first(word);
    if (terms[at] === word) add(at++, 1);
    if (open) for (let n = 0; n < 60 && at < terms.length && terms[at].startsWith(word); n++, at++) add(at, 0.55 * Math.max(0.4, word.length / terms[at].length));
    if (word.length > 4 && word.endsWith("s") && !found.size) return scores(word.slice(0, -1), true, headings);
    return found;
  };
  const unitScores = (unit, last, headings) => {
    const joined = unit.joined ? scores(unit.joined, last || unit.joined.length > 5, headings) : new Map();
    for (const [s, v] of joined) joined.set(s, v * 1.6);
    if (!unit.pieces.length) return joined;
    const parts = unit.pieces.map((p, i) => scores(p, p.length > 3 || (last && i === unit.pieces.length - 1), headings));
    for (const [section, score] of parts[0]) {
      let sum = score;
      for (const part of parts.slice(1)) { if (!part.has(section)) { sum = 0; break; } sum += part.get(section); }
      sum /= parts.length;
      if (sum > (joined.get(section) || 0)) joined.set(section, sum);
    }
    return joined;
  };

  const escape = (text) => text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
  const near = (words) => new RegExp(words.map(escape).join("[^\\p{L}\\p{N}]{0,4}"), "iu");

  const find = (query) => {
    const wanted = units(query);
    if (!wanted.length) return { results: [], partial: false, words: [] };
    const typing = /[\p{L}\p{N}]$/u.test(query);
    // A pasted message holds numbers and names of one machine: what no section knows does not count.
    // In a short query a heading's word is the topic; in a sentence or a message it may be any word.
    const headings = Math.max(0.6, 1.2 - 0.1 * wanted.length);
    const all = wanted.map((u, i) => unitScores(u, typing && i === wanted.length - 1, headings));
    const known = all.filter((m) => m.size);
    const needed = wanted.length > 4 ? known : all;
    const total = new Map();
    for (const unit of known) for (const [section, score] of unit) {
      const was = total.get(section) || [0, 0];
      total.set(section, [was[0] + score, was[1] + 1]);
    }
    const full = [...total.values()].some(([, hits]) => hits === needed.length);
    const least = full && needed.length <= 4 ? needed.length : Math.max(1, Math.ceil(known.length * 0.3));
    let results = [];
    for (const [section, [score, hits]] of total) {
      // Notes and registers hold many words of other sections: for a sentence they come behind those.
      const share = wanted.length > 4 && index.sections[section][3] > 3 ? 0.5 : 1;
      if (hits >= least) results.push({ section, score: share * score * (hits / Math.max(1, known.length)) ** 1.5 });
    }
    results.sort((a, b) => b.score - a.score || a.section - b.section);
    const words = wanted.flatMap((u) => u.words);
    const best = results.slice(0, 80);
    for (const result of best) result.score += titleBonus(result.section, words);
    if (texts && words.length > 1) phrases(best.slice(0, 40), words);
    results.sort((a, b) => b.score - a.score || a.section - b.section);
    return { results: results.slice(0, LIMIT), more: results.length, partial: !full || known.length < wanted.length, words: wanted.map((u) => u.words) };
  };
  const plural = (word) => (word.length > 3 && word.endsWith("s") ? word.slice(0, -1) : word);
  const titles = new Map();
  const titleBonus = (section, words) => {
    let title = titles.get(section);
    if (title === undefined) {
      title = units(index.sections[section][2]).flatMap((u) => u.words).map(plural).join(" ");
      titles.set(section, title);
    }
    const asked = words.map(plural).join(" ");
    if (title === asked) return 12;
    return title.startsWith(asked + " ") || title.endsWith(" " + asked) ? 4 : 0;
  };
  // Neighbours in the query that are neighbours in the text: what makes a pasted message find its own line.
  const phrases = (results, words) => {
    const pairs = words.slice(0, 16).slice(1).map((w, i) => near([words[i], w]));
    const whole = words.length <= 16 ? near(words) : undefined;
    for (const result of results) {
      const text = texts[result.section];
      result.score += 3 * pairs.filter((p) => p.test(text)).length / Math.sqrt(pairs.length);
      if (whole?.test(text)) result.score += 8;
    }
  };

  // --- excerpts ---

  // One pattern for all words: a compound as a whole first, then its parts; one or two letters only as a word.
  const marker = (words) => {
    const alone = words.flat();
    const list = alone.filter((w) => !STOP.has(w) || alone.length === 1);
    if (!list.length) return undefined;
    const parts = [...new Set(list)].sort((a, b) => b.length - a.length).map((word) => {
      if (/^[\u3040-\u9fff\uac00-\ud7af\uf900-\ufaff]/.test(word)) return escape(word);
      return `(?<![\\p{L}\\p{N}])${escape(word)}${word.length < 3 ? "(?![\\p{L}\\p{N}])" : ""}`;
    });
    const whole = words.filter((w) => w.length > 1).map((w) => w.map(escape).join("[^\\p{L}\\p{N}]{0,3}"));
    return new RegExp([...whole, ...parts].join("|"), "giu");
  };
  const excerpt = (section, words) => {
    const text = texts?.[section];
    const mark = marker(words);
    if (!text || !mark) return undefined;
    const hits = [];
    for (const hit of text.matchAll(mark)) { hits.push([hit.index, hit[0].toLowerCase()]); if (hits.length > 300) break; }
    let best = 0, most = 0;
    for (let i = 0; i < hits.length; i++) {
      const seen = new Set();
      for (let j = i; j < hits.length && hits[j][0] < hits[i][0] + 170; j++) seen.add(hits[j][1]);
      const worth = [...seen].reduce((sum, word) => sum + Math.min(word.length, 12), 0);
      if (worth > most) { most = worth; best = hits[i][0]; }
    }
    let from = Math.max(0, best - 50);
    if (from) from = text.indexOf(" ", from) + 1 || from;
    if (from > best) from = best;
    const to = Math.min(text.length, from + 210);
    return marked((from ? "… " : "") + text.slice(from, to) + (to < text.length ? " …" : ""), mark);
  };
  const marked = (text, mark) => {
    const box = document.createDocumentFragment();
    let end = 0;
    for (const hit of mark ? text.matchAll(mark) : []) {
      box.append(text.slice(end, hit.index));
      box.append(Object.assign(document.createElement("mark"), { textContent: hit[0] }));
      end = hit.index + hit[0].length;
    }
    box.append(text.slice(end));
    return box;
  };

  // --- the window ---

  const fetchOnce = (name) => {
    const script = document.createElement("script");
    script.src = `${root}ui-assets/search-${name}.js`;
    script.onerror = () => { ui.say("The search index could not be loaded."); script.remove(); asked = false; };
    document.head.append(script);
  };
  let asked = false;
  const load = () => {
    if (asked) return;
    asked = true;
    fetchOnce("index");
  };

  let ui;
  const build = () => {
    const make = (tag, values, ...children) => {
      const made = Object.assign(document.createElement(tag), values);
      made.append(...children);
      return made;
    };
    const input = make("input", { type: "search", name: "q", placeholder: "Words, an option, an error message", autocomplete: "off", spellcheck: false, enterKeyHint: "go" });
    input.setAttribute("aria-label", "Search the book");
    input.setAttribute("autocapitalize", "off");
    const close = make("button", { type: "button", className: "ui-button", textContent: "Close" });
    const status = make("p", { className: "ui-status" });
    status.setAttribute("role", "status");
    const list = make("ol", { className: "ui-results" });
    const bar = make("div", { className: "ui-query" }, input, close);
    const dialog = make("dialog", { className: "ui-dialog ui-searching", id: "ui-search" }, bar, status, list);
    dialog.setAttribute("aria-label", "Search");
    document.body.append(dialog);

    const say = (text) => { status.textContent = text; };
    const refresh = () => {
      const query = input.value.trim();
      if (!query) { list.replaceChildren(); say(index ? `${index.sections.length} sections` : "Loading the index …"); return; }
      if (!index) { say("Loading the index …"); return; }
      const { results, more, partial, words } = find(input.value.slice(0, 2000));
      list.replaceChildren(...results.map((r) => row(r.section, words)));
      const count = !results.length ? "Nothing found" : `${more} section${more === 1 ? "" : "s"}`;
      say(results.length && partial ? `${count}, none with every word` : count);
      list.scrollTop = 0;
    };
    const row = (section, words) => {
      const [chapter, anchor, title, level] = index.sections[section];
      const [url, chapterTitle, number] = index.chapters[chapter];
      const mark = marker(words);
      const link = make("a", { href: root + encodeURI(url) + (anchor ? "#" + encodeURIComponent(anchor) : "") }, make("b", {}, marked(title, mark)));
      if (level > 1) link.append(make("small", {}, (number ? number + " " : "") + chapterTitle));
      const text = excerpt(section, words);
      if (text) link.append(make("p", {}, text));
      link.addEventListener("click", () => {
        try { sessionStorage.setItem("ui-found", JSON.stringify(words)); } catch { /* no marks then */ }
        dialog.close();
      });
      return make("li", {}, link);
    };

    let waiting;
    input.addEventListener("input", () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(refresh); });
    close.addEventListener("click", () => dialog.close());
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
    dialog.addEventListener("keydown", (event) => {
      const links = [...list.querySelectorAll("a")];
      const at = links.indexOf(document.activeElement);
      if (event.key === "Escape") {
        event.preventDefault(); // a search field would only empty itself
        dialog.close();
        if (dialog.contains(document.activeElement)) document.activeElement.blur(); // the next key is for the page
      } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        const next = at + (event.key === "ArrowDown" ? 1 : -1);
        if (next < 0) input.focus(); else links[Math.min(next, links.length - 1)]?.focus();
      } else if (event.key === "Enter" && document.activeElement === input && links.length && !event.isComposing) {
        event.preventDefault();
        links[0].click();
      } else if (event.key.length === 1 && at >= 0 && !event.ctrlKey && !event.metaKey && !event.altKey && event.key !== " ") {
        input.focus();
      }
    });
    return { say, refresh, open: () => { dialog.showModal(); input.select(); load(); refresh(); } };
  };
  document.querySelector('[data-ui="search"]')?.addEventListener("click", () => { ui ??= build(); ui.open(); });

  // What was searched for stays marked on the page it led to, until Esc.
  const arrive = () => {
    let words;
    try {
      words = JSON.parse(sessionStorage.getItem("ui-found"));
      sessionStorage.removeItem("ui-found");
    } catch { /* nothing to mark */ }
    const main = document.getElementById("ui-main");
    if (!words?.length || !globalThis.Highlight || !main) return;
    const mark = marker(words);
    const ranges = [];
    const walk = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
    for (let node = walk.nextNode(); node && mark && ranges.length < 500; node = walk.nextNode()) {
      for (const hit of node.data.matchAll(mark)) {
        const range = new Range();
        range.setStart(node, hit.index);
        range.setEnd(node, hit.index + hit[0].length);
        ranges.push(range);
      }
    }
    CSS.highlights.set("ui-found", new Highlight(...ranges));
  };
  arrive();
  addEventListener("hashchange", arrive);
  addEventListener("keydown", (event) => { if (event.key === "Escape") globalThis.CSS?.highlights?.delete("ui-found"); });

  return { receive, find, units };
})();
