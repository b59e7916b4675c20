"""What a neural model remembers: tensors with one entry a row, and the features its next prediction is made of.

Shapes: B rows, H features.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from thereafter.errors import OptionError
from thereafter.models.base import Ids

FEATURES = "features"


@dataclass(frozen=True)
class NeuralState:
    """A value: nothing in it is ever written to. All tensors have the rows as their first axis.

    `features_BH` are those after the last token; None before anything was read, and while training.
    """

    memory: Mapping[str, Tensor]
    features_BH: Tensor | None = None

    @property
    def rows(self) -> int:
        return len(next(iter(self.memory.values())))

    def select(self, index: Ids | Tensor) -> Self:
        """The rows `index`, in that order."""
        wanted = torch.as_tensor(index, dtype=torch.int64)
        return self._each(lambda tensor: tensor.index_select(0, wanted.to(tensor.device)))

    def key(self) -> Hashable:
        """Continuous states are never met twice."""
        raise TypeError("this model's state is a point in a continuous space and has no key")

    def detach(self) -> Self:
        """The same numbers with no past to send gradients to; fit for training even where inference made them."""
        return self._each(lambda tensor: tensor.clone() if tensor.is_inference() else tensor.detach())

    def tensors(self) -> dict[str, Tensor]:
        """Everything in it by name, to be saved."""
        named = dict(self.memory)
        if self.features_BH is not None:
            named[FEATURES] = self.features_BH
        return named

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> Self:
        """A state of this kind from what `tensors` gave (the number of rows may be another)."""
        memory = {name: tensor for name, tensor in tensors.items() if name != FEATURES}
        if memory.keys() != self.memory.keys():
            raise OptionError(f"the state holds {', '.join(sorted(memory))}; expected {', '.join(sorted(self.memory))}")
        return replace(self, memory=memory, features_BH=tensors.get(FEATURES))

    def _each(self, change: Callable[[Tensor], Tensor]) -> Self:
        memory = {name: change(tensor) for name, tensor in self.memory.items()}
        features = None if self.features_BH is None else change(self.features_BH)
        return replace(self, memory=memory, features_BH=features)


def stacked(states: Sequence[NeuralState]) -> NeuralState:
    """The rows of several states one below the other."""
    memory = {name: torch.cat([state.memory[name] for state in states]) for name in states[0].memory}
    features = [state.features_BH for state in states if state.features_BH is not None]
    return replace(states[0], memory=memory, features_BH=torch.cat(features) if len(features) == len(states) else None)
