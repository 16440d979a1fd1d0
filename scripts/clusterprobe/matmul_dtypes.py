"""The number formats a matmul can be measured in: names, torch's attributes, limits, tolerances. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

from clusterprobe.matmul_shapes import MatmulShape


@dataclass(frozen=True)
class MatmulDtype:
    """`path` is how torch multiplies it: mm, scaled (torch._scaled_mm) or int (torch._int_mm).

    A checked element may differ from the exact product by rtol of its size plus `allowance` * sqrt(K):
    operands have unit variance, so sqrt(K) is the size of a typical sum and of what its rounding errors add
    up to.
    """

    name: str
    torch_name: str
    out_name: str
    path: str
    in_bytes: int
    out_bytes: int
    rtol: float
    atol: float
    aliases: Tuple[str, ...] = ()

    def allowance(self, k: int, fast_accum: bool) -> float:
        """In units of sqrt(K). Fast fp8 accumulation keeps 13 bits behind the point of the running sum and cuts
        the rest off at every step of 32 products, always towards zero, so its error grows with K."""
        steps = k / 32 if self.path == "scaled" and fast_accum else 0.0
        return self.atol + steps * 2.0 ** -13

    def refusal(self, shape: MatmulShape, kind: str) -> str:
        """Why this shape can't be tried here; empty when it can."""
        if self.path != "mm" and shape.batch > 1:
            return f"{self.name} has no batched product in torch"
        if kind == "cpu" or self.path == "mm":
            return ""
        if shape.n % 16 or shape.k % 16:
            return f"{self.name} needs N and K in multiples of 16"
        if self.path == "int" and shape.m <= 16:
            return "int8 needs more than 16 rows"
        return ""


MATMUL_DTYPES: Tuple[MatmulDtype, ...] = (
    MatmulDtype("bf16", "bfloat16", "bfloat16", "mm", 2, 2, 2 ** -7, 4e-3, ("bfloat16",)),
    MatmulDtype("fp16", "float16", "float16", "mm", 2, 2, 2 ** -9, 6e-3, ("float16", "half")),
    MatmulDtype("tf32", "float32", "float32", "mm", 4, 4, 1e-3, 8e-3, ("tfloat32",)),
    MatmulDtype("fp32", "float32", "float32", "mm", 4, 4, 1e-4, 2e-4, ("float32", "float")),
    MatmulDtype("fp64", "float64", "float64", "mm", 8, 8, 1e-10, 1e-10, ("float64", "double")),
    MatmulDtype("fp8", "float8_e4m3fn", "bfloat16", "scaled", 1, 2, 2 ** -7, 3e-2, ("fp8_e4m3", "float8_e4m3fn")),
    MatmulDtype("fp8_e5m2", "float8_e5m2", "bfloat16", "scaled", 1, 2, 2 ** -7, 3e-2, ("float8_e5m2",)),
    MatmulDtype("fp8_fnuz", "float8_e4m3fnuz", "bfloat16", "scaled", 1, 2, 2 ** -7, 3e-2,
                ("float8_e4m3fnuz", "fp8_e4m3fnuz")),
    MatmulDtype("int8", "int8", "int32", "int", 1, 4, 0.0, 0.0),
)
_DTYPE_NAMES: Dict[str, MatmulDtype] = {
    name: spec for spec in MATMUL_DTYPES for name in (spec.name, *spec.aliases)}


def find_dtype(text: str) -> Optional[MatmulDtype]:
    """By our name, torch's, or torch's with `torch.` before it."""
    word = text.strip().lower()
    return _DTYPE_NAMES.get(word[6:] if word.startswith("torch.") else word)


def parse_dtypes(text: str) -> List[MatmulDtype]:
    """`bf16`, `bf16,fp8` or `all`; ValueError names what is known."""
    if text.strip().lower() == "all":
        return list(MATMUL_DTYPES)
    chosen: List[MatmulDtype] = []
    for word in filter(None, text.split(",")):
        spec = find_dtype(word)
        if spec is None:
            raise ValueError(f"{word!r} is not one of {', '.join(one.name for one in MATMUL_DTYPES)}, all")
        if spec not in chosen:
            chosen.append(spec)
    if not chosen:
        raise ValueError("no dtype given")
    return chosen
