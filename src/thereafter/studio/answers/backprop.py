"""Answers of the backpropagation panel: gradients of one loss, state by state."""

from __future__ import annotations

from typing import Literal

from thereafter.serving.schema import Answer


class DecayAnswer(Answer):
    """`share` of the value at distance 1 was measured at `distance`, the farthest; `verdict` is the word for it.

    From `under` steps on every measured value is under 1 %; null where that was not seen. `rate` is the factor a step
    of the power that fits the curve best.
    """

    verdict: Literal["vanishing", "fading", "kept", "exploding", "cut off"]
    share: float | None
    distance: int
    under: int | None
    rate: float
    words: str
    measured: str


class StateAnswer(Answer):
    """One field of one layer: the size of the state after every step, and of the gradient of the last loss in it.

    Of a memory with a direct path `direct` is what comes along it alone, `gates` the mean product of gates up to there.
    """

    layer: str
    field: str
    size: list[float | None]
    norm: list[float | None]
    direct: list[float | None] | None
    gates: list[float | None] | None
    decay: DecayAnswer | None


class BackpropAnswer(Answer):
    """`tokens[t]` is read before state t; the last state expects `target`. `share[n - 1]` is kept by n steps."""

    model: str
    tokens: list[str]
    target: str
    loss: float | None
    p: float | None
    states: list[StateAnswer]
    share: list[float | None]
    left_out: int


class VerbStateAnswer(Answer):
    """One field of one layer, by steps back from the verb; the last state has just read the subject."""

    layer: str
    field: str
    norm: list[float | None]
    direct: list[float | None] | None
    gates: list[float | None] | None
    decay: DecayAnswer | None


class VerbGradientsAnswer(Answer):
    """Means over `sentences`; `right` is the share of verbs whose right form is the likelier one."""

    model: str
    sentences: int
    right: float | None
    loss: float | None
    states: list[VerbStateAnswer]
