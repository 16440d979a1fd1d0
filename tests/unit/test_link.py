"""Where links lead: chapters, folders, files, anchors, the repository's own addresses."""

import time
from dataclasses import replace

import pytest
from smallbook import STAMP, assert_valid, book_of, codes, config_of, draft_of

from bookpress import link
from bookpress.model import Features
from bookpress.target import Found


@pytest.fixture
def book(tmp_path):
    """link(target) → (href in the body, codes of the problems)."""
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "tool.py").write_text("x\n")
    (tmp_path / "LICENSE").write_text("x\n")
    others = {
        "README.md": "# Start\n",
        "net/README.md": "# Net\n\n## Speed\n\n## Speed\n\n<a name='Old'></a>\n",
        "net/b c.md": "# B\n",
    }

    def resolve(target: str, strict: bool = True):
        texts = {"part/a.md": f"# A\n\n## Here\n\n[x]({target})\n", **others}
        made, problems = book_of(tmp_path, texts, strict=strict)
        root = assert_valid(made.chapters[0].body)
        return root.find(".//p/a").get("href"), codes(problems)

    return resolve


@pytest.mark.parametrize(
    ("target", "href", "said"),
    [
        ("../net/README.html#speed", "book:net-README#speed", []),
        ("../net/index.html", "book:net-README", []),
        ("../net/b%20c.html", "book:net-b c", []),
        ("/site/net/", "book:net-README", ["LNK001"]),
        ("../../../net", "book:net-README", ["LNK001"]),
        ("../elsewhere/b%20c", "book:net-b c", ["LNK001"]),
        ("../elsewhere/b.txt", None, ["LNK001"]),
        ("{{site.url}}/net", None, ["LNK001"]),
        ("view-source:https://example.org", None, ["LNK007"]),
    ],
)
def test_addresses_of_pages_on_the_books_web_site(book, target, href, said):
    assert book(target, strict=False) == (href, said)
    assert book(target)[1] != []  # dead on GitHub


@pytest.mark.parametrize(
    ("target", "href"),
    [
        ("#here", "#here"),
        ("#user-content-here", "#here"),
        ("a.md#here", "#here"),
        ("../net/README.md", "book:net-README"),
        ("../net/README.md#speed-1", "book:net-README#speed-1"),
        ("../net/README.md#Old", "book:net-README#Old"),
        ("../net", "book:net-README"),
        ("../net/", "book:net-README"),
        ("../", "book:README"),
        ("/net/README.md#speed", "book:net-README#speed"),
        ("../net/b%20c.md", "book:net-b c"),
        ("<../net/b c.md>", "book:net-b c"),
        ("../net/tool.py", "file:net/tool.py"),
        ("../net/tool.py#L1-L3", "file:net/tool.py#L1-L3"),
        ("/LICENSE", "file:LICENSE"),
        ("../net/README.md?plain=1#speed", "book:net-README#speed"),
        ("https://example.org/a?b=1&c=%20d#e", "https://example.org/a?b=1&c=%20d#e"),
        ("mailto:x@example.org", "mailto:x@example.org"),
        ("//example.org/x", "//example.org/x"),
    ],
)
def test_links_that_work(book, target, href):
    assert book(target) == (href, [])


@pytest.mark.parametrize(
    ("target", "code", "carried"),
    [
        ("nope.md", "LNK001", None),
        ("../LICENCE", "LNK001", None),
        ("#nope", "LNK002", None),
        ("../net/README.md#speeed", "LNK002", "book:net-README"),
        ("../net/README.md#SPEED", "LNK002", "book:net-README#speed"),
        ("../net/#speed", "LNK003", "book:net-README#speed"),
        ("../Net/readme.md", "LNK004", "book:net-README"),
        ("../license", "LNK004", "file:LICENSE"),
        ("../../other/x.md", "LNK005", None),
        ("/../x", "LNK005", None),
        ("", "LNK006", None),
        ("#", "LNK006", None),
        ("javascript:alert(1)", "LNK007", None),
        ("JavaScript:alert(1)", "LNK007", None),
        ("file:///etc/passwd", "LNK007", None),
        ("book:net-README", "LNK007", None),
    ],
)
def test_links_that_do_not(book, target, code, carried):
    assert book(target, strict=False) == (carried, [code])


def test_dead_links_are_errors_only_where_the_book_is_strict(tmp_path):
    for strict, level in ((True, "error"), (False, "warning")):
        _, problems = book_of(tmp_path, {"a.md": "text\nand [x](nope.md)\n"}, strict=strict)
        assert [(p.line, p.col, p.level) for p in problems] == [(2, 5, level)]


def test_the_repositorys_own_address(tmp_path):
    home = "https://github.com/o/r"
    texts = f"[a]({home}/blob/main/b.md#two) [b]({home}/tree/v1/net) [c]({home}/issues/1) [d]({home}/blob/main/x.py)\n"
    config = replace(config_of(tmp_path, ("a.md", "b.md", "net/README.md")), repository=home, features=Features())
    drafts = [
        draft_of(tmp_path, texts), draft_of(tmp_path, "# B\n\n## Two\n", path="b.md"),
        draft_of(tmp_path, "# N\n", path="net/README.md"),
    ]  # fmt: skip
    book, problems = link.link(drafts, config, STAMP)
    hrefs = [a.get("href") for a in assert_valid(book.chapters[0].body).iter("a")]
    assert hrefs == ["book:b#two", "book:net-README", f"{home}/issues/1", f"{home}/blob/main/x.py"]
    assert problems == []


def test_images_become_assets_in_order_of_use(tmp_path):
    svg = '<svg xmlns="http://www.w3.org/2000/svg" width="12" height="4" viewBox="0 0 12 4"><rect width="12" height="4" fill="#fff"/></svg>'
    (tmp_path / "img x").mkdir()
    for name in ("b.svg", "a.svg"):
        (tmp_path / "img x" / name).write_text(svg)
    texts = {"p/c.md": "![the rate falls](../img%20x/b.svg) ![the rate grows](/img%20x/a.svg) <img src='../img%20x/b.svg' alt='again it falls'>\n"}
    book, problems = book_of(tmp_path, texts)
    assert codes(problems) == []
    assert book.chapters[0].assets == ("img x/b.svg", "img x/a.svg")
    assert list(book.assets) == ["img x/a.svg", "img x/b.svg"]
    asset = book.assets["img x/a.svg"]
    assert (asset.mime, len(asset.sha256), asset.file.is_file()) == ("image/svg+xml", 64, True)
    srcs = [i.get("src") for i in assert_valid(book.chapters[0].body).iter("img")]
    assert srcs == ["asset:img x/b.svg", "asset:img x/a.svg", "asset:img x/b.svg"]


def test_text_that_looks_like_a_site_is_left_alone(tmp_path):
    source = '`<a data-site="0" href="x">` and &lt;img data-site="0"&gt; [x](https://e.org/?q="data-site")\n'
    book, problems = book_of(tmp_path, {"a.md": source})
    assert codes(problems) == []
    root = assert_valid(book.chapters[0].body)
    assert "".join(root.find("p").itertext()).startswith('<a data-site="0" href="x"> and <img data-site="0">')


def test_linking_does_not_parse_bodies(tmp_path):
    drafts = [
        draft_of(tmp_path, f"# C{n}\n\n## S\n\n" + f"Word [x](c{(n + 1) % 40}.md#s) and `code`.\n\n" * 5, path=f"c{n}.md")
        for n in range(40)
    ]
    big = [replace(d, body=d.body.replace("</section>", "<p>x</p>" * 20_000 + "</section>")) for d in drafts]
    config = config_of(tmp_path, tuple(d.source.path for d in drafts))
    start = time.process_time()
    book, problems = link.link(big, config, STAMP)
    spent = time.process_time() - start
    assert problems == []
    assert len(book.chapters) == 40
    assert spent < 2.0, f"{spent:.2f} s for {sum(len(d.body) for d in big) / 1e6:.0f} MB"


def test_found_without_trouble_has_an_address():
    assert Found().href == ""
