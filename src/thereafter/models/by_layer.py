"""The names of a network's weights by layer, from the head down, for rates by layer and gradual unfreezing."""

from __future__ import annotations

import re
from collections.abc import Collection

from torch import nn

from thereafter.layers.recurrent import Recurrent

_LAYER = re.compile(r"_l(\d+)(?:_reverse)?$")


def weights_by_layer(net: nn.Module, stack: str, lowest: Collection[str]) -> list[list[str]]:
    """First what is above the module `stack`, then its layers from the top down, then the modules `lowest`.

    >>> class Net(nn.Module):
    ...     def __init__(self) -> None:
    ...         super().__init__()
    ...         self.words, self.head = nn.Embedding(3, 2), nn.Linear(2, 1, bias=False)
    ...         self.stack = Recurrent("mingru", 2, 2, 2, bias=False)
    >>> weights_by_layer(Net(), "stack", ["words"])
    [['head.weight'], ['stack.weight_ih_l1'], ['stack.weight_ih_l0'], ['words.weight']]
    """
    names = [name for name, _ in net.named_parameters()]
    inside = [name for name in names if name.startswith(f"{stack}.")]
    below = [name for name in names if name.partition(".")[0] in lowest]
    above = [name for name in names if name not in inside and name not in below]
    layers = _layers(inside) if isinstance(net.get_submodule(stack), Recurrent) else [inside]
    return [layer for layer in (above, *layers, below) if layer]


def _layers(names: list[str]) -> list[list[str]]:
    """The weights of a stack of recurrent layers, those of the last layer first."""
    numbers = {name: int(match[1]) for name in names if (match := _LAYER.search(name))}
    return [[name for name in names if numbers[name] == layer] for layer in sorted(set(numbers.values()), reverse=True)]
