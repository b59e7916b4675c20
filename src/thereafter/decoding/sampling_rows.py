"""RowDrawing the next token of many rows at once, each with its own settings and generator.

A row draws what `sampling.draw` would draw for it alone: its weights are the same numbers, and of its generator it uses
one uniform number. Rows whose settings cut alike (top-k, top-p, min-p, forbidden tokens) are drawn in a few operations
over all of them; temperatures may differ. Rows with a repetition penalty are drawn one by one.

Shapes: B rows, R rows that cut alike, V words that can be predicted, N words left of them, K the likeliest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thereafter.decoding.sampling import draw
from thereafter.decoding.warping import Floats, Warping, keep_nucleus, largest
from thereafter.models.base import Ids, Logs

_NUCLEUS = 256
"""So many of the likeliest words are sorted first: most nuclei are among them."""

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
    logs_RV: Floats = np.array(logp_RV, dtype=np.float64)
    logs_RV[:, list(drawings[0].forbidden)] = -np.inf
    best_R = logs_RV.argmax(axis=1)
    most_R = logs_RV[np.arange(len(best_R)), best_R]
    temperature_R = np.array([drawing.warping.temperature for drawing in drawings])
    tokens: list[int | None] = best_R.tolist()
    for line in np.flatnonzero(np.isneginf(most_R)).tolist():
        tokens[line] = None
    sampled_R = np.flatnonzero((temperature_R > 0) & ~np.isneginf(most_R))
    if len(sampled_R) < len(tokens):
        logs_RV, most_R, temperature_R = logs_RV[sampled_R], most_R[sampled_R], temperature_R[sampled_R]
    if len(sampled_R):
        chosen = [drawings[line] for line in sampled_R.tolist()]
        drawn = _sample(logs_RV, most_R[:, None], temperature_R[:, None], chosen)
        for line, token in zip(sampled_R.tolist(), drawn, strict=True):
            tokens[line] = token
    return tokens


def _sample(logs_RV: Floats, most_R1: Floats, temperature_R1: Floats, drawings: Sequence[RowDrawing]) -> list[int]:
    """As `Warping.weights` and `draw`, for rows in which something is possible; `logs_RV` is overwritten."""
    warping = drawings[0].warping
    ids_RK: NDArray[np.intp] | None = None
    if warping.top_k is not None and warping.top_k < logs_RV.shape[1]:
        ids_RK = np.sort(largest(logs_RV, warping.top_k), axis=1)
        logs_RV = np.take_along_axis(logs_RV, ids_RK, axis=1)
    weights_RN = np.subtract(logs_RV, most_R1, out=logs_RV)
    if (temperature_R1 != 1).any():
        with np.errstate(over="ignore"):  # as in `Warping.weights`
            np.divide(weights_RN, temperature_R1, out=weights_RN)
    np.exp(weights_RN, out=weights_RN)
    if warping.top_p < 1:
        weights_RN = _nuclei(weights_RN, warping.top_p)
    if warping.min_p > 0:
        weights_RN[weights_RN < warping.min_p] = 0.0
    ends_RN = np.cumsum(weights_RN, axis=1)
    tokens = []
    for row, (drawing, ends_N) in enumerate(zip(drawings, ends_RN, strict=True)):
        place = int(ends_N.searchsorted(drawing.rng.random() * ends_N[-1], side="right"))
        if place == len(ends_N):  # rounding at the very end of the line
            place = int(np.flatnonzero(weights_RN[row])[-1])
        tokens.append(place if ids_RK is None else int(ids_RK[row, place]))
    return tokens


def _nuclei(weights_RN: Floats, top_p: float) -> Floats:
    """As `warping.keep_nucleus` for each row, sorting only the likeliest words where these are enough."""
    words = weights_RN.shape[1]
    ids_RK = largest(weights_RN, min(_NUCLEUS, words))
    sorted_RK = np.take_along_axis(weights_RN, ids_RK, axis=1)
    sums_RK = np.cumsum(sorted_RK, axis=1)
    whole_R1 = top_p * weights_RN.sum(axis=1, keepdims=True)
    kept_RN = np.zeros_like(weights_RN)
    inside_RK = np.pad(sums_RK[:, :-1], [(0, 0), (1, 0)]) < whole_R1  # what all likelier ones together do not reach
    np.put_along_axis(kept_RN, ids_RK, np.where(inside_RK, sorted_RK, 0.0), axis=1)
    if words > _NUCLEUS:
        for row in np.flatnonzero(sums_RK[:, -1] < whole_R1[:, 0]).tolist():
            kept_RN[row] = keep_nucleus(weights_RN[row], top_p)
    return kept_RN
