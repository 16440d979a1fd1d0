"""Part of prove: Kubernetes manifests against JSON schemas.

Built-in kinds come with kubernetes-validate (the API server's own schemas, in strict form); custom kinds from
data/schema/kubernetes/GROUP/VERSION/KIND.json, made from their projects' resource definitions. A kind
with neither is a finding: a manifest that nothing checked is not proven.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..problems import ToolMissing, near

VERSION = "1.37"
CUSTOM = Path(__file__).resolve().parents[3] / "data" / "schema" / "kubernetes"
_BUILT_IN = re.compile(r"[a-z0-9]+|[a-z0-9.]+(?<!\.x-k8s)(?<!\Ax-k8s)\.k8s\.io|")


def check(document: dict[str, Any], text: str) -> Iterator[tuple[int, str]]:
    """Findings of one manifest: (row in the fence from 0, message)."""
    try:
        import jsonschema
        import kubernetes_validate
    except ImportError:
        raise ToolMissing("kubernetes-validate is needed for manifests; run `make setup-test`") from None
    group, _, version = str(document["apiVersion"]).rpartition("/")
    kind = str(document["kind"])
    custom = CUSTOM / group / version / f"{kind}.json"
    if group and custom.is_file():
        errors = list(_validator(custom).iter_errors(document))
    elif _BUILT_IN.fullmatch(group):
        try:
            kubernetes_validate.validate(document, VERSION, strict=True)
            errors = []
        except kubernetes_validate.SchemaNotFoundError:
            yield _unknown(document, text, "")
            return
        except jsonschema.ValidationError as error:
            errors = [error]
    else:
        kinds = [p.stem for p in (CUSTOM / group / version).glob("*.json")]
        yield _unknown(document, text, near(kind, kinds))
        return
    for error in errors:
        deepest = jsonschema.exceptions.best_match([error]) or error
        path = list(deepest.absolute_path)
        where = ".".join(str(p) for p in path) or "the manifest"
        message, field = _said(deepest)
        yield _row(text, [*path, *field]), f"{kind}: {where}: {message}"


def _unknown(document: dict[str, Any], text: str, hint: str) -> tuple[int, str]:
    message = f"no schema for {document['apiVersion']} {document['kind']}"
    return _row(text, ["kind"]), message + (f" ({hint})" if hint else "")


@functools.cache
def _validator(file: Path) -> Any:
    import jsonschema

    return jsonschema.Draft202012Validator(json.loads(file.read_text(encoding="utf-8")))


def _said(error: Any) -> tuple[str, list[str]]:
    """The error in a line; for an unknown field with the nearest known one, and the field to point at."""
    if error.validator == "additionalProperties" and isinstance(error.instance, dict):
        known = error.schema.get("properties", {})
        extra = [key for key in error.instance if key not in known]
        hints = [near(key, known) for key in extra]
        said = f"unknown field {', '.join(map(repr, extra))}" + "".join(f" ({h})" for h in hints if h)
        return said, extra[:1]
    message = str(error.message)
    return (message if len(message) <= 200 else message[:200] + "…"), []


def _row(text: str, path: list[str | int]) -> int:
    """The row of the deepest key of a path: keys in order, each after the one before; items counted."""
    rows, at = text.split("\n"), 0
    for step in path:
        if isinstance(step, int):
            at = _item(rows, at, step)
        else:
            pattern = re.compile(rf"^[\s-]*[\"']?{re.escape(step)}[\"']?\s*:")
            at = next((n for n in range(at, len(rows)) if pattern.match(rows[n])), at)
    return at


def _item(rows: list[str], key: int, index: int) -> int:
    """The row where item `index` of the list under the key in row `key` begins."""
    dashes = [(n, len(r) - len(r.lstrip())) for n, r in enumerate(rows) if n > key and r.lstrip().startswith("- ")]
    own = [n for n, indent in dashes if indent == dashes[0][1]]
    return own[index] if index < len(own) else key
