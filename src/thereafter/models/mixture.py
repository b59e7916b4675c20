"""Several models as one: linear interpolation.

Shapes: K models, B rows, T steps, V words that can be predicted.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import OptionError
from thereafter.models.any_model import AnyModel
from thereafter.models.base import Fields, Ids, Logs, ModelFacts, SequenceModel, State

TOKENS_AT_ONCE = 1 << 16
"""How many tokens of a row are mixed at once, so that K lists of numbers for a whole text never exist."""


@dataclass(frozen=True)
class MixtureState:
    """The states of the models."""

    parts: tuple[State, ...]

    def select(self, index: Ids) -> MixtureState:
        return MixtureState(tuple(part.select(index) for part in self.parts))

    def key(self) -> Hashable:
        return tuple(part.key() for part in self.parts)


class MixtureModel(SequenceModel[MixtureState]):
    """p(w | past) = sum_k weights_k p_k(w | past)   (Jelinek and Mercer 1980).

    The models share a vocabulary and nothing else: each keeps a state, and a context, of its own.
    """

    def __init__(
        self, models: Sequence[AnyModel], weights: Sequence[float], names: Sequence[str] | None = None
    ) -> None:
        if not models:
            raise OptionError("a mixture of no models was requested; expected one model at least")
        sizes = sorted({model.vocabulary_size for model in models})
        if len(sizes) > 1:
            raise OptionError(
                f"the models have vocabularies of {' and '.join(f'{size:,}' for size in sizes)} words; expected one "
                "and the same; try training them with one tokenizer on one text"
            )
        self.models = tuple(models)
        self.weights = checked_weights(weights, len(models))
        self.names = tuple(names or (f"model {number}" for number in range(1, len(models) + 1)))
        self.vocabulary_size = sizes[0]
        with np.errstate(divide="ignore"):  # a weight of 0 has the log -inf, as it should
            self._log_weights_K = np.log(np.asarray(self.weights, dtype=np.float64))

    @property
    def facts(self) -> ModelFacts:
        """It starts afresh if all of its models do, and gives probabilities if all of them do."""
        facts = [model.facts for model in self.models]
        restarts = {part.restart for part in facts}
        return ModelFacts(
            vocabulary_size=self.vocabulary_size,
            parameters=sum(part.parameters for part in facts),
            restart=restarts.pop() if len(restarts) == 1 else None,
            normalised=all(part.normalised for part in facts),
        )

    def start(self, batch: int) -> MixtureState:
        return MixtureState(tuple(model.start(batch) for model in self.models))

    def predict(self, state: MixtureState) -> NDArray[np.float32]:
        return self._mix([model.predict(part) for model, part in zip(self.models, state.parts, strict=True)])

    def step(self, token_B: Ids, state: MixtureState) -> tuple[NDArray[np.float32], MixtureState]:
        stepped = [model.step(token_B, part) for model, part in zip(self.models, state.parts, strict=True)]
        return self._mix([logp for logp, _ in stepped]), MixtureState(tuple(after for _, after in stepped))

    def read(self, tokens_BT: Ids, state: MixtureState) -> MixtureState:
        return MixtureState(
            tuple(model.read(tokens_BT, part) for model, part in zip(self.models, state.parts, strict=True))
        )

    def stack(self, states: Sequence[MixtureState]) -> MixtureState:
        parts = zip(*(state.parts for state in states), strict=True)
        return MixtureState(tuple(model.stack(own) for model, own in zip(self.models, parts, strict=True)))

    def log_probs(self, tokens_BT: Ids, state: MixtureState) -> tuple[NDArray[np.float32], MixtureState]:
        tokens = np.asarray(tokens_BT)
        if tokens.ndim != 2:
            raise OptionError(f"tokens have {tokens.ndim} axes; expected [rows, steps]")
        logp_BT = np.empty(tokens.shape, dtype=np.float32)
        for begin in range(0, max(1, tokens.shape[1]), TOKENS_AT_ONCE):
            piece = slice(begin, begin + TOKENS_AT_ONCE)
            apart, state = self.apart(tokens[:, piece], state)
            logp_BT[:, piece] = self._mix(apart)
        return logp_BT, state

    def predictions(self, tokens_T: Ids, state: MixtureState) -> Iterator[NDArray[np.float32]]:
        parts = (model.predictions(tokens_T, part) for model, part in zip(self.models, state.parts, strict=True))
        return (self._mix(pieces) for pieces in zip(*parts, strict=True))

    def context_sizes(self, tokens_T: Ids) -> NDArray[np.int64]:
        """Those of the model that sees most."""
        sizes: NDArray[np.int64] = np.stack([model.context_sizes(tokens_T) for model in self.models]).max(axis=0)
        return sizes

    def apart(self, tokens_BT: Ids, state: MixtureState) -> tuple[list[Logs], MixtureState]:
        """log p of each token under each of the models by itself, K times [B, T]."""
        results = [model.log_probs(tokens_BT, part) for model, part in zip(self.models, state.parts, strict=True)]
        return [np.asarray(logp) for logp, _ in results], MixtureState(tuple(after for _, after in results))

    def record(self, tokens_T: Ids, state: MixtureState) -> Fields:
        """Per step: log p of the observed token, and each model's share in it, `weights_k p_k / p`."""
        apart, _ = self.apart(np.asarray(tokens_T).reshape(1, -1), state)
        logp_T = self._mix(apart)[0]
        weighted_TK = np.stack([logp[0] for logp in apart], axis=1) + self._log_weights_K
        finite_T = np.where(np.isneginf(logp_T), 0, logp_T)
        share_TK = np.exp(np.where(np.isneginf(weighted_TK), -np.inf, weighted_TK - finite_T[:, None]))
        return {"log_prob": (("step",), logp_T), "share": (("step", "model"), share_TK.astype(np.float32))}

    def _mix(self, logp_K: Sequence[Logs]) -> NDArray[np.float32]:
        return mix(logp_K, self._log_weights_K)


def mix(logp_K: Sequence[Logs], log_weights_K: NDArray[np.float64]) -> NDArray[np.float32]:
    """log sum_k exp(log_weights_k + logp_k); -inf where all of them are."""
    total: NDArray[np.float64] = np.add(logp_K[0], log_weights_K[0], dtype=np.float64)
    for logp, log_weight in zip(logp_K[1:], log_weights_K[1:], strict=True):
        np.logaddexp(total, np.add(logp, log_weight, dtype=np.float64), out=total)
    return total.astype(np.float32)


def checked_weights(weights: Sequence[float], count: int) -> tuple[float, ...]:
    """Weights that are shares of a whole; what is missing to 1 in the last digits is mended.

    >>> checked_weights([0.25, 0.75], 2)
    (0.25, 0.75)
    """
    shares = [float(weight) for weight in weights]
    listed = ", ".join(f"{weight:g}" for weight in shares)
    if len(shares) != count:
        raise OptionError(f"there are {len(shares)} weights ({listed}) for {count} models; expected one for each")
    if not all(math.isfinite(weight) and weight >= 0 for weight in shares) or abs(sum(shares) - 1) > 1e-3:
        even = ", ".join([f"{1 / count:.3g}"] * count)
        raise OptionError(f"the weights are {listed}; expected shares of 0 or more that add up to 1; try {even}")
    return tuple(weight / sum(shares) for weight in shares)
