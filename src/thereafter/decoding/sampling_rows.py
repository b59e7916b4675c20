"""RowDrawing the next token of many rows at once, each with its own settings and generator.

A row draws what `sampling.draw` would draw for it alone: its weights are the same numbers, and of its generator it uses
one uniform number. Rows whose settings cut alike (top-k, top-p, min-p, forbidden tokens) are drawn in a few operations
over all of them; temperatures may differ. Rows with a repetition penalty are drawn one by one.

Shapes: B rows, R rows that cut alike, V words that can be predicted, W places for them in full blocks, S words
of a block, K blocks, or the likeliest words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thereafter.decoding.sampling import draw
from thereafter.decoding.warping import Floats, Warping, keep_nucleus, largest
from thereafter.models.base import Ids, Logs

_ROWS = 8
"""Rows that are weighed at once: those of common vocabularies then stay in a processor's cache."""
_BLOCK = 128
"""Words whose weights are summed first."""

Cut = tuple[int | None, float, float, tuple[int, ...]]


@dataclass(frozen=True)
class RowDrawing:
    """How one row draws. `seen`: the tokens that pay the repetition penalty, where there is one."""

    warping: Warping
    rng: np.random.Generator
    forbidden: tuple[int, ...] = ()
    seen: Ids | None = None

    @property
    def cut(self) -> Cut:
        """What must be equal for rows to be drawn together."""
        return self.warping.top_k, self.warping.top_p, self.warping.min_p, self.forbidden


def draw_rows(logp_BV: Logs, drawings: Sequence[RowDrawing]) -> list[int | None]:
    """A token for each row; None where nothing is possible."""
    tokens: list[int | None] = [None] * len(drawings)
    alike: dict[Cut, list[int]] = {}
    for line, drawing in enumerate(drawings):
        if drawing.warping.repetition_penalty != 1 or len(drawings) == 1:
            tokens[line] = _draw_one(logp_BV[line], drawing)
        else:
            alike.setdefault(drawing.cut, []).append(line)
    for lines in alike.values():
        logp_RV = logp_BV if len(lines) == len(logp_BV) else logp_BV[lines]
        for line, token in zip(lines, _draw_alike(logp_RV, [drawings[line] for line in lines]), strict=True):
            tokens[line] = token
    return tokens


def _draw_one(logp_V: Logs, drawing: RowDrawing) -> int | None:
    weights_V = drawing.warping.weights(logp_V, seen=drawing.seen, forbidden=drawing.forbidden)
    if weights_V is None:
        return None
    return int(np.argmax(weights_V)) if drawing.warping.temperature == 0 else draw(weights_V, drawing.rng)


def _draw_alike(logp_RV: Logs, drawings: Sequence[RowDrawing]) -> list[int | None]:
    """Tokens of rows that cut alike."""
    tokens: list[int | None] = []
    forbidden = list(drawings[0].forbidden)
    blocks = -(-logp_RV.shape[1] // _BLOCK)
    for begin in range(0, len(drawings), _ROWS):
        part = slice(begin, begin + _ROWS)
        logs_RW: Floats = np.full((len(drawings[part]), blocks * _BLOCK), -np.inf)
        logs_RW[:, : logp_RV.shape[1]] = logp_RV[part]
        logs_RW[:, forbidden] = -np.inf
        tokens += _draw_few(logs_RW, logp_RV.shape[1], drawings[part])
    return tokens


def _draw_few(logs_RW: Floats, words: int, drawings: Sequence[RowDrawing]) -> list[int | None]:
    """As many rows as a processor keeps near: likeliest tokens where the temperature is 0, else draws."""
    best_R = logs_RW.argmax(axis=1)
    most_R = logs_RW[np.arange(len(best_R)), best_R]
    temperature_R = np.array([drawing.warping.temperature for drawing in drawings])
    possible_R = ~np.isneginf(most_R)
    sampled_R = possible_R & (temperature_R > 0)
    tokens: list[int | None] = [
        int(best) if possible else None for best, possible in zip(best_R, possible_R, strict=True)
    ]
    lines = np.flatnonzero(sampled_R)
    if len(lines) < len(tokens):
        logs_RW, most_R, temperature_R = logs_RW[lines], most_R[lines], temperature_R[lines]
    if len(lines):
        chosen = [drawings[line] for line in lines.tolist()]
        weights_RW, ids_RK = _weigh(logs_RW, words, most_R[:, None], temperature_R[:, None], chosen[0].warping)
        u_R = np.array([drawing.rng.random() for drawing in chosen])
        places = _places(weights_RW, u_R)
        for row, (line, place) in enumerate(zip(lines.tolist(), places, strict=True)):
            tokens[line] = place if ids_RK is None else int(ids_RK[row, place])
    return tokens


def _weigh(
    logs_RW: Floats, words: int, most_R1: Floats, temperature_R1: Floats, warping: Warping
) -> tuple[Floats, NDArray[np.intp] | None]:
    """As `Warping.weights`, in the place of the logs; with top-k of the k likeliest alone, and which these are."""
    ids_RK: NDArray[np.intp] | None = None
    if warping.top_k is not None and warping.top_k < words:
        ids_RK = np.sort(largest(logs_RW[:, :words], warping.top_k), axis=1)
        logs_RW = np.take_along_axis(logs_RW, ids_RK, axis=1)
    weights_RW = np.subtract(logs_RW, most_R1, out=logs_RW)
    if (temperature_R1 != 1).any():
        with np.errstate(over="ignore"):  # as in `Warping.weights`
            np.divide(weights_RW, temperature_R1, out=weights_RW)
    np.exp(weights_RW, out=weights_RW)
    if warping.top_p < 1:
        weights_RW = keep_nucleus(weights_RW, warping.top_p)
    if warping.min_p > 0:
        weights_RW[weights_RW < warping.min_p] = 0.0
    return weights_RW, ids_RK


def _places(weights_RW: Floats, u_R: Floats) -> list[int]:
    """Where the share u of each row's weight is reached: first the block, then the place in it.

    Sums over blocks are several times faster than the running sum of `draw`; both are exact to the last digits of
    float64, in which two neighbouring words never lie.
    """
    rows, width = weights_RW.shape
    size = _BLOCK if width % _BLOCK == 0 else width
    blocks_RKS = weights_RW.reshape(rows, -1, size)
    ends_RK = np.cumsum(blocks_RKS.sum(axis=2), axis=1)
    goal_R1 = u_R[:, None] * ends_RK[:, -1:]
    block_R = np.minimum((ends_RK <= goal_R1).sum(axis=1), ends_RK.shape[1] - 1)
    each_R = np.arange(rows)
    inside_RS = blocks_RKS[each_R, block_R]
    before_R1 = np.where(block_R > 0, ends_RK[each_R, block_R - 1], 0.0)[:, None]
    place_R = (np.cumsum(inside_RS, axis=1) <= goal_R1 - before_R1).sum(axis=1)
    places: list[int] = (block_R * size + place_R).tolist()
    for row in np.flatnonzero((place_R == size) | (inside_RS.max(axis=1) == 0)).tolist():  # rounding at a block's end
        places[row] = int(np.searchsorted(np.cumsum(weights_RW[row]), goal_R1[row, 0], side="right"))
        places[row] = min(places[row], int(np.flatnonzero(weights_RW[row])[-1]))
    return places
