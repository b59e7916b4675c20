"""The backpropagation panel: the gradient of one loss in every state of a sentence, for several models."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from thereafter.inspection.decay import fit_decay
from thereafter.inspection.gradients import last_loss, verb_flow
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.sentence_reader import SentenceReader
from thereafter.language_model import LanguageModel
from thereafter.serving.schema import Answer, Asked, ModelName, Prompt
from thereafter.studio.asking import of_language_models
from thereafter.studio.panels.numbers import number, numbers

START = "<s>"
"""What stands before every text; it has no piece of its own in a vocabulary."""
Numbers = list[float | None]


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


class BackpropAsked(Asked):
    models: Annotated[list[ModelName], Field(min_length=1, max_length=6)]
    text: Prompt
    limit: Annotated[int, Field(ge=3, le=80)] = 40


class VerbsAsked(Asked):
    """`between`: words between subject and verb, the same in all sentences."""

    models: Annotated[list[ModelName], Field(min_length=1, max_length=6)]
    between: Annotated[int, Field(ge=2, le=40)] = 6
    count: Annotated[int, Field(ge=1, le=200)] = 60


@of_language_models(BackpropAsked)
def backprop(lm: LanguageModel, text: str, *, limit: int, name: str = "") -> BackpropAnswer:
    """What the loss at the last token of a text sends back to every state, under each of several recurrent models.

    The answer has the states of one model over the text, and the gradient in each. At most `limit` tokens are read, and
    where lines stand alone those of the last line; `left_out` are not. `name` is what the answer calls the model.
    """
    ids = lm.encode(text)
    flow = last_loss(lm.model, _last_line(ids, lm.model.facts.restart), steps=limit)
    pieces = [lm.tokenizer.piece(token) for token in flow["token"].tolist()]
    states = []
    for i, layer, k, field in _carried(flow):
        norm_T = flow["norm"][i, :, k]
        direct, gates = _along_gates(flow, i, field)
        states.append(
            StateAnswer(
                layer=layer,
                field=field,
                size=numbers(flow["size"][i, :, k]),
                norm=numbers(norm_T),
                direct=direct,
                gates=gates,
                decay=decay_of(norm_T[::-1]),
            )
        )
    loss = float(flow.about["loss"])
    return BackpropAnswer(
        model=name,
        tokens=[START, *pieces[:-1]],
        target=pieces[-1],
        loss=number(loss),
        p=number(np.exp(-loss)),
        states=states,
        share=numbers(flow["share"]),
        left_out=len(ids) - len(pieces),
    )


@of_language_models(VerbsAsked, "verb_gradients")
def verb_gradients(lm: LanguageModel, *, between: int, count: int, name: str = "") -> VerbGradientsAnswer:
    """What the loss at the verbs of new agreement sentences sends back to their subjects, under several models.

    Means over `count` sentences whose verb stands `between` words after the subject. Here `norm`, `direct` and `gates`
    go by steps back from the verb; the last is the state that has just read the subject.
    """
    flow = verb_flow(SentenceReader.of(lm.model, lm.tokenizer, lm.config), distance=between, count=count)
    states = []
    for i, layer, k, field in _carried(flow):
        norm_D = flow["norm"][i, :, k]
        direct, gates = _along_gates(flow, i, field)
        states.append(
            VerbStateAnswer(
                layer=layer, field=field, norm=numbers(norm_D), direct=direct, gates=gates, decay=decay_of(norm_D)
            )
        )
    return VerbGradientsAnswer(
        model=name,
        sentences=flow.about["losses"],
        right=number(flow.about["right"]),
        loss=number(flow.about["loss"]),
        states=states,
    )


def _carried(flow: Measurement) -> list[tuple[int, str, int, str]]:
    """Every layer and field whose state is carried on. The first layer and the first field are the word vectors, which
    are read and not carried."""
    layers, fields = flow["layer"].tolist(), flow["field"].tolist()
    return [(i, layers[i], k, fields[k]) for i in range(1, len(layers)) for k in range(1, len(fields))]


def _along_gates(flow: Measurement, i: int, field: str) -> tuple[Numbers | None, Numbers | None]:
    """Of a memory with a direct path: the gradient that comes along it alone, and the mean product of its gates."""
    memory = "c" if "c" in flow["field"].tolist() else "h"
    if field != memory or np.isnan(flow["gates"][i]).all():
        return None, None
    return numbers(flow["direct"][i]), numbers(flow["gates"][i])


def _last_line(ids: NDArray[np.int32], end: int | None) -> NDArray[np.int32]:
    """The tokens after the last line end but one, which closes the text; all of them where there is no such token."""
    ends: list[int] = [] if end is None else np.flatnonzero(ids[:-1] == end).tolist()
    return ids[ends[-1] + 1 :] if ends else ids


def decay_of(norm_D: NDArray[np.floating]) -> DecayAnswer | None:
    """How a norm decays with the distance, as `inspection.decay` describes it; None where a number is not finite."""
    if not np.isfinite(norm_D).all():
        return None
    decay = fit_decay(norm_D)
    return DecayAnswer(
        verdict=decay.verdict,
        share=number(decay.share),
        distance=decay.distance,
        under=decay.under,
        rate=float(decay.rate),
        words=str(decay),
        measured=decay.measured(),
    )
