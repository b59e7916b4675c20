"""The recurrent products of a sequence, C += A B with the same B at every step, and how a team of threads shares them.

A thread that owns rows makes all of a W', and dz W, for them. One that owns units makes of a W' the columns of its
units in every gate, and of dz W its columns; what it makes is what it goes on with, so that the threads meet once a
step. W is packed once (`tiles` says how). The gates of a cell lie in one panel (`pack_gates`); a single gate would fill
a quarter of it, so for a cell of one gate panels are of neighbouring units (`pack_turned`), and `columns_product` adds
a W' to the pre-activations.

What a team does with the arrays of a cell is a `TeamLoop`; `team_task` makes a C function of it.

Shapes: B rows, H units, G gate units, K columns of a matrix W [G, K], G = H for one gate, L numbers in a vector.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from thereafter.base.compiled import CFunction, c_function, compiled_once, jit
from thereafter.base.packages import require
from thereafter.kernels.arrays import Floats, FloatType, Lengths, TeamArrays, Whole
from thereafter.kernels.loops.team import (
    BY_ROWS,
    PACKED,
    PANELS,
    PRODUCT,
    ROWS,
    UNITS,
    RowSpan,
    Span,
    arrays_of,
    claim,
    claim_parts,
    meet,
    member,
    members,
    part_of,
    parts_in,
    rows_of_parts,
    task_at,
    wait_for,
)
from thereafter.kernels.loops.tiles import (
    LANES32,
    LANES64,
    LINE,
    MOST_VECTORS,
    copy,
    fetch,
    move,
    multiply,
    turn,
    types,
)

overload = require("numba.extending", "a compiled loop").overload


@jit()
def lanes_of(array: Floats) -> int:
    """Numbers in a vector."""
    return LANES64 if array.itemsize == 8 else LANES32


@jit()
def own_units(units: int, lanes: int, number: int, size: int) -> tuple[int, int]:
    """The units of thread `number` of `size`: whole vectors, but for the last."""
    first, last = part_of((units + lanes - 1) // lanes, number, size)
    return min(units, first * lanes), min(units, last * lanes)


@jit()
def pack_gates(weight_GK: Floats, units: int, packed: Floats, first: int, last: int) -> None:
    """A matrix for `gates_product`: panels [K, gates, L] of one vector of units each, zeros beyond the last unit."""
    width, depth = weight_GK.shape
    lanes, vectors = lanes_of(weight_GK), width // units
    for unit in range(first, last, lanes):
        panel = packed[unit * vectors * depth :]
        for v in range(vectors):
            _turn_rows(weight_GK, v * units + unit, units - unit, panel, v * lanes, vectors * lanes)


@jit()
def _turn_rows(weight_GK: Floats, first: int, count: int, panel: Floats, place: int, width: int) -> None:
    """A vector of rows of a matrix, as columns at a place of a panel of so many columns; zeros beyond `count` rows."""
    lanes, size, depth, line = lanes_of(weight_GK), weight_GK.itemsize, weight_GK.shape[1], weight_GK.strides[0]
    whole = depth // lanes * lanes if count >= lanes else 0
    source, to = weight_GK.ctypes.data + first * line, panel.ctypes.data + place * size
    for k in range(0, whole, lanes):
        turn(panel, source + k * size, line, to + k * width * size, width * size)
    for k in range(whole, depth):
        for lane in range(lanes):
            panel[k * width + place + lane] = weight_GK[first + lane, k] if lane < count else 0


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
def meet_for(task: Whole, meetings: int, size: int, row: Floats) -> int:
    """Meet, where there are several threads, for a row part of which another thread has just written: it is asked for
    at once, since one line after the other would be waited for. Returns how often they have met."""
    if size > 1:
        meetings = meet(task, meetings, size)
        for place in range(row.ctypes.data, row.ctypes.data + len(row) * row.itemsize, LINE):
            fetch(place)
    return meetings


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
    begin, end = part_of(panels_of(first, last, lanes), packer, packers)
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
def pack_turned(weight_HK: Floats, packed: Floats, first: int, last: int, packer: int, packers: int) -> None:
    """W' of the units `first` to `last`: panels [K, up to 4, L] of neighbouring units, zeros beyond the last. Of these
    panels this is the share of one packer."""
    units, depth = weight_HK.shape
    lanes = lanes_of(weight_HK)
    begin, end = part_of(panels_of(first, last, lanes), packer, packers)
    for index in range(begin, end):
        unit, vectors = panel_of(first, last, lanes, index)
        panel, row = packed[unit * depth :], vectors * lanes
        for place in range(0, row, lanes):
            _turn_rows(weight_HK, unit + place, units - unit - place, panel, place, row)


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
    lanes, units = LANES64 if itemsize == 8 else LANES32, min(units, width)
    gates = width // units if units else 0
    return max(-(-units // lanes) * lanes * gates * columns, -(-columns // lanes) * lanes * width)


def spare_size(rows: int, itemsize: int) -> int:
    """Numbers of the room that one thread needs for its last, shorter vectors."""
    return rows * MOST_VECTORS * (LANES64 if itemsize == 8 else LANES32)


GATES, COLUMNS, TURNED = range(3)
"""How a matrix is packed: by `pack_gates`, `pack_columns` or `pack_turned`."""
Matrix = tuple[int, Floats, Floats, int]
"""How it is packed, the matrix, where to, and how many units or columns that is; a task without one has 0."""


@jit()
def _pack(matrix: Matrix, first: int, last: int, packer: int, packers: int) -> None:
    """The panels of the units `first` to `last`, or a packer's share of them."""
    how, weight, packed, units = matrix
    if how == GATES:
        pack_gates(weight, units, packed, first, last)
    elif how == COLUMNS:
        pack_columns(weight, packed, first, last, packer, packers)
    else:
        pack_turned(weight, packed, first, last, packer, packers)


@jit()
def _panels_of_matrix(matrix: Matrix) -> int:
    how, weight, _, units = matrix
    lanes = lanes_of(weight)
    return (units + lanes - 1) // lanes if how == GATES else panels_of(0, units, lanes)


@jit()
def _pack_panel(matrix: Matrix, panel: int, panels: int) -> None:
    how, weight, _, units = matrix
    lanes = lanes_of(weight)
    if how == GATES:
        _pack(matrix, panel * lanes, min(units, (panel + 1) * lanes), 0, 1)
    else:
        _pack(matrix, 0, units, panel, panels)


@jit()
def pack_all(task: Whole, matrix: Matrix, other: Matrix) -> None:
    """All panels of two matrices by all threads together; no thread waits for one that has claimed nothing."""
    panels, more = _panels_of_matrix(matrix), _panels_of_matrix(other)
    panel = claim(task, PANELS)
    while panel < panels + more:
        if panel < panels:
            _pack_panel(matrix, panel, panels)
        else:
            _pack_panel(other, panel - panels, more)
        claim(task, PACKED)
        panel = claim(task, PANELS)
    wait_for(task, PACKED, panels + more)


@jit()
def pack_own(task: Whole, matrix: Matrix) -> Span:
    """The units of the thread that asks, and their panels packed."""
    _, weight, _, units = matrix
    first, last = own_units(units, lanes_of(weight), member(task), members(task))
    _pack(matrix, first, last, 0, 1)
    return first, last


@jit()
def live_before(lengths: Lengths, live: int, t: int) -> int:
    """How many rows are left out of a step by none that is over: those up to the last one that goes on at step t, where
    `live` were at the step before."""
    while len(lengths) and live and lengths[live - 1] <= t:
        live -= 1
    return live


@jit()
def live_after(lengths: Lengths, live: int, t: int, rows: int) -> int:
    """The same where steps go backward, `live` being those of the step after; all rows where there are no lengths."""
    if not len(lengths):
        return rows
    for b in range(live, rows):
        if lengths[b] > t:
            live = b + 1
    return live


@jit()
def step_rows(x_TBK: Floats, t: int, rows: RowSpan, live: int) -> Floats:
    """The first `live` of some rows (from, to, step) at step t. An array of fewer steps is used in a circle."""
    step: Floats = x_TBK[t % len(x_TBK), rows[0] : rows[1] : rows[2]]
    return step[:live]


@jit()
def clear_rows(x_BK: Floats, units: Span) -> None:
    """A part of all rows to 0."""
    for b in range(len(x_BK)):
        for j in range(units[0], units[1]):
            x_BK[b, j] = 0


@jit()
def part_rows(task: Whole, team: TeamArrays[Floats], part: int, parts: int) -> RowSpan:
    """The rows of one part, where rows of other lengths do not lie side by side."""
    return rows_of_parts(task[ROWS], part, part + 1, parts, len(team.lengths) > 0)


class TeamLoop(NamedTuple):
    """What a team does with the arrays of a class.

    `packing`: how its matrix and the second one are packed. `run(task, team, arrays, rows, units, others, parts, size)`
    makes of some rows (from, to, step) the units of each matrix (from, to), by `size` threads that meet; `parts` (from,
    to) are those that the rows are. `one_by_one`: parts of the rows are always claimed so; `side_by_side`: never, and
    the rows of a part are neighbours whatever their lengths.
    """

    arrays: type[NamedTuple]
    packing: tuple[int, int]
    run: Callable[..., None]
    one_by_one: bool = False
    side_by_side: bool = False


_LOOPS: dict[str, TeamLoop] = {}


def team_task(name: str, loop: TeamLoop) -> Callable[[FloatType], CFunction]:
    """A team's loop as a C function of a task, for each type of floats; machine code is kept under the name."""
    _LOOPS[name] = loop

    @compiled_once
    def of_type(dtype: FloatType) -> CFunction:
        def team(address: int) -> None:
            _run(name, task_at(address), dtype)

        team.__name__ = team.__qualname__ = f"{name}_task"
        return c_function(types.void(types.voidptr), team)

    return of_type


def _run(name: str, task: Whole, dtype: FloatType) -> None:
    """The loop of that name, in compiled code. Found by its name: machine code is kept for what a function closes over,
    and functions are other ones in every process."""


def _compiled_run(name: str, task: Whole, dtype: FloatType) -> Callable[..., None] | None:
    """What `_run` is compiled to, for a name."""
    literal = getattr(name, "literal_value", None)
    if literal is None:
        return None  # asked again with the text itself
    kind, (first, second), run, one_by_one, side_by_side = _LOOPS[literal]
    read_team, read = arrays_of(TeamArrays), arrays_of(kind, behind=len(TeamArrays._fields))

    def shared(name: str, task: Whole, dtype: FloatType) -> None:
        team, arrays = read_team(task, dtype), read(task, dtype)
        rows, size = task[ROWS], members(task)
        matrix = first, team.weight, team.packed, _units_of(first, team.weight, task)
        other = second, team.second, team.packed_second, _units_of(second, team.second, task)
        ragged = len(team.lengths) > 0 and not side_by_side
        alone = ragged or one_by_one
        parts = parts_in(rows, alone)
        if not task[BY_ROWS]:
            units, others = pack_own(task, matrix), pack_own(task, other)
            every_row = rows_of_parts(rows, 0, parts, parts, False)
            run(task, team, arrays, every_row, units, others, part_of(parts, 0, 1), size)
            return
        pack_all(task, matrix, other)
        units, others = part_of(matrix[3], 0, 1), part_of(other[3], 0, 1)
        claimed = claim_parts(task, parts, alone, size)
        while claimed[0] < parts:
            own_rows = rows_of_parts(rows, claimed[0], claimed[1], parts, ragged)
            run(task, team, arrays, own_rows, units, others, claimed, 1)
            claimed = claim_parts(task, parts, alone, size)

    return shared


@jit()
def _units_of(packing: int, weight: Floats, task: Whole) -> int:
    """The units or columns of a matrix that a team shares."""
    if packing == GATES:
        units: int = task[UNITS]
        return units
    return weight.shape[1] if packing == COLUMNS else len(weight)


overload(_run)(_compiled_run)
