"""Part of prove: Kubernetes manifests against JSON schemas.

Built-in kinds come with kubernetes-validate (the API server's own schemas); custom kinds from
data/schema/kubernetes/GROUP/VERSION/KIND.json, taken from their projects' resource definitions. A kind
with neither is a finding: a manifest that nothing checked is not proven.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..problems import ToolMissing

VERSION = "1.37"
CUSTOM = Path(__file__).resolve().parents[3] / "data" / "schema" / "kubernetes"


def check(document: dict[str, Any], text: str) -> Iterator[tuple[int, str]]:
    """Findings of one manifest: (row in the fence from 0, message)."""
    try:
        import jsonschema
        import kubernetes_validate
    except ImportError:
        raise ToolMissing("kubernetes-validate is needed for manifests; run `make setup-test`") from None
    group, _, version = str(document["apiVersion"]).rpartition("/")
    kind = str(document["kind"])
    custom = CUSTOM / (group or "core") / version / f"{kind}.json"
    try:
        if custom.is_file():
            jsonschema.validate(document, json.loads(custom.read_text(encoding="utf-8")))
        else:
            kubernetes_validate.validate(document, VERSION, strict=True)
    except kubernetes_validate.SchemaNotFoundError:
        message = f"no schema for {document['apiVersion']} {kind}"
        yield _row(text, ["kind"]), f"{message}; add data/schema/kubernetes/{group}/{version}/{kind}.json"
    except jsonschema.ValidationError as error:
        path = [p for p in error.absolute_path if isinstance(p, str)]
        where = ".".join(str(p) for p in error.absolute_path) or "the manifest"
        yield _row(text, path), f"{kind}: {where}: {error.message[:200]}"


def _row(text: str, path: list[str]) -> int:
    """The row of the deepest key of a path: keys searched in order, each after the one before."""
    rows, at = text.split("\n"), 0
    for key in path:
        pattern = re.compile(rf"^[\s-]*[\"']?{re.escape(key)}[\"']?\s*:")
        at = next((n for n in range(at, len(rows)) if pattern.match(rows[n])), at)
    return at
