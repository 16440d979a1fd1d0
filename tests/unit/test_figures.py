"""Images: there, measured, described, and safe in every output."""

from __future__ import annotations

from pathlib import Path

import pytest
from lxml import etree
from PIL import Image

from bookpress import drawings, figures
from bookpress.model import Config, Expanded, Features, FrontMatter, Source

HEAD = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
GROUND = '<rect width="100%" height="100%" fill="#fff"/>'


def svg(inner: str, attrs: str = 'viewBox="0 0 200 100"') -> bytes:
    return f"{HEAD}{attrs}>{inner}</svg>".encode()


@pytest.fixture
def book(tmp_path):
    folder = tmp_path / "ch" / "figures"
    folder.mkdir(parents=True)
    (folder / "good.svg").write_bytes(svg(GROUND + "<text>ok</text>"))
    Image.new("RGB", (300, 150), "white").save(folder / "plain.png")
    return tmp_path


def check(book: Path, markdown: str, html: str, strict: bool = True) -> tuple[etree._Element, list[str]]:
    config = Config(root=book, path=book / "book.toml", title="T", slug="t", version="1",
                    features=Features(strict=strict))
    source = Expanded(Source("ch/a.md", "a", "a.html", 0, FrontMatter(), markdown, 1), markdown,
                      tuple(range(1, markdown.count("\n") + 2)))
    root = etree.fromstring(f'<section><p data-line="1">{html}</p></section>')
    return root, [str(p) for p in figures.finish(root, source, config)]


def image(name: str, alt: str = "a rising line") -> str:
    return f'<img src="figures/{name}" alt="{alt}"/>'


def codes(book: Path, name: str) -> list[str]:
    _, problems = check(book, f"![x](figures/{name})", image(name))
    return [p.split()[1] + (" warning" if "warning:" in p else "") for p in problems]


# --- size ---


def test_sizes_come_from_the_file(book):
    root, problems = check(book, "", image("plain.png") + image("good.svg"))
    assert problems == []
    assert [(i.get("width"), i.get("height")) for i in root.iter("img")] == [("300", "150"), ("200", "100")]


def test_the_other_side_follows_the_given_one(book):
    given = '<img src="figures/plain.png" alt="a rising line" width="100"/>'
    root, _ = check(book, "", given + given.replace("width", "height"))
    assert [(i.get("width"), i.get("height")) for i in root.iter("img")] == [("100", "50"), ("200", "100")]


@pytest.mark.parametrize(("attrs", "size"), [
    ('viewBox="0 0 200 100"', (200, 100)),
    ('viewBox="0 0 200 100" width="150pt" height="75pt"', (200, 100)),
    ('viewBox="0 0 200 100" width="100"', (100, 50)),
    ('viewBox="0 0 200 100" width="100%" height="100%"', (200, 100)),
    ('viewBox="0,0,200,100" width="1in" height="2.54cm"', (96, 96)),
    ('width="30" height="40"', (30, 40)),
])
def test_sizes_of_drawings(attrs, size):
    drawing = drawings.read(svg(GROUND, attrs))
    assert (round(drawing.width), round(drawing.height)) == size


def test_a_photo_held_upright_is_measured_upright(book):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (40, 20)).save(book / "ch/figures/up.jpg", exif=exif)
    root, _ = check(book, "", image("up.jpg"))
    assert (root[0][0].get("width"), root[0][0].get("height")) == ("20", "40")


# --- there, described ---


def test_a_missing_image_is_named_with_line_column_and_the_nearest_name(book):  # F06
    _, problems = check(book, "text\n\nsee ![x](figures/plan.png)", image("plan.png"))
    assert problems == ["ch/a.md:3:10 IMG001 no image 'figures/plan.png' (did you mean 'plain.png'?)"]


def test_case_counts_everywhere(book):
    assert codes(book, "Plain.png") == ["IMG001"]


def test_remote_and_outside_images_are_problems(book):  # E18
    remote = '<img src="https://example.com/x.png" alt="a rising line"/>'
    outside = '<img src="../../../etc/x.png" alt="a rising line"/>'
    _, problems = check(book, "", remote + outside)
    assert [p.split()[1] for p in problems] == ["IMG003", "IMG004"]
    _, problems = check(book, "", remote, strict=False)
    assert "warning" in problems[0]


def test_a_link_out_of_the_book_is_outside(book, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("other") / "x.png"
    Image.new("RGB", (4, 4)).save(elsewhere)
    (book / "ch/figures/link.png").symlink_to(elsewhere)
    assert codes(book, "link.png") == ["IMG004"]


@pytest.mark.parametrize(("alt", "wanted"), [
    ("", ["IMG002"]), ("plain", ["IMG002"]), ("figure 1", ["IMG002"]), ("Diagram", ["IMG002"]),
    ("Bandwidth falls with message size", []),
])
def test_alternative_text_says_something(book, alt, wanted):
    _, problems = check(book, "", image("plain.png", alt))
    assert [p.split()[1] for p in problems] == wanted


# --- what is in the file ---


@pytest.mark.parametrize(("inner", "wanted"), [
    (GROUND + "<foreignObject><p xmlns='http://www.w3.org/1999/xhtml'>Label</p></foreignObject>", "IMG006"),
    (GROUND + "<script>alert(1)</script>", "IMG007"),
    (GROUND + "<g onclick='x()'/>", "IMG007"),
    (GROUND + "<image href='https://example.com/a.png'/>", "IMG008"),
    (GROUND + "<image xlink:href='other.png'/>", "IMG008"),
    (GROUND + "<style>@import 'https://example.com/a.css';</style>", "IMG008"),
    (GROUND + "<g style='fill:url(https://example.com/a.svg#b)'/>", "IMG008"),
    (GROUND + "<g id='a'><use href='#a'/></g>", "IMG013"),
    (GROUND + "<g id='a0'><path/></g>" + "".join(
        f"<g id='a{n}'>" + f"<use xlink:href='#a{n - 1}'/>" * 10 + "</g>" for n in range(1, 8)), "IMG013"),
    ("<text>black on nothing</text>", "IMG010"),
])
def test_drawings_that_fail_somewhere(inner, wanted):  # F12, E22
    assert [f[0] for f in drawings.read(svg(inner)).findings] == [wanted]


@pytest.mark.parametrize("inner", [
    GROUND,
    '<rect width="200" height="100" fill="white"/>',
    '<g><path d="M 0 100 L 200 100 L 200 0 L 0 0 z" style="fill: #ffffff"/></g>',
    '<g fill="currentColor"><text>x</text></g>',
    GROUND + "<defs><linearGradient id='g'/></defs><rect fill='url(#g)'/>",
    GROUND + "<image href='data:image/png;base64,AAAA'/>",
    GROUND + "<a href='https://example.com'><text>link</text></a>",
    GROUND + "<foreignObject/>",
])
def test_drawings_that_work(inner):
    assert drawings.read(svg(inner)).findings == ()


def test_without_a_viewbox_or_not_well_formed():
    assert [f[0] for f in drawings.read(svg(GROUND, 'width="9" height="9"')).findings] == ["IMG009"]
    assert [f[0] for f in drawings.read(b"<svg><g></svg>").findings] == ["IMG005"]
    assert [f[0] for f in drawings.read(b"<html/>").findings] == ["IMG005"]


def test_entities_do_not_expand():
    bomb = b'<!DOCTYPE svg [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>' + svg(GROUND + "<text>&b;</text>")
    assert drawings.read(bomb).width == 200


def test_bitmaps(book):
    folder = book / "ch/figures"
    Image.new("RGBA", (40, 40), (0, 0, 0, 0)).save(folder / "clear.png")
    Image.new("RGBA", (40, 40), (0, 0, 0, 255)).save(folder / "opaque.png")
    frames = [Image.new("RGB", (8, 8), c) for c in ("red", "blue")]
    frames[0].save(folder / "moving.gif", save_all=True, append_images=frames[1:])
    frames[0].save(folder / "moving.webp", save_all=True, append_images=frames[1:])
    Image.new("1", (4100, 10)).save(folder / "wide.png")
    Image.new("RGB", (8, 8)).save(folder / "old.bmp")
    (folder / "broken.png").write_bytes(b"not a picture")
    assert codes(book, "clear.png") == ["IMG010 warning"]
    assert codes(book, "opaque.png") == []
    assert codes(book, "moving.gif") == ["IMG012 warning"]
    assert codes(book, "moving.webp") == ["IMG012 warning"]
    assert codes(book, "wide.png") == ["IMG011 warning"]
    assert codes(book, "old.bmp") == ["IMG005"]
    assert codes(book, "broken.png") == ["IMG005"]


def test_an_entity_from_a_file_is_a_reference():
    drawing = b'<!DOCTYPE svg [<!ENTITY e SYSTEM "file:///etc/hostname">]>' + svg(GROUND + "<text>&e;</text>")
    assert [f[0] for f in drawings.read(drawing).findings] == ["IMG008"]


def test_what_no_page_may_show_gives_way_to_words(book):  # in books that are not strict
    (book / "ch/figures/loop.svg").write_bytes(svg(GROUND + "<g id='a'><use href='#a'/></g>"))
    root, problems = check(book, "", image("loop.svg"), strict=False)
    assert [p.split()[1:3] for p in problems] == [["IMG013", "warning:"]]
    assert root.find(".//img") is None
    assert "".join(root.itertext()) == "a rising line"
