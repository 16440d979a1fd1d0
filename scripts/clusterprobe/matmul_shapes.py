"""Which matrix products to look at: shapes, grids, and the model that prunes candidates. No torch.

Comes in: lists and ranges from the command line, or what is known of the device. Goes out: a `ShapeGrid`
(the axes a search moves on) and an ordered list of `MatmulShape`. The model (waves of tiles over the
device's units) only halves the candidates; half of them are always drawn without it, because the library's
tiles and its splits along K are not known from outside.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

# Output tiles (rows, columns) that matmul libraries commonly use on matrix units.
COMMON_TILES: Tuple[Tuple[int, int], ...] = ((128, 256), (256, 128), (128, 128), (256, 256), (128, 192), (64, 256))
GOOD_WAVE = 0.97
MOST_AXIS_SIZES = 100_000  # of one axis


@dataclass(frozen=True, order=True)
class MatmulShape:
    """C[m, n] = A[m, k] B[k, n], `batch` times."""

    m: int
    n: int
    k: int
    batch: int = 1

    def __str__(self) -> str:
        return (f"{self.batch}x" if self.batch > 1 else "") + f"{self.m}x{self.n}x{self.k}"

    @property
    def flop(self) -> int:
        """A multiplication and an addition for every term of every sum."""
        return 2 * self.batch * self.m * self.n * self.k

    def elements(self) -> Tuple[int, int, int]:
        """Elements of A, B and C."""
        return self.batch * self.m * self.k, self.batch * self.k * self.n, self.batch * self.m * self.n

    def touched_bytes(self, in_bytes: int, out_bytes: int) -> int:
        a, b, c = self.elements()
        return (a + b) * in_bytes + c * out_bytes

    def intensity(self, in_bytes: int, out_bytes: int) -> float:
        """FLOP per byte when each operand moves once."""
        return self.flop / self.touched_bytes(in_bytes, out_bytes)


@dataclass(frozen=True)
class ShapeGrid:
    """The values that each axis may take, in ascending order."""

    m: Tuple[int, ...]
    n: Tuple[int, ...]
    k: Tuple[int, ...]
    batch: int = 1

    def __len__(self) -> int:
        return len(self.m) * len(self.n) * len(self.k)

    def __iter__(self) -> Iterator[MatmulShape]:
        for m in self.m:
            for n in self.n:
                for k in self.k:
                    yield MatmulShape(m, n, k, self.batch)

    def at(self, place: int) -> MatmulShape:
        """The place-th shape of the iteration, without iterating."""
        place, k = divmod(place, len(self.k))
        m, n = divmod(place, len(self.n))
        return MatmulShape(self.m[m], self.n[n], self.k[k], self.batch)

    def neighbours(self, shape: MatmulShape, stride: int) -> List[MatmulShape]:
        """One axis moved by `stride` grid steps, both ways, ends of the axes left out."""
        found = []
        for axis in ("m", "n", "k"):
            values = getattr(self, axis)
            place = values.index(getattr(shape, axis))
            for other in (place - stride, place + stride):
                if 0 <= other < len(values):
                    moved = {"m": shape.m, "n": shape.n, "k": shape.k, axis: values[other]}
                    found.append(MatmulShape(moved["m"], moved["n"], moved["k"], shape.batch))
        return found


def axis_range(start: int, stop: int, step: int) -> Tuple[int, ...]:
    """start, start+step … below stop (stop itself is left out, as in Python's range); 0 becomes one step."""
    if step <= 0 or stop <= start or start < 0:
        raise ValueError(f"range {start} {stop} {step} holds no size: give START STOP STEP with STOP above START")
    sizes = len(range(start, stop, step))
    if sizes > MOST_AXIS_SIZES:
        raise ValueError(f"range {start} {stop} {step} holds {sizes:,} sizes, more than {MOST_AXIS_SIZES:,}: take a larger step")
    return tuple(sorted({max(value, 1) if value else step for value in range(start, stop, step)}))


def read_shapes(path: str) -> List[MatmulShape]:
    """A shape a line, as MxNxK or with commas or spaces, `#` before remarks; ValueError names the line."""
    found: List[MatmulShape] = []
    with open(path, encoding="utf-8-sig") as file:  # spreadsheets begin theirs with a byte-order mark
        for number, line in enumerate(file, 1):
            words = line.partition("#")[0].replace(",", " ").lower().replace("x", " ").split()
            try:
                found += [parse_shape("x".join(words))] if words else []
            except ValueError as error:
                raise ValueError(f"{path}:{number}: {error}") from None
    return found


def parse_shape(text: str) -> MatmulShape:
    """`4096x4096x8192` (M, N, K), also with commas."""
    found = re.match(r"^\s*(\d+)[x,](\d+)[x,](\d+)\s*$", text.lower())
    if not found or not all(int(part) for part in found.groups()):
        raise ValueError(f"{text!r} is not a shape; write MxNxK such as 4096x4096x8192")
    return MatmulShape(*(int(part) for part in found.groups()))


def tile_efficiency(m: int, n: int, units: int, tile: Tuple[int, int], batch: int = 1) -> float:
    """Useful share of the work when tiles run in waves over the units: edges and the last wave cost."""
    rows, columns = -(-m // tile[0]), -(-n // tile[1])
    tiles = rows * columns * batch
    padded = rows * tile[0] * columns * tile[1]
    waves = -(-tiles // units)
    return m * n / padded * tiles / (units * waves)


def wave_score(shape: MatmulShape, units: int) -> float:
    """The best tile's efficiency: 1 means that some common tile fills every wave."""
    return max(tile_efficiency(shape.m, shape.n, units, tile, shape.batch) for tile in COMMON_TILES)


@dataclass(frozen=True)
class ShapeLimits:
    """What a candidate must keep: work per call, flop per byte, and bytes for one set of operands."""

    flop_low: float
    flop_high: float
    intensity_low: float
    bytes_high: float
    in_bytes: int
    out_bytes: int

    def admits(self, shape: MatmulShape) -> bool:
        return (self.flop_low <= shape.flop <= self.flop_high
                and shape.touched_bytes(self.in_bytes, self.out_bytes) <= self.bytes_high
                and shape.intensity(self.in_bytes, self.out_bytes) >= self.intensity_low)


def default_grid(longest_flop: float, batch: int = 1) -> ShapeGrid:
    """Axes for a device that does `longest_flop` in the longest call worth looking at.

    The longest side is that of a flat product (a quarter of the cube's side deep), up to 20,480 in steps
    of 256; slow devices get short axes with steps of 64.
    """
    side = (longest_flop / batch / 2) ** (1 / 3)
    step = 256 if side >= 4096 else 128 if side >= 1536 else 64
    most = int(min(20480, max(8 * step, 2 * side)) // step * step)
    axis = tuple(range(step * 2, most + 1, step))
    return ShapeGrid(axis, axis, axis, batch)


def draw_candidates(grid: ShapeGrid, limits: ShapeLimits, units: Optional[int], count: int,
                    chance: random.Random) -> List[MatmulShape]:
    """Up to `count` shapes in random order: half that the wave model likes, half without asking it.

    Strata by work per call (equal numbers from each factor of two) keep small and large products in.
    Where the grid has no more shapes than asked for, all admitted ones are returned.
    """
    if len(grid) <= 4 * count:
        pool = [shape for shape in grid if limits.admits(shape)]
        chance.shuffle(pool)
    else:
        pool = list(_draw_admitted(grid, limits, 12 * count, chance))
    if len(pool) <= count:
        return pool
    liked = [shape for shape in pool if units and wave_score(shape, units) >= GOOD_WAVE]
    chosen = _spread_over_work(liked, count // 2)
    taken = set(chosen)
    chosen += _spread_over_work([shape for shape in pool if shape not in taken], count - len(chosen))
    chance.shuffle(chosen)
    return chosen


def _draw_admitted(grid: ShapeGrid, limits: ShapeLimits, wanted: int, chance: random.Random) -> Iterable[MatmulShape]:
    seen: Dict[int, None] = {}
    for _ in range(60 * wanted):
        place = chance.randrange(len(grid))
        if place not in seen:
            seen[place] = None
            shape = grid.at(place)
            if limits.admits(shape):
                yield shape
                wanted -= 1
                if not wanted:
                    return


def _spread_over_work(shapes: Sequence[MatmulShape], count: int) -> List[MatmulShape]:
    """Round robin over the powers of two of the work, first come first taken inside each."""
    strata: Dict[int, List[MatmulShape]] = {}
    for shape in shapes:
        strata.setdefault(shape.flop.bit_length(), []).append(shape)
    chosen: List[MatmulShape] = []
    depth = 0
    while len(chosen) < count and any(depth < len(members) for members in strata.values()):
        for _, members in sorted(strata.items()):
            if depth < len(members) and len(chosen) < count:
                chosen.append(members[depth])
        depth += 1
    return chosen
