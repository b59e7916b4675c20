"""The eigenvalue panel: what multiplying by the same matrix again and again does to a vector and to a gradient."""

from __future__ import annotations

from copy import deepcopy
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from thereafter.errors import OptionError
from thereafter.inspection.gradients import gradient_flow
from thereafter.inspection.stability import repeated_multiplication
from thereafter.language_model import LanguageModel
from thereafter.models.recurrent import RnnModel
from thereafter.serving.schema import Answer, Asked, ModelName, Prompt
from thereafter.studio.asking import Visitor, answers, as_json
from thereafter.studio.panels.backprop import DecayAnswer, decay_of
from thereafter.studio.panels.numbers import numbers

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
