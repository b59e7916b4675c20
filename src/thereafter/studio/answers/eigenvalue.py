"""Answers of the eigenvalue panel: what is left after so many steps."""

from __future__ import annotations

from thereafter.serving.schema import Answer
from thereafter.studio.answers.backprop import DecayAnswer


class GainAnswer(Answer):
    """What is left after 0, 1, 2, ... steps, 1 at the beginning."""

    values: list[float | None]
    decay: DecayAnswer | None


class TrainedAnswer(GainAnswer):
    """`own` is the spectral radius the model was trained to."""

    own: float


class EigenvalueAnswer(Answer):
    """`power` is |W^k x| / |x|; the others are gradients by distance, `gates` along an LSTM's forget gates alone."""

    power: GainAnswer
    linear: GainAnswer
    tanh: GainAnswer
    lstm: GainAnswer
    gates: GainAnswer
    trained: TrainedAnswer | None
