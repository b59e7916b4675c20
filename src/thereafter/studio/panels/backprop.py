"""Gradients: of one loss in every state of a sentence, for several models; and what multiplying by the same matrix
again and again does to a vector and to a gradient (the eigenvalue panel).
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Annotated, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from thereafter.base.config import Table
from thereafter.errors import OptionError
from thereafter.inspection.gradients import fit_decay, gradient_flow, last_loss, verb_flow
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.sentence_reader import SentenceReader
from thereafter.inspection.stability import repeated_multiplication
from thereafter.language_model import LanguageModel
from thereafter.models.recurrent import RnnModel
from thereafter.serving.schema import Answer, Asked, ModelName, Prompt
from thereafter.studio.asking import Visitor, answers, as_json, number, numbers, of_language_models

START = "<s>"
"""What stands before every text; it has no piece of its own in a vocabulary."""


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


class VerbStateAnswer(Answer):
    """One field of one layer: the gradient of a loss in it, by steps back from the verb; the last state has just read
    the subject.

    Of a memory with a direct path `direct` is what comes along it alone, `gates` the mean product of gates up to there.
    """

    layer: str
    field: str
    norm: list[float | None]
    direct: list[float | None] | None
    gates: list[float | None] | None
    decay: DecayAnswer | None


class StateAnswer(VerbStateAnswer):
    """The same by steps of a text: the gradient of its last loss, and the size of the state after every step."""

    size: list[float | None]


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


class VerbGradientsAnswer(Answer):
    """Means over `sentences`; `right` is the share of verbs whose right form is the likelier one."""

    model: str
    sentences: int
    right: float | None
    loss: float | None
    states: list[VerbStateAnswer]


@of_language_models("/backprop")
def backprop(
    lm: LanguageModel, text: Prompt, *, limit: Annotated[int, Field(ge=3, le=80)] = 40, name: str = ""
) -> BackpropAnswer:
    """What the loss at the last token of a text sends back to every state, under each of several recurrent models.

    The answer has the states of one model over the text, and the gradient in each. At most `limit` tokens are read, and
    where lines stand alone those of the last line; `left_out` are not. `name` is what the answer calls the model.
    """
    ids = lm.encode(text)
    # the tokens after the last line end but one, which closes the text; all of them where there is no such token
    end = lm.model.facts.restart
    ends: list[int] = [] if end is None else np.flatnonzero(ids[:-1] == end).tolist()
    flow = last_loss(lm.model, ids[ends[-1] + 1 :] if ends else ids, steps=limit)
    pieces = [lm.tokenizer.piece(token) for token in flow["token"].tolist()]
    states = [
        StateAnswer(**facts, size=numbers(flow["size"][i, :, k]), decay=decay_of(flow["norm"][i, ::-1, k]))
        for i, k, facts in _carried(flow)
    ]
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


@of_language_models("/verb-gradients")
def verb_gradients(
    lm: LanguageModel,
    *,
    between: Annotated[int, Field(ge=2, le=40)] = 6,
    count: Annotated[int, Field(ge=1, le=200)] = 60,
    name: str = "",
) -> VerbGradientsAnswer:
    """What the loss at the verbs of new agreement sentences sends back to their subjects, under several models.

    Means over `count` sentences whose verb stands `between` words after the subject. Here `norm`, `direct` and `gates`
    go by steps back from the verb; the last is the state that has just read the subject.
    """
    flow = verb_flow(SentenceReader.of(lm.model, lm.tokenizer, lm.config), distance=between, count=count)
    states = [VerbStateAnswer(**facts, decay=decay_of(flow["norm"][i, :, k])) for i, k, facts in _carried(flow)]
    return VerbGradientsAnswer(
        model=name,
        sentences=flow.about["losses"],
        right=number(flow.about["right"]),
        loss=number(flow.about["loss"]),
        states=states,
    )


def _carried(flow: Measurement) -> Iterator[tuple[int, int, Table]]:
    """The place of every layer and field whose state is carried on, with what an answer says of it. The first layer and
    the first field are the word vectors, which are read and not carried."""
    layers, fields = flow["layer"].tolist(), flow["field"].tolist()
    memory = "c" if "c" in fields else "h"
    for i in range(1, len(layers)):
        for k in range(1, len(fields)):
            has_path = fields[k] == memory and not np.isnan(flow["gates"][i]).all()
            along = {name: numbers(flow[name][i]) if has_path else None for name in ("direct", "gates")}
            yield i, k, {"layer": layers[i], "field": fields[k], "norm": numbers(flow["norm"][i, :, k]), **along}


def decay_of(norm_D: NDArray[np.floating]) -> DecayAnswer | None:
    """How a norm decays with the distance (`inspection.gradients.Decay`); None where a number is not finite."""
    if not np.isfinite(norm_D).all():
        return None
    decay = fit_decay(norm_D)
    return DecayAnswer.of(decay, share=number(decay.share), words=str(decay), measured=decay.measured())


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
    curves = {
        name: GainAnswer(values=numbers(gains[name][0]), decay=decay_of(gains[name][0]))
        for name in ("power", "linear", "tanh", "lstm", "gates")
    }
    return EigenvalueAnswer(**curves, trained=trained)


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
            # the size of the largest eigenvalue
            own = float(torch.linalg.eigvals(W_HH.double()).abs().max()) if W_HH.isfinite().all() else 0.0
            if not own > 0:
                raise OptionError("the recurrent matrix of the model has no eigenvalue to scale; try another model")
            W_HH.mul_(radius / own)
    starts = np.linspace(0, len(ids), _ROWS, endpoint=False).astype(int)
    rows = np.stack([np.resize(np.roll(ids, -start), steps + 1) for start in starts])
    flow = gradient_flow(scaled, rows, distance=steps, ends=1, rows=_ROWS)
    norm_D = flow["norm"][-1, :, flow["field"].tolist().index("h")]
    with np.errstate(divide="ignore", invalid="ignore"):
        gain_D = norm_D / norm_D[0]
    return TrainedAnswer(values=numbers(gain_D), decay=decay_of(gain_D), own=own)


@answers("/eigenvalue", EigenvalueAnswer)
async def eigenvalue(asked: EigenvalueAsked, visitor: Visitor) -> bytes:
    """What multiplying again and again by a matrix of a given spectral radius does to a vector and to gradients."""

    def work(lm: LanguageModel | None = None) -> bytes:
        scaled = None if lm is None else scale_trained(lm, asked.radius, asked.steps, asked.text)
        options = {"units": asked.units, "seed": asked.seed}
        return as_json(multiply(asked.radius, asked.steps, **options, forget=asked.forget, trained=scaled))

    if asked.model is None:
        return await visitor.apart("eigenvalue", work)
    return await visitor.ask(asked.model, work)
