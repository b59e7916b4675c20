"""How a layer is laid over a GPU: who owns which units, for which rows, with the weights where.

All blocks of a launch must be on the GPU at once, one on each multiprocessor, since they wait for one another. A block
owns `own` units of a group of `rows` rows. What a step costs is estimated for every shape that fits, and the cheapest
is taken. On an H200 a step takes, in microseconds,

    0.9 until all blocks have met  +  0.6 for the first load after that  +  0.4 for the gates
    + the larger of  h read / 0.127  and  (weights read + h written and read) / 0.253 of shared memory, in megabytes

Within 15 % of what is measured where latency rules, 25 to 30 % below it from 1,000 units on (docs/gpu.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

SHARED_BYTES = 227 * 1024
"""Shared memory that a block can have on a processor of Hopper's kind."""
_COLUMNS = 128
"""Units are filled up to a multiple of this: the chunks of the wide programs."""
_MOST_NARROW = 768
_FRAGMENTS = 192
"""Registers of a thread for weights and what they are multiplied with; ptxas tells what spills."""
_MEETING, _FIRST_LOAD, _GATES = 0.9, 0.6, 0.4
_L2, _SHARED_RATE = 0.127e6, 0.253e6  # bytes a microsecond, of one multiprocessor
_WIDE, _EIGHT_WARPS, _READERS, _UNITS = 0.2, 0.2, 0.002, 0.006
"""More for a wide program, for one of eight warps, and for every block that reads all gates' gradients and every unit
that it owns."""

_IN_REGISTERS = {16: 5, 32: 5, 64: 2}
"""Forward, so many chunks of 128 columns fit beside the rest, by the rows of a block; ptxas tells what spills."""

Family = Literal["wide", "narrow"]


@dataclass(frozen=True)
class BlockTiling:
    """One program's shape; `chunk`, `buffers`, `in_registers` are the wide family's alone."""

    family: Family
    own: int
    rows: int
    warps: int
    chunk: int = 0
    buffers: int = 0
    in_registers: int = 0


@dataclass(frozen=True)
class Geometry:
    """Rows and units filled up, and the shapes of both directions."""

    rows: int
    units: int
    forward: BlockTiling
    backward: BlockTiling

    def blocks(self, tiling: BlockTiling) -> int:
        return self.units // tiling.own * (self.rows // tiling.rows)


@lru_cache(maxsize=1024)
def geometry(rows: int, units: int, processors: int, *, busy: bool = False, wide: bool = True) -> Geometry | None:
    """The cheapest shapes for a batch of `rows` and a layer of `units`; None where none fits.

    `busy`: more registers are needed for other things (peepholes, marks, masks). `wide`: whether the GPU can run the
    wide programs.
    """
    best: tuple[float, Geometry] | None = None
    for columns in sorted({_filled(units, _COLUMNS), _filled(units, 2 * _COLUMNS)}):
        there = _cheapest(rows, columns, processors, back=False, busy=busy, wide=wide)
        back = _cheapest(rows, columns, processors, back=True, busy=busy, wide=wide)
        if there is None or back is None:
            continue
        (cost, forward), (more, backward) = there, back
        made = Geometry(_filled(rows, max(forward.rows, backward.rows)), columns, forward, backward)
        fits = max(made.blocks(forward), made.blocks(backward)) <= processors
        if fits and (best is None or cost + more < best[0]):
            best = cost + more, made
    return None if best is None else best[1]


def shared_bytes(tiling: BlockTiling, units: int, *, back: bool) -> int:
    """The shared memory of a wide block: weights that are not in registers, chunks on their way, and forward the room
    in which four gates are brought from the product's order into that of the units."""
    rest = units // tiling.chunk - tiling.in_registers
    chunks = rest * 4 * tiling.own + tiling.buffers * tiling.rows
    return 2 * tiling.chunk * chunks + (0 if back else 16 * tiling.own * tiling.rows)


def _filled(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _cheapest(
    rows: int, units: int, processors: int, *, back: bool, busy: bool, wide: bool
) -> tuple[float, BlockTiling] | None:
    fitting = [
        (_cost(tiling, rows, units, back), tiling)
        for tiling in (*_narrow(units, back), *(_wide(rows, units, back, busy) if wide else ()))
        if units // tiling.own * -(-rows // tiling.rows) <= processors
    ]
    return min(fitting, key=lambda way: way[0], default=None)


def _cost(tiling: BlockTiling, rows: int, units: int, back: bool) -> float:
    """Microseconds of a step."""
    once = _MEETING + _FIRST_LOAD + _GATES
    read = 2 * tiling.rows * units
    if tiling.family == "narrow":
        blocks = units // tiling.own * -(-rows // tiling.rows)
        return once + (4 * read / _L2 + _READERS * blocks + _UNITS * tiling.own if back else read / _L2)
    kept = 2 * 4 * tiling.own * (units - tiling.chunk * tiling.in_registers)
    # backward, four blocks exchange their sums as well
    again = _MEETING + _FIRST_LOAD if back else 0.0
    more = _WIDE + (_EIGHT_WARPS if tiling.warps == 8 else 0.0)
    return once + again + more + max(read / _L2, (kept + 2 * read) / _SHARED_RATE)


def _narrow(units: int, back: bool) -> Iterator[BlockTiling]:
    if units > _MOST_NARROW or units % (2 * _COLUMNS):
        return
    for own in (8, 16, 32) if back else (8, 16):
        warps = 8 if back else 4
        fragments = own * units // (16 * warps) + units * (4 if back else 1) // (4 * warps)  # registers of a thread
        if fragments <= _FRAGMENTS:
            yield BlockTiling("narrow", own, 16, warps)


def _wide(rows: int, units: int, back: bool, busy: bool) -> Iterator[BlockTiling]:
    for own, warps in ((16, 4), (32, 8)):
        for height in (16, 32, 64):
            if height > 16 and height >= 2 * rows:
                continue
            chunk, chunks = _COLUMNS, units // _COLUMNS
            most = _IN_REGISTERS[height] - (1 if back and (busy or height == 64) else 0)
            in_registers = min(chunks, most)
            bare = BlockTiling("wide", own, height, warps, chunk, 0, in_registers)
            room = SHARED_BYTES - 1024 - shared_bytes(bare, units, back=back)
            buffers = min(chunks, room // (2 * chunk * height))
            if buffers >= min(chunks, 2):
                yield BlockTiling("wide", own, height, warps, chunk, buffers, in_registers)
