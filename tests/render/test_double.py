"""The whole press twice, in other folders, time zones and locales: the same bytes of every output."""

from __future__ import annotations

from pathlib import Path

import pytest

from bookpress.checks import double
from render import fixture

CHAPTER = """# Hangs & stalls

See [the table](#tbl-peaks), $a = b / c$ and `nvidia-smi`.[^1]

```bash
for i in 1 2; do echo "$i"; done
```

Table: Dense peaks. {#tbl-peaks}

| Part | TFLOPS |
| --- | ---: |
| H100 | 989 |

![Throughput rises, then stays flat](roofline.svg){#fig-roof caption="The roof."}

> [!WARNING]
> The disk is erased 🚀.

[^1]: Measured.
"""


@pytest.mark.slow
def test_same_bytes(tmp_path: Path):
    book = tmp_path / "book"
    book.mkdir()
    (book / "a.md").write_text(CHAPTER, encoding="utf-8")
    (book / "b.md").write_text("# Another\n\nBack to [hangs](a.md#hangs--stalls).\n", encoding="utf-8")
    (book / "roofline.svg").write_text(fixture.SVG, encoding="utf-8")
    (book / "book.toml").write_text(
        '[book]\ntitle = "Twice"\nversion = "1"\nlicense = "CC-BY-SA-4.0"\n\n'
        '[[part]]\ntitle = "One"\nchapters = ["a.md", "b.md"]\n'
    )
    assert double.check(book / "book.toml", 1795996800) == []
