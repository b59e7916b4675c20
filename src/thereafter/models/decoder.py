"""The contract of decoders: given the memory of sources, a decoder is a `SequenceModel` over the target words.

So what serves language models (the beam search, the sampler, streams, traces) serves translations, captions and
whatever else an `task_net.Encoder` can read.

The words of a decoder are 0 to V - 1; it reads the start mark, V, before the first. A row of a state belongs to one
source. Rows may change places, be repeated or be left out (`select`); where their sources stay the same, as when the
hypotheses of a sentence change places, nothing of the memory is moved.

Shapes: B sources, R rows of a state, S places of a source, T steps, F features, V words.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from thereafter.errors import OptionError
from thereafter.layers.recurrent import count_parameters
from thereafter.models.base import Fields as Arrays
from thereafter.models.base import Ids, ModelFacts, SequenceModel, checked_tokens
from thereafter.models.quiet import NeuralState, SharedNetwork
from thereafter.models.task_net import Memory

Tensors = dict[str, Tensor]
"""Tensors by name, each with the rows as its first axis: what steps need of a memory, or the state of a decoder."""
Fields = dict[str, tuple[tuple[str, ...], Tensor]]
"""What a trace shows: `{field: (axis names, tensor)}`, of rows and steps and the further axes that are named."""


class Decoder(SharedNetwork, ABC):
    """A network that predicts words one after another, from the words before and the memory of a source."""

    @property
    @abstractmethod
    def vocabulary_size(self) -> int:
        """How many words it can predict, the end of a sequence among them."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Where it computes."""

    @abstractmethod
    def prepare(self, memory: Memory) -> Tensors:
        """What every step needs of a memory, computed once."""

    @abstractmethod
    def begin(self, source: Tensors) -> Tensors:
        """The state that has read nothing yet, not even the start mark; of what `prepare` gave."""

    @abstractmethod
    def advance(
        self, words_BT: Tensor, source: Tensors, state: Tensors, record: Fields | None = None
    ) -> tuple[Tensor, Tensors]:
        """Features [B, T, F] after each of the words, and the state after the last.

        `record` is filled with what a trace shows of every step; "attention" are its weights, [B, T, S].
        """

    @abstractmethod
    def log_prob(self, f_NF: Tensor) -> Tensor:
        """log p of every word after features, [N, V]."""

    @property
    def start(self) -> int:
        """The id that is read before the first word."""
        return self.vocabulary_size

    def given(self, memory: Memory) -> Conditioned:
        """The `SequenceModel` over the words that follow from these sources."""
        return Conditioned(self, memory)


@dataclass(frozen=True)
class ConditionedState:
    """A value: nothing in it is ever written to.

    `row_R`: the source each row belongs to; `source`: what steps need of it, row by row; `read_RT`: the words read so
    far; `inner`: the decoder's own state.
    """

    row_R: NDArray[np.int64]
    source: Tensors
    read_RT: NDArray[np.int64]
    inner: NeuralState

    def select(self, index: Ids) -> Self:
        """The rows `index`, in that order."""
        index_R = np.asarray(index, dtype=np.int64)
        row_R, source = self.row_R[index_R], self.source
        if not np.array_equal(row_R, self.row_R):
            wanted_R = torch.from_numpy(index_R)
            source = {name: tensor.index_select(0, wanted_R.to(tensor.device)) for name, tensor in source.items()}
        return replace(
            self, row_R=row_R, source=source, read_RT=self.read_RT[index_R], inner=self.inner.select(index_R)
        )

    def key(self) -> Hashable:
        """Continuous states never recur."""
        return self.inner.key()


class Conditioned(SequenceModel[ConditionedState]):
    """What `Decoder.given` returns: see the module and `base.SequenceModel`."""

    def __init__(self, decoder: Decoder, memory: Memory) -> None:
        self.vocabulary_size = decoder.vocabulary_size
        self._decoder, self._sources = decoder, len(memory)
        with decoder.quietly():
            self._source = decoder.prepare(memory)

    @property
    def facts(self) -> ModelFacts:
        return ModelFacts(self.vocabulary_size, count_parameters(self._decoder))

    def start(self, batch: int) -> ConditionedState:
        """A row for each source, or k for each: rows k to 2k - 1 are those of the second."""
        each = batch // max(1, self._sources)
        if not each or each * self._sources != batch:
            raise OptionError(
                f"{batch} rows were requested of a decoder with {self._sources} sources; expected a row for each "
                f"of them, or the same number for each; try start({self._sources})"
            )
        with self._decoder.quietly():
            sources = np.arange(self._sources)
            unread = ConditionedState(
                sources,
                self._source,
                np.empty((self._sources, 0), np.int64),
                NeuralState(self._decoder.begin(self._source)),
            )
            _, begun = self._read(np.full((self._sources, 1), self._decoder.start), unread)
            begun = replace(begun, read_RT=unread.read_RT)
            return begun if each == 1 else begun.select(sources.repeat(each))

    def predict(self, state: ConditionedState) -> NDArray[np.float32]:
        with self._decoder.quietly():
            return _numbers(self._decoder.log_prob(self._features(state)))

    def step(self, token_B: Ids, state: ConditionedState) -> tuple[NDArray[np.float32], ConditionedState]:
        with self._decoder.quietly():
            _, state = self._read(self._checked(np.asarray(token_B).reshape(-1, 1)), state)
            return _numbers(self._decoder.log_prob(self._features(state))), state

    def read(self, tokens_BT: Ids, state: ConditionedState) -> ConditionedState:
        """The state after tokens that are not scored."""
        tokens = self._checked(tokens_BT)
        with self._decoder.quietly():
            return self._read(tokens, state)[1] if tokens.shape[1] else state

    def ranked(self, state: ConditionedState, count: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The likeliest words after each row and their log p, likeliest first, [B, count]: ranked where they are
        computed, so that of all words only these are moved."""
        with self._decoder.quietly():
            logp_BC, word_BC = likeliest(self._decoder.log_prob(self._features(state)), count)
            return word_BC.cpu().numpy(), _numbers(logp_BC)

    def log_probs(self, tokens_BT: Ids, state: ConditionedState) -> tuple[NDArray[np.float32], ConditionedState]:
        tokens = self._checked(tokens_BT)
        if not tokens.shape[1]:
            return np.zeros(tokens.shape, np.float32), state
        with self._decoder.quietly():
            first_RF = self._features(state)
            f_RTF, state = self._read(tokens, state)
            before_RTF = torch.cat((first_RF[:, None], f_RTF[:, :-1]), 1)
            return self._log_prob_of(before_RTF, tokens), state

    def record(self, tokens_T: Ids, state: ConditionedState) -> Arrays:
        """Per step: log p of the observed word, and how the decoder predicted it: its gates, its attention.

        The words before are read again from the start mark on, since a state does not keep how it came about.
        """
        tokens = self._checked(np.asarray(tokens_T).reshape(1, -1))
        steps, before = tokens.shape[1], state.read_RT.shape[1]
        if len(state.row_R) != 1:
            raise OptionError(f"a record is of one row; the state has {len(state.row_R)}; try state.select([0])")
        words = np.concatenate([np.full((1, 1), self._decoder.start), state.read_RT, tokens], axis=1)[:, :-1]
        fields: Fields = {}
        with self._decoder.quietly():
            begun = self._decoder.begin(state.source)
            f_1TF, _ = self._decoder.advance(self._tensor(words), state.source, begun, fields)
            logp_1T = self._log_prob_of(f_1TF[:, before:], tokens)
        arrays: Arrays = {name: (axes, _numbers(tensor[0, before:])) for name, (axes, tensor) in fields.items()}
        return {"log_prob": (("step",), logp_1T[0, :steps]), **arrays}

    def _read(self, tokens_RT: Ids, state: ConditionedState) -> tuple[Tensor, ConditionedState]:
        """Features after each token, and the state after the last."""
        f_RTF, inner = self._decoder.advance(self._tensor(tokens_RT), state.source, dict(state.inner.memory))
        read_RT = np.concatenate([state.read_RT, tokens_RT], axis=1)
        return f_RTF, replace(state, read_RT=read_RT, inner=NeuralState(inner, f_RTF[:, -1].clone()))

    def _features(self, state: ConditionedState) -> Tensor:
        features = state.inner.features_BH
        if features is None:
            raise OptionError("the state has read nothing, not even the start mark; try model.start(batch)")
        return features

    def _log_prob_of(self, f_RTF: Tensor, tokens_RT: Ids) -> NDArray[np.float32]:
        logp_RTV = self._decoder.log_prob(f_RTF)
        return _numbers(logp_RTV.gather(2, self._tensor(tokens_RT)[:, :, None]).squeeze(2))

    def _checked(self, tokens_RT: Ids) -> Ids:
        return checked_tokens(tokens_RT, self.vocabulary_size)

    def _tensor(self, tokens: Ids) -> Tensor:
        return torch.from_numpy(tokens.astype(np.int64)).to(self._decoder.device)


def _numbers(tensor: Tensor) -> NDArray[np.float32]:
    return tensor.float().cpu().numpy()


# The few greatest of many numbers, found where they were computed.
#
# Shapes: R rows, V words, C of them requested.


_STRETCH = 64  # words whose greatest is found first


def likeliest(scores_RV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` greatest numbers of each row and their places, greatest first; fewer where a row has fewer.

    They lie in those `count` stretches of the row that have the greatest maxima, and a maximum is found faster than a
    place in an order.

    >>> value, place = likeliest(torch.tensor([[0.1, 0.4, 0.2]]), 2)
    >>> place.tolist()
    [[1, 2]]
    """
    rows, words = scores_RV.shape
    whole = words // _STRETCH
    if count >= whole:
        value, place = scores_RV.topk(min(count, words), -1)
        return value, place
    end = whole * _STRETCH
    chosen = scores_RV[:, :end].reshape(rows, whole, _STRETCH).amax(-1).topk(count, -1).indices
    place = (chosen[:, :, None] * _STRETCH + torch.arange(_STRETCH, device=chosen.device)).flatten(1)
    place = torch.cat((place, torch.arange(end, words, device=chosen.device).expand(rows, -1)), 1)
    value, which = scores_RV.gather(1, place).topk(count, -1)
    return value, place.gather(1, which)
