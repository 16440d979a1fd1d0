"""The vocabulary of the press: what the stages hand to one another. No behaviour beyond look-ups.

`load` makes Sources, `expand` makes Expanded text, `parse` makes Drafts (one per chapter, alone),
`link` and `number` turn all Drafts into one Book, and the outputs read the Book.

The chapter body
----------------
`Chapter.body` is one well-formed XHTML fragment (no doctype, no namespace prefix; `<math>` and inline
`<svg>` carry their own xmlns). All three outputs start from these same bytes, so what is said here is
the contract between the front half and the outputs:

* Root: `<section class="chapter" id="SLUG">`, first child `<h1 id="…">`. When the chapter is numbered
  the h1 starts with `<span class="number">3</span> `. Sections follow flat (not nested) as h2…h6 with
  unique ids; numbered h2 start with `<span class="number">3.2</span> `.
* Every block element carries `data-line="N"` (1-based line of the Markdown file); outputs use it to map
  findings back and drop it on writing.
* Links. Same chapter: `href="#ID"`. Another chapter: `href="book:SLUG"` or `href="book:SLUG#ID"`. A file
  of the book's folder that is no chapter: `href="file:REL/PATH"` (relative to the book's folder, `#…`
  kept). Anything else is an external URL, untouched. Cross-references by number carry class "xref".
* Images: `<img src="asset:REL/PATH" alt="…" width="PX" height="PX"/>`; REL/PATH keys `Book.assets`.
* Code: `<figure class="code" data-lang="bash" data-fence="N">` (N indexes `Chapter.fences`), optional
  `<figcaption>`, then `<pre><code class="language-bash">` whose text content equals the fence's source
  byte for byte (no final newline; in an `output` fence `[[~ 12.3 ±5% ]]` reads 12.3). Highlighting is flat
  `<span class="k">` (Pygments short names, never nested). A numbered listing has an
  id and `<figcaption><span class="label">Listing 3.1</span> …`.
* Tables: `<figure class="table wrap|landscape|stack">` [figcaption] `<table>` with thead/tbody,
  `<th scope="col">`; alignment by class `left`, `center`, `right`, never by attribute or style.
* Figures: `<figure class="figure" id="fig-x"><img/><figcaption><span class="label">Figure 3.1</span> …`.
  An image alone without caption: `<figure class="image"><img/></figure>`.
* Equations: `<span class="math inline"><math …/></span>`, `<div class="math display" id="eq-x"><math …/>
  <span class="label">(3.1)</span></div>`; each `<math>` holds its TeX in an `<annotation
  encoding="application/x-tex">` and in `alttext`.
* Admonitions: `<aside class="admonition note|tip|important|warning|caution"><p class="admonition-title">
  Warning</p>…</aside>`.
* Footnotes: `<a class="fnref" role="doc-noteref" id="fnref-K" href="#fn-K"><sup>K</sup></a>`; at the end
  `<section class="footnotes" role="doc-endnotes"><ol><li id="fn-K" role="doc-footnote">… <a class=
  "fnback" role="doc-backlink" href="#fnref-K">↩</a></li></ol></section>`. A repeated reference gets
  `fnref-K-2` and a second back-link.
* Author's presentation, as classes: left/center/right on blocks, `width-N` (N = 5, 10 … 100, share of the
  text's width) on `<img>`, `task-list`/`task` on lists with boxes, `citation` on `[1, 2]`, `bibliography` on
  the list of works; in books that are not strict, `missing-image` on the words that stand for a picture.
* Emoji and scripts that the text face lacks: plain characters; the font stacks carry them.
* No `style` or event attributes, no `<script>`, no element outside the allow-list in html.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

# --- config: book.toml ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """A named group of chapters; `title` is empty for chapters outside any part."""

    title: str
    chapters: tuple[str, ...]  # paths relative to the book's folder, POSIX separators
    numbered: bool = True  # False for front and back matter


@dataclass(frozen=True)
class Page:
    """Paper for the PDF, CSS lengths."""

    width: str = "176mm"  # B5-like: 88 code columns fit at a readable size
    height: str = "250mm"


@dataclass(frozen=True)
class Features:
    """What a book may switch on or off; the defaults suit other people's books."""

    templating: bool = False  # Jinja [[ … ]] over the text, facts from data/
    numbering: bool = True  # chapter, figure, table, listing and equation numbers
    section_numbers: bool = False  # 3.2 before h2
    proofs: bool = False  # every fence must name how it is proven
    front_matter_required: bool = False  # title, summary, verified … must be there
    strict: bool = True  # False: what the press can carry becomes a warning


@dataclass(frozen=True)
class Config:
    """One book.toml, checked. Paths are absolute unless said otherwise."""

    root: Path  # the book's folder; nothing outside it is read
    path: Path  # the book.toml itself
    title: str
    slug: str  # stem of the output files, e.g. ml-engineering-field-book
    version: str
    language: str = "en"
    subtitle: str = ""
    authors: tuple[str, ...] = ()
    publisher: str = ""
    description: str = ""
    identifier: str = ""  # URN; derived from slug when empty
    license: str = ""  # SPDX expression for the prose
    license_code: str = ""
    repository: str = ""  # URL of the source repository
    source_url: str = ""  # pattern for `file:` links: …/blob/{commit}/{path}
    cover: str = ""  # template name or image path; empty: the press's own cover
    data: str = "data"  # folder of facts, relative to root
    code_width: int = 88  # columns; a longer line in a fence is a warning
    page: Page = field(default_factory=Page)
    features: Features = field(default_factory=Features)
    parts: tuple[Part, ...] = ()
    hub_repo: str = ""  # owner/name on the Hugging Face Hub
    hub_type: str = "dataset"  # or model
    hub_file_budget_mb: int = 50  # a larger file is not published


@dataclass(frozen=True)
class Stamp:
    """What every output says about its origin. Same commit, same stamp, same bytes."""

    version: str
    commit: str  # full hash, or "" outside git
    dirty: bool
    epoch: int  # seconds: SOURCE_DATE_EPOCH, else the commit's date, else a fixed date
    date: str  # ISO date of epoch, UTC
    tools: Mapping[str, str]  # name → version, for the colophon


# --- load, expand ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class FrontMatter:
    """The YAML head of a chapter. Dates stay ISO strings."""

    title: str = ""
    summary: str = ""
    verified: str = ""
    applies_to: tuple[str, ...] = ()
    audience: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """A chapter file as read. `text` is the body without front matter; its first line is `first_line`."""

    path: str  # relative to the book's folder
    slug: str  # unique ASCII identifier: file stem in EPUB, prefix of names in PDF
    url: str  # path of its web page, e.g. hardware/accelerators.html
    part: int  # index into Config.parts
    meta: FrontMatter
    text: str
    first_line: int  # 1-based line of text's first line in the file


@dataclass(frozen=True)
class Expanded:
    """A Source after templating. `lines[i]` is the file's line that produced line i (0-based) of text."""

    source: Source
    text: str
    lines: tuple[int, ...]
    reads: tuple[tuple[str, str], ...] = ()  # (path, sha256) of data files that the text took values from


# --- parse ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fence:
    """A fenced block: what is shown, and how it is proven."""

    index: int  # order in the chapter, from 0
    line: int
    lang: str
    text: str  # the source, without the final newline
    mode: str  # run slurm gpu parse shown output, or "" when none is given
    id: str = ""
    attrs: Mapping[str, str] = field(default_factory=dict)  # timeout, exit, of, reason, …
    hidden: bool = False


@dataclass(frozen=True)
class Anchor:
    """A place that can be linked to."""

    id: str
    kind: str  # chapter section figure table listing equation footnote point
    text: str  # plain text: heading or caption
    level: int = 0  # 1…6 for headings
    number: str = ""  # "3", "3.2"; filled by number
    line: int = 0


@dataclass(frozen=True)
class Site:
    """A place in a Draft's body that only the whole book can fill in."""

    kind: str  # link image title section figure table listing equation cite
    value: str  # target as the author wrote it, id of the numbered thing, or citation keys
    text: str = ""  # a link's text where it is empty or a bare kind word
    line: int = 0
    col: int = 0


@dataclass(frozen=True)
class Draft:
    """One chapter parsed alone: body as in the contract, but links are still as the author wrote them
    (`href="../x.md#y"`), images still relative to the chapter, and nothing is numbered. Elements that
    `link` completes carry `data-site="N"` as their first attribute, N indexing `sites`."""

    source: Source
    body: str
    title: str  # plain text of the title
    anchors: tuple[Anchor, ...]
    fences: tuple[Fence, ...]
    problems: tuple = ()  # Problems found in this chapter; kept in the cache with it
    reads: tuple[tuple[str, str], ...] = ()  # (path, sha256) of included files: the cache's second key
    sites: tuple[Site, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()  # (id as authors link to it, id in the body) that differ


# --- link, number ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asset:
    """An image or other file that the outputs copy. Size in CSS pixels, 0 when unknown."""

    path: str  # relative to the book's folder: the key in Book.assets
    file: Path
    mime: str
    sha256: str
    width: int = 0
    height: int = 0


@dataclass(frozen=True)
class Chapter:
    """A chapter ready for every output."""

    slug: str
    path: str
    url: str
    part: int
    number: str  # "3", or "" for front and back matter
    title: str  # plain text, without the number
    meta: FrontMatter
    body: str
    anchors: tuple[Anchor, ...]
    fences: tuple[Fence, ...]
    assets: tuple[str, ...]  # keys into Book.assets, in order of first use

    @property
    def headings(self) -> tuple[Anchor, ...]:
        """Section headings (levels 2…6) in reading order."""
        return tuple(a for a in self.anchors if a.kind == "section")


@dataclass(frozen=True)
class Proven:
    """How a fence was proven, as data/proofs.json says. Only for the text that the fence has now."""

    mode: str  # run slurm gpu parse
    where: str  # system, versions, device
    date: str  # ISO day


@dataclass(frozen=True)
class Book:
    """Everything the outputs need, and nothing they may change."""

    config: Config
    stamp: Stamp
    parts: tuple[Part, ...]
    chapters: tuple[Chapter, ...]  # in reading order, front matter first
    assets: Mapping[str, Asset]
    proofs: Mapping[str, Mapping[int, Proven]] = field(default_factory=dict)  # path → fence → proof

    def chapter(self, slug: str) -> Chapter:
        return next(c for c in self.chapters if c.slug == slug)
