"""How a layer is laid over a GPU: who owns which units, for which rows, with the weights where.

All blocks of a launch must be on the GPU at once, one on each multiprocessor, since they wait for one another. A block
owns `own` units of a group of `rows` rows. What a step costs is estimated for every shape that fits, and the cheapest
is taken. On an H200 a step takes, in microseconds,

    0.9 until all blocks have met  +  0.6 for the first load after that  +  0.4 for the gates
    + the larger of  h read / 0.127  and  (weights read + h written and read) / 0.253 of shared memory, in megabytes

Within 15 % of what is measured where latency rules, 25 to 30 % below it from 1,000 units on (docs/gpu.md).

Every step of a layer-norm LSTM has two more exchanges than a plain LSTM's, whatever the shape. So its cheapest shape is
the one whose product is cheapest: its h read from the second cache, or its weights and h in shared memory, whichever
takes longer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
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
_NORM_FORWARD = {(16, 16): 5, (16, 32): 4, (16, 64): 2, (32, 16): 5, (32, 32): 5, (32, 64): 2}
_NORM_BACKWARD = {(16, 16): 5, (16, 32): 4, (16, 64): 1, (32, 16): 5, (32, 32): 4, (32, 64): 2}
"""The same of the layer-norm programs, by units and rows of a block."""

_BEFORE_WARPS, _PIECE = 8, 64
_BEFORE_KEPT = {16: 112, 32: 40, 64: 24}
"""Registers of a thread for weights where a GRU resets before its product, by the rows of a block, whose sums need
registers too; ptxas tells what spills."""
_MORE = 2
"""So many pieces more, where shared memory is short."""
_L2_OF_ALL, _PRODUCTS = 5.5e6, 2.4e6
"""A microsecond's bytes from the second cache to all multiprocessors, and sums of products of one (docs/gpu.md)."""

Family = Literal["wide", "narrow", "before"]


@dataclass(frozen=True)
class BlockTiling:
    """One program's shape; `chunk`, `buffers`, `in_registers` are the wide family's alone.

    `in_shared`: so many pieces of U_r, U_z and U_n are in shared memory, where a GRU resets before its product.
    """

    family: Family
    own: int
    rows: int
    warps: int
    chunk: int = 0
    buffers: int = 0
    in_registers: int = 0
    in_shared: tuple[int, int, int] = (0, 0, 0)


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

    def ways(columns: int, back: bool) -> Iterator[tuple[float, BlockTiling]]:
        for tiling in (*_narrow(columns, back), *(_wide(rows, columns, back, busy) if wide else ())):
            yield _cost(tiling, rows, columns, back), tiling

    both = sorted({_filled(units, _COLUMNS), _filled(units, 2 * _COLUMNS)})
    return min((_lay_over(rows, columns, processors, ways) for columns in both), key=lambda way: way[0])[1]


@lru_cache(maxsize=1024)
def norm_geometry(rows: int, units: int, processors: int, *, peephole: bool = False) -> Geometry | None:
    """The same of a layer-norm LSTM: the shapes of the wide programs, with room for gains and sums."""

    def ways(columns: int, back: bool) -> Iterator[tuple[float, BlockTiling]]:
        for tiling in _normed(rows, columns, back, peephole):
            yield _product_cost(tiling, columns), tiling

    return _lay_over(rows, _filled(units, _COLUMNS), processors, ways)[1]


@lru_cache(maxsize=1024)
def before_geometry(rows: int, units: int, processors: int, shared: int = SHARED_BYTES) -> Geometry | None:
    """The same of a GRU that resets before its product. `shared`: bytes of shared memory that a block can have."""

    def ways(columns: int, back: bool) -> Iterator[tuple[float, BlockTiling]]:
        for tiling in _before(rows, columns, shared):
            yield _before_cost(tiling, rows, columns), tiling

    return _lay_over(rows, _filled(units, _COLUMNS), processors, ways)[1]


def _lay_over(
    rows: int, columns: int, processors: int, ways: Callable[[int, bool], Iterator[tuple[float, BlockTiling]]]
) -> tuple[float, Geometry | None]:
    """What a step costs, and the cheapest of all ways in each direction; infinity and None where one has none."""
    cheapest = []
    for back in (False, True):
        fitting = [
            (cost, tiling)
            for cost, tiling in ways(columns, back)
            if columns // tiling.own * -(-rows // tiling.rows) <= processors
        ]
        if not fitting:
            return math.inf, None
        cheapest.append(min(fitting, key=lambda way: way[0]))
    (cost, forward), (more, backward) = cheapest
    over = Geometry(_filled(rows, max(forward.rows, backward.rows)), columns, forward, backward)
    fits = max(over.blocks(forward), over.blocks(backward)) <= processors
    return (cost + more, over) if fits else (math.inf, None)


def shared_bytes(tiling: BlockTiling, units: int, *, back: bool) -> int:
    """The shared memory of a wide block: weights that are not in registers, chunks on their way, and forward the room
    in which four gates are brought from the product's order into that of the units."""
    rest = units // tiling.chunk - tiling.in_registers
    chunks = rest * 4 * tiling.own + tiling.buffers * tiling.rows
    return 2 * tiling.chunk * chunks + (0 if back else 16 * tiling.own * tiling.rows)


def norm_shared_bytes(tiling: BlockTiling, units: int, *, back: bool, peephole: bool) -> int:
    """That of a layer-norm block: as a wide one, nine numbers a unit, and backward the sums over steps."""
    sums = (9 if peephole else 6) * 4 * tiling.own * tiling.rows
    return shared_bytes(tiling, units, back=back) + 36 * tiling.own + (sums if back else 0)


def before_shared_bytes(tiling: BlockTiling) -> int:
    """That of a block of a GRU that resets before its product: pieces of weights, and room for each warp's sums."""
    return _before_weights(tiling) + 4 * _BEFORE_WARPS * tiling.rows * tiling.own


def _before_weights(tiling: BlockTiling) -> int:
    return 2 * _BEFORE_WARPS * _PIECE * tiling.own * sum(tiling.in_shared)


def _filled(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _cost(tiling: BlockTiling, rows: int, units: int, back: bool) -> float:
    """Microseconds of a step."""
    once = _MEETING + _FIRST_LOAD + _GATES
    if tiling.family == "narrow":
        read = 2 * tiling.rows * units
        blocks = units // tiling.own * -(-rows // tiling.rows)
        return once + (4 * read / _L2 + _READERS * blocks + _UNITS * tiling.own if back else read / _L2)
    # backward, four blocks exchange their sums as well
    again = _MEETING + _FIRST_LOAD if back else 0.0
    more = _WIDE + (_EIGHT_WARPS if tiling.warps == 8 else 0.0)
    return once + again + more + _product_cost(tiling, units)


def _product_cost(tiling: BlockTiling, units: int) -> float:
    """Microseconds of a step's product in a wide block."""
    read = 2 * tiling.rows * units
    weights = 2 * 4 * tiling.own * (units - tiling.chunk * tiling.in_registers)
    return max(read / _L2, (weights + 2 * read) / _SHARED_RATE)


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
            most = _IN_REGISTERS[height] - (1 if back and (busy or height == 64) else 0)
            bare = BlockTiling("wide", own, height, warps, _COLUMNS, 0, min(units // _COLUMNS, most))
            yield from _buffered(bare, units, shared_bytes(bare, units, back=back))


def _normed(rows: int, units: int, back: bool, peephole: bool) -> Iterator[BlockTiling]:
    for (own, height), most in (_NORM_BACKWARD if back else _NORM_FORWARD).items():
        if height > 16 and height >= 2 * rows:
            continue
        for chunk in (_COLUMNS, _COLUMNS // 2):  # smaller chunks where two whole ones are too many
            in_registers = min(units // chunk, most * _COLUMNS // chunk)
            bare = BlockTiling("wide", own, height, own // 4, chunk, 0, in_registers)
            tilings = [*_buffered(bare, units, norm_shared_bytes(bare, units, back=back, peephole=peephole))]
            if tilings:
                yield from tilings
                break


def _before(rows: int, units: int, shared: int) -> Iterator[BlockTiling]:
    pieces, rest = divmod(units // _BEFORE_WARPS, _PIECE)
    for own in (16, 32):
        for height, kept in _BEFORE_KEPT.items():
            if height > 16 and height >= 2 * rows:
                continue
            in_registers = min(3 * pieces, max(0, kept - 3 * rest * own // _PIECE) // own)
            # where shared memory is too small for the rest, more in registers is better than no program
            for more in range(in_registers, min(3 * pieces, in_registers + _MORE) + 1):
                in_shared = _in_shared(3 * pieces - more, pieces)
                tiling = BlockTiling("before", own, height, _BEFORE_WARPS, in_shared=in_shared)
                if before_shared_bytes(tiling) <= shared:
                    yield tiling
                    break


def _in_shared(number: int, pieces: int) -> tuple[int, int, int]:
    """So many pieces of U_r, U_z, U_n: of U_z first, since nobody waits for its product."""
    of_z = min(number, pieces)
    of_n = min(number - of_z, pieces)
    return number - of_z - of_n, of_z, of_n


def _before_cost(tiling: BlockTiling, rows: int, units: int) -> float:
    """What a step takes beside its meetings, in microseconds: three gathers and three products."""
    gathered = 2 * tiling.rows * units
    blocks = units // tiling.own * -(-rows // tiling.rows)
    loads = max(3 * gathered / _L2, 3 * gathered * blocks / _L2_OF_ALL)
    products = 3 * tiling.rows * tiling.own * units
    return loads + _before_weights(tiling) / _SHARED_RATE + products / _PRODUCTS


def _buffered(bare: BlockTiling, units: int, taken: int) -> Iterator[BlockTiling]:
    """A tiling with as many buffers as fit beside the bytes that are taken; none where these are too few."""
    chunks = units // bare.chunk
    buffers = min(chunks, (SHARED_BYTES - 1024 - taken) // (2 * bare.chunk * bare.rows))
    if buffers >= min(chunks, 2):
        yield replace(bare, buffers=buffers)
