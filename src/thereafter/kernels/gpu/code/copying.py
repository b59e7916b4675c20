"""Weights and batches brought into the order that the programs read, filled up with zeros, in another type if wanted.

Each is one pass over memory. A layer's matrix has a row for every gate and unit; `place0` to `place3` say which gate of
the source stands at each place of the target, -1 for none. Triton, for it writes what moves data well by itself.
"""

import triton
import triton.language as tl


@triton.jit
def placed(place, place0, place1, place2, place3):
    """Which gate stands there."""
    gate = tl.where(place == 0, place0, place1)
    gate = tl.where(place == 2, place2, gate)
    return tl.where(place == 3, place3, gate)


@triton.jit
def copy_gates(
    source,
    target,
    place0,
    place1,
    place2,
    place3,
    source_units,
    source_columns,
    rows,
    places,
    own,
    columns,
    units,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """target[(slice, place, unit of the slice), column] = source[(gate, unit), column], 0 beyond the source's sizes.

    A slice has `own` units; the target has `rows` rows and `columns` columns. `units`: how many units are copied.
    """
    across = tl.cdiv(columns, COLUMNS)
    row = tl.program_id(0) // across * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(0) % across * COLUMNS + tl.arange(0, COLUMNS)
    slice = row // (places * own)
    unit = slice * own + row % own
    gate = placed(row // own % places, place0, place1, place2, place3)
    there = (row < rows) & (unit < units) & (gate >= 0)
    offset = (gate * source_units + unit).to(tl.int64) * source_columns
    inside = there[:, None] & (column < source_columns)[None, :]
    values = tl.load(source + offset[:, None] + column[None, :], mask=inside, other=0.0)
    stored = (row < rows)[:, None] & (column < columns)[None, :]
    target_offset = row.to(tl.int64) * columns
    tl.store(target + target_offset[:, None] + column[None, :], values.to(target.dtype.element_ty), mask=stored)


@triton.jit
def turn_gates(
    source,
    target,
    place0,
    place1,
    place2,
    place3,
    source_units,
    source_columns,
    units,
    PLACES: tl.constexpr,
    SIDE: tl.constexpr,
):
    """target[column, (place, unit)] = source[(gate, unit), column]; the target is [units, PLACES units]."""
    across = units // SIDE
    tile = tl.program_id(0)
    place = tile // (across * across)
    unit = tile // across % across * SIDE + tl.arange(0, SIDE)
    column = tile % across * SIDE + tl.arange(0, SIDE)
    gate = placed(place, place0, place1, place2, place3)
    inside = (unit < source_units)[:, None] & (column < source_columns)[None, :] & (gate >= 0)
    offset = (gate * source_units + unit).to(tl.int64) * source_columns
    values = tl.load(source + offset[:, None] + column[None, :], mask=inside, other=0.0)
    turned = tl.trans(values.to(target.dtype.element_ty))
    tl.store(target + column.to(tl.int64)[:, None] * (PLACES * units) + (place * units + unit)[None, :], turned)


@triton.jit
def copy_columns(
    source,
    target,
    place0,
    place1,
    place2,
    place3,
    source_units,
    units,
    step_stride,
    row_stride,
    source_rows,
    steps,
    rows,
    columns,
    PLACES: tl.constexpr,
    OWN: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """target[step, row, (slice, place, unit of the slice)] = source[step, row, (gate, unit)], 0 beyond the source."""
    across = tl.cdiv(columns, COLUMNS)
    line = tl.program_id(0) // across * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(0) % across * COLUMNS + tl.arange(0, COLUMNS)
    unit = column // (PLACES * OWN) * OWN + column % OWN
    gate = placed(column // OWN % PLACES, place0, place1, place2, place3)
    step, row = line // rows, line % rows
    stored = (line < steps * rows)[:, None] & (column < columns)[None, :]
    inside = stored & (row < source_rows)[:, None] & ((unit < units) & (gate >= 0))[None, :]
    offset = step.to(tl.int64) * step_stride + row.to(tl.int64) * row_stride
    values = tl.load(source + offset[:, None] + (gate * source_units + unit)[None, :], mask=inside, other=0.0)
    target_offset = line.to(tl.int64) * columns
    tl.store(target + target_offset[:, None] + column[None, :], values.to(target.dtype.element_ty), mask=stored)


@triton.jit
def copy_rows(
    source,
    target,
    step_stride,
    row_stride,
    source_rows,
    source_columns,
    steps,
    rows,
    columns,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """target[step, row, column] = source[step, row, column], 0 beyond the source's rows and columns."""
    across = tl.cdiv(columns, COLUMNS)
    line = tl.program_id(0) // across * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(0) % across * COLUMNS + tl.arange(0, COLUMNS)
    step, row = line // rows, line % rows
    stored = (line < steps * rows)[:, None] & (column < columns)[None, :]
    inside = stored & (row < source_rows)[:, None] & (column < source_columns)[None, :]
    offset = step.to(tl.int64) * step_stride + row.to(tl.int64) * row_stride
    values = tl.load(source + offset[:, None] + column[None, :], mask=inside, other=0.0)
    target_offset = line.to(tl.int64) * columns
    tl.store(target + target_offset[:, None] + column[None, :], values.to(target.dtype.element_ty), mask=stored)
