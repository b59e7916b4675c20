"""Launches that are noted and not run: what the programs would be given, on any device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor

from thereafter.kernels.gpu import launch, linear
from thereafter.kernels.gpu.compiling import Wanted


class Launched(NamedTuple):
    """A program, its blocks, and its arguments in its own order; 0 for an array that is not there."""

    wanted: Wanted
    blocks: int
    arguments: Sequence[Tensor | int | float]

    @property
    def by_name(self) -> dict[str, Tensor | int | float]:
        return dict(zip(dict(self.wanted.arguments), self.arguments, strict=True))


@contextmanager
def noted_launches(capability: int = 90, processors: int = 132) -> Iterator[list[Launched]]:
    """Inside the block every launch comes into the list, as for a GPU of such a kind; its results are not computed."""
    made: list[Launched] = []

    class Program:
        def __init__(self, wanted: Wanted, device: int) -> None:
            self.wanted = wanted

        def launch(self, blocks: int, arguments: Sequence[Tensor | int | float], **about: object) -> None:
            made.append(Launched(self.wanted, blocks, arguments))

    stand_ins = {"Loaded": Program, "binary": lambda wanted: wanted, "capability": lambda device: capability}
    stream = SimpleNamespace(cuda_stream=0)
    launch._program.cache_clear()
    with (
        patch.multiple(launch, **stand_ins),
        patch.object(linear, "processors", lambda device: processors),
        patch.object(torch.cuda, "current_stream", lambda device: stream),
    ):
        yield made
    launch._program.cache_clear()
