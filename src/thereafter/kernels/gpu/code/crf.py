"""A linear-chain CRF, a block for each row of a batch, which walks along its own row: log Z, its gradients, Viterbi.

The scores of transitions stay in registers for the whole row. With reach_1 = start, a step is

    alpha_t[j] = reach_t[j] + e_t[j] - shift_t,               shift_t = max_j (reach_t[j] + e_t[j])
    reach_{t+1}[j] = log sum_i exp(alpha_t[i] + A[i, j])      log Z = sum_t shift_t + log sum_j exp(alpha_n[j] + end[j])

so alpha stays near 0 however long a row is, and the sum of the shifts is kept in float64. The backward pass needs no
second recurrence over scores: it walks back with the marginals q_t[j] = p(y_t = j | x) themselves,

    p(y_{t-1} = i, y_t = j | x) = q_t[j] exp(alpha_{t-1}[i] + A[i, j] - reach_t[j]),     q_{t-1}[i] = sum_j of these

and adds the pairs up in registers. Nothing is added by atomics: the same input gives the same bits.

A step costs K^2 exponentials of the padded K, two reductions over K^2 numbers and one over K; the next step's numbers
are loaded meanwhile. Tags that cannot be reached have the score -inf, and their gradient is 0.

Emissions are [rows, steps, size] with `..._row` and `..._step` as strides; what is written has no gaps. K: `size`
filled up to a power of two. Steps beyond a row's end are not read. A row is skipped where `counted` is 0.
"""

import triton
import triton.language as tl


@triton.jit
def finite(x):
    """0 in the place of an infinity: what a maximum may be subtracted as."""
    return tl.where(tl.abs(x) == float("inf"), 0.0, x)


@triton.jit
def row_length(lengths, counted, row, steps, COUNTED: tl.constexpr):
    """Steps of a row, never more than there are, and its weight."""
    n = tl.minimum(tl.maximum(tl.load(lengths + row), 0), steps).to(tl.int32)
    weight = 1.0
    if COUNTED:
        weight = tl.load(counted + row)
        n = tl.where(weight == 0.0, 0, n)
    return n, weight


@triton.jit
def load_transitions(transition, size, i_K, live_K):
    """A[i, j], -inf in the filling."""
    mask_KK = live_K[:, None] & live_K[None, :]
    return tl.load(transition + i_K[:, None] * size + i_K[None, :], mask=mask_KK, other=float("-inf"))


@triton.jit
def score_of(
    emissions, start, transition, end, tags, row, n, size, e_row, e_step, tags_row, tags_step, CHUNK: tl.constexpr
):  # fmt: skip
    """s(x, y) of a row's own tags, in float64, CHUNK steps at once; NaN where a tag is none of `size`."""
    score = tl.full((), 0.0, tl.float64)
    for begin in range(0, n, CHUNK):
        t_C = begin + tl.arange(0, CHUNK)
        real_C = t_C < n
        at_C = tags + row * tags_row + t_C.to(tl.int64) * tags_step
        tag_C = tl.load(at_C, mask=real_C, other=0)
        before_C = tl.load(at_C - tags_step, mask=real_C & (t_C > 0), other=0)
        known_C = (tag_C >= 0) & (tag_C < size)
        read_C = real_C & known_C
        follows_C = read_C & (t_C > 0) & (before_C >= 0) & (before_C < size)
        word_C = tl.load(emissions + row * e_row + t_C.to(tl.int64) * e_step + tag_C, mask=read_C, other=0.0)
        pair_C = tl.load(transition + before_C * size + tag_C, mask=follows_C, other=0.0)
        first_C = tl.load(start + tag_C, mask=read_C & (t_C == 0), other=0.0)
        last_C = tl.load(end + tag_C, mask=read_C & (t_C == n - 1), other=0.0)
        sum_C = word_C.to(tl.float64) + pair_C.to(tl.float64) + first_C.to(tl.float64) + last_C.to(tl.float64)
        score += tl.sum(tl.where(real_C & ~known_C, float("nan"), sum_C), 0)
    return score


@triton.jit
def crf_forward(
    emissions, start, transition, end, lengths, tags, counted, values, reach, shift,
    steps, size, e_row, e_step, tags_row, tags_step,
    TAGGED: tl.constexpr, COUNTED: tl.constexpr, KEEP: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """values [rows]: log Z, with TAGGED log Z - s(x, tags), times `counted`. KEEP: reach and shift for the backward
    pass, [rows, steps, size] and [rows, steps]."""
    row = tl.program_id(0).to(tl.int64)
    n, weight = row_length(lengths, counted, row, steps, COUNTED)
    i_K = tl.arange(0, K)
    live_K = i_K < size
    step_KK = load_transitions(transition, size, i_K, live_K)
    e_K = emissions + row * e_row + i_K
    kept_K = reach + row * steps * size + i_K

    reach_K = tl.load(start + i_K, mask=live_K, other=float("-inf"))
    sum_K = reach_K + tl.load(e_K, mask=live_K & (n > 0), other=0.0).to(tl.float32)
    moved = finite(tl.max(sum_K, 0))
    alpha_K = sum_K - moved
    total = moved.to(tl.float64)
    if KEEP:
        tl.store(kept_K, reach_K, mask=live_K & (n > 0))
        tl.store(shift + row * steps, moved, mask=n > 0)
    next_K = tl.load(e_K + e_step, mask=live_K & (n > 1), other=0.0)
    for t in range(1, n):
        here_K = next_K.to(tl.float32)
        e_K += e_step
        next_K = tl.load(e_K + e_step, mask=live_K & (t + 1 < n), other=0.0)
        sum_KK = alpha_K[:, None] + step_KK
        most_K = finite(tl.max(sum_KK, 0))
        reach_K = tl.log(tl.sum(tl.exp(sum_KK - most_K[None, :]), 0)) + most_K
        sum_K = reach_K + here_K
        moved = finite(tl.max(sum_K, 0))
        alpha_K = sum_K - moved
        total += moved.to(tl.float64)
        if KEEP:
            kept_K += size
            tl.store(kept_K, reach_K, mask=live_K)
            tl.store(shift + row * steps + t, moved)

    last_K = alpha_K + tl.load(end + i_K, mask=live_K, other=float("-inf"))
    most = finite(tl.max(last_K, 0))
    total += (tl.log(tl.sum(tl.exp(last_K - most), 0)) + most).to(tl.float64)
    if TAGGED:
        total -= score_of(
            emissions, start, transition, end, tags, row, n, size, e_row, e_step, tags_row, tags_step, 128
        )  # fmt: skip
    tl.store(values + row, tl.where(n > 0, total.to(tl.float32) * weight, 0.0))


@triton.jit
def crf_backward(
    emissions, transition, end, lengths, tags, counted, reach, shift, grad, d_emissions, partials,
    steps, size, e_row, e_step, tags_row, tags_step, grad_row,
    TAGGED: tl.constexpr, COUNTED: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """d_emissions [rows, steps, size] from `grad`, that of the values: the marginals, with TAGGED less the tags.
    partials [rows, K + 2, K]: a row's share of the gradients of transition, start and end. They are filled up to K as
    well: a thread's places in them are then one address and constants, for which no register has to be kept."""
    row = tl.program_id(0).to(tl.int64)
    n, weight = row_length(lengths, counted, row, steps, COUNTED)
    scale = tl.load(grad + row * grad_row) * weight
    i_K = tl.arange(0, K)
    live_K = i_K < size
    real_K = live_K & (n > 0)
    step_KK = load_transitions(transition, size, i_K, live_K)
    place = (row * steps + n - 1).to(tl.int64)
    e_K = emissions + row * e_row + (n - 1).to(tl.int64) * e_step + i_K
    kept_K = reach + place * size + i_K
    d_K = d_emissions + place * size + i_K
    tag_at = tags + row * tags_row + (n - 1).to(tl.int64) * tags_step
    own_K = partials + row * ((K + 2) * K) + i_K

    # the last step: a softmax over the ends
    reach_K = tl.load(kept_K, mask=real_K, other=float("-inf"))
    alpha_K = (
        reach_K + tl.load(e_K, mask=real_K, other=0.0).to(tl.float32) - tl.load(shift + place, mask=n > 0, other=0.0)
    )
    last_K = alpha_K + tl.load(end + i_K, mask=live_K, other=float("-inf"))
    power_K = tl.exp(last_K - finite(tl.max(last_K, 0)))
    powers = tl.sum(power_K, 0)
    q_K = tl.where(powers == 0.0, 0.0, power_K / powers)
    tag = -1
    if TAGGED:
        tag = tl.load(tag_at, mask=n > 0, other=-1).to(tl.int32)
    d_here_K = scale * (q_K - (i_K == tag).to(tl.float32))
    tl.store(own_K + (K + 1) * K, d_here_K)

    pairs_KK = tl.zeros((K, K), tl.float32)
    next_reach_K = tl.load(kept_K - size, mask=live_K & (n > 1), other=float("-inf"))
    next_e_K = tl.load(e_K - e_step, mask=live_K & (n > 1), other=0.0)
    next_shift = tl.load(shift + place - 1, mask=n > 1, other=0.0)
    next_tag = -1
    if TAGGED:
        next_tag = tl.load(tag_at - tags_step, mask=n > 1, other=-1).to(tl.int32)
    for back in range(1, n):  # from step n - back to the one before it
        tl.store(d_K, d_here_K, mask=live_K)
        before_reach_K = next_reach_K
        before_K = next_reach_K + next_e_K.to(tl.float32) - next_shift
        before_tag = next_tag
        more = back + 1 < n
        kept_K -= size
        e_K -= e_step
        d_K -= size
        place -= 1
        next_reach_K = tl.load(kept_K - size, mask=live_K & more, other=float("-inf"))
        next_e_K = tl.load(e_K - e_step, mask=live_K & more, other=0.0)
        next_shift = tl.load(shift + place - 1, mask=more, other=0.0)
        if TAGGED:
            tag_at -= tags_step
            next_tag = tl.load(tag_at - tags_step, mask=more, other=-1).to(tl.int32)

        away_K = tl.where(reach_K == float("-inf"), float("inf"), reach_K)  # exp(-inf - inf) is 0, and not NaN
        pair_KK = tl.exp(before_K[:, None] + step_KK - away_K[None, :]) * q_K[None, :]
        q_K = tl.sum(pair_KK, 1)
        pairs_KK += pair_KK
        if TAGGED:
            pairs_KK -= (i_K == before_tag).to(tl.float32)[:, None] * (i_K == tag).to(tl.float32)[None, :]
        reach_K = before_reach_K
        tag = before_tag
        d_here_K = scale * (q_K - (i_K == tag).to(tl.float32))

    tl.store(d_K, d_here_K, mask=real_K)
    tl.store(own_K + K * K, d_here_K)
    tl.store(own_K[None, :] + i_K[:, None] * K, scale * pairs_KK)
    for begin in range(n * size, steps * size, 512):  # nothing beyond the row's end
        at = begin + tl.arange(0, 512)
        tl.store(d_emissions + row * steps * size + at, tl.zeros((512,), tl.float32), mask=at < steps * size)


@triton.jit
def crf_viterbi(
    emissions, start, transition, end, lengths, came_from, path, steps, size, e_row, e_step, K: tl.constexpr
):  # fmt: skip
    """path [rows, steps]: the tags of the highest score, 0 beyond a row's end. `came_from` [rows, steps, size]: the
    best tag before each, the first of equal ones. Scores are added up as a plain loop does: its ties are ties here."""
    row = tl.program_id(0).to(tl.int64)
    n = tl.minimum(tl.maximum(tl.load(lengths + row), 0), steps).to(tl.int32)
    i_K = tl.arange(0, K)
    live_K = i_K < size
    step_KK = load_transitions(transition, size, i_K, live_K)
    e_K = emissions + row * e_row + i_K
    from_at = came_from + row * steps * size
    path_at = path + row * steps

    best_K = tl.load(start + i_K, mask=live_K, other=float("-inf"))
    best_K += tl.load(e_K, mask=live_K & (n > 0), other=0.0).to(tl.float32)
    next_K = tl.load(e_K + e_step, mask=live_K & (n > 1), other=0.0)
    for t in range(1, n):
        here_K = next_K.to(tl.float32)
        e_K += e_step
        next_K = tl.load(e_K + e_step, mask=live_K & (t + 1 < n), other=0.0)
        best_K, from_K = tl.max(best_K[:, None] + step_KK, 0, return_indices=True, return_indices_tie_break_left=True)
        best_K += here_K
        tl.store(from_at + t * size + i_K, from_K.to(tl.uint8), mask=live_K)

    last_K = best_K + tl.load(end + i_K, mask=live_K, other=float("-inf"))
    tag = tl.minimum(tl.argmax(last_K, 0, tie_break_left=True), size - 1)  # among NaN it could be the filling
    tl.store(path_at + n - 1, tag.to(tl.int64), mask=n > 0)
    tl.debug_barrier()  # what other threads of the block have written is read from here on
    for back in range(1, n):
        tag = tl.load(from_at + (n - back) * size + tag).to(tl.int32)
        tag = tl.minimum(tag, size - 1)
        tl.store(path_at + n - back - 1, tag.to(tl.int64))
    for begin in range(n, steps, 512):
        at = begin + tl.arange(0, 512)
        tl.store(path_at + at, tl.zeros((512,), tl.int64), mask=at < steps)
