"""A linear probe: multinomial logistic regression that reads a label from a state.

    p(c | x) = softmax(W x + b)_c,    minimise  - sum_n log p(y_n | x_n) + (l2 / 2) |W|^2

over standardised states, in float64, by L-BFGS from zero: the problem is convex, so there is one answer, and the same
one each time. It comes with a control task (Hewitt and Liang 2019, Designing and interpreting probes with control
tasks): every word type gets a label at random, drawn as often as the true ones. A probe that does well on it has
learned words by heart; what is read from the state is

    selectivity = accuracy - accuracy of the control

Shapes: N states, S numbers a state, C labels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from thereafter.errors import OptionError

PENALTIES = (1.0, 30.0, 1000.0)
"""What l2 is chosen from where it is left open, from learning by heart to learning next to nothing."""
_STEPS = 200
_FLAT = 1e-9  # a unit that moves less than this does not move

Floats = NDArray[np.floating]
Labels = NDArray[np.integer]


@dataclass(frozen=True)
class Probe:
    """Weights over states as they come; the standardisation is folded into them. `prior_C`: how often labels were."""

    weight_CS: NDArray[np.float64]
    bias_C: NDArray[np.float64]
    prior_C: NDArray[np.float64]

    def log_prob(self, states_NS: Floats) -> NDArray[np.float64]:
        """log p of every label, [N, C]."""
        logits_NC = states_NS.astype(np.float64) @ self.weight_CS.T + self.bias_C
        logits_NC -= logits_NC.max(axis=1, keepdims=True)
        logp_NC: NDArray[np.float64] = logits_NC - np.log(np.exp(logits_NC).sum(axis=1, keepdims=True))
        return logp_NC


@dataclass(frozen=True)
class Reading:
    """How well a probe reads held-out states.

    `chance` is the share of the label that was most frequent in fitting. `bits` is the gain in cross-entropy over
    knowing only how frequent the labels were: 0 where the states say nothing, less where the probe misleads.
    """

    accuracy: float
    chance: float
    bits: float
    total: int


def fit(states_NS: Floats, labels_N: Labels, classes: int, *, l2: float | None = None) -> Probe:
    """The probe that fits best; `l2` is by default the one of `PENALTIES` under which three quarters of the states tell
    most about the last quarter."""
    if len(states_NS) != len(labels_N) or not len(labels_N):
        raise OptionError(f"got {len(states_NS)} states and {len(labels_N)} labels; expected as many, at least one")
    if l2 is None:
        cut = max(1, 3 * len(labels_N) // 4)
        tried = [fit(states_NS[:cut], labels_N[:cut], classes, l2=one) for one in PENALTIES]
        rest = slice(min(cut, len(labels_N) - 1), None)
        gains = [read(probe, states_NS[rest], labels_N[rest]).bits for probe in tried]
        l2 = PENALTIES[int(np.argmax(gains))]
    if not (l2 >= 0 and math.isfinite(l2)):
        raise OptionError(f"l2 is {l2!r}; expected 0 or more; try {PENALTIES[1]}")
    x_NS = states_NS.astype(np.float64)
    mean_S, spread_S = x_NS.mean(axis=0), x_NS.std(axis=0)
    scale_S = np.where(spread_S > _FLAT, spread_S, 1.0)
    weight_CS, bias_C = _solve((x_NS - mean_S) / scale_S, labels_N, classes, l2)
    weight_CS = weight_CS / scale_S
    # one more of each label than was seen: a label that was not is rare, and not impossible
    prior_C = (np.bincount(labels_N, minlength=classes) + 1) / (len(labels_N) + classes)
    return Probe(weight_CS, bias_C - weight_CS @ mean_S, prior_C)


def _solve(
    x_NS: NDArray[np.float64], labels_N: Labels, classes: int, l2: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    x, y = torch.from_numpy(x_NS), torch.from_numpy(labels_N.astype(np.int64))
    weight = torch.zeros(classes, x.shape[1], dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(classes, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [weight, bias],
        max_iter=_STEPS,
        tolerance_grad=1e-7,
        tolerance_change=1e-12,
        history_size=20,
        line_search_fn="strong_wolfe",
    )

    def loss() -> float:
        optimizer.zero_grad()
        nats = torch.nn.functional.cross_entropy(x @ weight.T + bias, y, reduction="sum")
        mean = (nats + 0.5 * l2 * weight.square().sum()) / len(y)
        mean.backward()  # type: ignore[no-untyped-call]
        return float(mean.detach())

    with torch.enable_grad():
        optimizer.step(loss)  # type: ignore[no-untyped-call]
    return weight.detach().numpy(), bias.detach().numpy()


def read(probe: Probe, states_NS: Floats, labels_N: Labels) -> Reading:
    """What the probe makes of states it was not fitted on."""
    if not len(labels_N):
        raise OptionError("there are no states to test the probe on; expected at least one")
    logp_NC = probe.log_prob(states_NS)
    nats = -logp_NC[np.arange(len(labels_N)), labels_N].mean()
    prior_nats = -np.log(probe.prior_C)[labels_N].mean()
    return Reading(
        accuracy=float((logp_NC.argmax(axis=1) == labels_N).mean()),
        chance=float((labels_N == probe.prior_C.argmax()).mean()),
        bits=float((prior_nats - nats) / math.log(2)),
        total=len(labels_N),
    )


def control_labels(words: Sequence[str], labels_N: Labels, seed: int = 0) -> NDArray[np.int64]:
    """A label for each word type, drawn from the labels as they stand, given to every occurrence of the word."""
    rng = np.random.default_rng([seed, 0xC0])
    types = sorted(set(words))
    drawn = dict(zip(types, rng.choice(np.asarray(labels_N), size=len(types)).tolist(), strict=True))
    return np.array([drawn[word] for word in words], dtype=np.int64)
