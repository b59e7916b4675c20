"""A model's weights by name: parameters and kept buffers, each once, however often a tied one is used."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from thereafter.errors import FormatError


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """The tensors themselves, not copies; sorted as the model holds them."""
    kept = model.state_dict().keys()
    named: dict[str, Tensor] = {name: weight.detach() for name, weight in model.named_parameters()}
    return named | {name: buffer.detach() for name, buffer in model.named_buffers() if name in kept}


def load_weights(model: nn.Module, saved: Mapping[str, Tensor]) -> None:
    """Put saved weights into a model's own; FormatError where they are not those of such a model."""
    own = weights_of(model)
    if own.keys() != saved.keys():
        other = sorted(own.keys() ^ saved.keys())[0]
        raise FormatError(f"the weights are not those of this model: {other!r} is on one side only; try training again")
    put_weights(model, saved)


def put_weights(model: nn.Module, saved: Mapping[str, Tensor]) -> None:
    """Put these weights into a model's own and leave the others as they are."""
    own = weights_of(model)
    with torch.no_grad():
        for name in saved:
            if name not in own:
                raise FormatError(f"the model has no weight {name!r}; try training again")
            weight = own[name]
            if weight.shape != saved[name].shape or weight.dtype != saved[name].dtype:
                raise FormatError(
                    f"the weight {name!r} is {tuple(saved[name].shape)} of {saved[name].dtype}; expected "
                    f"{tuple(weight.shape)} of {weight.dtype}; try training again"
                )
            weight.copy_(saved[name])
