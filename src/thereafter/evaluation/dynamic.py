"""Dynamic evaluation: a neural model that keeps learning from the text it is scored on, each part after its score.

    score tokens t .. t + n,  L their mean -log p,  w0 the trained weights
    rms   w <- w - rate dL/dw / (r + m) + decay (r / m) (w0 - w)
    sgd   w <- w - rate dL/dw + decay (w0 - w)

where r is the root mean square of each dL/dw over training text, and m the mean of r (Krause, Kahembwe, Murray and
Renals 2018, Dynamic evaluation of neural sequence models; they add a tiny constant in place of m and take r from all of
the training text; from a part of it, r is 0 for rare words, which would then take endless steps). A token is always
scored before anything is learned from it, so the probabilities are those of a model that knows the past only.

Shapes: 1 row, T steps, H features, V words that can be predicted.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from thereafter.base import progress
from thereafter.errors import OptionError, TrainingError
from thereafter.evaluation.dynamic_settings import STATISTICS_TOKENS, DynamicSettings
from thereafter.models.base import Fields, Floats, Ids, ModelFacts, SequenceModel
from thereafter.models.neural import NeuralModel
from thereafter.models.quiet import NeuralState


@dataclass(frozen=True)
class DynamicState:
    """Where a segment began: the state before its first input, that input, and the tokens of it read so far."""

    inner: NeuralState
    first: int
    waiting: tuple[int, ...] = ()

    def select(self, index: Ids) -> DynamicState:
        if np.asarray(index).tolist() != [0]:
            raise OptionError("a model that learns from its text reads one row; expected the row 0 alone")
        return self

    def key(self) -> Hashable:
        raise TypeError("a model that learns from its text is never the same twice")


class DynamicModel(SequenceModel[DynamicState]):
    """A neural model inside a `with`: it learns as it reads, as a copy. The original model is unchanged, so
    that other threads may use it meanwhile.

    A SequenceModel of one row that must be read in order, since all states share the weights; `start` begins again with
    the trained ones. Where the text is cut into pieces does not matter.
    """

    def __init__(
        self, model: NeuralModel, settings: DynamicSettings | None = None, statistics: Sequence[Tensor] | None = None
    ) -> None:
        self.model = model
        self.settings = (settings or DynamicSettings()).complete(statistics is not None)
        self.vocabulary_size = model.vocabulary_size
        self._original = model
        self._weights: list[Tensor] = []
        self._trained: list[Tensor] = []
        self._scales: list[Tensor] = []
        self._pulls: list[Tensor] = []
        self._read = 0
        if self.settings.rule == "rms" and statistics is not None:
            self._scales, self._pulls = _scales_and_pulls(statistics, self.settings.decay or 0.0)

    def __enter__(self) -> Self:
        with torch.inference_mode(False):
            self.model = deepcopy(self._original).eval()
        self._trained, self._weights = _learned_weights(self._original), _learned_weights(self.model)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.model = self._original
        self._weights = self._trained = []

    @property
    def facts(self) -> ModelFacts:
        """The model's, except that what it has learned outlives a line, and nothing else can train it."""
        return replace(self._original.facts, restart=None, differentiable=False)

    def start(self, batch: int) -> DynamicState:
        if batch != 1:
            raise OptionError(f"batch is {batch}; a model that learns from its text reads one row; expected 1")
        if not self._trained:
            raise OptionError("dynamic evaluation has not begun; try: with DynamicModel(model) as adapted: ...")
        with torch.inference_mode(False), torch.no_grad():
            for weight, trained in zip(self._weights, self._trained, strict=True):
                weight.copy_(trained)
        self._read = 0
        return DynamicState(self.model.fresh(1), self.vocabulary_size)

    def predict(self, state: DynamicState) -> NDArray[np.float32]:
        with torch.no_grad():
            return self.model.head.log_prob(self._ahead(state)).float().cpu().numpy()

    def step(self, token_B: Ids, state: DynamicState) -> tuple[NDArray[np.float32], DynamicState]:
        _, state = self.log_probs(np.asarray(token_B).reshape(1, -1), state)
        return self.predict(state), state

    def log_probs(self, tokens_BT: Ids, state: DynamicState) -> tuple[NDArray[np.float32], DynamicState]:
        logp_1T, _, state = self._read_and_learn(tokens_BT, state, keep=False)
        return logp_1T, state

    def observe(self, tokens_BT: Ids, state: DynamicState) -> tuple[Floats, Floats, DynamicState]:
        logp_1T, seen, state = self._read_and_learn(tokens_BT, state, keep=True)
        before_TH = torch.cat(seen).float().cpu().numpy() if seen else self.last_features(state)[:0]
        return logp_1T, before_TH[None], state

    def last_features(self, state: DynamicState) -> Floats:
        with torch.no_grad():
            return self._ahead(state).float().cpu().numpy()

    def input_embedding(self) -> Floats:
        return self.model.input_embedding()

    def record(self, tokens_T: Ids, state: DynamicState) -> Fields:
        """log p of the observed tokens."""
        return {"log_prob": (("step",), self.log_probs(np.asarray(tokens_T).reshape(1, -1), state)[0][0])}

    # ---- implementation

    def _read_and_learn(
        self, tokens_BT: Ids, state: DynamicState, *, keep: bool
    ) -> tuple[NDArray[np.float32], list[Tensor], DynamicState]:
        tokens = np.asarray(tokens_BT)
        if tokens.ndim != 2 or len(tokens) != 1:
            raise OptionError(f"tokens are {tokens.shape}; a model that learns from its text reads one row; try [1, T]")
        ids = self.model.checked(tokens)[0].tolist()
        logp_1T, seen, at = np.empty(tokens.shape, dtype=np.float32), list[Tensor](), 0
        with progress.task("learning from the text", total=len(ids), unit="tokens") as advance:
            while at < len(ids):
                waiting = len(state.waiting)
                segment, full = self._cut(state.waiting, ids, at)
                new = len(segment) - waiting
                logp_T, before_TH, state = self._segment(state, segment, full)
                logp_1T[0, at : at + new] = logp_T[waiting:]
                if keep:
                    seen.append(before_TH[waiting:])
                at += new
                self._read += new
                advance(new)
        return logp_1T, seen, state

    def _cut(self, waiting: tuple[int, ...], ids: list[int], at: int) -> tuple[tuple[int, ...], bool]:
        """The segment as far as its tokens have come, and whether it is complete: full, or at the end of a line."""
        coming = ids[at : at + self.settings.segment - len(waiting)]
        if self.model.restart is not None and self.model.restart in coming:
            return (*waiting, *coming[: coming.index(self.model.restart) + 1]), True
        return (*waiting, *coming), len(waiting) + len(coming) == self.settings.segment

    def _segment(
        self, state: DynamicState, segment: tuple[int, ...], full: bool
    ) -> tuple[NDArray[np.float32], Tensor, DynamicState]:
        """Score a segment; learn from it where it is full."""
        tokens_1T = torch.tensor([[state.first, *segment]], device=self.model.device)
        with torch.inference_mode(False), torch.set_grad_enabled(full):
            h_1TH, table, after = self.model.encode(tokens_1T[:, :-1], state.inner)
            nats_T = self.model.head.nll(h_1TH[0], tokens_1T[0, 1:], table)
            if full:
                self._learn(nats_T)
        logp_T = nats_T.detach().neg().float().cpu().numpy()
        if not full:
            return logp_T, h_1TH[0].detach(), replace(state, waiting=segment)
        if not np.isfinite(logp_T).all():
            raise TrainingError(
                f"dynamic evaluation ran away near token {self._read:,} (rate {self.settings.rate:g}); the weights are "
                "the trained ones again; try a lower rate (--dynamic-rate)"
            )
        if segment[-1] == self.model.restart:
            return logp_T, h_1TH[0].detach(), DynamicState(self.model.fresh(1), self.vocabulary_size)
        return logp_T, h_1TH[0].detach(), DynamicState(after.detach(), segment[-1])

    def _learn(self, nats_T: Tensor) -> None:
        # the gradient of the sum is what the head has at hand already; the mean's share is put into the rate
        gradients = torch.autograd.grad(nats_T.sum(), self._weights, allow_unused=True)
        rate, decay = (self.settings.rate or 0.0) / len(nats_T), self.settings.decay or 0.0
        with torch.no_grad():
            for k, (weight, gradient) in enumerate(zip(self._weights, gradients, strict=True)):
                if decay:
                    weight.lerp_(self._trained[k], self._pulls[k] if self._pulls else decay)
                if gradient is None:
                    continue
                if self._scales:
                    weight.addcdiv_(gradient, self._scales[k], value=-rate)
                else:
                    weight.add_(gradient, alpha=-rate)

    def _ahead(self, state: DynamicState) -> Tensor:
        tokens_1T = torch.tensor([[state.first, *state.waiting]], device=self.model.device)
        with torch.inference_mode(False), torch.no_grad():
            h_1TH, _, _ = self.model.encode(tokens_1T, state.inner)
        return h_1TH[:, -1]


def _learned_weights(model: NeuralModel) -> list[Tensor]:
    return [weight for weight in model.parameters() if weight.requires_grad]


def gradient_statistics(model: NeuralModel, ids: Ids, segment: int) -> list[Tensor]:
    """The root mean square of each weight's gradient over segments of a text, one by one as they will be scored."""
    weights = _learned_weights(model)
    squares, count = [torch.zeros_like(weight) for weight in weights], 0
    text = np.append(model.vocabulary_size, ids[:STATISTICS_TOKENS])  # <s> first, as wherever a text is read
    tokens_1T = torch.from_numpy(text.astype(np.int64))[None].to(model.device)
    with model.evaluating():
        state = model.fresh(1)
        for begin in range(0, len(text) - 1, segment):
            end = min(begin + segment, len(text) - 1)
            with torch.inference_mode(False), torch.enable_grad():
                inputs_BT, targets_BT = tokens_1T[:, begin:end].clone(), tokens_1T[:, begin + 1 : end + 1].clone()
                h_BTH, table, after = model.encode(inputs_BT, state)
                nats = model.head.nll(h_BTH.flatten(0, 1), targets_BT.flatten(), table).sum()
                gradients = torch.autograd.grad(nats, weights, allow_unused=True)
            for square, gradient in zip(squares, gradients, strict=True):
                if gradient is not None:
                    square.addcmul_(gradient, gradient, value=1 / targets_BT.numel() ** 2)
            state, count = after.detach(), count + 1
    return [square.div_(max(1, count)).sqrt_() for square in squares]


def _scales_and_pulls(statistics: Sequence[Tensor], decay: float) -> tuple[list[Tensor], list[Tensor]]:
    """What gradients are divided by, and how fast each weight is pulled back."""
    total = sum(float(r.sum(dtype=torch.float64)) for r in statistics)
    mean = max(total / max(1, sum(r.numel() for r in statistics)), 1e-12)
    return [r + mean for r in statistics], [(r * (decay / mean)).clamp_(max=1.0) for r in statistics]
