"""Custom resource definitions → the strict JSON schemas in this folder, for `bookpress prove`.

    git clone https://github.com/kubernetes-sigs/jobset CLONES/jobset   (and the other SOURCES)
    python data/schema/kubernetes/convert.py CLONES

Each served version of each kind becomes GROUP/VERSION/KIND.json. Kept is what a manifest can violate:
types, required fields, enums, patterns and bounds. Unknown fields are refused, as `kubectl apply
--validate=strict` refuses them. Dropped are descriptions, defaults and the CEL rules, which only an API
server evaluates. Subtrees that repeat (a pod has many) are written once under `$defs`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
# (folder under CLONES, repository, tag, folder of the definitions)
SOURCES = (
    ("jobset", "kubernetes-sigs/jobset", "v0.12.0", "config/components/crd/bases"),
    ("kueue", "kubernetes-sigs/kueue", "v0.19.2", "config/components/crd/bases"),
    ("trainer", "kubeflow/trainer", "v2.3.0", "manifests/base/crds"),
)
KEPT = (
    "type", "enum", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength",
    "maxLength", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "required",
    "multipleOf",
)  # fmt: skip
SHARE_FROM = 200  # characters of a repeated subtree that are worth a $ref

_STRINGS = {"type": "object", "additionalProperties": {"type": "string"}}
METADATA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string"}, "generateName": {"type": "string"}, "namespace": {"type": "string"},
        "labels": _STRINGS, "annotations": _STRINGS,
        "finalizers": {"type": "array", "items": {"type": "string"}},
        "ownerReferences": {"type": "array", "items": {"type": "object"}},
        # What `kubectl get -o yaml` adds.
        "uid": {"type": "string"}, "resourceVersion": {"type": "string"},
        "generation": {"type": "integer"}, "creationTimestamp": {"type": ["string", "null"]},
    },
}  # fmt: skip


def git(clone: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", clone, *words], capture_output=True, text=True, check=True).stdout


def strict(node: dict[str, Any], name: str = "") -> dict[str, Any]:
    """One structural schema as JSON Schema in which an unknown field is an error."""
    if name == "metadata" and node.get("type") == "object" and "properties" not in node:
        return METADATA
    out: dict[str, Any] = {key: node[key] for key in KEPT if key in node}
    if "(?i)" in out.get("pattern", ""):  # Go takes the flag anywhere, Python only in front
        out["pattern"] = "(?i)" + out["pattern"].replace("(?i)", "")
    if node.get("x-kubernetes-int-or-string"):
        out.pop("type", None)
        out["type"] = ["integer", "string"]
    else:
        for key in ("anyOf", "oneOf", "allOf"):
            if key in node:
                out[key] = [_branch(b) for b in node[key]]
        if "not" in node:
            out["not"] = _branch(node["not"])
    if node.get("nullable") and "type" in out:
        out["type"] = [*([out["type"]] if isinstance(out["type"], str) else out["type"]), "null"]
    if "items" in node:
        out["items"] = strict(node["items"])
    if "properties" in node:
        out["properties"] = {key: strict(value, key) for key, value in node["properties"].items()}
    if isinstance(node.get("additionalProperties"), dict):
        out["additionalProperties"] = strict(node["additionalProperties"])
    elif node.get("type") == "object" and not node.get("x-kubernetes-preserve-unknown-fields"):
        out["additionalProperties"] = node.get("additionalProperties", False)
    return out


def _branch(node: dict[str, Any]) -> dict[str, Any]:
    """A branch of anyOf and its like: it adds conditions to a schema and closes nothing by itself."""
    out: dict[str, Any] = {key: node[key] for key in KEPT if key in node}
    if "properties" in node:
        out["properties"] = {key: _branch(value) for key, value in node["properties"].items()}
    for key in ("anyOf", "oneOf", "allOf"):
        if key in node:
            out[key] = [_branch(b) for b in node[key]]
    return out


def shared(schema: dict[str, Any]) -> dict[str, Any]:
    """The same schema with subtrees that repeat moved to $defs."""
    seen: Counter[str] = Counter()

    def count(node: Any) -> None:
        for value in _children(node):
            seen[json.dumps(value, sort_keys=True)] += 1
            count(value)

    count(schema)
    names: dict[str, str] = {}
    for text, times in seen.items():
        if times > 1 and len(text) >= SHARE_FROM:
            names[text] = str(len(names) + 1)

    def rewrite(node: Any, top: bool = False) -> Any:
        text = json.dumps(node, sort_keys=True)
        if text in names and not top:
            return {"$ref": f"#/$defs/{names[text]}"}
        out = dict(node)
        for key in ("items", "additionalProperties"):
            if isinstance(node.get(key), dict):
                out[key] = rewrite(node[key])
        if "properties" in node:
            out["properties"] = {k: rewrite(v) for k, v in node["properties"].items()}
        return out

    body = rewrite(schema, top=True)
    body["$defs"] = {name: rewrite(json.loads(text), top=True) for text, name in names.items()}
    return body


def _children(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield node[key]
    yield from node.get("properties", {}).values()


def convert(definition: dict[str, Any], origin: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """(file, schema) for each served version of one definition."""
    group, kind = definition["spec"]["group"], definition["spec"]["names"]["kind"]
    for version in definition["spec"]["versions"]:
        if not version["served"]:
            continue
        schema = strict(version["schema"]["openAPIV3Schema"])
        schema["properties"]["apiVersion"] = {"const": f"{group}/{version['name']}"}
        schema["properties"]["kind"] = {"const": kind}
        schema["required"] = sorted({*schema.get("required", ()), "apiVersion", "kind", "metadata"})
        head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$comment": origin}
        yield HERE / group / version["name"] / f"{kind}.json", head | shared(schema)


def main(clones: Path) -> None:
    for folder, repository, tag, bases in SOURCES:
        clone = clones / folder
        commit = git(clone, "rev-parse", f"{tag}^{{commit}}").strip()
        for path in git(clone, "ls-tree", "--name-only", commit, f"{bases}/").split():
            if path.endswith("kustomization.yaml"):
                continue
            origin = f"From {repository} {tag} ({commit}) {path}, Apache-2.0; made by convert.py"
            for file, schema in convert(yaml.safe_load(git(clone, "show", f"{commit}:{path}")), origin):
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(json.dumps(schema, separators=(",", ":"), sort_keys=True) + "\n")
                print(f"{file.relative_to(HERE)}  {file.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
