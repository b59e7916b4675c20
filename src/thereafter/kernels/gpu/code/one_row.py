"""One step of an LSTM language model: word vectors and restarts, layers, and the head.

For one row a step is a chain of matrix-vector products, each as long as its matrix takes to come from memory: a block
owns some units with all four gates, so that the new state follows from its sums and no second program is needed. For
many rows cuBLAS multiplies, and `lstm_rows` does the rest in one pass.

The chain is a row of segments [x | h_0 | h_1 | ...], each filled up to a multiple of 16 numbers: a layer reads two
neighbouring segments and writes the second. A block of `lstm_row` may not write what others still read, so the states
before the step lie apart, in `before`.

Shapes: W numbers of the chain, U units of a block, C columns of a tile, P blocks of the head.
"""

import triton
import triton.language as tl


@triton.jit
def tanh(x):
    return 2.0 * tl.sigmoid(2.0 * x) - 1.0


@triton.jit
def step_units(i_U, f_U, g_U, o_U, bias_U, cell_U, out_U, ended, units, live_U):
    """h and c of some units of a row from the sums of their gates; c is 0 before where the row has `ended`."""
    i_U = tl.sigmoid(i_U + tl.load(bias_U, mask=live_U))
    f_U = tl.sigmoid(f_U + tl.load(bias_U + units, mask=live_U))
    g_U = tanh(g_U + tl.load(bias_U + 2 * units, mask=live_U))
    o_U = tl.sigmoid(o_U + tl.load(bias_U + 3 * units, mask=live_U))
    c_U = tl.load(cell_U, mask=live_U, other=0.0)
    c_U = f_U * tl.where(ended, 0.0, c_U) + i_U * g_U
    tl.store(cell_U, c_U, mask=live_U)
    tl.store(out_U, (o_U * tanh(c_U)).to(out_U.dtype.element_ty), mask=live_U)


@triton.jit
def begin_rows(token, table, chain, before, restart, start, width, inputs, COLUMNS: tl.constexpr):
    """x = E[token] into the chain, the states after the last step into `before`.

    After a line end (`restart`) a row reads `<s>` (`start`) and its states are 0. `before` may be the chain itself.
    """
    across = tl.cdiv(width, COLUMNS)
    row = tl.program_id(0) // across
    column_C = (tl.program_id(0) % across) * COLUMNS + tl.arange(0, COLUMNS)
    word = tl.load(token + row)
    ended = word == restart
    word = tl.where(ended, start, word).to(tl.int64)
    place_C = row.to(tl.int64) * width + column_C
    x_C = tl.load(table + word * inputs + column_C, mask=column_C < inputs)
    tl.store(chain + place_C, x_C, mask=column_C < inputs)
    state_C = (column_C >= inputs) & (column_C < width)
    h_C = tl.load(chain + place_C, mask=state_C, other=0.0)
    tl.store(before + place_C, tl.where(ended, 0.0, h_C.to(tl.float32)).to(before.dtype.element_ty), mask=state_C)


@triton.jit
def lstm_row(
    token, x, h, weight, bias, cell, out, restart, units, inputs, states,
    UNITS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """h and c of some units of one row. `weight` [4 units, inputs + states]: rows by gate i, f, g, o."""
    unit_U = tl.program_id(0) * UNITS + tl.arange(0, UNITS)
    live_U = unit_U < units
    width = inputs + states
    row_U1 = weight + unit_U.to(tl.int64)[:, None] * width
    gate = units.to(tl.int64) * width
    i_UC = tl.zeros((UNITS, COLUMNS), tl.float32)
    f_UC, g_UC, o_UC = i_UC, i_UC, i_UC
    for begin in range(0, width, COLUMNS):
        column_C = begin + tl.arange(0, COLUMNS)
        first_C, inside_C = column_C < inputs, column_C < width
        x_C = tl.load(x + column_C, mask=first_C, other=0.0).to(tl.float32)
        h_C = tl.load(h + column_C - inputs, mask=inside_C & (column_C >= inputs), other=0.0).to(tl.float32)
        v_1C = (x_C + h_C)[None, :]
        mask_UC = live_U[:, None] & inside_C[None, :]
        at_UC = row_U1 + column_C[None, :]
        i_UC += tl.load(at_UC, mask=mask_UC, other=0.0).to(tl.float32) * v_1C
        f_UC += tl.load(at_UC + gate, mask=mask_UC, other=0.0).to(tl.float32) * v_1C
        g_UC += tl.load(at_UC + 2 * gate, mask=mask_UC, other=0.0).to(tl.float32) * v_1C
        o_UC += tl.load(at_UC + 3 * gate, mask=mask_UC, other=0.0).to(tl.float32) * v_1C
    ended = tl.load(token) == restart
    i_U, f_U, g_U, o_U = tl.sum(i_UC, 1), tl.sum(f_UC, 1), tl.sum(g_UC, 1), tl.sum(o_UC, 1)
    step_units(i_U, f_U, g_U, o_U, bias + unit_U, cell + unit_U, out + unit_U, ended, units, live_U)


@triton.jit
def lstm_rows(token, z, bias, cell, out, restart, units, out_row, UNITS: tl.constexpr):
    """h and c of some units of each row from the products z [rows, 4 units]; `out_row`: the stride of h's rows."""
    across = tl.cdiv(units, UNITS)
    row = (tl.program_id(0) // across).to(tl.int64)
    unit_U = (tl.program_id(0) % across) * UNITS + tl.arange(0, UNITS)
    live_U = unit_U < units
    z_U = z + row * 4 * units + unit_U
    i_U, f_U = tl.load(z_U, mask=live_U), tl.load(z_U + units, mask=live_U)
    g_U, o_U = tl.load(z_U + 2 * units, mask=live_U), tl.load(z_U + 3 * units, mask=live_U)
    ended = tl.load(token + row) == restart
    cell_U, out_U = cell + row * units + unit_U, out + row * out_row + unit_U
    step_units(i_U, f_U, g_U, o_U, bias + unit_U, cell_U, out_U, ended, units, live_U)


@triton.jit
def head_row(h, matrix, bias, logits, most, total, words, states, WORDS: tl.constexpr, COLUMNS: tl.constexpr):
    """The logits of some words, and for the softmax their largest and the sum of exp(logit - largest)."""
    block = tl.program_id(0)
    word_U = block * WORDS + tl.arange(0, WORDS)
    live_U = word_U < words
    row_U1 = matrix + word_U.to(tl.int64)[:, None] * states
    z_UC = tl.zeros((WORDS, COLUMNS), tl.float32)
    for begin in range(0, states, COLUMNS):
        column_C = begin + tl.arange(0, COLUMNS)
        inside_C = column_C < states
        h_1C = tl.load(h + column_C, mask=inside_C, other=0.0).to(tl.float32)[None, :]
        mask_UC = live_U[:, None] & inside_C[None, :]
        z_UC += tl.load(row_U1 + column_C[None, :], mask=mask_UC, other=0.0).to(tl.float32) * h_1C
    z_U = tl.sum(z_UC, 1) + tl.load(bias + word_U, mask=live_U, other=0.0)
    z_U = tl.where(live_U, z_U, float("-inf"))
    largest = tl.max(z_U, 0)
    tl.store(logits + word_U, z_U, mask=live_U)
    tl.store(most + block, largest)
    tl.store(total + block, tl.sum(tl.exp(z_U - largest), 0))


@triton.jit
def normalise_row(logits, most, total, words, blocks, WORDS: tl.constexpr, BLOCKS: tl.constexpr):
    """log p = logit - log sum exp, in place; the sum is made of those of the head's blocks, always in one order."""
    block_P = tl.arange(0, BLOCKS)
    most_P = tl.load(most + block_P, mask=block_P < blocks, other=float("-inf"))
    total_P = tl.load(total + block_P, mask=block_P < blocks, other=0.0)
    largest = tl.max(most_P, 0)
    norm = largest + tl.log(tl.sum(total_P * tl.exp(most_P - largest), 0))
    word_U = tl.program_id(0) * WORDS + tl.arange(0, WORDS)
    z_U = tl.load(logits + word_U, mask=word_U < words)
    tl.store(logits + word_U, z_U - norm, mask=word_U < words)
