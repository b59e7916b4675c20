"""The states of a recurrent model over a long text, piece by piece: nothing of the size of the text is ever held.

A text is read as several stretches side by side, since a product of many rows is much faster than many products of
one. Each stretch begins afresh, some tokens before the part it is asked about; those are read and not shown.

Shapes: R rows, T steps, N places shown, U units of a field.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from thereafter.errors import OptionError
from thereafter.kinds import listed, recurrent_names
from thereafter.models.base import SequenceModel
from thereafter.models.recurrent import RecurrentModel
from thereafter.progress import task

WARM = 300
"""Tokens a stretch reads before it is shown; the first stretch begins where the text does and needs none."""
MOST_ROWS = 64
_ROW = 2000  # tokens worth a stretch of their own
_NUMBERS = 1 << 23  # recorded at once, 32 MB


@dataclass(frozen=True)
class Piece:
    """States after some tokens: `places_N` says which, `fields["l0.c"]` is [N, U], in the same order."""

    places_N: NDArray[np.int64]
    fields: dict[str, NDArray[np.float32]]


def recurrent(model: SequenceModel[Any]) -> RecurrentModel:
    """The model, if it has units that carry a state from token to token."""
    if not isinstance(model, RecurrentModel):
        raise OptionError(f"{type(model).__name__} has no recurrent units; expected {listed(recurrent_names())}")
    return model


def read_states(
    model: SequenceModel[Any],
    ids: NDArray[np.integer[Any]],
    *,
    gates: bool = False,
    rows: int | None = None,
    warm: int = WARM,
    label: str = "reading",
) -> Iterator[Piece]:
    """The state fields of every layer (h, and c where there is one; with `gates` also these) after every token.

    Pieces come in no order of the text, and each place in one of them. One row is the text as `lm.trace` reads it; with
    more, a state knows what came since at least `warm` tokens before it.
    """
    cells = recurrent(model)
    if not len(ids):
        raise OptionError("the text is empty; expected at least one token")
    count = max(1, min(MOST_ROWS, len(ids) // _ROW)) if rows is None else max(1, min(rows, len(ids)))
    stretch = math.ceil(len(ids) / count)
    shown_R = np.arange(count) * stretch
    begin_R = np.maximum(shown_R - warm, 0)
    steps = int((shown_R - begin_R).max()) + stretch
    at_once = max(1, _NUMBERS // (count * _width(cells)))
    with task(label, total=len(ids), unit="tokens") as advance, cells.quietly():
        state = cells.begin(count)
        before = _packed(cells, state.memory)
        for done in range(0, steps, at_once):
            places_RT = begin_R[:, None] + np.arange(done, min(done + at_once, steps))
            inside_RT = places_RT < len(ids)
            tokens_RT = np.where(inside_RT, ids[np.minimum(places_RT, len(ids) - 1)], 0)
            fields, before = _traced(cells, tokens_RT, before, gates)
            wanted_RT = inside_RT & (places_RT >= shown_R[:, None]) & (places_RT < shown_R[:, None] + stretch)
            if wanted_RT.any():
                chosen = torch.from_numpy(wanted_RT)
                kept = {name: array[chosen].float().numpy() for name, array in fields.items()}
                yield Piece(places_RT[wanted_RT], kept)
            advance(int(wanted_RT.sum()))


def _traced(model: RecurrentModel, tokens_RT: NDArray[Any], before: Any, gates: bool) -> tuple[dict[str, Any], Any]:
    """What the layers show of themselves, and the state after; reading a line end may be starting again with `<s>`."""
    tokens = torch.from_numpy(tokens_RT.astype(np.int64)).to(model.device)
    reset = None
    if model.restart is not None:
        reset = tokens == model.restart
        tokens = tokens.masked_fill(reset, model.vocabulary_size)
    traced = model.layers.trace(model.embedding(tokens), before, reset=reset)
    shown = {
        f"{lane}.{name}": array.cpu()
        for lane, arrays in traced.records.items()
        for name, array in arrays.items()
        if gates or name in model.fields
    }
    return shown, traced.state


def _packed(model: RecurrentModel, memory: Any) -> Any:
    """A state as the layers take it."""
    columns = [tuple(memory[f"{field}_{lane.name}"] for lane in model.layers.lanes) for field in model.fields]
    return columns[0] if len(columns) == 1 else tuple(columns)


def _width(model: RecurrentModel) -> int:
    """Numbers a token's record has, about."""
    return sum(lane.cell.hidden_size * (len(lane.cell.gates) + len(model.fields)) for lane in model.layers.lanes)
