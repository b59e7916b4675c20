"""The states of a recurrent model over a long text, piece by piece: nothing as long as the text is ever in memory.

A text is read as several stretches side by side, since a product of many rows is much faster than many products of
one. Each stretch starts from `<s>` some tokens before its own part; the states of these are not given.

Shapes: R rows, T steps, N places shown, U units of a field.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from thereafter.base.progress import task
from thereafter.errors import OptionError
from thereafter.inspection.applies import with_units
from thereafter.models.base import Ids
from thereafter.models.neural import NeuralModel

WARM = 300
"""Tokens a stretch reads before it is shown; the first stretch begins where the text does and needs none."""
MOST_ROWS = 64
_ROW = 2000  # tokens worth a stretch of their own
_NUMBERS = 1 << 23  # recorded at once, 32 MB


@dataclass(frozen=True)
class StatesChunk:
    """States after some tokens: `places_N` says which, `fields["l0.c"]` is [N, U], in the same order."""

    places_N: NDArray[np.int64]
    fields: dict[str, NDArray[np.float32]]


def stream_states(
    model: object,
    ids: Ids,
    *,
    gates: bool = False,
    rows: int | None = None,
    warm: int = WARM,
    label: str = "reading",
) -> Iterator[StatesChunk]:
    """The state fields of every layer (h, and c where there is one; with `gates` also these) after every token.

    Chunks come in no order of the text, and each place in one of them. One row is the text as `lm.trace` reads it; with
    more, a state knows what came since at least `warm` tokens before it.
    """
    network = with_units(model)
    if not len(ids):
        raise OptionError("the text is empty; expected at least one token")
    count = max(1, min(MOST_ROWS, len(ids) // _ROW)) if rows is None else max(1, min(rows, len(ids)))
    stretch = math.ceil(len(ids) / count)
    shown_R = np.arange(count) * stretch
    begin_R = np.maximum(shown_R - warm, 0)
    steps = int((shown_R - begin_R).max()) + stretch
    at_once = max(1, _NUMBERS // (count * _width(network)))
    with task(label, total=len(ids), unit="tokens") as advance, network.quietly():
        state = network.begin(count)
        for done in range(0, steps, at_once):
            places_RT = begin_R[:, None] + np.arange(done, min(done + at_once, steps))
            inside_RT = places_RT < len(ids)
            tokens_RT = np.where(inside_RT, ids[np.minimum(places_RT, len(ids) - 1)], 0)
            tokens = torch.from_numpy(tokens_RT.astype(np.int64)).to(network.device)
            # reading a line end may be starting again with `<s>`
            reset_RT = None if network.restart is None else torch.eq(tokens, network.restart)
            if reset_RT is not None:
                tokens = tokens.masked_fill(reset_RT, network.vocabulary_size)
            look = network.look(tokens, state, reset_BT=reset_RT)
            state = look.state
            wanted_RT = inside_RT & (places_RT >= shown_R[:, None]) & (places_RT < shown_R[:, None] + stretch)
            if wanted_RT.any():
                chosen = torch.from_numpy(wanted_RT)
                fields = {
                    name: array.cpu()[chosen].float().numpy()
                    for name, array in look.arrays.items()
                    if gates or name.rpartition(".")[2] in network.fields
                }
                yield StatesChunk(places_RT[wanted_RT], fields)
            advance(int(wanted_RT.sum()))


def _width(model: NeuralModel) -> int:
    """About how many numbers are recorded for a token."""
    return sum(cell.hidden_size * (len(cell.gates) + len(model.fields)) for cell in model.cells.values())
