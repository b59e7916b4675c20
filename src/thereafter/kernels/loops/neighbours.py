"""A matrix W packed for the product a W' of a cell of one gate, as panels of neighbouring units.

`recurrence.columns_product` then adds a W' to the pre-activations. The gates of larger cells lie in one panel instead
(`recurrence.pack_gates`), and a single gate would fill a quarter of it.

Shapes: H units, K columns of a matrix W [H, K], L numbers in a vector.
"""

from __future__ import annotations

from thereafter.compiled import jit
from thereafter.kernels.arrays import Floats, Whole
from thereafter.kernels.loops.recurrence import lanes_of, panel_of, panels_of
from thereafter.kernels.loops.team import PACKED, PANELS, claim, share, wait_for
from thereafter.kernels.loops.tiles import turn


@jit()
def pack_turned(weight_HK: Floats, packed: Floats, first: int, last: int, packer: int, packers: int) -> None:
    """W' of the units `first` to `last`: panels [K, up to 4, L] of neighbouring units, zeros beyond the last. Of these
    panels this is the share of one packer."""
    units, depth = weight_HK.shape
    lanes, size, line = lanes_of(weight_HK), weight_HK.itemsize, weight_HK.strides[0]
    begin, end = share(panels_of(first, last, lanes), packer, packers)
    for index in range(begin, end):
        unit, vectors = panel_of(first, last, lanes, index)
        panel, row = packed[unit * depth :], vectors * lanes
        for place in range(0, row, lanes):
            whole = depth // lanes * lanes if unit + place + lanes <= units else 0
            source, to = weight_HK.ctypes.data + (unit + place) * line, panel.ctypes.data + place * size
            for k in range(0, whole, lanes):
                turn(packed, source + k * size, line, to + k * row * size, row * size)
            for k in range(whole, depth):
                for j in range(place, place + lanes):
                    panel[k * row + j] = weight_HK[unit + j, k] if unit + j < units else 0


@jit()
def pack_all_turned(task: Whole, weight_HK: Floats, packed: Floats, other_HI: Floats, other: Floats) -> None:
    """`pack_turned` of all units of two matrices by all threads together; the second may have no rows."""
    lanes = lanes_of(weight_HK)
    panels, more = panels_of(0, len(weight_HK), lanes), panels_of(0, len(other_HI), lanes)
    panel = claim(task, PANELS)
    while panel < panels + more:
        if panel < panels:
            pack_turned(weight_HK, packed, 0, len(weight_HK), panel, panels)
        else:
            pack_turned(other_HI, other, 0, len(other_HI), panel - panels, more)
        claim(task, PACKED)
        panel = claim(task, PANELS)
    wait_for(task, PACKED, panels + more)
