"""What the last bits depend on is in the snapshot, is restored where it can be, and is said where it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from thereafter.base import progress
from thereafter.errors import FormatError
from thereafter.runs.writer import Snapshot
from thereafter.training import numerics

CPU = torch.device("cpu")


class Notes(progress.Silent):
    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, message: str) -> None:
        self.said.append(message)


@pytest.fixture
def notes() -> Iterator[list[str]]:
    listener = Notes()
    with progress.reporting(listener):
        yield listener.said


def taken(**changed: Any) -> Snapshot:
    return Snapshot({}, numerics.facts(CPU) | changed)


def test_threads_and_onednn_are_restored_and_put_back(notes: list[str]):
    threads, onednn = torch.get_num_threads(), torch.backends.mkldnn.enabled
    with numerics.as_in(taken(threads=1, onednn=not onednn), CPU):
        assert (torch.get_num_threads(), torch.backends.mkldnn.enabled) == (1, not onednn)
    assert (torch.get_num_threads(), torch.backends.mkldnn.enabled) == (threads, onednn)
    with pytest.raises(KeyboardInterrupt), numerics.as_in(taken(onednn=not onednn), CPU):
        raise KeyboardInterrupt
    assert torch.backends.mkldnn.enabled == onednn
    assert notes == []


def test_what_cannot_be_restored_is_said_in_one_line(notes: list[str]):
    numba = numerics.facts(CPU)["numba"]
    before = taken(threads=4096, processor="vax with none", torch="0.1", numba=not numba)
    with numerics.as_in(before, CPU):
        assert torch.get_num_threads() != 4096  # so many would wait for each other
    (said,) = notes
    assert "threads 1 (it was 4096)" in said
    assert "(it was vax with none)" in said
    assert f"torch {torch.__version__} (it was 0.1)" in said
    assert ("compiled loops" if numba else "no compiled loops") in said
    assert "last digits may differ" in said


def test_an_older_snapshot_says_less(notes: list[str]):
    older = Snapshot({}, {"threads": torch.get_num_threads(), "torch": torch.__version__})
    with numerics.as_in(older, CPU):
        pass
    with numerics.as_in(None, CPU):
        pass
    assert notes == []
    with pytest.raises(FormatError, match="damaged"), numerics.as_in(replace(older, facts={"threads": "many"}), CPU):
        pass
