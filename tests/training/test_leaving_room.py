"""The memory that a rehearsed step took must be there once more before it is recorded.

torch's allocator is stood in for: it keeps what was taken, until it is told to give it back or memory runs out.
"""

from __future__ import annotations

import pytest
import torch

from thereafter.training import graphs
from thereafter.training.graphs import leaving_room

DEVICE = torch.device("cuda", 0)
MIB = 2**20
SPARE = 64
"""What libraries take for the stream of a recording, in MiB."""


class Allocator:
    """Memory of so many MiB, some of it in use."""

    def __init__(self, room: int, in_use: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room, self.in_use = room, in_use
        self.kept = self.gaps = self.most = self.retries = 0
        cuda = torch.cuda
        monkeypatch.setattr(cuda, "empty_cache", self.empty)
        monkeypatch.setattr(cuda, "synchronize", lambda device: None)
        monkeypatch.setattr(cuda, "memory_reserved", lambda device: (self.in_use + self.kept) * MIB)
        monkeypatch.setattr(cuda, "memory_allocated", lambda device: self.in_use * MIB)
        monkeypatch.setattr(cuda, "max_memory_allocated", lambda device: (self.in_use + self.most) * MIB)
        monkeypatch.setattr(cuda, "reset_peak_memory_stats", lambda device: None)
        monkeypatch.setattr(cuda, "memory_stats", lambda device: {"num_alloc_retries": self.retries})
        monkeypatch.setattr(graphs, "available_memory", lambda device: float(self.room * MIB))

    def empty(self) -> None:
        self.kept = 0

    def take_and_free(self, *sizes: int) -> None:
        """Pieces of memory, one after the other, that are free again; torch keeps them."""
        for size in sizes:
            self.most = max(self.most, size)
            size -= self.gaps  # of memory that is in use in part: they are there already
            if self.in_use + self.kept + size > self.room:
                self.retries, self.kept = self.retries + 1, 0
            self.kept += size


@pytest.mark.parametrize(("step", "fits"), [(100, True), (759, True), (761, False), (850, False)])
def test_there_must_be_room_for_the_step_once_more_and_a_tenth(
    monkeypatch: pytest.MonkeyPatch, step: int, fits: bool
) -> None:
    memory = Allocator(1000, 1000 - 900, monkeypatch)
    memory.kept = 50  # of earlier work: given back first, and not counted as the step's
    assert (1.1 * step + SPARE <= 900) == fits
    if fits:
        with leaving_room(DEVICE):
            memory.take_and_free(step)
        return
    with pytest.raises(torch.cuda.OutOfMemoryError, match="recording needs"), leaving_room(DEVICE):
        memory.take_and_free(step)


def test_a_step_during_which_memory_ran_out_took_more_than_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Allocator(1000, 100, monkeypatch)
    with pytest.raises(torch.cuda.OutOfMemoryError), leaving_room(DEVICE):
        memory.take_and_free(600, 400)  # the 600 are given back, 400 are kept
    assert memory.retries == 1


def test_what_lay_in_gaps_of_older_memory_is_counted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Allocator(1000, 500, monkeypatch)
    memory.gaps = 300
    with pytest.raises(torch.cuda.OutOfMemoryError, match="recording needs"), leaving_room(DEVICE):
        memory.take_and_free(450)  # 150 are kept, and 1.1 x 450 + 64 are not there


def test_faults_of_the_step_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    Allocator(1000, 100, monkeypatch)
    with pytest.raises(ValueError, match="a fault"), leaving_room(DEVICE):
        raise ValueError("a fault")


def test_a_device_that_does_not_count_has_room() -> None:
    with leaving_room(torch.device("cpu")):
        pass
