"""The recurrent products of a sequence, C += A B with the same B at every step, shared by the threads of a team.

Forward a thread owns units: of h U' it makes the columns of its units in every gate. Backward it owns columns of dz U.
In both cases it packs its part of U once (`tiles` says how), and what it makes is what it goes on with: the threads
meet once a step.

Shapes: B rows, H units, G gate units, L numbers in a vector.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thereafter.compiled import jit
from thereafter.kernels.loops.team import PRODUCT, share
from thereafter.kernels.loops.tiles import LANES32, LANES64, MOST_VECTORS, multiply

_DEEP = 64  # rows of a panel that are packed together: they and what they come from fit the first cache


@jit()
def lanes_of(array: Any) -> int:
    """Numbers in a vector."""
    return LANES64 if array.itemsize == 8 else LANES32


@jit()
def own_units(units: int, lanes: int, number: int, size: int) -> tuple[int, int]:
    """The units of thread `number` of `size`: whole vectors, but for the last."""
    first, last = share((units + lanes - 1) // lanes, number, size)
    return min(units, first * lanes), min(units, last * lanes)


@jit()
def pack_gates(weight: Any, packed: Any, first: int, last: int) -> None:
    """U [G, H] for `gates_product`: panels [H, gates, L] of one vector of units each, zeros beyond the last unit."""
    width, units = weight.shape
    lanes, vectors = lanes_of(weight), width // units
    for unit in range(first, last, lanes):
        panel = packed[unit * vectors * units :]
        for start in range(0, units, _DEEP):
            stop = min(units, start + _DEEP)
            for v in range(vectors):
                for lane in range(lanes):
                    at = v * lanes + lane
                    if unit + lane < units:
                        row = weight[v * units + unit + lane]
                        for k in range(start, stop):
                            panel[k * vectors * lanes + at] = row[k]
                    else:
                        for k in range(start, stop):
                            panel[k * vectors * lanes + at] = 0


@jit()
def gates_product(task: Any, h_BH: Any, packed: Any, z_BG: Any, first: int, last: int, spare: Any) -> None:
    """z[:, own units of every gate] += h U'."""
    rows, units = h_BH.shape
    width, lanes, size = z_BG.shape[1], lanes_of(z_BG), z_BG.itemsize
    vectors = width // units
    h, z, panels, room = h_BH.ctypes.data, z_BG.ctypes.data, packed.ctypes.data, spare.ctypes.data
    for unit in range(first, last, lanes):
        panel = panels + unit * width * size
        ahead = panels + (unit + lanes if unit + lanes < last else first) * width * size
        if unit + lanes <= units:
            to, row, vector = z + unit * size, width * size, units * size
        else:  # the last vector is not whole: it is made in spare room
            to, row, vector = room, vectors * lanes * size, lanes * size
            _copy_vectors(z_BG, unit, units, spare, lanes, True)
        multiply(task[PRODUCT], vectors, rows, units, h, units * size, panel, to, row, vector, ahead)
        if unit + lanes > units:
            _copy_vectors(z_BG, unit, units, spare, lanes, False)


@jit()
def pack_columns(weight: Any, packed: Any, first: int, last: int) -> None:
    """U [G, H] for `columns_product`: panels [G, up to 4, L] of neighbouring columns, zeros beyond the last."""
    width, units = weight.shape
    lanes = lanes_of(weight)
    for column in range(first, last, MOST_VECTORS * lanes):
        own = min(MOST_VECTORS, (last - column + lanes - 1) // lanes) * lanes
        here = min(own, units - column)
        panel = packed[column * width :]
        for k in range(width):
            row = weight[k, column:]
            for j in range(here):
                panel[k * own + j] = row[j]
            for j in range(here, own):
                panel[k * own + j] = 0


@jit()
def columns_product(task: Any, dz_BG: Any, packed: Any, dh_BH: Any, first: int, last: int, spare: Any) -> None:
    """dh[:, own columns] += dz U."""
    rows, width = dz_BG.shape
    units, lanes, size = dh_BH.shape[1], lanes_of(dh_BH), dh_BH.itemsize
    dz, dh, panels, room = dz_BG.ctypes.data, dh_BH.ctypes.data, packed.ctypes.data, spare.ctypes.data
    for column in range(first, last, MOST_VECTORS * lanes):
        vectors = min(MOST_VECTORS, (last - column + lanes - 1) // lanes)
        end = column + vectors * lanes
        panel = panels + column * width * size
        ahead = panels + (end if end < last else first) * width * size
        if end <= units:
            to, row = dh + column * size, units * size
        else:
            to, row = room, vectors * lanes * size
            _copy_vectors(dh_BH, column, units, spare, vectors * lanes, True)
        multiply(task[PRODUCT], vectors, rows, width, dz, width * size, panel, to, row, lanes * size, ahead)
        if end > units:
            _copy_vectors(dh_BH, column, units, spare, vectors * lanes, False)


@jit()
def _copy_vectors(c: Any, unit: int, units: int, spare: Any, room: int, out: bool) -> None:
    """Between the units from `unit` on of every gate of C and `spare` [B, gates, room], where vectors are whole."""
    gates = c.shape[1] // units
    for b in range(c.shape[0]):
        for gate in range(gates):
            outside = c[b, gate * units + unit : (gate + 1) * units]
            inside = spare[(b * gates + gate) * room :]
            for j in range(len(outside)):
                if out:
                    inside[j] = outside[j]
                else:
                    outside[j] = inside[j]


def packed_size(width: int, units: int, itemsize: int) -> int:
    """Numbers that either packing of U [G, H] takes."""
    lanes = LANES64 if itemsize == 8 else LANES32
    return int(np.ceil(units / lanes)) * lanes * width


def spare_size(rows: int, itemsize: int) -> int:
    """Numbers of the room that one thread needs for its last, shorter vectors."""
    return rows * MOST_VECTORS * (LANES64 if itemsize == 8 else LANES32)
