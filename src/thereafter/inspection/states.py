"""The states of a neural model after each word of many sentences, layer by layer.

Shapes: B sentences read at once, T steps, E word vector, S the size of a layer's state, N words of all sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from thereafter import progress
from thereafter.errors import EmptyCorpusError, OptionError
from thereafter.inspection.reader import Reader
from thereafter.models.neural import NeuralModel
from thereafter.models.recurrent import RecurrentModel
from thereafter.models.transformer import TransformerModel

Layers = dict[str, NDArray[np.float32]]
"""States by layer, from the word vectors up: each [steps of a sentence, size of the layer]."""

_TOKENS_AT_ONCE = 8192


def read_states(reader: Reader, sentences: Sequence[Sequence[str]], *, field: str = "h") -> list[Layers]:
    """For each sentence, given as words, the states after each of its words.

    "words" are the word vectors themselves; then come "l0", "l1", ..., the outputs h of recurrent layers, or "block 0",
    "block 1", ..., the residual stream after each block of a Transformer; other models have "features". Every sentence
    is read from a fresh start, as the fast path reads it: states do not depend on which sentences are read together.
    `field` is another state of recurrent layers than h, such as the cell state "c" of an LSTM.
    """
    model = neural(reader)
    known = model.fields if isinstance(model, RecurrentModel) else ("h",)
    if field not in known:
        raise OptionError(f"the model {reader.name!r} has no state {field!r}; expected one of {', '.join(known)}")
    reader.whole_words()
    if not sentences:
        raise EmptyCorpusError("there are no sentences to read states from; expected at least one")
    rows = [reader.ids(" ".join(words)) for words in sentences]
    order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
    found: list[Layers] = [{} for _ in rows]
    with progress.task("reading states", total=len(rows), unit="sentences") as advance, model.quietly():
        for batch in _batches(order, [len(row) for row in rows]):
            # sentences are causal: what fills the short ones up comes after all that is kept
            tokens_BT = np.zeros((len(batch), len(rows[batch[-1]])), dtype=np.int64)
            for place, row in enumerate(batch):
                tokens_BT[place, : len(rows[row])] = rows[row]
            layers = _layers(model, model.checked(tokens_BT), field)
            for place, row in enumerate(batch):
                begin, end = len(rows[row]) - len(sentences[row]), len(rows[row])
                found[row] = {name: states_BTS[place, begin:end].copy() for name, states_BTS in layers.items()}
            advance(len(batch))
    return found


def neural(reader: Reader) -> NeuralModel:
    """The model of a reader, refused where it has no states to look into."""
    if not isinstance(reader.model, NeuralModel):
        raise OptionError(
            f"the model {reader.name!r} has no hidden states to probe; expected a neural model, such as lstm"
        )
    return reader.model


def _batches(order: Sequence[int], lengths: Sequence[int]) -> Iterator[list[int]]:
    """Sentences of rising length, so many at a time that their tokens, filled up, stay below a limit."""
    batch: list[int] = []
    for row in order:
        if batch and (len(batch) + 1) * lengths[row] > _TOKENS_AT_ONCE:
            yield batch
            batch = []
        batch.append(row)
    yield batch


def _layers(model: NeuralModel, tokens_BT: Tensor, field: str) -> dict[str, NDArray[np.float32]]:
    """The states of a batch, [B, T, S] each."""
    state = model.begin(len(tokens_BT))
    layers: dict[str, Tensor] = {"words": model.embedding(tokens_BT)}
    if isinstance(model, RecurrentModel):
        columns = [tuple(state.memory[f"{name}_{lane.name}"] for lane in model.layers.lanes) for name in model.fields]
        traced = model.layers.trace(layers["words"], columns[0] if len(columns) == 1 else tuple(columns))
        layers |= {lane: record[field] for lane, record in traced.records.items()}
    elif isinstance(model, TransformerModel):
        layers |= _blocks(model, tokens_BT, state)
    else:
        layers["features"] = model.encode(tokens_BT, state)[0]
    return {name: states_BTS.float().cpu().numpy() for name, states_BTS in layers.items()}


def _blocks(model: TransformerModel, tokens_BT: Tensor, state: Any) -> dict[str, Tensor]:
    """What each block of a Transformer gives. Pieces end where the context is full, as the model's own do."""
    context, done = model.settings.context, 0
    latest: dict[str, Tensor] = {}
    pieces: dict[str, list[Tensor]] = {f"block {number}": [] for number in range(len(model.blocks))}

    def keep(name: str) -> Any:
        # a full context is first read again: the last call is the one that reads the piece
        return lambda block, given, output: latest.__setitem__(name, output[0])

    with ExitStack() as hooks:
        for name, block in zip(pieces, model.blocks, strict=True):
            hooks.callback(block.register_forward_hook(keep(name)).remove)
        while done < tokens_BT.shape[1]:
            held = int(state.memory["held"][0])
            room = context - (held if held < context else context // 2)
            state = model.encode(tokens_BT[:, done : done + room], state)[2]
            done += room
            for name, states_BTH in latest.items():
                pieces[name].append(states_BTH)
    return {name: torch.cat(parts, dim=1) for name, parts in pieces.items()}
