"""Gradients: of one loss in every state of a sentence, for several models; and what multiplying by the same matrix
again and again does to a vector and to a gradient (the eigenvalue panel).
"""

from __future__ import annotations

from copy import deepcopy
from typing import Annotated, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from thereafter.errors import OptionError
from thereafter.inspection.gradients import fit_decay, gradient_flow, last_loss, verb_flow
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.sentence_reader import SentenceReader
from thereafter.inspection.stability import repeated_multiplication
from thereafter.language_model import LanguageModel
from thereafter.models.recurrent import RnnModel
from thereafter.serving.schema import Answer, Asked, ModelName, Prompt
from thereafter.studio.asking import Visitor, answers, as_json, of_language_models
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
    """How a norm decays with the distance (`inspection.gradients.Decay`); None where a number is not finite."""
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


_ROWS = 4  # places of the text at which the gradient through a trained model is measured


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


class EigenvalueAsked(Asked):
    """With a `model`, a trained RNN, its recurrent matrix is scaled too and measured over the `text`.

    `forget` is the forget gate of the LSTM that has the same matrix in its candidate.
    """

    radius: Annotated[float, Field(ge=0.5, le=1.5)]
    steps: Annotated[int, Field(ge=10, le=100)] = 50
    units: Annotated[int, Field(ge=2, le=64)] = 32
    seed: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    forget: Annotated[float, Field(ge=0.5, le=1)] = 0.97
    model: ModelName | None = None
    text: Prompt = ""


def multiply(
    radius: float, steps: int, *, units: int, seed: int, forget: float = 0.97, trained: TrainedAnswer | None = None
) -> EigenvalueAnswer:
    """|W^k x| / |x| as `power`, and gradients by distance: a `linear` and a `tanh` RNN, an `lstm` along c, its `gates`.

    W is a random matrix whose eigenvalues all have the size `radius`: `inspection.stability.repeated_multiplication`.
    `trained` is put beside them.
    """
    gains = repeated_multiplication((radius,), steps=steps + 1, hidden=units, seed=seed, forget=forget)
    return EigenvalueAnswer(
        power=_gain(gains["power"][0]),
        linear=_gain(gains["linear"][0]),
        tanh=_gain(gains["tanh"][0]),
        lstm=_gain(gains["lstm"][0]),
        gates=_gain(gains["gates"][0]),
        trained=trained,
    )


def scale_trained(lm: LanguageModel, radius: float, steps: int, text: str) -> TrainedAnswer:
    """The gradient by distance through a trained RNN whose recurrent matrices are scaled to a spectral radius.

    The norm of d loss_T / d h_{T-d} in the last layer over that at d = 0, a mean over a few places of the text, which
    is read again and again where it is short. `own`: the spectral radius the last layer was trained to.
    """
    if not isinstance(lm.model, RnnModel):
        raise OptionError(
            f"a recurrent matrix is scaled in a simple recurrent network and the model is {lm.config['model']!r}; "
            "try a run of: rnn"
        )
    ids = lm.encode(text)
    if not len(ids):
        raise OptionError("the text is empty; expected at least one token; try: the farmers are old")
    scaled = deepcopy(lm.model)
    own = 0.0
    with torch.no_grad():
        for W_HH in (weight for name, weight in scaled.layers.named_parameters() if "weight_hh" in name):
            own = _radius(W_HH)
            W_HH.mul_(radius / own)
    starts = np.linspace(0, len(ids), _ROWS, endpoint=False).astype(int)
    rows = np.stack([np.resize(np.roll(ids, -start), steps + 1) for start in starts])
    flow = gradient_flow(scaled, rows, distance=steps, ends=1, rows=_ROWS)
    norm_D = flow["norm"][-1, :, flow["field"].tolist().index("h")]
    with np.errstate(divide="ignore", invalid="ignore"):
        gain_D = norm_D / norm_D[0]
    return TrainedAnswer(values=numbers(gain_D), decay=decay_of(gain_D), own=own)


def _radius(W_HH: torch.Tensor) -> float:
    """The size of the largest eigenvalue."""
    radius = float(torch.linalg.eigvals(W_HH.double()).abs().max()) if W_HH.isfinite().all() else 0.0
    if not radius > 0:
        raise OptionError("the recurrent matrix of the model has no eigenvalue to scale; try another model")
    return radius


def _gain(gain_D: NDArray[np.floating]) -> GainAnswer:
    return GainAnswer(values=numbers(gain_D), decay=decay_of(gain_D))


@answers(EigenvalueAnswer)
async def eigenvalue(asked: EigenvalueAsked, visitor: Visitor) -> bytes:
    """What multiplying again and again by a matrix of a given spectral radius does to a vector and to gradients."""

    def work(lm: LanguageModel | None = None) -> bytes:
        scaled = None if lm is None else scale_trained(lm, asked.radius, asked.steps, asked.text)
        options = {"units": asked.units, "seed": asked.seed}
        return as_json(multiply(asked.radius, asked.steps, **options, forget=asked.forget, trained=scaled))

    if asked.model is None:
        return await visitor.apart("eigenvalue", work)
    return await visitor.ask(asked.model, work)
