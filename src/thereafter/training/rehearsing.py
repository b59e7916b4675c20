"""A step of a training that is taken and undone, before it is recorded (`graphs.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from thereafter.training.generators import generator_states, set_generators
from thereafter.training.optimizers import Optimizer
from thereafter.training.weights import weights_of


def changed_by_a_step(model: nn.Module, optimizer: Optimizer) -> list[Tensor]:
    """All tensors that a step changes."""
    return [*weights_of(model).values(), *optimizer.state()[0].values()]


@contextmanager
def undone(model: nn.Module, optimizer: Optimizer, device: torch.device) -> Iterator[None]:
    """A block after which weights, optimizer and random numbers are what they were before it."""
    generators = generator_states(device)
    changing = changed_by_a_step(model, optimizer)
    before = [tensor.clone() for tensor in changing]
    try:
        yield
    finally:
        with torch.no_grad():
            torch._foreach_copy_(changing, before)
        set_generators(generators, device)
