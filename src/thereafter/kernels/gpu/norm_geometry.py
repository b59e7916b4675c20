"""How a layer-norm LSTM is laid over a GPU: the shapes of the wide programs, with room for gains and sums.

Every step has two more exchanges than a plain LSTM's, whatever the shape. So the cheapest shape is the one whose
product is cheapest: its h read from the second cache, or its weights and h in shared memory, whichever takes longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from thereafter.kernels.gpu.geometry import SHARED_BYTES, BlockTiling, Geometry, shared_bytes

_COLUMNS = 128
_L2, _SHARED_RATE = 0.127e6, 0.253e6  # bytes a microsecond, of one multiprocessor
_FORWARD = {(16, 16): 5, (16, 32): 4, (16, 64): 2, (32, 16): 5, (32, 32): 5, (32, 64): 2}
_BACKWARD = {(16, 16): 5, (16, 32): 4, (16, 64): 1, (32, 16): 5, (32, 32): 4, (32, 64): 2}
"""So many chunks of 128 columns fit into registers, by units and rows of a block; ptxas tells what spills."""


@lru_cache(maxsize=1024)
def norm_geometry(rows: int, units: int, processors: int, *, peephole: bool = False) -> Geometry | None:
    """The cheapest shapes for a batch of `rows` and a layer of `units`; None where none fits."""
    columns = _filled(units, _COLUMNS)
    chosen = []
    for back in (False, True):
        fitting = [
            tiling
            for tiling in _tilings(rows, columns, back=back, peephole=peephole)
            if columns // tiling.own * -(-rows // tiling.rows) <= processors
        ]
        if not fitting:
            return None
        chosen.append(min(fitting, key=lambda tiling: _cost(tiling, columns)))
    forward, backward = chosen
    made = Geometry(_filled(rows, max(forward.rows, backward.rows)), columns, forward, backward)
    return made if max(made.blocks(forward), made.blocks(backward)) <= processors else None


def norm_shared_bytes(tiling: BlockTiling, units: int, *, back: bool, peephole: bool) -> int:
    """The shared memory of a block: as a wide one, nine numbers a unit, and backward the sums over steps."""
    sums = (9 if peephole else 6) * 4 * tiling.own * tiling.rows
    return shared_bytes(tiling, units, back=back) + 36 * tiling.own + (sums if back else 0)


def _filled(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _cost(tiling: BlockTiling, units: int) -> float:
    """Microseconds of a step's product."""
    read = 2 * tiling.rows * units
    kept = 2 * 4 * tiling.own * (units - tiling.chunk * tiling.in_registers)
    return max(read / _L2, (kept + 2 * read) / _SHARED_RATE)


def _tilings(rows: int, units: int, *, back: bool, peephole: bool) -> Iterator[BlockTiling]:
    for (own, height), most in (_BACKWARD if back else _FORWARD).items():
        if height > 16 and height >= 2 * rows:
            continue
        for chunk in (_COLUMNS, _COLUMNS // 2):  # smaller chunks where two whole ones are too many
            chunks = units // chunk
            bare = BlockTiling("wide", own, height, own // 4, chunk, 0, min(chunks, most * _COLUMNS // chunk))
            room = SHARED_BYTES - 1024 - norm_shared_bytes(bare, units, back=back, peephole=peephole)
            buffers = min(chunks, room // (2 * chunk * height))
            if buffers >= min(chunks, 2):
                yield replace(bare, buffers=buffers)
                break
