"""Which models an instrument applies to: any neural one, or one whose layers carry a state from token to token."""

from __future__ import annotations

from copy import deepcopy

from thereafter.base.kinds import listed, recurrent_names
from thereafter.errors import OptionError
from thereafter.models.neural import NeuralModel


def neural(model: object, purpose: str) -> NeuralModel:
    """The model itself where it has gradients; else an error that says which have."""
    if isinstance(model, NeuralModel):
        return model
    from thereafter.models.build import NEURAL

    raise OptionError(f"only a neural model has {purpose}; got {model_name(model)}; try a run of: {', '.join(NEURAL)}")


def recurrent(model: object, purpose: str) -> NeuralModel:
    """The model itself where its layers carry a state from token to token."""
    network = neural(model, purpose)
    if not network.fields:
        raise OptionError(
            f"{purpose} needs a recurrent model and got {model_name(model)!r}; try {listed(recurrent_names())}"
        )
    return network


def with_units(model: object) -> NeuralModel:
    """The same, for those who look for units."""
    if not isinstance(model, NeuralModel) or not model.fields:
        raise OptionError(f"{type(model).__name__} has no recurrent units; expected {listed(recurrent_names())}")
    return model


def still_copy(model: NeuralModel) -> NeuralModel:
    """A copy to measure on: evaluation mode, no gradients of weights, float64 since long products leave float32."""
    return deepcopy(model).eval().requires_grad_(False).double()


def model_name(model: object) -> str:
    """What a model is called in captions where nobody gave it a name."""
    return type(model).__name__.removesuffix("Model").lower()
