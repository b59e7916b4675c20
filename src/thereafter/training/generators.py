"""The random numbers of training: torch's generators, whose states a checkpoint holds.

Dropout, weight drop and fresh weights all draw from the global generator of their device; the order of the text is
drawn anew from the seed and the epoch and needs no state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Inside the block all generators begin with the seed; afterwards they are what they were."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def generator_states(device: torch.device) -> dict[str, Tensor]:
    """The states of all generators that training on this device draws from."""
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def set_generators(states: Mapping[str, Tensor], device: torch.device) -> None:
    """Go on drawing where `generator_states` was asked."""
    torch.set_rng_state(states["cpu"].cpu())
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"].cpu(), device)
