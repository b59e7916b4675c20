"""What instruments read a text with: the models they apply to, rows of a text, states over a long one.

Rows are read from `<s>`, as the model reads a text. States come piece by piece: nothing as long as the text is ever in
memory. The text is read as several stretches side by side, since a product of many rows is much faster than many
products of one. Each stretch starts from `<s>` some tokens before its own part; the states of these are not given.

Shapes: B or R rows, T steps, N places shown, U units of a field.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from thereafter.base.kinds import listed, recurrent_names
from thereafter.base.progress import task
from thereafter.errors import OptionError
from thereafter.models.base import Ids
from thereafter.models.neural import NeuralModel


def neural(model: object, purpose: str) -> NeuralModel:
    """The model itself where it has gradients; else an error that says which have."""
    if isinstance(model, NeuralModel):
        return model
    from thereafter.models.build import NEURAL

    raise OptionError(f"only a neural model has {purpose}; got {model_name(model)}; try a run of: {', '.join(NEURAL)}")


def recurrent(model: object, purpose: str) -> NeuralModel:
    """The model itself where its layers carry a state from token to token."""
    network = neural(model, purpose)
    if not network.fields:
        raise OptionError(
            f"{purpose} needs a recurrent model and got {model_name(model)!r}; try {listed(recurrent_names())}"
        )
    return network


def with_units(model: object) -> NeuralModel:
    """The same, for those who look for units."""
    if not isinstance(model, NeuralModel) or not model.fields:
        raise OptionError(f"{type(model).__name__} has no recurrent units; expected {listed(recurrent_names())}")
    return model


def still_copy(model: NeuralModel) -> NeuralModel:
    """A copy to measure on: evaluation mode, no gradients of weights, float64 since long products leave float32."""
    return deepcopy(model).eval().requires_grad_(False).double()


def model_name(model: object) -> str:
    """What a model is called in captions where nobody gave it a name."""
    return type(model).__name__.removesuffix("Model").lower()


@dataclass(frozen=True)
class TextRows:
    """`inputs_BT` begin with `<s>`, `targets_BT` are the tokens themselves; the mask is false beyond a row's end."""

    inputs_BT: Tensor
    targets_BT: Tensor
    mask_BT: Tensor

    @property
    def steps(self) -> int:
        return self.inputs_BT.shape[1]


def longest(model: NeuralModel, ids: Ids) -> int:
    """How many tokens the model can see in one go: of the text, of a line where lines stand alone, of its context."""
    most = max(map(len, _pieces(model, ids)), default=0)
    return min(most, model.most_at_once or most)


def cut_rows(model: NeuralModel, ids: Ids, *, least: int, most: int, rows: int) -> TextRows:
    """At most `rows` rows of `least` to `most` tokens. A [rows, steps] array is taken as it is, each row cut at `most`.

    Where lines stand alone the rows are the first lines that are long enough; else pieces spread evenly over the text.
    """
    seen = longest(model, ids)
    if seen < least:
        what = "line" if model.restart is not None else "text"
        raise OptionError(
            f"the longest {what} the model can see at once has {seen} tokens; expected at least {least}; "
            "try a longer text, or fewer steps back"
        )
    most = min(most, model.most_at_once or most)
    pieces = [piece for piece in _pieces(model, ids) if len(piece) >= least]
    if np.ndim(ids) == 1 and model.restart is None:
        size = min(most, len(pieces[0]))
        places = np.unique(np.linspace(0, len(pieces[0]) - size, min(rows, len(pieces[0]) // size)).astype(int))
        pieces = [pieces[0][place : place + size] for place in places]
    pieces = [piece[:most] for piece in pieces[:rows]]
    width = max(map(len, pieces))
    targets = np.zeros((len(pieces), width), dtype=np.int64)
    mask = np.zeros((len(pieces), width), dtype=np.bool_)
    for row, piece in enumerate(pieces):
        targets[row, : len(piece)], mask[row, : len(piece)] = piece, True
    inputs = np.concatenate([np.full((len(pieces), 1), model.vocabulary_size), targets[:, :-1]], axis=1)
    model.checked(targets)  # ids of another vocabulary raise here
    tensors = (torch.from_numpy(array).to(model.device) for array in (inputs, targets, mask))
    return TextRows(*tensors)


def _pieces(model: NeuralModel, ids: Ids) -> list[Ids]:
    ids = np.asarray(ids)
    if ids.ndim == 2:
        return list(ids)
    if ids.ndim != 1:
        raise OptionError(f"ids have {ids.ndim} axes; expected one row of tokens, or [rows, steps]")
    if model.restart is None:
        return [ids] if len(ids) else []
    ends = np.flatnonzero(ids == model.restart) + 1
    return [line for line in np.split(ids, ends) if len(line)]


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
    cells = network.cells.values()
    width = sum(cell.hidden_size * (len(cell.gates) + len(network.fields)) for cell in cells)  # numbers a token, about
    at_once = max(1, _NUMBERS // (count * width))
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
