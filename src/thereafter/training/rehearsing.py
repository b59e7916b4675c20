"""A step of a training that is taken and undone, before it is recorded (`graphs.py`), and the memory it took.

Memory must not run out while a graph is recorded: torch 2.11 and its neighbours keep what a broken recording held for
the life of the process (pytorch issue 188439). In a rehearsal it may run out and nothing is lost, so it is there that
the memory is measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from thereafter.base.memory import available_memory
from thereafter.training.numerics import generator_states, set_generators
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


_SPARE = 1.1
"""Pieces of memory fit a recorded step less well than a rehearsed one: it finds those of other graphs."""
_WORKSPACES = 2**26
"""Bytes that libraries take for the stream of a recording: 32 MiB for cuBLAS on Hopper, and as much again."""


@contextmanager
def leaving_room(device: torch.device) -> Iterator[None]:
    """Raises torch.cuda.OutOfMemoryError unless the memory that the block took is free after it, and a tenth more.

    What the block took is what torch has kept by its end, and at least what was in use at a time: some of that may lie
    in gaps of older memory, which a recording cannot use. Where memory ran out in between, torch gave some back, and
    neither tells.
    """
    if device.type != "cuda":
        yield
        return
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    kept, used = torch.cuda.memory_reserved(device), torch.cuda.memory_allocated(device)
    gave_back = _times_given_back(device)
    yield
    torch.cuda.synchronize(device)
    taken = max(torch.cuda.memory_reserved(device) - kept, torch.cuda.max_memory_allocated(device) - used)
    needed = _SPARE * taken + _WORKSPACES
    torch.cuda.empty_cache()
    room = available_memory(device) - torch.cuda.memory_reserved(device)
    if needed > room or _times_given_back(device) > gave_back:
        raise torch.cuda.OutOfMemoryError(f"out of memory: recording needs {needed:.0f} bytes, {room:.0f} are free")


def _times_given_back(device: torch.device) -> int:
    """How often memory had run out and torch gave back what it kept."""
    return int(torch.cuda.memory_stats(device).get("num_alloc_retries", 0))
