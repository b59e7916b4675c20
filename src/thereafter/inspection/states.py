"""The states of a neural model after each word of many sentences, layer by layer.

Shapes: B sentences read at once, T steps, E word vector, S the size of a layer's state, N words of all sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from thereafter import progress
from thereafter.errors import EmptyCorpusError, OptionError
from thereafter.inspection.sentence_reader import SentenceReader
from thereafter.models.neural import NeuralModel

Layers = dict[str, NDArray[np.float32]]
"""States by layer, from the word vectors up: each [steps of a sentence, size of the layer]."""

_TOKENS_AT_ONCE = 8192


def read_states(reader: SentenceReader, sentences: Sequence[Sequence[str]], *, field: str = "h") -> list[Layers]:
    """For each sentence, given as words, the states after each of its words.

    "words" are the word vectors themselves; then come "l0", "l1", ..., the outputs h of recurrent layers, or "block 0",
    "block 1", ..., the residual stream after each block of a Transformer; other models have "features". Every sentence
    is read from a fresh start, as the fast path reads it: states do not depend on which sentences are read together.
    `field` is another state of recurrent layers than h, such as the cell state "c" of an LSTM.
    """
    model = reader.model
    if not isinstance(model, NeuralModel):
        raise OptionError(
            f"the model {reader.name!r} has no hidden states to probe; expected a neural model, such as lstm"
        )
    known = model.fields or ("h",)
    if field not in known:
        raise OptionError(f"the model {reader.name!r} has no state {field!r}; expected one of {', '.join(known)}")
    reader.whole_words()
    if not sentences:
        raise EmptyCorpusError("there are no sentences to read states from; expected at least one")
    rows = [reader.ids(" ".join(words)) for words in sentences]
    order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
    states: list[Layers] = [{} for _ in rows]
    with progress.task("reading states", total=len(rows), unit="sentences") as advance, model.quietly():
        for batch in _batches(order, [len(row) for row in rows]):
            # models are causal: the padding of short sentences comes after all that is kept
            tokens_BT = np.zeros((len(batch), len(rows[batch[-1]])), dtype=np.int64)
            for place, row in enumerate(batch):
                tokens_BT[place, : len(rows[row])] = rows[row]
            layers = _layers(model, model.checked(tokens_BT), field)
            for place, row in enumerate(batch):
                begin, end = len(rows[row]) - len(sentences[row]), len(rows[row])
                states[row] = {name: states_BTS[place, begin:end].copy() for name, states_BTS in layers.items()}
            advance(len(batch))
    return states


def _batches(order: Sequence[int], lengths: Sequence[int]) -> Iterator[list[int]]:
    """Sentences of rising length, so many at a time that their tokens, padding included, stay below a limit."""
    batch: list[int] = []
    for row in order:
        if batch and (len(batch) + 1) * lengths[row] > _TOKENS_AT_ONCE:
            yield batch
            batch = []
        batch.append(row)
    yield batch


def _layers(model: NeuralModel, tokens_BT: Tensor, field: str) -> dict[str, NDArray[np.float32]]:
    """The states of a batch, [B, T, S] each."""
    look = model.look(tokens_BT, model.begin(len(tokens_BT)))
    states = {name: layer.arrays["x" if layer.cell is None else field] for name, layer in look.layers.items()}
    if len(states) == 1:  # the word vectors alone
        states["features"] = look.features_BTH
    return {name: states_BTS.float().cpu().numpy() for name, states_BTS in states.items()}
