"""Where lines may end in running text: the markup says so, and the text stays what it was."""

from __future__ import annotations

import pytest
from lxml import etree

from bookpress import breaks


def after(change, markup: str) -> etree._Element:
    element = etree.fromstring(markup)
    before = "".join(element.itertext())
    change(element)
    assert "".join(element.itertext()) == before
    return element


def pieces(element: etree._Element) -> list[str]:
    """The text between the break points that were added; what is held together stands in ⟨⟩."""
    text = ""

    def walk(node: etree._Element) -> None:
        nonlocal text
        held = node.get("class") == "whole"
        text += ("\n" if node.tag == "wbr" else "") + ("⟨" if held else "") + (node.text or "")
        for child in node:
            walk(child)
            text += child.tail or ""
        text += "⟩" if held else ""

    walk(element)
    return text.split("\n")


SHORT = ["-x", "--use_cuda", "--kill-on-bad-exit", "a/b", "libcuda.so.1", "foo[0]", "nvidia-smi", "py-spy"]


@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize("change", [breaks.loosen, breaks.hold])
def test_a_short_name_is_whole_wherever_layout_would_part_it(change, name):
    assert pieces(after(change, f"<p><code>{name}</code></p>")) == [f"⟨{name}⟩"]


@pytest.mark.parametrize("change", [breaks.loosen, breaks.hold])
def test_options_part_at_the_spaces_between_them(change):
    said = "srun --kill-on-bad-exit=1 -N 2"
    joined = "".join(pieces(after(change, f"<p><code>{said}</code></p>")))
    assert joined == "srun ⟨--kill-on-bad-exit=1⟩ ⟨-N⟩ 2"


def test_a_long_name_parts_behind_joints_and_before_a_later_option():
    held = after(breaks.hold, "<p><code>--query-gpu=clocks_event_reasons.active--format=csv,noheader</code></p>")
    assert pieces(held) == ["⟨--query-gpu=⟩", "clocks_", "event_", "reasons.", "active", "⟨--format=⟩", "csv,", "noheader"]


@pytest.mark.parametrize("change", [breaks.loosen, breaks.hold])
def test_no_piece_ends_in_a_hyphen_and_none_is_a_scrap(change):
    names = ["--tensor-model-parallel-size-and-pipeline", "/data/models/kube-flannel-with-a-long-name.yml",
             "CUDA_LAUNCH_BLOCKING=1-and-more-of-it", "a-b-c-d-e-f-g-h-i-j-k-l-m-n-o-p-q-r-s-t-u-v"]  # fmt: skip
    for name in names:
        found = [p.strip("⟨⟩") for p in pieces(after(change, f"<p><code>{name}</code></p>"))]
        found = [p for p in found if p]
        assert len(found) > 1, name
        assert not [p for p in found[:-1] if p.endswith("-")], name
        assert min(map(len, found)) >= 4, name


def test_names_in_cells_of_a_screen_are_whole_so_that_no_column_is_narrower():
    for cell in ("td", "th"):
        held = after(breaks.hold, f"<tr><{cell}><code>OMP_NUM_THREADS</code></{cell}></tr>")
        assert held.find(".//code").get("class") == "whole"


def test_a_name_that_is_whole_in_text_parts_in_a_cell_on_paper():
    name = "<code>--max-num-batched-tokens</code>"
    assert pieces(after(breaks.loosen, f"<p>{name}</p>")) == ["", "⟨--max-num-batched-tokens⟩"]
    for cell in ("td", "th", "dd"):
        parted = ["", "⟨--max⟩", "⟨-num⟩", "⟨-batched⟩", "⟨-tokens⟩"]
        assert pieces(after(breaks.loosen, f"<tr><{cell}>{name}</{cell}></tr>")) == parted


@pytest.mark.parametrize("change", [breaks.loosen, breaks.hold])
def test_rates_stay_whole_and_paths_do_not(change):
    words = "at 900\u00a0GB/s, (GiB/s) and TB/s/GPU <b>I/O</b> in a/b/c/d/e of longer/path/to/it, 3/4"
    found = "\n".join(pieces(after(change, f"<p>{words}</p>")))
    assert found.replace("\n", "") == (
        "at 900\u00a0⟨GB/s⟩, (⟨GiB/s⟩) and ⟨TB/s/GPU⟩ ⟨I/O⟩ in a/b/c/d/e of longer/path/to/it, 3/4"
    )


def test_the_mark_of_a_note_is_tied_to_the_word_before_it():
    mark = '<a class="fnref"><sup>{}</sup></a>'
    tied = after(
        breaks.bind_marks,
        f"<p>slower than bf16.{mark.format(1)} <code>ls</code>{mark.format(2)}{mark.format(3)}, and {mark.format(4)}"
        f" <em>two words</em>{mark.format(5)}.</p>",
    )
    assert pieces(tied) == ["slower than ⟨bf16.1⟩ ⟨⟨ls2⟩3⟩, and 4 two words5."]


def test_blocks_of_code_are_left_alone():
    block = "<figure><pre><code>a --b-c GB/s</code></pre></figure>"
    for change in (breaks.hold, breaks.loosen):
        assert etree.tostring(after(change, block), encoding="unicode") == block


def test_reading_systems_keep_hyphens_with_what_follows_and_may_part_the_rest():
    body = "<div><p><code>a-b.py --json x_y</code>, e-mail</p><pre><code>a -b</code></pre></div>"
    assert pieces(after(breaks.hold_hyphens, body)) == ["a⟨-b⟩.py ⟨--j⟩son x_y, e-maila -b"]
