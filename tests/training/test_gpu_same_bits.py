"""The parts of `gpu_same_bits.py` that need no GPU: what it reads off run folders and logs."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from thereafter.base.storage import write_arrays

_SPEC = importlib.util.spec_from_file_location("gpu_same_bits", Path(__file__).with_name("gpu_same_bits.py"))
assert _SPEC is not None
assert _SPEC.loader is not None
script = importlib.util.module_from_spec(_SPEC)


@pytest.fixture(autouse=True)
def loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gpu_same_bits", script)  # its dataclasses look it up
    assert _SPEC is not None
    assert _SPEC.loader is not None
    _SPEC.loader.exec_module(script)


def log(*losses: float) -> list[dict[str, Any]]:
    lines = [{"event": "step", "step": 20 * k, "loss": loss, "seconds": 0.1 * k} for k, loss in enumerate(losses, 1)]
    return [{"event": "began"}, *lines, {"event": "trained"}]


def test_the_first_step_that_differs_is_named():
    assert script.first_difference(log(3.0, 2.0), log(3.0, 2.0)) == "the logs are equal"
    assert script.first_difference(log(3.0, 2.0, 1.0), log(3.0, 2.5, 1.5)).startswith("first at step 40: (2.0, ")
    assert script.first_difference(log(3.0), log(3.0, 2.0)).endswith("None and (2.0, 0.0, 0.0)")
    again = [*log(3.0, 2.0)[:-1], {"event": "resumed", "step": 20}, *log(3.0, 2.0)[2:]]
    assert script.first_difference(log(3.0, 2.0), again) == "the logs are equal"


def test_paces_are_milliseconds_a_step():
    steps = [line for line in log(3.0, 2.0, 1.0) if line["event"] == "step"]
    assert script.paces(steps) == pytest.approx([5.0, 5.0])


def test_the_digest_is_of_weights_alone(tmp_path: Path):
    def digest(name: str, number: float, note: str) -> str:
        run = script.Run.__new__(script.Run)
        run.folder = tmp_path / name
        run.folder.mkdir()
        arrays = {"b": np.full((2, 3), number, np.float32), "a": np.zeros(4, np.float32)}
        write_arrays(run.folder / "weights.safetensors", arrays, {"note": note})
        return str(run.digest())

    first = digest("one", 1.0, "monday")
    assert digest("two", 1.0, "tuesday") == first
    assert digest("three", np.nextafter(np.float32(1.0), np.float32(2.0)), "monday") != first
