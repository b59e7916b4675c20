"""The recurrent products of a sequence, C += A B with the same B at every step, shared by the threads of a team.

A thread that owns rows makes all of a W', and dz W, for them. One that owns units makes of a W' the columns of its
units in every gate, and of dz W its columns; what it makes is what it goes on with, so that the threads meet once a
step. W is packed once (`tiles` says how). The gates of a cell lie in one panel (`pack_gates`); a single gate would fill
a quarter of it, so for a cell of one gate panels are of neighbouring units (`pack_turned`), and `columns_product` adds
a W' to the pre-activations.

Shapes: B rows, H units, G gate units, K columns of a matrix W [G, K], G = H for one gate, L numbers in a vector.
"""

from __future__ import annotations

from thereafter.base.compiled import jit
from thereafter.kernels.arrays import Floats, Whole
from thereafter.kernels.loops.team import PACKED, PANELS, PRODUCT, claim, share, wait_for
from thereafter.kernels.loops.tiles import LANES32, LANES64, LINE, MOST_VECTORS, copy, fetch, move, multiply, turn


@jit()
def lanes_of(array: Floats) -> int:
    """Numbers in a vector."""
    return LANES64 if array.itemsize == 8 else LANES32


@jit()
def own_units(units: int, lanes: int, number: int, size: int) -> tuple[int, int]:
    """The units of thread `number` of `size`: whole vectors, but for the last."""
    first, last = share((units + lanes - 1) // lanes, number, size)
    return min(units, first * lanes), min(units, last * lanes)


@jit()
def pack_gates(weight_GK: Floats, units: int, packed: Floats, first: int, last: int) -> None:
    """A matrix for `gates_product`: panels [K, gates, L] of one vector of units each, zeros beyond the last unit."""
    width, depth = weight_GK.shape
    lanes, vectors, size = lanes_of(weight_GK), width // units, weight_GK.itemsize
    row = vectors * lanes
    for unit in range(first, last, lanes):
        panel = packed[unit * vectors * depth :]
        whole = depth // lanes * lanes if unit + lanes <= units else 0
        for k in range(0, whole, lanes):
            for v in range(vectors):
                source = weight_GK[v * units + unit].ctypes.data + k * size
                turn(packed, source, weight_GK.strides[0], panel.ctypes.data + (k * row + v * lanes) * size, row * size)
        for k in range(whole, depth):
            for v in range(vectors):
                for lane in range(lanes):
                    there = unit + lane < units
                    panel[k * row + v * lanes + lane] = weight_GK[v * units + unit + lane, k] if there else 0


@jit()
def pack_all_gates(task: Whole, weight_GK: Floats, units: int, packed: Floats) -> None:
    """`pack_gates` of all units by all threads together; no thread waits for one that has claimed nothing."""
    lanes = lanes_of(weight_GK)
    panels = (units + lanes - 1) // lanes
    panel = claim(task, PANELS)
    while panel < panels:
        pack_gates(weight_GK, units, packed, panel * lanes, min(units, (panel + 1) * lanes))
        claim(task, PACKED)
        panel = claim(task, PANELS)
    wait_for(task, PACKED, panels)


@jit()
def gates_product(
    task: Whole,
    t: int,
    a_BK: Floats,
    units: int,
    packed: Floats,
    start_BG: Floats,
    z_BG: Floats,
    first: int,
    last: int,
    spare: Floats,
) -> None:
    """z[:, own units of every gate] = start + a W'; W [G, K] is packed. One row of `start` stands for all; it may be z.

    Panels are taken from the first to the last at one step t and back again at the next: what does not fit into the
    L2 cache is read anew at every step, but the panels used last are still there.
    """
    rows, depth = a_BK.shape
    width, lanes, size = z_BG.shape[1], lanes_of(z_BG), z_BG.itemsize
    vectors = width // units
    deep = depth * vectors * size
    a, z, panels, room = a_BK.ctypes.data, z_BG.ctypes.data, packed.ctypes.data, spare.ctypes.data
    count = (last - first + lanes - 1) // lanes
    for index in range(count):
        unit = first + _panel_at(index, count, t) * lanes
        ahead = panels + (first + _panel_at(min(index + 1, count - 1), count, t) * lanes) * deep
        whole = unit + lanes <= units
        if whole:
            to, row, vector = z + unit * size, z_BG.strides[0], units * size
            start, start_row = start_BG.ctypes.data + unit * size, start_BG.strides[0] if len(start_BG) > 1 else 0
        else:  # the last vector is not whole: it is made in spare room
            to, row, vector = room, vectors * lanes * size, lanes * size
            start, start_row = to, row
            _copy_vectors(start_BG, rows, unit, units, spare, lanes, True)
        multiply(
            task[PRODUCT], vectors, rows, depth, a, a_BK.strides[0], panels + unit * deep, start, start_row, to, row,
            vector, ahead,
        )  # fmt: skip
        if not whole:
            _copy_vectors(z_BG, rows, unit, units, spare, lanes, False)


@jit()
def fetch_row(row: Floats) -> None:
    """Ask for a row at once, part of which another thread has just written: one line after the other would be waited
    for."""
    for place in range(row.ctypes.data, row.ctypes.data + len(row) * row.itemsize, LINE):
        fetch(place)


@jit()
def _panel_at(index: int, count: int, t: int) -> int:
    """The number of the panel that comes `index`-th at step t: in order at even steps, from the last on at odd ones."""
    return index if t % 2 == 0 else count - 1 - index


@jit()
def panels_of(first: int, last: int, lanes: int) -> int:
    """How many panels neighbouring columns make: of nearly equal width, none wider than a tile."""
    return (last - first + MOST_VECTORS * lanes - 1) // (MOST_VECTORS * lanes)


@jit()
def panel_of(first: int, last: int, lanes: int, index: int) -> tuple[int, int]:
    """The first column of a panel, and its vectors."""
    vectors, panels = (last - first + lanes - 1) // lanes, panels_of(first, last, lanes)
    narrow, wide = vectors // panels, vectors % panels  # the first ones are wider by one
    return first + (index * narrow + min(index, wide)) * lanes, narrow + (1 if index < wide else 0)


@jit()
def pack_columns(weight_GK: Floats, packed: Floats, first: int, last: int, packer: int, packers: int) -> None:
    """A matrix for `columns_product` of the columns `first` to `last`: panels [G, up to 4, L] of neighbouring columns,
    zeros beyond the last. Of these panels this is the share of one packer."""
    width, columns = weight_GK.shape
    lanes, size = lanes_of(weight_GK), weight_GK.itemsize
    begin, end = share(panels_of(first, last, lanes), packer, packers)
    for index in range(begin, end):
        column, vectors = panel_of(first, last, lanes, index)
        own = vectors * lanes
        here = min(own, columns - column)
        panel = packed[column * width :]
        source, to = weight_GK.ctypes.data + column * size, panel.ctypes.data
        for k in range(width):
            copy(source + k * weight_GK.strides[0], to + k * own * size, here * size)
            for j in range(here, own):
                panel[k * own + j] = 0


@jit()
def pack_all_columns(
    task: Whole, weight_GK: Floats, packed: Floats, columns: int, other_GK: Floats, other: Floats, columns_other: int
) -> None:
    """`pack_columns` of two matrices by all threads together; the second may have no columns to pack."""
    lanes = lanes_of(weight_GK)
    panels = panels_of(0, columns, lanes)
    more = panels_of(0, columns_other, lanes)
    panel = claim(task, PANELS)
    while panel < panels + more:
        if panel < panels:
            pack_columns(weight_GK, packed, 0, columns, panel, panels)
        else:
            pack_columns(other_GK, other, 0, columns_other, panel - panels, more)
        claim(task, PACKED)
        panel = claim(task, PANELS)
    wait_for(task, PACKED, panels + more)


@jit()
def columns_product(
    task: Whole, t: int, dz_BG: Floats, packed: Floats, d_BK: Floats, first: int, last: int, spare: Floats
) -> None:
    """d[:, own columns] += dz W, the panels in the order of `gates_product`."""
    rows, width = dz_BG.shape
    columns, lanes, size = d_BK.shape[1], lanes_of(d_BK), d_BK.itemsize
    dz, d, panels, room = dz_BG.ctypes.data, d_BK.ctypes.data, packed.ctypes.data, spare.ctypes.data
    count = panels_of(first, last, lanes)
    for index in range(count):
        column, vectors = panel_of(first, last, lanes, _panel_at(index, count, t))
        after, _ = panel_of(first, last, lanes, _panel_at(min(index + 1, count - 1), count, t))
        end = column + vectors * lanes
        panel, ahead = panels + column * width * size, panels + after * width * size
        if end <= columns:
            to, row = d + column * size, d_BK.strides[0]
        else:
            to, row = room, vectors * lanes * size
            _copy_vectors(d_BK, rows, column, columns, spare, vectors * lanes, True)
        multiply(
            task[PRODUCT], vectors, rows, width, dz, dz_BG.strides[0], panel, to, row, to, row, lanes * size, ahead
        )
        if end > columns:
            _copy_vectors(d_BK, rows, column, columns, spare, vectors * lanes, False)


@jit()
def _copy_vectors(c: Floats, rows: int, unit: int, units: int, spare: Floats, room: int, out: bool) -> None:
    """Between the units from `unit` on of every gate of C and `spare` [B, gates, room], where vectors are whole.

    A C of one row goes to all rows of the spare room.
    """
    gates, lanes, size = c.shape[1] // units, lanes_of(c), c.itemsize
    for b in range(rows):
        row = c[min(b, len(c) - 1)].ctypes.data
        for gate in range(gates):
            outside, inside = row + (gate * units + unit) * size, spare[(b * gates + gate) * room :].ctypes.data
            for j in range(0, units - unit, lanes):
                count = min(lanes, units - unit - j)
                if out:
                    move(c, outside + j * size, inside + j * size, count)
                else:
                    move(c, inside + j * size, outside + j * size, count)


def packed_size(width: int, columns: int, units: int, itemsize: int) -> int:
    """Numbers that either packing of a matrix [G, K] takes: whole vectors of units, or of columns."""
    lanes = LANES64 if itemsize == 8 else LANES32
    gates = width // units
    return max(-(-units // lanes) * lanes * gates * columns, -(-columns // lanes) * lanes * width)


def spare_size(rows: int, itemsize: int) -> int:
    """Numbers of the room that one thread needs for its last, shorter vectors."""
    return rows * MOST_VECTORS * (LANES64 if itemsize == 8 else LANES32)


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
