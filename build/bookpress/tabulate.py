"""Tables generated from facts: data/tables/NAME.yaml says which records and columns; used by expand.

A definition:
    caption: Dense matmul peaks by data type.
    id: tbl-dense
    from: accelerators            # data file (or dotted path) that holds the records
    rows: [nvidia_h100_sxm, …]    # record ids in order; or `where: {availability: ga}` over all records
    columns:                      # `key` is a dotted path inside the record
      - {key: product, header: Accelerator}
      - {key: dense_tflops.bf16, header: bf16, align: right, digits: 0}
      - {key: verified, header: Checked}
    note: One sentence under the table.
    sources: true                 # list the records' sources under the table
    wide: wrap | landscape | stack
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .facts import FactError, Facts, figure
from .problems import near

_KEYS = {"caption", "id", "from", "rows", "where", "columns", "note", "sources", "wide"}
_COLUMN_KEYS = {"key", "header", "align", "digits", "unit", "missing"}
_MARKS = {"secondary": "†", "third_party": "‡", "contradicted": "§"}
_MARK_TEXT = {
    "†": "† Carried from a secondary source that names the vendor's page; not read there by us.",
    "‡": "‡ Third-party figure.",
    "§": "§ Public sources disagree; see the notes.",
}


def _definition(facts: Facts, name: str) -> dict[str, Any]:
    folder = facts.folder / "tables"
    names = sorted(p.stem for p in folder.glob("*.yaml")) if folder.is_dir() else []
    if name not in names:
        raise FactError("TPL006", f"no table '{name}' in {facts.folder.name}/tables", near(name, names))
    raw = facts.file(f"tables/{name}")
    if not isinstance(raw, Mapping):
        raise FactError("TPL006", f"tables/{name}.yaml must be a mapping")
    for key in raw:
        if key not in _KEYS:
            raise FactError("TPL006", f"tables/{name}.yaml: unknown key '{key}'", near(key, _KEYS))
    for key in ("from", "columns"):
        if not raw.get(key):
            raise FactError("TPL006", f"tables/{name}.yaml needs '{key}'")
    for column in raw["columns"]:
        for key in column:
            if key not in _COLUMN_KEYS:
                hint = near(key, _COLUMN_KEYS)
                raise FactError("TPL006", f"tables/{name}.yaml: unknown column key '{key}'", hint)
    return dict(raw)


def _rows(facts: Facts, name: str, table: Mapping[str, Any]) -> list[str]:
    records, _, _ = facts.walk(table["from"])
    stem = table["from"].split(".")[0]
    if isinstance(records, Mapping) and isinstance(records.get(stem), Mapping):
        records = records[stem]
    if not isinstance(records, Mapping):
        raise FactError("TPL006", f"tables/{name}.yaml: '{table['from']}' holds no records by id")
    if table.get("rows"):
        for row in table["rows"]:
            if row not in records:
                raise FactError("TPL002", f"tables/{name}.yaml: no record '{row}'", near(row, map(str, records)))
        return list(table["rows"])
    where = table.get("where", {})
    return [
        str(i)
        for i, r in records.items()
        if isinstance(r, Mapping) and all(r.get(k) == v for k, v in where.items())
    ]


def _cell(
    facts: Facts, path: str, column: Mapping[str, Any], escape: Callable[[str], str]
) -> tuple[str, str]:
    """The cell's Markdown and the mark that qualifies it."""
    try:
        fact = facts.fact(path)
    except FactError as error:
        if error.code != "TPL002":
            raise
        return str(column.get("missing", "–")), ""
    if fact.value is None:
        return str(column.get("missing", "–")), ""
    is_figure = isinstance(fact.value, (int, float)) and not isinstance(fact.value, bool)
    if is_figure and (not fact.sources or not fact.verified):
        facts.sourced(path)  # raises: an unsourced figure may not be printed
    if fact.value == "unsupported":
        return "no", ""
    text = escape(figure(fact.value, column.get("digits")))
    unit = column.get("unit")
    mark = _MARKS.get(fact.confidence, "") if is_figure else ""
    return f"{text}{chr(0xA0) + unit if unit else ''}{mark}", mark


def tabulate(facts: Facts, name: str, escape: Callable[[str], str]) -> str:
    """The Markdown of table NAME: caption, pipe table, marks, note and sources."""
    table = _definition(facts, name)
    columns = table["columns"]
    rule = {"right": "---:", "center": ":---:", "left": "---"}
    lines = []
    if table.get("caption"):
        attrs = " ".join(
            ([f"#{table['id']}"] if table.get("id") else [])
            + ([f"wide={table['wide']}"] if table.get("wide") else [])
        )
        lines += [f"Table: {table['caption']}{f' {{{attrs}}}' if attrs else ''}", ""]
    lines.append("| " + " | ".join(escape(c.get("header", c["key"])) for c in columns) + " |")
    lines.append("| " + " | ".join(rule[c.get("align", "left")] for c in columns) + " |")
    marks: set[str] = set()
    sources: dict[str, None] = {}
    for row in _rows(facts, name, table):
        cells = []
        for column in columns:
            path = f"{table['from']}.{row}.{column['key']}"
            text, mark = _cell(facts, path, column, escape)
            cells.append(text)
            marks.add(mark)
            if table.get("sources") and column.get("align") == "right" and not text.startswith("–"):
                fact = facts.fact(path)  # words need no source, and arithmetic is none
                sources |= dict.fromkeys(fact.sources if fact.confidence != "computed" else ())
        lines.append("| " + " | ".join(cells) + " |")
    notes = [_MARK_TEXT[m] for m in sorted(marks - {""})]
    if table.get("note"):
        notes.insert(0, table["note"])
    if sources:
        notes.append("Sources: " + "; ".join(link(s, escape) for s in sources) + ".")
    if notes:
        lines += ["", " ".join(notes)]
    return "\n".join(lines) + "\n"


def link(source: str, escape: Callable[[str], str]) -> str:
    """A source as Markdown: a titled link, a link named by its host, or the document's name."""
    title, sep, url = source.rstrip(">").partition(" <")
    if sep:
        return f"[{escape(title)}](<{url}>)"
    if source.startswith(("http://", "https://")):
        host, _, rest = source.split("://", 1)[1].partition("/")
        last = rest.rstrip("/").rsplit("/", 1)[-1].partition("#")[0].partition("?")[0]
        name = f"{host.removeprefix('www.')}: {last}" if last else host.removeprefix("www.")
        return f"[{escape(name)}](<{source}>)"
    return escape(source)
