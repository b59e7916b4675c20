"""Rows of a text to measure a model on: each is read from `<s>`, as the model reads a text.

Shapes: B rows, T steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from thereafter.errors import OptionError
from thereafter.models.base import Ids
from thereafter.models.neural import NeuralModel


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
