"""One piece of the book through WeasyPrint: the worker of the PDF output.

In: a Job (a chapter, or finished markup for the pages the press adds). Out: Sheet and Body (see `fragment`), with
every finding as a Problem at its Markdown line. Runs alone in a process or several times in one; holds no state
but the style sheet and the font map, which are costly to make.

WeasyPrint 70 is used through its public classes and seams that tests/render/test_pdf_engine.py watches:
`generate_pdf` gives the objects before they are serialised; fonts and tags, which we write for the whole book, are
switched off in it; mend.py, flow.py and quicken.py put functions of ours in place of some of its own.
"""

from __future__ import annotations

import functools
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import cssselect2
import pydyf
import weasyprint
from weasyprint import pdf as engine
from weasyprint.formatting_structure import boxes
from weasyprint.text.fonts import FontConfiguration
from weasyprint.urls import URLFetcher, URLFetcherResponse

from ..cache import Cache
from ..model import Asset, Chapter
from . import findings, tags
from .embed import font_uses
from .flow import flow
from .fragment import Body, Page, Place, Sheet, Slot
from .indent import Indents
from .mend import mend
from .objects import FONTS, dictionary, key, mark, movable, shared, text
from .pictures import prepared
from .prepare import Setting, chapter_markup
from .quicken import quicken

SCALE = 0.75  # points per CSS pixel


@dataclass(frozen=True)
class Job:
    """What a worker needs for one piece, and nothing of the rest of the book."""

    name: str  # prefix of its destinations; a chapter's slug
    cache_key: str
    path: str  # Markdown file that findings point to
    css: str
    setting: Setting
    assets: dict[str, Asset]
    chapter: Chapter | None = None
    markup: str = ""  # finished page for pieces that are no chapter
    drawings: dict[str, bytes] = field(default_factory=dict)  # SVG by name, for `drawing:` images
    folio: bool = True
    cache: Path | None = None  # where prepared pictures are kept


class _Assets(URLFetcher):
    """Gives the layout the book's own images and nothing else: no network, no other files."""

    def __init__(self, assets: dict[str, Asset], drawings: dict[str, bytes]):
        super().__init__(allowed_protocols=("asset", "drawing"))
        self._assets, self._drawings = assets, drawings

    def fetch(self, url: str, headers=None) -> URLFetcherResponse:
        scheme, _, name = unquote(url).partition(":")
        if scheme == "drawing" and name in self._drawings:
            return URLFetcherResponse(url, self._drawings[name], {"Content-Type": "image/svg+xml"})
        asset = self._assets.get(name) if scheme == "asset" else None
        if asset is None:
            raise ValueError(f"not part of the book: {url}")
        return URLFetcherResponse(url, asset.file.read_bytes(), {"Content-Type": asset.mime})


class _Page(weasyprint.HTML):
    """Markup that is already a tree of ours: no HTML parser between."""

    def __init__(self, root: ElementTree.Element, fetcher: URLFetcher):
        self.base_url, self.url_fetcher, self.media_type = None, fetcher, "print"
        self.wrapper_element = cssselect2.ElementWrapper.from_html_root(root, content_language=None)
        self.etree_element = self.wrapper_element.etree_element


@functools.lru_cache(maxsize=2)
def _style(css: str) -> tuple[weasyprint.CSS, FontConfiguration]:
    fonts = FontConfiguration()
    return weasyprint.CSS(string=css, font_config=fonts), fonts


def lay_out(job: Job) -> tuple[Sheet, Body]:
    """Lay out one piece."""
    mend()
    flow()
    quicken()
    drawings = dict(job.drawings)
    found: list = []
    source = job.markup or chapter_markup(job.chapter, job.setting, drawings, found)
    root = ElementTree.fromstring(source)
    with findings.listening() as records:
        style, fonts = _style(job.css)
        document = _Page(root, _Assets(job.assets, drawings)).render(
            font_config=fonts, stylesheets=[style], pdf_tags=True,
            cache=prepared(job.assets, Cache(job.cache)) if job.cache else {},
        )
        piece = _Piece(job, root, document)
        sheet, body = piece.finish()
    found += findings.of_records(records, root, job.path)
    found += piece.overflow
    return replace(sheet, problems=tuple(sorted(set(found)))), body


class _Piece:
    """The steps from laid-out pages to movable objects."""

    def __init__(self, job: Job, root: ElementTree.Element, document: weasyprint.Document):
        self.job, self.root, self.document = job, root, document
        self.slot_boxes = self._links_of_anchors_only()
        self.streams: list = []
        self.pdf, self.fonts_number = self._generate()
        self.page_numbers = tuple(int(r.split()[0]) for r in self.pdf.page_references)
        self.tree = tags.Tree(root, self.page_numbers, len(self.pdf.objects) + 1)
        self.parents_number = len(self.pdf.objects)
        self.overflow: list = []
        self.targets: set[tuple[str, int]] = set()

    def _links_of_anchors_only(self) -> list[list[tuple]]:
        """Keep one link a line for each <a>; note the slots for page numbers.

        WeasyPrint gives every box inside a link an annotation of its own, so `<a><code>` has two.
        """
        slots = []
        for page in self.document.pages:
            slots.append([link for link in page.links if link[3].element.get("class") == "slot"])
            page.links = [
                link for link in page.links
                if link[3].element.tag == "a" == link[3].element_tag and not isinstance(link[3], boxes.LineBox)
            ]  # fmt: skip
        return slots

    def _generate(self) -> tuple[pydyf.PDF, int]:
        """The document's objects, without fonts and tags."""
        empty = pydyf.Dictionary()

        def no_tags(pdf, document, version, page_streams) -> None:
            self.streams = page_streams

        saved = engine.build_fonts_dictionary, engine.add_tags
        engine.build_fonts_dictionary, engine.add_tags = (lambda *_: empty), no_tags
        try:
            options = {**weasyprint.DEFAULT_OPTIONS, "pdf_tags": True}
            pdf = engine.generate_pdf(self.document, None, 1, **options)
        finally:
            engine.build_fonts_dictionary, engine.add_tags = saved
        return pdf, empty.number

    def finish(self) -> tuple[Sheet, Body]:
        owners, slots = self._contents()
        annotations = self._annotations(len(owners))
        objects, streams, resources = self._objects()
        objects += self.tree.objects()
        objects.append((self.parents_number, tags.parent_leaf(owners, [n for _, n in annotations])))
        by_number = {p.number: p for p in self.pdf.objects if isinstance(p, pydyf.Dictionary)}
        pages = []
        for page, number in zip(self.document.pages, self.page_numbers, strict=True):
            entry = by_number[number]
            pages.append(Page(
                width=round(page.width * SCALE, 3), height=round(page.height * SCALE, 3),
                content=_target(entry["Contents"]),
                annotations=tuple(_target(a) for a in entry.get("Annots", ())),
                folio=self.job.folio,
            ))  # fmt: skip
        sheet = Sheet(
            count=self.tree.next, resources=resources, node=1, page_numbers=self.page_numbers,
            pages=tuple(pages), places=self._places(), slots=tuple(slots), fonts=font_uses(self.document.fonts),
            struct=self.tree.body.number, parents=self.parents_number,
            targets=tuple(sorted(self.targets)), notes=tuple(n.number for n in self.tree.nodes if n.ident),
        )  # fmt: skip
        return sheet, Body(tuple(objects), tuple(streams))

    def _contents(self) -> tuple[list[list[int]], list[Slot]]:
        """Walk every page once: tags, slots and ink outside the page's frame."""
        owners, slots = [], []
        for n, (page, stream) in enumerate(zip(self.document.pages, self.streams, strict=True)):
            at = _marked_positions(stream.stream)
            of_page: list[int | None] = [None] * len(at)
            marked = dict(stream._tags)
            frame, indents = findings.Frame(page), Indents()
            for child in page._page_box.children:
                margin = isinstance(child, boxes.MarginBox)
                for box in tags.in_order(child):
                    if not margin:
                        self.overflow += frame.check(box, self.job.path)
                    said = indents.of(box) if isinstance(box, boxes.TextBox) and self._in_code(box.element) else ""
                    entry = marked.pop(box, None)
                    if entry is None:
                        continue
                    if said:
                        stream.stream[at[entry["mcid"]] - 1]["ActualText"] = pydyf.String(said)
                    mcid = entry["mcid"]
                    if margin or not self.tree.content(box, n, mcid):
                        _make_artifact(stream.stream, at[mcid])
                    else:
                        of_page[mcid] = self._owner_of(box, page)
            # What no box claims (a marker drawn twice, say) must not stay as content without a place.
            for entry in marked.values():
                _make_artifact(stream.stream, at[entry["mcid"]])
            for slot_link in self.slot_boxes[n]:
                slot = self._slot(slot_link, n, page, len(of_page))
                of_page.append(self.tree.owner(slot_link[3].element).number)
                slots.append(slot)
            owners.append(of_page)
        return owners, slots

    def _in_code(self, element: ElementTree.Element) -> bool:
        above: ElementTree.Element | None = element
        while above is not None and above.tag != "pre":
            above = self.tree.parents.get(above)
        return above is not None

    def _owner_of(self, box: boxes.Box, page: weasyprint.Page) -> int:
        element = box.element
        marker = (box.element_tag or "").endswith("::marker") and element in self.tree.labels
        node = self.tree.labels[element] if marker else self.tree.owner(element)
        if node.role in ("Figure", "Formula") and not node.attributes and isinstance(box, boxes.ReplacedBox):
            node.attributes = tags.figure_box(box, page.height, SCALE)
        return node.number

    def _slot(self, link: tuple, page_index: int, page: weasyprint.Page, mcid: int) -> Slot:
        _, _, (_, _, right, bottom), box = link
        element = box.element
        target = self._destination(link[0], link[1])
        self.tree.add(self.tree.owner(element), page_index, mcid)
        return Slot(
            page=page_index, right=round(right * SCALE, 3), baseline=round((page.height - bottom) * SCALE, 3),
            size=round(box.style["font_size"] * SCALE, 3), target=target,
            style=element.get("data-style") or "reference", mcid=mcid,
        )  # fmt: skip

    def _destination(self, kind: str, target: str) -> str:
        """The name of a destination: the chapter's slug, then the id."""
        if kind == "internal":
            return self.job.name if target == self.job.name else f"{self.job.name}/{target}"
        slug, _, ident = unquote(target.removeprefix("book:")).partition("#")
        return f"{slug}/{ident}" if ident and ident != slug else slug

    def _annotations(self, pages: int) -> list[tuple[int, int]]:
        """Point links at named destinations, describe them, and hang them into the tree."""
        filed = []
        for n, page in enumerate(self.document.pages):
            for kind, target, _, box in page.links:
                annotation = box.link_annotation
                if annotation is None:
                    continue
                if kind == "internal" or target.startswith("book:"):
                    named = self._destination(kind, target)
                    if kind != "internal":
                        self.targets.add((named, self.tree.line(box.element)))
                    annotation["Dest"] = text(named)
                    annotation.pop("A", None)
                said = " ".join("".join(box.element.itertext()).split()) or target
                annotation["Contents"] = text(said)
                annotation["F"] = 4
                annotation["StructParent"] = key(pages + len(filed))
                node = self.tree.link(box.element, n, annotation.number)
                filed.append((annotation.number, node.number))
        return filed

    def _objects(self) -> tuple[list[tuple[int, bytes]], list[tuple[int, bytes, bytes]], int]:
        skip = {0, self.pdf.pages.number, self.pdf.catalog.number, self.fonts_number, *self.page_numbers}
        fonts_mark, fonts = mark(self.fonts_number), shared(FONTS)
        objects, streams = [], []
        page_streams = {s.number for s in self.streams}
        for item in self.pdf.objects:
            if item.number in skip:
                continue
            if isinstance(item, pydyf.Stream):
                data = b"\n".join(pydyf._to_bytes(i) for i in item.stream if i != b"")
                if item.number in page_streams:
                    # WeasyPrint leaves the axes turned over; stamps that follow need them upright.
                    data = b"q\n" + data + b"\nQ\n"
                extra = {k: movable(v) for k, v in item.extra.items() if k != "Length"}
                if item.compress:
                    data = zlib.compress(data, 6)
                    extra["Filter"] = b"/FlateDecode"
                extra["Length"] = b"%d" % len(data)
                streams.append((item.number, dictionary(extra).replace(fonts_mark, fonts), data))
            else:
                objects.append((item.number, movable(item).replace(fonts_mark, fonts)))
        by_number = {o.number: o for o in self.pdf.objects}
        resources = _target(by_number[self.page_numbers[0]]["Resources"])
        return objects, streams, resources

    def _places(self) -> dict[str, Place]:
        places = {}
        for n, page in enumerate(self.document.pages):
            for ident, (x, y, *_) in page.anchors.items():
                place = Place(n, round(x * SCALE, 2), round((page.height - y) * SCALE, 2))
                places.setdefault(self._destination("internal", ident), place)
        return places


def _target(reference: bytes) -> int:
    return int(reference.split()[0])


def _marked_positions(operators: list) -> dict[int, int]:
    """MCID → index of its BDC in a content stream."""
    found = {}
    for n, operator in enumerate(operators):
        if operator == b"BDC":
            found[operators[n - 1]["MCID"]] = n
    return found


def _make_artifact(operators: list, n: int) -> None:
    operators[n - 2 : n + 1] = ["/Artifact", b"BMC", b""]
