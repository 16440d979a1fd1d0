"""A small Book written by hand, for the outputs' tests: every block of the canonical body, once.

`book(folder)` writes the assets into `folder` and returns the Book that the front half would have made
of such sources. The bodies keep to the contract in model.py; lines, fence indexes and anchors are
derived from the markup so that they cannot disagree with it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import struct
import zlib
from pathlib import Path

from lxml import etree

from bookpress.model import (
    Anchor,
    Asset,
    Book,
    Chapter,
    Config,
    Features,
    Fence,
    FrontMatter,
    Part,
    Stamp,
)  # fmt: skip

HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
BLOCKS = frozenset(
    (*HEADINGS, "p", "pre", "ul", "ol", "li", "dl", "dt", "dd", "table", "tr", "blockquote", "figure", "aside", "hr", "div", "img", "section", "details", "summary")
)
KINDS = {"fig": "figure", "tbl": "table", "lst": "listing", "eq": "equation", "fn": "footnote"}
MATHML = "http://www.w3.org/1998/Math/MathML"

STAMP = Stamp(
    version="2026.11",
    commit="0123456789abcdef0123456789abcdef01234567",
    dirty=False,
    epoch=1795996800,
    date="2026-11-30",
    tools={"bookpress": "1.0", "pandoc": "3.9", "WeasyPrint": "70.0"},
)


def png(width: int, height: int) -> bytes:
    """An opaque PNG with a vertical grey ramp."""
    rows = b"".join(b"\0" + bytes([40 + 180 * y // height]) * width for y in range(height))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="480" height="220" viewBox="0 0 480 220">'
    '<rect width="480" height="220" fill="#ffffff"/>'
    '<path d="M50 190 L250 60 L460 60" fill="none" stroke="#0b4f71" stroke-width="3"/>'
    '<path d="M50 20 V190 H470" fill="none" stroke="#333333" stroke-width="1.5"/>'
    '<text x="270" y="50" font-family="Source Sans 3" font-size="14">compute bound</text>'
    '<text x="90" y="120" font-family="Source Sans 3" font-size="14">memory bound</text>'
    '<text x="250" y="212" font-family="Source Sans 3" font-size="13" text-anchor="middle">FLOP per byte</text>'
    "</svg>"
)


def math(tex: str, markup: str, display: bool = False) -> str:
    """A `<math>` element as mathtex.py writes it."""
    kind = ' display="block"' if display else ""
    return (
        f'<math xmlns="{MATHML}"{kind} alttext="{tex}"><semantics><mrow>{markup}</mrow>'
        f'<annotation encoding="application/x-tex">{tex}</annotation></semantics></math>'
    )


MFU = math(
    r"\mathrm{MFU} = \frac{6 N T}{P}",
    "<mi>MFU</mi><mo>=</mo><mfrac><mrow><mn>6</mn><mi>N</mi><mi>T</mi></mrow><mi>P</mi></mfrac>",
    display=True,
)
BUSBW = math(
    r"B = \frac{S}{t} \cdot \frac{2(n-1)}{n}",
    "<mi>B</mi><mo>=</mo><mfrac><mi>S</mi><mi>t</mi></mfrac><mo>·</mo><mfrac><mrow><mn>2</mn><mo>(</mo>"
    "<mi>n</mi><mo>−</mo><mn>1</mn><mo>)</mo></mrow><mi>n</mi></mfrac>",
    display=True,
)

PREFACE = """
<section class="chapter" id="preface">
<h1 id="preface-top">Preface</h1>
<p>This book is for the engineer on call. Read one section and leave; the
<a href="book:accelerators#which-number">first number to check</a> and the way to
<a href="book:hangs">find a hang</a> stand where you expect them.</p>
<p>Sources are on <a href="https://example.org/book?a=1&amp;b=2">the book’s site</a>.</p>
</section>
"""

ACCELERATORS = f"""
<section class="chapter" id="accelerators">
<h1 id="accelerators-top"><span class="number">1</span> Accelerators &amp; their limits</h1>
<p>A peak is a promise about one instruction.<a class="fnref" role="doc-noteref" id="fnref-1" href="#fn-1"><sup>1</sup></a>
Measure with <code>mamf-finder.py --dtype bfloat16</code> before you plan; a mixture-of-experts layer will not
reach what a dense one does. Emphasis is <em>like this</em>, weight <strong>like this</strong>, both
<strong><em>together</em></strong>, a deletion <del>so</del>, keys <kbd>Ctrl</kbd>+<kbd>C</kbd>, H<sub>2</sub>O and
10<sup>12</sup>.</p>
<h2 id="which-number"><span class="number">1.1</span> Which number is which?</h2>
<p>Utilization compares work done with the peak, see <a class="xref" href="#eq-mfu">Equation 1.1</a>,
<a class="xref" href="#fig-roofline">Figure 1.1</a>, <a class="xref" href="#tbl-dense">Table 1.1</a> and
<a class="xref" href="book:hangs#lst-stacks">Listing 2.1</a>. With <span class="math inline">{math("N", "<mi>N</mi>")}</span>
parameters and <span class="math inline">{math(r"T_0", "<msub><mi>T</mi><mn>0</mn></msub>")}</span> tokens a second:</p>
<div class="math display" id="eq-mfu">{MFU}<span class="label">(1.1)</span></div>
<p>Without a number:</p>
<div class="math display">{BUSBW}</div>
<figure class="figure" id="fig-roofline"><img src="asset:hardware/figures/roofline.svg" width="480" height="220"
alt="Throughput rises with intensity until the compute roof at 200 FLOP per byte"/><figcaption><span
class="label">Figure 1.1</span> The roofline: left of the knee, memory decides.</figcaption></figure>
<figure class="image"><img src="asset:hardware/figures/ramp.png" alt="A grey ramp, dark at the top" width="320" height="120"/></figure>
<h3 id="dense-sparse">Dense and sparse</h3>
<p>The vendor’s sheet prints the sparse figure first.</p>
<figure class="table wrap" id="tbl-dense"><figcaption><span class="label">Table 1.1</span> Dense BF16 peaks, vendor figures.</figcaption>
<table><thead><tr><th scope="col" class="left">Part</th><th scope="col" class="right">TFLOPS</th><th scope="col" class="center">Memory</th></tr></thead>
<tbody><tr><td class="left">A100 80GB</td><td class="right">312</td><td class="center">80 GiB</td></tr>
<tr><td class="left">H100 SXM</td><td class="right">989</td><td class="center">80 GiB</td></tr>
<tr><td class="left">MI300X<a class="fnref" role="doc-noteref" id="fnref-2" href="#fn-2"><sup>2</sup></a></td><td class="right">1307</td><td class="center">192 GiB</td></tr></tbody></table></figure>
<figure class="table landscape" id="tbl-wide"><figcaption><span class="label">Table 1.2</span> Many columns: this one takes a page of its own.</figcaption>
<table><thead><tr>{"".join(f'<th scope="col" class="left">Interconnect {i}</th>' for i in range(1, 11))}</tr></thead>
<tbody>{"".join("<tr>" + "".join(f'<td class="left">bidirectional {r * c}</td>' for c in range(1, 11)) + "</tr>" for r in range(1, 6))}</tbody></table></figure>
<figure class="table stack"><table><thead><tr><th scope="col" class="left">Symptom</th><th scope="col" class="left">Cause</th><th scope="col" class="left">Check that proves it</th></tr></thead>
<tbody><tr><td class="left"><code>NCCL WARN Cuda failure 'out of memory'</code></td><td class="left">another process holds the device</td><td class="left"><code>nvidia-smi --query-compute-apps=pid,used_memory --format=csv</code></td></tr>
<tr><td class="left">throughput halves after an hour</td><td class="left">thermal throttling</td><td class="left"><code>nvidia-smi -q -d PERFORMANCE</code> shows <code>SW Thermal Slowdown: Active</code></td></tr></tbody></table></figure>
<h2 id="setup"><span class="number">1.2</span> Setup</h2>
<aside class="admonition note"><p class="admonition-title">Note</p><p>Clocks move. Fix them first.</p></aside>
<aside class="admonition tip"><p class="admonition-title">Tip</p><p>Use <code>--help</code>.</p><ul><li>one</li><li>two</li></ul></aside>
<aside class="admonition important"><p class="admonition-title">Important</p><p>Dense means dense.</p></aside>
<aside class="admonition warning"><p class="admonition-title">Warning</p><p>A drained node loses its jobs.<a class="fnref" role="doc-noteref" id="fnref-3" href="#fn-3"><sup>3</sup></a></p></aside>
<aside class="admonition caution"><p class="admonition-title">Caution</p><p>This erases the disk.</p>
<figure class="code" data-lang="bash"><pre><code class="language-bash">wipefs --all /dev/nvme0n1</code></pre></figure></aside>
<h2 id="setup-1"><span class="number">1.3</span> Setup, again</h2>
<p>The same note twice.<a class="fnref" role="doc-noteref" id="fnref-1-2" href="#fn-1"><sup>1</sup></a> Scripts: Ω ≥ ≠ → ✅ ❌ 🚀 通信 简介.</p>
<section class="footnotes" role="doc-endnotes"><ol>
<li id="fn-1" role="doc-footnote"><p>Measured with <code>torch 2.13.0</code>; see <a href="https://example.org/peak">the record</a>. <a class="fnback" role="doc-backlink" href="#fnref-1">↩</a> <a class="fnback" role="doc-backlink" href="#fnref-1-2">↩</a></p></li>
<li id="fn-2" role="doc-footnote"><p>Vendor figure, not measured. <a class="fnback" role="doc-backlink" href="#fnref-2">↩</a></p></li>
<li id="fn-3" role="doc-footnote"><p>Two paragraphs.</p><p>The second: see <a href="book:hangs#which-rank">the next chapter</a>. <a class="fnback" role="doc-backlink" href="#fnref-3">↩</a></p></li>
</ol></section>
</section>
"""

LONG_LINE = (
    '<span class="nb">export</span> <span class="nv">NCCL_TOPO_FILE</span><span class="o">=</span>'
    + "x" * 30
    + '<span class="s2">"/a/very/long/path/'
    + "segment-" * 12
    + 'end.xml"</span>'
)

HANGS = f"""
<section class="chapter" id="hangs">
<h1 id="hangs-top"><span class="number">2</span> When a job hangs</h1>
<p>Take one stack per rank before you kill anything. Peaks are in
<a href="book:accelerators#which-number">the chapter on accelerators</a> and
<a class="xref" href="book:accelerators#tbl-dense">Table 1.1</a>; the tool is
<a href="file:scripts/hang_doctor.py">hang_doctor.py</a>.</p>
<h2 id="which-rank"><span class="number">2.1</span> Which rank is stuck?</h2>
<figure class="code" data-lang="bash" id="lst-stacks"><figcaption><span class="label">Listing 2.1</span> One stack per rank.</figcaption><pre><code
class="language-bash"><span class="k">for</span> pid <span class="k">in</span> <span class="k">$(</span>pgrep -f <span class="s1">'python.*-u stuck.py'</span><span class="k">)</span><span class="p">;</span> <span class="k">do</span>
    tr <span class="s1">'\\0'</span> <span class="s1">'\\n'</span> &lt; /proc/<span class="nv">$pid</span>/environ <span class="p">|</span> grep <span class="s1">'^RANK='</span>
    py-spy dump --pid <span class="s2">"</span><span class="nv">$pid</span><span class="s2">"</span>  <span class="c1"># stops it for milliseconds</span>
<span class="k">done</span></code></pre></figure>
<figure class="code" data-lang="output"><pre><code class="language-output">RANK=0
…
Thread … (idle): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:…)
┌──────┐ → ✓
│ 漢字 │ 🚀
└──────┘</code></pre></figure>
<figure class="code" data-lang="bash"><pre><code class="language-bash">{LONG_LINE}</code></pre></figure>
<figure class="code" data-lang=""><pre><code>token: ${{{{ secrets.HF_TOKEN }}}}  &amp; &lt;pad&gt;

	tab and a blank line above</code></pre></figure>
<ol><li><p>Drain the node:</p><figure class="code" data-lang="bash"><pre><code class="language-bash">scontrol update nodename=n1 state=drain reason=ecc</code></pre></figure></li>
<li><p>Look at the counters:</p><ul><li>volatile</li><li>aggregate<ul><li>single bit</li><li>double bit</li></ul></li></ul></li>
<li><p>Resume.</p></li></ol>
<ol start="4"><li>Tight items</li><li>have no paragraphs</li></ol>
<dl><dt>Straggler</dt><dd>A rank that is late each step.</dd><dt>Victim</dt><dd><p>A rank that waits for it.</p></dd></dl>
<blockquote><p>The evidence dies with the job.</p><p>— an operator</p></blockquote>
<hr/>
<h3 id="linux-d"><code>D</code> state &amp; <em>storage</em></h3>
<p>A line<br/>broken by hand. An unbreakable
<code>torch.distributed.distributed_c10d._exception_logger.wrapper.all_reduce_coalesced_with_timeout</code> in prose.</p>
<h4 id="deep">A fourth level</h4><p>Text.</p><h5 id="deeper">A fifth level</h5><p>Text.</p><h6 id="deepest">A sixth level</h6><p>Text.</p>
<details><summary>The full stack</summary><p>Folded on the web, open in print.</p></details>
<h2 id="简介"><span class="number">2.2</span> 简介</h2>
<p>{"Long prose fills the page so that running headers, widows and hyphenation can be seen. " * 40}</p>
</section>
"""

GLOSSARY = """
<section class="chapter" id="glossary">
<h1 id="glossary-top">Glossary</h1>
<p>Words, see <a href="book:hangs#which-rank">hangs</a>.</p>
</section>
"""

META = {
    "accelerators": FrontMatter(
        title="Accelerators & their limits",
        summary="What the peak on the sheet means and how to measure what you will get.",
        verified="2026-11-30",
        applies_to=("torch 2.13", "CUDA 13"),
        audience=("trainer", "buyer"),
    ),
    "hangs": FrontMatter(
        title="When a job hangs",
        summary="Find the rank that is late.",
        verified="2026-11-29",
        applies_to=("py-spy 0.4",),
        audience=("operator",),
    ),
}


def text_of(element: etree._Element) -> str:
    """Plain text without number and label."""
    bits = []

    def walk(e: etree._Element) -> None:
        if e.get("class") not in ("number", "label"):
            bits.append(e.text or "")
            for child in e:
                walk(child)
                bits.append(child.tail or "")

    walk(element)
    return " ".join("".join(bits).split())


def anchors_of(root: etree._Element) -> tuple[Anchor, ...]:
    found = []
    for e in root.iter(etree.Element):
        ident, line = e.get("id"), int(e.get("data-line") or 0)
        if not ident or ident.startswith("fnref-"):
            continue
        named = e if e.tag in HEADINGS else e.find("h1") if e.tag == "section" else e.find("figcaption")
        words = "" if named is None else text_of(named)
        mark = (e if named is None else named).find(".//span[@class]")
        counted = mark is not None and mark.get("class") in ("number", "label")
        number = mark.text.strip("()").split()[-1] if counted else ""
        if e.tag == "section":
            kind, level = "chapter", 1
        elif e.tag == "h1":
            kind, level = "point", 1
        elif e.tag in HEADINGS:
            kind, level = "section", int(e.tag[1])
        else:
            kind, level = KINDS.get(ident.split("-")[0], "point"), 0
        found.append(Anchor(ident, kind, words, level, number, line))
    return tuple(found)


def chapter(body: str, part: int, folder: str = "") -> Chapter:
    """A Chapter of a handwritten body: numbers its lines and fences, collects anchors and assets."""
    root = etree.fromstring(body.strip())
    fences: list[Fence] = []
    for line, e in enumerate((e for e in root.iter(etree.Element) if e.tag in BLOCKS and e is not root), 7):
        e.set("data-line", str(line))
        if e.tag == "figure" and e.get("class") == "code":
            e.set("data-fence", str(len(fences)))
            text = "".join(e.find("pre/code").itertext())
            mode = "output" if e.get("data-lang") == "output" else "parse"
            fences.append(Fence(len(fences), line, e.get("data-lang"), text, mode, e.get("id") or ""))
    slug = root.get("id")
    head = root.find("h1")
    number = head.find("span[@class='number']")
    images = [i.get("src").removeprefix("asset:") for i in root.iter("img")]
    return Chapter(
        slug=slug,
        path=f"{folder}{slug}.md",
        url=f"{folder}{slug}.html",
        part=part,
        number="" if number is None else number.text,
        title=text_of(head),
        meta=META.get(slug, FrontMatter(title=text_of(head))),
        body=etree.tostring(root, encoding="unicode"),
        anchors=anchors_of(root),
        fences=tuple(fences),
        assets=tuple(dict.fromkeys(images)),
    )


def config(root: Path, parts: tuple[Part, ...], **changes) -> Config:
    base = Config(
        root=root,
        path=root / "book.toml",
        title="A Book of Fixtures",
        slug="fixture-book",
        version=STAMP.version,
        subtitle="Every block, once",
        authors=("The Fixture Authors",),
        publisher="Fixture Press",
        description="A small book that shows each thing a chapter may hold.",
        identifier="urn:uuid:6f1e7a0c-0000-5000-8000-000000000001",
        license="CC-BY-SA-4.0",
        license_code="Apache-2.0",
        repository="https://example.org/fixture",
        source_url="https://example.org/fixture/blob/{commit}/{path}",
        features=Features(section_numbers=True),
        parts=parts,
    )
    return dataclasses.replace(base, **changes)


def asset(root: Path, path: str, data: bytes, mime: str, width: int, height: int) -> Asset:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists() or file.read_bytes() != data:
        file.write_bytes(data)
    return Asset(path, file, mime, hashlib.sha256(data).hexdigest(), width, height)


def book(root: Path, **changes) -> Book:
    """The fixture; `changes` replace fields of its Config."""
    parts = (
        Part("", ("preface.md",), numbered=False),
        Part("Hardware", ("hardware/accelerators.md",)),
        Part("Debugging", ("debugging/hangs.md",)),
        Part("", ("glossary.md",), numbered=False),
    )
    images = (
        asset(root, "hardware/figures/roofline.svg", SVG.encode(), "image/svg+xml", 480, 220),
        asset(root, "hardware/figures/ramp.png", png(320, 120), "image/png", 320, 120),
    )
    return Book(
        config=config(root, parts, **changes),
        stamp=STAMP,
        parts=parts,
        chapters=(
            chapter(PREFACE, 0),
            chapter(ACCELERATORS, 1, "hardware/"),
            chapter(HANGS, 2, "debugging/"),
            chapter(GLOSSARY, 3),
        ),
        assets={a.path: a for a in images},
    )


def of_bodies(root: Path, *bodies: str, **changes) -> Book:
    """A book of one numbered part that holds the given bodies, for a test's single case."""
    chapters = tuple(chapter(b, 0) for b in bodies)
    parts = (Part("", tuple(c.path for c in chapters)),)
    return Book(config(root, parts, **changes), STAMP, parts, chapters, {})
