"""Layers of a network from the head down: which of them learn in an epoch, and at what rate.

    rate of layer l = r d^l              l = 0 is the head, d the setting `layer_decay`
    epoch e trains the layers 0 .. e     where `unfreeze` is on, else all of them

Both are from Howard and Ruder 2018 (Universal Language Model Fine-tuning for Text Classification), with d = 1 / 2.6.
Frozen weights take no gradient, so that neither the optimizer nor the norm of the gradient knows of them. What is
frozen is a function of the epoch alone: a snapshot need not say it.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from thereafter.errors import OptionError
from thereafter.training.settings import TrainingSettings

LayerNames = Sequence[Sequence[str]]
"""The names of a network's weights, a list for each layer, the head's first."""


def asked_for(settings: TrainingSettings) -> str | None:
    """The setting that needs to know layers, where there is one."""
    return "unfreeze" if settings.unfreeze else "layer_decay" if settings.layer_decay != 1.0 else None


def check_layered(settings: TrainingSettings, layered: bool, what: str) -> None:
    """Refuse settings of layers for a network that is not divided into any."""
    name = asked_for(settings)
    if name is not None and not layered:
        raise OptionError(
            f"{name} is on, and the weights of {what} are not divided into layers; expected a recurrent model, or a "
            "task over one; try leaving it out"
        )


class Layering:
    """The layers of one network in training."""

    def __init__(self, model: nn.Module, settings: TrainingSettings, layers: LayerNames) -> None:
        check_layered(settings, len(layers) > 1, type(model).__name__)
        depths = {name: depth for depth, names in enumerate(layers) for name in names}
        self._depths = [(weight, depths.get(name, 0)) for name, weight in model.named_parameters()]
        self._gradual, self._last = settings.unfreeze, len(layers) - 1
        self._lowest: int | None = None
        self.factors = {name: settings.layer_decay**depth for name, depth in depths.items()}
        """What the rate of each weight is multiplied by."""

    def open(self, epoch: int) -> bool:
        """Let the layers of this epoch learn, and no others; whether that changed which."""
        lowest = min(epoch, self._last) if self._gradual else self._last
        if not self._gradual or lowest == self._lowest:
            return False
        self._lowest = lowest
        for weight, depth in self._depths:
            weight.requires_grad_(depth <= lowest)
        return True

    def open_all(self) -> None:
        """Let every weight learn again, as it did before the training."""
        if self._gradual:
            self._lowest = None
            for weight, _ in self._depths:
                weight.requires_grad_(True)
