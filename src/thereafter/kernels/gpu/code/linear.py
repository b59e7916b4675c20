"""h_t = a_t h_{t-1} + b_t for many rows and units side by side, in one pass over memory; and its backward pass.

A block has COLUMNS units of one row, and goes along time in tiles. A tile is CHUNKS pieces of LENGTH steps, one piece
after the other in time. Each thread has its units of one piece, and all its numbers in registers:

    1. through its piece from the state 0: what is reached, and `kept`, the product of its a
    2. a scan over the pieces of the tile (Blelloch 1990): the state before each piece
    3. through its piece once more, from that state; now every state is written

The next tile is loaded before the present one is computed, so that memory is never idle. Few columns with long rows are
cut into segments of `span` steps, each a block of its own: a first launch (SUMMARY) writes what a segment does to a
state, and the second folds those before its own, always in the same order. Nothing is added by atomics: the same input
gives the same bits.

The backward pass is the same recurrence with time reversed, in d_t = a_t g_t, which step t hands to step t - 1:

    g_t = dy_t + d_{t+1},   d_t = a_t (dy_t + d_{t+1}),   db_t = g_t,   da_t = g_t h_{t-1},   dh_0 = d_1

Arrays are [rows, steps, units], units in one piece; `..._row` and `..._step` are strides. What is written has no gaps.
P is CHUNKS, C is COLUMNS.
"""

import triton
import triton.language as tl


@triton.jit
def in_turn(kept, end, kept_before, before, kept_next, end_next, kept_before_next, before_next):
    """Two runs of pieces, one after the other, as one: what it keeps of a state and where it ends from 0; and the same
    of the run without its last piece, which is the state before that piece."""
    return kept * kept_next, kept_next * end + end_next, kept * kept_before_next, kept_before_next * end + before_next


@triton.jit
def load_tile(at_PC, step, place_P, end, live_C, OTHER: tl.constexpr, LENGTH: tl.constexpr):
    """LENGTH values of each piece, of steps before `end`; OTHER for steps that are not there."""
    values = ()
    for s in tl.static_range(LENGTH):
        mask_PC = (place_P + s < end)[:, None] & live_C[None, :]
        values = values + (tl.load(at_PC + s * step, mask=mask_PC, other=OTHER),)
    return values


@triton.jit
def across_pieces(kept_PC, end_PC, state_C, piece_P, CHUNKS: tl.constexpr):
    """The state before each piece, the state after the last, and what the whole tile keeps."""
    one_PC = tl.full(kept_PC.shape, 1.0, tl.float32)
    zero_PC = tl.zeros(kept_PC.shape, tl.float32)
    kept_PC, end_PC, kept_before_PC, before_PC = tl.associative_scan((kept_PC, end_PC, one_PC, zero_PC), 0, in_turn)
    last_P1 = (piece_P == CHUNKS - 1)[:, None]
    after_C = tl.sum(tl.where(last_P1, kept_PC * state_C[None, :] + end_PC, 0.0), 0)  # one number and zeros: exact
    return kept_before_PC * state_C[None, :] + before_PC, after_C, tl.sum(tl.where(last_P1, kept_PC, 0.0), 0)


@triton.jit
def before_segment(kept, reached, state_C, place, units, segment, c_C, live_C):
    """The state before a segment, from what those before it do to a state."""
    for other in range(segment):
        at_C = (place + other) * units + c_C
        state_C = tl.load(kept + at_C, mask=live_C) * state_C + tl.load(reached + at_C, mask=live_C)
    return state_C


@triton.jit
def scan_forward(
    a, b, first, h, kept, reached, steps, units, span, a_row, a_step, b_row, b_step, first_row,
    SUMMARY: tl.constexpr, CHUNKS: tl.constexpr, LENGTH: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """h [rows, steps, units] from a, b and the initial state `first` [rows, units]."""
    segments, across = tl.cdiv(steps, span), tl.cdiv(units, COLUMNS)
    block = tl.program_id(0) // across
    row, segment = (block // segments).to(tl.int64), block % segments
    c_C = tl.program_id(0) % across * COLUMNS + tl.arange(0, COLUMNS)
    live_C = c_C < units
    piece_P = tl.arange(0, CHUNKS)
    begin = segment * span
    end = tl.minimum(begin + span, steps)

    place_P = begin + piece_P * LENGTH
    place_P1 = place_P[:, None].to(tl.int64)
    a_PC = a + row * a_row + place_P1 * a_step + c_C[None, :]
    b_PC = b + row * b_row + place_P1 * b_step + c_C[None, :]
    h_PC = h + row * steps * units + place_P1 * units + c_C[None, :]
    summary = row * segments
    product_C = tl.full((COLUMNS,), 1.0, tl.float32)
    state_C = tl.zeros((COLUMNS,), tl.float32)
    if not SUMMARY:
        state_C = tl.load(first + row * first_row + c_C, mask=live_C, other=0.0).to(tl.float32)
        state_C = before_segment(kept, reached, state_C, summary, units, segment, c_C, live_C)

    a_next = load_tile(a_PC, a_step, place_P, end, live_C, 1.0, LENGTH)
    b_next = load_tile(b_PC, b_step, place_P, end, live_C, 0.0, LENGTH)
    for _ in range(begin, end, CHUNKS * LENGTH):
        a_here = a_next
        b_here = b_next
        a_PC += CHUNKS * LENGTH * a_step
        b_PC += CHUNKS * LENGTH * b_step
        a_next = load_tile(a_PC, a_step, place_P + CHUNKS * LENGTH, end, live_C, 1.0, LENGTH)
        b_next = load_tile(b_PC, b_step, place_P + CHUNKS * LENGTH, end, live_C, 0.0, LENGTH)

        kept_PC = tl.full((CHUNKS, COLUMNS), 1.0, tl.float32)
        end_PC = tl.zeros((CHUNKS, COLUMNS), tl.float32)
        for s in tl.static_range(LENGTH):
            kept_PC = kept_PC * a_here[s].to(tl.float32)
            end_PC = a_here[s].to(tl.float32) * end_PC + b_here[s].to(tl.float32)
        h_here_PC, state_C, kept_C = across_pieces(kept_PC, end_PC, state_C, piece_P, CHUNKS)
        if SUMMARY:
            product_C = product_C * kept_C
        else:
            for s in tl.static_range(LENGTH):
                h_here_PC = a_here[s].to(tl.float32) * h_here_PC + b_here[s].to(tl.float32)
                mask_PC = (place_P + s < end)[:, None] & live_C[None, :]
                tl.store(h_PC + s * units, h_here_PC.to(h.dtype.element_ty), mask=mask_PC)
            h_PC += CHUNKS * LENGTH * units
        place_P += CHUNKS * LENGTH

    if SUMMARY:
        tl.store(kept + (summary + segment) * units + c_C, product_C, mask=live_C)
        tl.store(reached + (summary + segment) * units + c_C, state_C, mask=live_C)


@triton.jit
def scan_backward(
    a, h, first, dy, dlast, da, db, dfirst, kept, reached, steps, units, span,
    a_row, a_step, dy_row, dy_step, first_row, dlast_row,
    SUMMARY: tl.constexpr, CHUNKS: tl.constexpr, LENGTH: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """da, db [rows, steps, units] and dfirst [rows, units] from dy and `dlast` [rows, units], the gradient of the state
    after the last step. Places count from the last step backward."""
    segments, across = tl.cdiv(steps, span), tl.cdiv(units, COLUMNS)
    block = tl.program_id(0) // across
    row, segment = (block // segments).to(tl.int64), block % segments
    c_C = tl.program_id(0) % across * COLUMNS + tl.arange(0, COLUMNS)
    live_C = c_C < units
    piece_P = tl.arange(0, CHUNKS)
    begin = segment * span
    end = tl.minimum(begin + span, steps)

    place_P = begin + piece_P * LENGTH
    step_P1 = (steps - 1 - place_P)[:, None].to(tl.int64)
    a_PC = a + row * a_row + step_P1 * a_step + c_C[None, :]
    dy_PC = dy + row * dy_row + step_P1 * dy_step + c_C[None, :]
    whole_PC = row * steps * units + step_P1 * units + c_C[None, :]
    summary = row * segments
    product_C = tl.full((COLUMNS,), 1.0, tl.float32)
    d_C = tl.zeros((COLUMNS,), tl.float32)
    first_C = tl.zeros((COLUMNS,), tl.float32)
    if not SUMMARY:
        first_C = tl.load(first + row * first_row + c_C, mask=live_C, other=0.0).to(tl.float32)
        d_C = tl.load(dlast + row * dlast_row + c_C, mask=live_C, other=0.0).to(tl.float32)
        d_C = before_segment(kept, reached, d_C, summary, units, segment, c_C, live_C)

    a_next = load_tile(a_PC, -a_step, place_P, end, live_C, 1.0, LENGTH)
    dy_next = load_tile(dy_PC, -dy_step, place_P, end, live_C, 0.0, LENGTH)
    for _ in range(begin, end, CHUNKS * LENGTH):
        a_here = a_next
        dy_here = dy_next
        if not SUMMARY:  # the state before a step, which for the first is not in h
            h_before = load_tile(h + whole_PC - units, -units, place_P, tl.minimum(end, steps - 1), live_C, 0.0, LENGTH)
        a_PC -= CHUNKS * LENGTH * a_step
        dy_PC -= CHUNKS * LENGTH * dy_step
        a_next = load_tile(a_PC, -a_step, place_P + CHUNKS * LENGTH, end, live_C, 1.0, LENGTH)
        dy_next = load_tile(dy_PC, -dy_step, place_P + CHUNKS * LENGTH, end, live_C, 0.0, LENGTH)

        kept_PC = tl.full((CHUNKS, COLUMNS), 1.0, tl.float32)
        end_PC = tl.zeros((CHUNKS, COLUMNS), tl.float32)
        for s in tl.static_range(LENGTH):
            kept_PC = kept_PC * a_here[s].to(tl.float32)
            end_PC = a_here[s].to(tl.float32) * (dy_here[s].to(tl.float32) + end_PC)
        d_here_PC, d_C, kept_C = across_pieces(kept_PC, end_PC, d_C, piece_P, CHUNKS)
        if SUMMARY:
            product_C = product_C * kept_C
        else:
            for s in tl.static_range(LENGTH):
                g_PC = dy_here[s].to(tl.float32) + d_here_PC
                d_here_PC = a_here[s].to(tl.float32) * g_PC
                mask_PC = (place_P + s < end)[:, None] & live_C[None, :]
                before_PC = tl.where((place_P + s == steps - 1)[:, None], first_C[None, :], h_before[s].to(tl.float32))
                tl.store(db + whole_PC - s * units, g_PC.to(db.dtype.element_ty), mask=mask_PC)
                tl.store(da + whole_PC - s * units, (g_PC * before_PC).to(da.dtype.element_ty), mask=mask_PC)
            whole_PC -= CHUNKS * LENGTH * units
        place_P += CHUNKS * LENGTH

    if SUMMARY:
        tl.store(kept + (summary + segment) * units + c_C, product_C, mask=live_C)
        tl.store(reached + (summary + segment) * units + c_C, d_C, mask=live_C)
    elif segment == segments - 1:
        tl.store(dfirst + row * units + c_C, d_C.to(dfirst.dtype.element_ty), mask=live_C)
