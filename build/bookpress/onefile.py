"""One self-contained file per instrument, pasted together from its package.

In: the folder that holds the package and an entry script per tool. Out: the text of one file that needs
nothing but the standard library (and torch, imported late), or Problems where a module breaks the rules
that make pasting safe: absolute, unrenamed imports at the top, no cycles, every top-level name one meaning.
"""

from __future__ import annotations

import ast
import builtins
import functools
import hashlib
import itertools
import symtable
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .problems import Problem, near

PACKAGE = "clusterprobe"
# Imported inside functions only, where they are there; a tool starts and explains itself without them.
LATE = frozenset({"torch", "matplotlib", "habana_frameworks"})
OLDEST = (3, 9)  # the oldest Python that the tools run on
# In two pieces, so that licence checkers do not read this module's own licence here.
LICENCE_LINE = "# SPDX-License-" + "Identifier: {licence}"


@dataclass(frozen=True)
class Source:
    """One module of the package, or one entry script."""

    name: str  # dotted name; the file's name for an entry
    path: str  # for problems, relative to the book's folder
    text: str
    tree: ast.Module

    @property
    def uses(self) -> list[ast.ImportFrom]:
        """Its imports from the package."""
        return [
            node
            for node in self.tree.body
            if isinstance(node, ast.ImportFrom) and _root(node.module) == PACKAGE
        ]

    @functools.cached_property
    def defines(self) -> set[str]:
        """What it binds at its top level itself: functions, classes, constants."""
        table = symtable.symtable(self.text, self.path, "exec")
        return {s.get_name() for s in table.get_symbols() if s.is_assigned() and not s.is_imported()}

    def problem(self, node: ast.AST | None, code: str, message: str, hint: str = "") -> Problem:
        line, col = getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1
        return Problem(self.path, line, col, code, message, hint)


@dataclass(frozen=True)
class Head:
    """What the first lines of a generated file say."""

    file: str  # the name people know
    version: str
    requires_python: str
    dependencies: Sequence[str]
    licence: str
    holder: str


def _root(module: str | None) -> str:
    return (module or "").split(".")[0]


def read_source(file: Path, name: str, path: str) -> tuple[Source | None, list[Problem]]:
    """Parse one file as the oldest supported Python would."""
    try:
        text = file.read_text(encoding="utf-8")
        tree = ast.parse(text, feature_version=OLDEST)
    except SyntaxError as error:
        message = f"not Python {OLDEST[0]}.{OLDEST[1]}: {error.msg}"
        return None, [Problem(path, error.lineno or 1, error.offset or 1, "BND001", message)]
    except ValueError as error:  # not UTF-8, or a null byte
        return None, [Problem(path, 1, 1, "BND001", f"not Python source: {error}")]
    return Source(name, path, text, tree), []


def in_order(entry: Source, modules: Mapping[str, Source]) -> tuple[list[Source], list[Problem]]:
    """The modules that an entry needs, each after those it uses; the entry last."""
    order: list[Source] = []
    problems: list[Problem] = []
    state: dict[str, str] = {}

    def visit(source: Source) -> None:
        state[source.name] = "open"
        for node in source.uses:
            name = node.module or ""
            if name not in modules:
                problems.append(source.problem(node, "BND002", f"no module {name}", near(name, modules)))
            elif state.get(name) == "open":
                problems.append(source.problem(node, "BND002", f"{name} and {source.name} import each other"))
            elif name not in state:
                visit(modules[name])
        state[source.name] = "done"
        order.append(source)

    visit(entry)
    return order, problems


def _top_imports(source: Source) -> Iterator[tuple[ast.stmt, str, tuple[str, str, str]]]:
    """(statement, bound name, (module, name in it, name here)) of top-level imports from outside."""
    for node in source.tree.body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.asname or _root(alias.name), (alias.name, "", alias.asname or "")
        elif isinstance(node, ast.ImportFrom) and _root(node.module) not in (PACKAGE, "__future__"):
            for alias in node.names:
                yield node, alias.asname or alias.name, (node.module or "", alias.name, alias.asname or "")


def import_problems(source: Source) -> list[Problem]:
    """Imports that cannot be cut out, or that need what a cluster may not have."""
    found = []
    nodes = list(ast.walk(source.tree))
    statements = [n for n in nodes if isinstance(n, ast.Import | ast.ImportFrom)]
    functions = [n for n in nodes if isinstance(n, ast.FunctionDef)]
    late = {s for s in statements for f in functions if f.lineno < s.lineno <= (f.end_lineno or 0)}
    for node in statements:
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        roots = {_root(name) for name in names}
        top = node in source.tree.body
        if isinstance(node, ast.ImportFrom) and node.level:
            found.append(source.problem(node, "BND003", "a relative import", f"write from {PACKAGE}.… import …"))
        elif PACKAGE in roots and (not top or isinstance(node, ast.Import)):
            found.append(source.problem(node, "BND003", f"an import of {PACKAGE} that is no top-level from-import"))
        elif PACKAGE in roots and any(a.asname or a.name == "*" for a in node.names):
            found.append(source.problem(node, "BND003", f"an import from {PACKAGE} that renames or stars"))
        for name in roots - sys.stdlib_module_names - {PACKAGE, "", *(LATE if node in late else ())}:
            found.append(source.problem(node, "BND004", f"imports {name}", "inside a function at most, and only torch"))
    for node, after in itertools.pairwise(source.tree.body):
        if after.lineno == node.end_lineno and {type(node), type(after)} & {ast.Import, ast.ImportFrom}:
            found.append(source.problem(after, "BND003", "an import that shares its line"))
    for node in nodes:
        if isinstance(node, ast.Name) and node.id in ("__doc__", "__file__", "__package__", "__path__"):
            found.append(source.problem(node, "BND003", f"{node.id} differs in a pasted file"))
    return found


def _line_of(source: Source, name: str) -> ast.stmt | None:
    """The first top-level statement that holds the name."""
    for node in source.tree.body:
        if getattr(node, "name", None) == name or any(
            isinstance(part, ast.Name) and part.id == name and isinstance(part.ctx, ast.Store)
            for part in ast.walk(node)
        ):
            return node
    return None


def name_problems(sources: Sequence[Source]) -> list[Problem]:
    """Names that would mean something else once all of a tool's modules share one namespace."""
    found: list[Problem] = []
    owner: dict[str, str] = dict.fromkeys(dir(builtins), "Python itself")
    bound: dict[str, tuple[str, str, str]] = {}
    for source in sources:
        for node, name, meaning in _top_imports(source):
            if bound.setdefault(name, meaning) != meaning:
                found.append(source.problem(node, "BND005", f"'{name}' is imported from two places"))
    for source in sources:
        for name in sorted(source.defines):
            first = owner.setdefault(name, source.name)
            taken = first if first != source.name else "an import" if name in bound else ""
            if taken and not (name.startswith("__") and name.endswith("__")):
                found.append(source.problem(_line_of(source, name), "BND005", f"'{name}' is also a name of {taken}"))
    known = {source.name: source.defines | {a.name for n in source.uses for a in n.names} for source in sources}
    for source in sources:
        for node in source.uses:
            for alias in node.names:
                names = known.get(node.module or "", {alias.name})
                if alias.name not in names and alias.name not in bound:
                    text = f"{node.module} has no '{alias.name}'"
                    found.append(source.problem(node, "BND002", text, near(alias.name, names)))
    return found


def _imports_text(sources: Sequence[Source], before: Sequence[Source] = ()) -> str:
    """All imports from outside, merged: modules first, then names, each once, in alphabetical order.

    What the modules `before` import stands in the file already.
    """
    there = {meaning for source in before for _, _, meaning in _top_imports(source)}
    plain: set[str] = set()
    names: dict[str, set[str]] = {}
    for source in sources:
        for _, _, meaning in _top_imports(source):
            if meaning in there:
                continue
            module, name, here = meaning
            renamed = f" as {here}" if here else ""
            if name:
                names.setdefault(module, set()).add(name + renamed)
            else:
                plain.add(module + renamed)
    lines = [f"import {module}" for module in sorted(plain)]
    lines += [f"from {module} import {', '.join(sorted(names[module]))}" for module in sorted(names)]
    return "\n".join(lines)


def _docstring(source: Source) -> ast.stmt | None:
    first = source.tree.body[0] if source.tree.body else None
    return first if ast.get_docstring(source.tree) is not None else None


def _first_words(entry: Source) -> tuple[list[ast.stmt], set[str]]:
    """What an entry does before its last import from the package, and the modules that it had imported for it."""
    last = max((entry.tree.body.index(node) for node in entry.uses), default=0)
    words = [
        node
        for node in entry.tree.body[:last]
        if not isinstance(node, ast.Import | ast.ImportFrom) and node is not _docstring(entry)
    ]
    before = {node.module or "" for node in entry.uses if words and node.lineno < words[-1].lineno}
    return words, before


def _needed_by(names: set[str], sources: Sequence[Source]) -> list[Source]:
    """These modules and all that they use, in the order of `sources`."""
    needed = set(names)
    for source in reversed(sources):
        if source.name in needed:
            needed |= {node.module or "" for node in source.uses}
    return [source for source in sources if source.name in needed]


def _body(source: Source, but: Sequence[ast.stmt] = ()) -> str:
    """The module's text without its docstring, its top-level imports and `but`; everything else untouched."""
    cut = {n for n in source.tree.body if isinstance(n, ast.Import | ast.ImportFrom)} | {_docstring(source), *but}
    gone = {line for node in cut - {None} for line in range(node.lineno, (node.end_lineno or 0) + 1)}
    lines = source.text.split("\n")
    if lines and lines[0].startswith("#!"):
        gone.add(1)
    return "\n".join(line for number, line in enumerate(lines, 1) if number not in gone).strip("\n")


def source_hash(sources: Sequence[Source]) -> str:
    """SHA-256 over the names and texts that a file is made of, in their order."""
    whole = hashlib.sha256()
    for source in sources:
        whole.update(f"{source.name}\0{len(source.text)}\0{source.text}\0".encode())
    return whole.hexdigest()


def _banner(source: Source) -> str:
    words = (ast.get_docstring(source.tree) or "").splitlines()
    rule = "# " + "=" * 78
    return "\n".join([rule, f"# {source.name}", "#", *(f"# {line}".rstrip() for line in words), rule])


def _section(source: Source) -> str:
    return f"{_banner(source)}\n\n{_body(source)}"


def one_file(sources: Sequence[Source], head: Head) -> str:
    """The whole file. `sources` as in_order() gives them: the entry stands last."""
    entry = sources[-1]
    top = [
        "#!/usr/bin/env python3",
        "# /// script",
        f'# requires-python = "{head.requires_python}"',
        "# dependencies = [" + ", ".join(f'"{name}"' for name in head.dependencies) + "]",
        "# ///",
        "#",
        f"# {head.file} {head.version}, source sha256:{source_hash(sources)}",
        f"# Copyright {head.holder}",
        LICENCE_LINE.format(licence=head.licence),
        "#",
        f"# One file made from the package {PACKAGE}: it needs Python and PyTorch, nothing else, and may be copied",
        "# alone. Made by `make scripts`; a change made here is lost with the next release.",
    ]
    doc = _docstring(entry)
    docstring = ast.get_source_segment(entry.text, doc) if doc else ""
    words, names = _first_words(entry)
    first = _needed_by(names, sources[:-1])
    parts = ["\n".join(top), docstring or "", "from __future__ import annotations"]
    if words:  # as in the entry: before the other imports, which may take seconds
        said = "\n".join(ast.get_source_segment(entry.text, node) or "" for node in words)
        parts += [_imports_text(first), *map(_section, first), f"\n{said}"]
    parts.append(_imports_text(sources, first))
    text = "\n\n".join(part for part in parts if part)
    for source in sources[:-1]:
        if source not in first and _body(source):
            text += f"\n\n\n{_section(source)}"
    return f"{text}\n\n\n{_body(entry, words)}\n"
