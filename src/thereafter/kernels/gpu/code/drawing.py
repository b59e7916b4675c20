"""Drawing the next token of every row: penalty, temperature, top-k, top-p, min-p and the draw, in one pass.

A block has one row, all its words in registers. The k-th largest log probability, and the one at which the likeliest
words reach a share of the whole, are found bit by bit over the numbers as integers of the same order: 32 counts or
sums, in place of a sort. Weights are float64.

Shapes: V words in a power of two.
"""

import triton
import triton.language as tl


@triton.jit
def ordered(x):
    """float32 as an unsigned integer of the same order."""
    bits = x.to(tl.int32, bitcast=True)
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(tl.uint32, bitcast=True) ^ 0x80000000


@triton.jit
def draw_row(
    logp, u, place, drawn, token, seen, forbidden, temperature, top_p, min_p, penalty, top_k, words, rows,
    GREEDY: tl.constexpr, TOP_K: tl.constexpr, TOP_P: tl.constexpr, MIN_P: tl.constexpr, PENALTY: tl.constexpr,
    FORBIDDEN: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    """A token for each row, by the uniform number u [steps, rows] of its place: into `token`, and with its log p into
    `drawn` [steps, 2, rows]; -1 there where nothing is possible. The row's place goes on by one."""
    row = tl.program_id(0)
    word_V = tl.arange(0, WORDS)
    live_V = word_V < words
    first = row.to(tl.int64) * words
    logs_V = tl.load(logp + first + word_V, mask=live_V, other=float("-inf"))
    if PENALTY:
        seen_V = tl.load(seen + first + word_V, mask=live_V, other=0) != 0
        wide_V = logs_V.to(tl.float64)
        scaled_V = tl.where(wide_V < 0, wide_V * penalty, wide_V / penalty)
        scaled_V = tl.minimum(tl.maximum(scaled_V, -3e38), 3e38).to(tl.float32)
        logs_V = tl.where(seen_V & (logs_V > float("-inf")), scaled_V, logs_V)
    if FORBIDDEN:
        forbidden_V = tl.load(forbidden + word_V, mask=live_V, other=1) != 0
        logs_V = tl.where(forbidden_V, float("-inf"), logs_V)
    best = tl.max(logs_V, 0)
    at = tl.load(place + row)
    if GREEDY:
        chosen = tl.min(tl.where(logs_V == best, word_V, WORDS - 1), 0)
    else:
        if TOP_K:
            key_V = ordered(logs_V)
            least = tl.full((), 0, tl.uint32)
            for bit in range(32):
                tried = least | (tl.full((), 0x80000000, tl.uint32) >> bit)
                least = tl.where(tl.sum((key_V >= tried).to(tl.int32), 0) >= top_k, tried, least)
            equal_V = (key_V == least).to(tl.int32)
            room = top_k - tl.sum((key_V > least).to(tl.int32), 0)
            kept_V = (key_V > least) | ((equal_V != 0) & (tl.cumsum(equal_V, 0) <= room))
            logs_V = tl.where(kept_V, logs_V, float("-inf"))
        weight_V = tl.exp((logs_V.to(tl.float64) - best.to(tl.float64)) / temperature)
        weight_V = tl.where(live_V, weight_V, 0.0)
        if TOP_P:
            key_V = ordered(logs_V)
            enough = top_p * tl.sum(weight_V, 0)
            least = tl.full((), 0, tl.uint32)
            for bit in range(32):
                tried = least | (tl.full((), 0x80000000, tl.uint32) >> bit)
                least = tl.where(tl.sum(tl.where(key_V >= tried, weight_V, 0.0), 0) >= enough, tried, least)
            equal_V = (key_V == least).to(tl.int32)
            above = tl.sum(tl.where(key_V > least, weight_V, 0.0), 0)
            before_V = above + (tl.cumsum(equal_V, 0) - 1).to(tl.float64) * weight_V
            kept_V = (key_V > least) | ((equal_V != 0) & (before_V < enough))
            weight_V = tl.where(kept_V, weight_V, 0.0)
        if MIN_P:
            weight_V = tl.where(weight_V < min_p, 0.0, weight_V)
        end_V = tl.cumsum(weight_V, 0)
        goal = tl.load(u + at * rows + row) * tl.max(end_V, 0)
        chosen = tl.sum((live_V & (end_V <= goal)).to(tl.int32), 0)
        chosen = tl.minimum(chosen, tl.max(tl.where(weight_V > 0, word_V, 0), 0))  # rounding at the end of the line
    possible = best > float("-inf")
    chosen = tl.where(possible, chosen, 0)
    tl.store(token + row, chosen)
    tl.store(drawn + at * 2 * rows + row, tl.where(possible, chosen, -1).to(tl.float64))
    tl.store(drawn + (at * 2 + 1) * rows + row, tl.load(logp + first + chosen).to(tl.float64))
    tl.store(place + row, at + 1)
    if PENALTY:
        tl.store(seen + first + chosen, 1)
