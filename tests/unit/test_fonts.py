"""The bundled faces: names, licences, coverage, and that layout sees nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from fontTools.ttLib import TTFont

from bookpress import fonts

ROOT = Path(__file__).parents[2]


def test_every_file_is_listed_and_carries_the_names_that_css_asks_for():
    files = {p.name for p in fonts.FOLDER.glob("*.ttf")}
    assert files == {f.file.name for f in fonts.faces()}
    for f in fonts.faces():
        font = TTFont(f.file, lazy=True)
        names = {font["name"].getDebugName(i) for i in (1, 16)}
        assert f.family in names, f.file.name
        assert font["OS/2"].usWeightClass == f.weight
        assert bool(font["OS/2"].fsSelection & 1) == (f.style == "italic")
        assert font["OS/2"].fsType in (0, 8)  # may be embedded


def test_every_licence_has_its_text():
    for f in fonts.faces():
        assert (ROOT / "LICENSES" / f"{f.license}.txt").is_file()
        stem = f.file.stem.split("-")[0]
        texts = [p.name for p in fonts.FOLDER.glob("*.txt")]
        assert any(stem.startswith(t.split("-")[0]) for t in texts), stem


def test_what_engineers_write_is_covered_in_every_stack():
    wanted = "┌─┐│└┘├┤█▓░→←↔⇒≥≤≠≈×÷±∑√∞∇∈αβγμπΩµ✓✗☐☑²³⁻¹₀₁–—…•†£€漢字简介通信日本語한국어🚀❌✅⚠🔥⠿⏎"
    for role in ("text", "sans", "code"):
        union = set().union(*(fonts.covered(f) for f in fonts.families(role)))
        assert not [c for c in wanted if ord(c) not in union], role


def test_arrows_and_check_marks_come_from_one_face():
    for family in ("Source Serif 4", "Source Sans 3"):
        assert not {0x2192, 0x2713} & fonts.covered(family)
    assert {0x2192, 0x21D2, 0x2713, 0x2717} <= fonts.covered("DejaVu Sans")


def test_layout_uses_the_bundled_files_only(tmp_path):
    program = (
        "import sys; from pathlib import Path; from bookpress import fonts;"
        "from weasyprint import HTML;"  # loaded before: the order must not matter
        f"fonts.activate(Path({str(tmp_path / 'one')!r}));"
        f"fonts.activate(Path({str(tmp_path / 'two')!r}));"
        "d = HTML(string='<p style=\"font-family:Liberation Serif,DejaVu Serif,serif\">A"
        "<b style=\"font-weight:600\">B</b><code style=\"font-family:monospace\">C</code>漢🚀').render();"
        f"d.write_pdf({str(tmp_path / 'o.pdf')!r})"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / "build")}
    subprocess.run([sys.executable, "-c", program], check=True, env=env)
    import pikepdf

    with pikepdf.open(tmp_path / "o.pdf") as pdf:
        names = {str(o["/BaseFont"]).split("+")[1] for o in pdf.objects
                 if isinstance(o, pikepdf.Dictionary) and "/BaseFont" in o}
    assert {n.rstrip(",") for n in names} == {
        "Source-Serif-4", "Source-Serif-4-Semi-Bold", "JetBrains-Mono", "Noto-Emoji",
        "Droid-Sans-Fallback"}
