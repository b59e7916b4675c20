"""Drawing the next token of many rows at once, each with its own settings and generator.

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
_ONES_S = np.ones(_BLOCK)

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
    """Tokens of rows that cut alike: the likeliest where the temperature is 0, else draws, some rows at a time."""
    best_R = _likeliest(logp_RV, drawings[0].forbidden)
    temperature_R = np.array([drawing.warping.temperature for drawing in drawings])
    tokens: list[int | None] = [None if best < 0 else best for best in best_R.tolist()]
    lines_R = np.flatnonzero((temperature_R > 0) & (best_R >= 0))
    for begin in range(0, len(lines_R), _ROWS):
        lines = lines_R[begin : begin + _ROWS]
        chosen = [drawings[line] for line in lines.tolist()]
        most_R1 = logp_RV[lines, best_R[lines]][:, None].astype(np.float64)
        weights_RW, ids_RK = _weigh(logp_RV[lines], most_R1, temperature_R[lines, None], chosen[0])
        places = _places(weights_RW, np.array([drawing.rng.random() for drawing in chosen]))
        for row, (line, place) in enumerate(zip(lines.tolist(), places, strict=True)):
            tokens[line] = place if ids_RK is None else int(ids_RK[row, place])
    return tokens


def _likeliest(logp_RV: Logs, forbidden: Sequence[int]) -> NDArray[np.intp]:
    """The likeliest token of each row, ties to the lower id; -1 where nothing is possible."""
    best_R = logp_RV.argmax(axis=1)
    for row in np.flatnonzero(np.isin(best_R, forbidden)).tolist() if forbidden else ():
        logs_V = logp_RV[row].copy()
        logs_V[list(forbidden)] = -np.inf
        best_R[row] = logs_V.argmax()
    impossible_R = np.isneginf(logp_RV[np.arange(len(best_R)), best_R]) | np.isin(best_R, forbidden)
    return np.where(impossible_R, -1, best_R)


def _weigh(
    logp_RV: Logs, most_R1: Floats, temperature_R1: Floats, drawing: RowDrawing
) -> tuple[Floats, NDArray[np.intp] | None]:
    """As `Warping.weights`, in full blocks; with top-k of the k likeliest alone, and which these are."""
    warping, words, forbidden = drawing.warping, logp_RV.shape[1], list(drawing.forbidden)
    ids_RK: NDArray[np.intp] | None = None
    if warping.top_k is not None and warping.top_k < words:
        logp_RV[:, forbidden] = -np.inf
        ids_RK = np.sort(largest(logp_RV, warping.top_k), axis=1)
        logp_RV = np.take_along_axis(logp_RV, ids_RK, axis=1)
        words, forbidden = warping.top_k, []
    weights_RW: Floats = np.empty((len(logp_RV), -(-words // _BLOCK) * _BLOCK))
    weights_RV = weights_RW[:, :words]
    weights_RV[:] = logp_RV
    weights_RV -= most_R1
    with np.errstate(over="ignore"):  # as in `Warping.weights`, and where a forbidden token is the likeliest
        if (temperature_R1 != 1).any():
            weights_RV /= temperature_R1
        np.exp(weights_RV, out=weights_RV)
    weights_RW[:, words:] = 0.0
    weights_RW[:, forbidden] = 0.0
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
    rows = len(weights_RW)
    blocks_RKS = weights_RW.reshape(rows, -1, _BLOCK)
    ends_RK = np.cumsum(blocks_RKS @ _ONES_S, axis=1)
    goal_R1 = u_R[:, None] * ends_RK[:, -1:]
    block_R = np.minimum((ends_RK <= goal_R1).sum(axis=1), ends_RK.shape[1] - 1)
    each_R = np.arange(rows)
    inside_RS = blocks_RKS[each_R, block_R]
    before_R1 = np.where(block_R > 0, ends_RK[each_R, block_R - 1], 0.0)[:, None]
    place_R = (np.cumsum(inside_RS, axis=1) <= goal_R1 - before_R1).sum(axis=1)
    places: list[int] = (block_R * _BLOCK + place_R).tolist()
    for row in np.flatnonzero((place_R == _BLOCK) | (inside_RS.max(axis=1) == 0)).tolist():  # rounding at a block's end
        places[row] = int(np.searchsorted(np.cumsum(weights_RW[row]), goal_R1[row, 0], side="right"))
        places[row] = min(places[row], int(np.flatnonzero(weights_RW[row])[-1]))
    return places
