"""The tile of a matrix product that the processor's registers and its first cache have room for.

A tile of R rows and V vectors keeps R V sums in registers, beside V vectors of the matrix and one number of a row,
spread out: R V + V + 1 of them at most. Each of its R V products takes (R + V) / (R V) loads:

| registers | a panel of 4 vectors as | rows | sums | loads a product |
|---|---|---|---|---|
| 32 (AVX-512, ARM) | 4 | 6 | 24 | 0.42 |
| 16 (AVX2, SSE) | 2 and 2 | 6 | 12 | 0.67 |
| 16 (AVX2, SSE) | 4 | 2 | 8 | 0.75 |

Eight sums are too few to hide how long a product takes: code for AVX2 made 66 billion operations a second with two
tiles of two vectors, 57 with one of four (one core of an Intel Xeon, 2026-11-17).

A panel of a matrix, up to four vectors wide, is gone through in parts of `depth` rows, which stay in the first cache
while all rows of the batch are multiplied by them. A part fills that cache: with half of it products are 5 % slower
where vectors are 64 bytes long (sums are read and written twice as often), with twice as much no faster.

`THEREAFTER_VECTORS=16x32` (bytes of a vector x registers) takes the place of what was found: other machines' code can
be run, and timed, on this one. Machine code of different figures is kept apart.
"""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from functools import cache

from thereafter.base.packages import installed, require
from thereafter.base.processor import processor
from thereafter.errors import OptionError

PANEL = 4  # vectors of a panel at most: an LSTM's gates
VARIABLE = "THEREAFTER_VECTORS"
_MOST_ROWS = 6  # each height is code of its own
_DEPTHS = 64, 512  # rows of a part of a panel, fewest and most
_TRY = f"try {VARIABLE}=16x32 (ARM), 32x16 (AVX2) or 64x32 (AVX-512)"


@dataclass(frozen=True)
class Vectors:
    """The bytes of a vector register and how many there are; `source`: where that was read."""

    bytes: int
    registers: int
    source: str = ""

    @classmethod
    def from_text(cls, text: str) -> Vectors:
        """From "16x32"."""
        parts = re.fullmatch(r"(\d{1,3})x(\d{1,3})", text.strip())
        size, registers = (int(part) for part in parts.groups()) if parts else (0, 0)
        if size not in (16, 32, 64) or not 8 <= registers <= 64:
            raise OptionError(
                f"{VARIABLE} is {text!r}; expected bytes of a vector (16, 32 or 64) x registers (8 to 64); {_TRY}"
            )
        return cls(size, registers, VARIABLE)


@dataclass(frozen=True)
class Tiling:
    """What is settled when the loops are compiled: vectors, and `depth`, rows of a panel at a time."""

    vectors: Vectors
    depth: int

    def width(self, panel: int) -> int:
        """Vectors of a tile in a panel of so many: all of them, or half where they would leave too few rows."""
        return panel if self.most_rows(panel) >= _MOST_ROWS // 2 or panel % 2 else panel // 2

    def rows(self, panel: int) -> int:
        """Rows of a tile in a panel of so many vectors."""
        return self.most_rows(self.width(panel))

    def most_rows(self, vectors: int) -> int:
        """Rows of a tile of so many vectors."""
        return max(1, min(_MOST_ROWS, (self.vectors.registers - vectors - 1) // vectors))

    @property
    def key(self) -> str:
        """What tells machine code of these figures from that of others."""
        tiles = [f"{self.rows(panel)}x{self.width(panel)}" for panel in range(1, PANEL + 1)]
        return f"{self.vectors.bytes} {self.depth} {' '.join(tiles)}"

    def lines(self) -> dict[str, str]:
        """All of it in words."""
        own = self.vectors
        tiles = f"{self.rows(PANEL)} rows x {self.width(PANEL)} vectors"
        part = self.depth * PANEL * own.bytes >> 10
        return {
            "vectors": f"{own.bytes} bytes, {own.registers} registers (from {own.source})",
            "tiles": f"{tiles}, {self.depth} rows of a panel at a time ({part} KB)",
        }


def tiling_for(vectors: Vectors, level_1: int) -> Tiling:
    """The tiling for such vectors and so many bytes of the first cache."""
    depth = level_1 // (PANEL * vectors.bytes)
    fewest, most = _DEPTHS
    return Tiling(vectors, max(fewest, min(most, depth // _DEPTHS[0] * _DEPTHS[0])))


@cache
def tiling() -> Tiling:
    """This machine's, read once."""
    return tiling_for(vectors(), processor().level_1)


def vectors() -> Vectors:
    """This machine's, or what `THEREAFTER_VECTORS` says."""
    named = os.environ.get(VARIABLE)
    return Vectors.from_text(named) if named else read_vectors(platform.machine(), _features())


def read_vectors(machine: str, features: dict[str, bool]) -> Vectors:
    """By the architecture, and by what LLVM says of an x86 processor: code is compiled for that."""
    if machine.lower() in ("aarch64", "arm64"):
        return Vectors(16, 32, machine)
    if features.get("avx512f"):
        return Vectors(64, 32, "LLVM: AVX-512")
    if features.get("avx"):
        return Vectors(32, 16, "LLVM: AVX")
    return Vectors(16, 16, "LLVM: SSE" if features else "nowhere: the fewest are assumed")


def _features() -> dict[str, bool]:
    if not installed("llvmlite"):
        return {}
    try:
        features: dict[str, bool] = require("llvmlite.binding", "a compiled loop").get_host_cpu_features()
    except RuntimeError:  # a processor that LLVM cannot ask
        return {}
    return features
