"""Rows of an array added to the rows of a table that an index names, every sum in one order.

A block that stands at the first of equal indices adds up all their rows, in the order they stand in; the others leave.
So nothing is added by atomic operations, and the bits are the same at every launch. Triton, for the order of a sum
over a tile is fixed by its layout.
"""

import triton
import triton.language as tl


@triton.jit
def add_rows(
    table,
    index,
    order,
    rows,
    count,
    size,
    row_stride,
    SORTED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    SEARCH: tl.constexpr,
):
    """table[index_n] += rows_n for all n below `count`; rows of a table have `size` columns.

    SORTED: `index` is sorted, and its number n was that of row `order_n`; equal ones are neighbours. Otherwise `order`
    is not read, and all of `index` is searched: quicker than a sort where it is short.
    """
    across = tl.cdiv(size, COLUMNS)
    first = tl.program_id(0) // across
    column = tl.program_id(0) % across * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < size
    own = tl.load(index + first)
    if SORTED:
        earlier = (tl.load(index + tl.maximum(first - 1, 0)) == own) & (first > 0)
    else:
        matches = 0
        for begin in range(0, first, SEARCH):
            at = begin + tl.arange(0, SEARCH)
            matches += tl.sum((tl.load(index + at, mask=at < first, other=-1) == own).to(tl.int32), 0)
        earlier = matches > 0
    if not earlier:
        total = tl.zeros((COLUMNS,), dtype=tl.float32)
        begin = first
        more = True
        while more:
            at = begin + tl.arange(0, ROWS)
            same = tl.load(index + at, mask=at < count, other=-1) == own
            matches = tl.sum(same.to(tl.int32), 0)
            if matches > 0:
                place = at
                if SORTED:
                    place = tl.load(order + at, mask=same, other=0)
                offset = place.to(tl.int64)[:, None] * row_stride + column[None, :]
                values = tl.load(rows + offset, mask=same[:, None] & inside[None, :], other=0.0)
                total += tl.sum(values.to(tl.float32), 0)
            begin += ROWS
            if SORTED:
                more = (matches == ROWS) & (begin < count)
            else:
                more = begin < count
        target = table + own.to(tl.int64) * size + column
        sums = tl.load(target, mask=inside, other=0.0).to(tl.float32) + total
        tl.store(target, sums.to(table.dtype.element_ty), mask=inside)
