"""Mixed precision carries states of types that numpy has not: they are saved and come back to the bit."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.numpy import load_file

import thereafter
from refusals import assert_refused
from stops import stopping_at
from thereafter.errors import FormatError
from thereafter.runs.writer import FACTS as SNAPSHOT_FACTS
from thereafter.runs.writer import Snapshot, read_snapshot, take_snapshot, write_snapshot
from thereafter.training.control import COUNTED, Counters

TEXT = "the cat sat on the mat .\na dog saw the cat , and it ran .\n" * 20
OPTIONS: dict[str, Any] = {
    "tokens": "char", "hidden": 8, "batch": 4, "steps": 8, "layers": 1, "checkpoint_every": 7, "tokens_budget": 900,
    "precision": "bfloat16",
}  # fmt: skip
MODELS: dict[str, dict[str, Any]] = {
    "rnn": {"model": "rnn"},
    "rnn, reference loop": {"model": "rnn", "nonlinearity": "sigmoid"},
    "lstm": {"model": "lstm"},
    "gru": {"model": "gru"},
    "mingru": {"model": "mingru"},
}


@pytest.mark.parametrize(
    "name", [name if name == "lstm" else pytest.param(name, marks=pytest.mark.wide) for name in MODELS]
)
def test_a_broken_off_training_goes_on_exactly(name: str, tmp_path: Path) -> None:
    book = tmp_path / "book.txt"
    book.write_text(TEXT)
    options = OPTIONS | MODELS[name]
    whole = thereafter.train(book, out=tmp_path / "whole", **options)
    assert whole.log[-1]["steps"] > 20
    with stopping_at(9), pytest.raises(KeyboardInterrupt):
        thereafter.train(book, out=tmp_path / "broken", **options)
    assert any(
        key.startswith("carried/") for key in read_snapshot(tmp_path / "broken" / "state.safetensors", COUNTED).tensors
    )
    with stopping_at(15), pytest.raises(KeyboardInterrupt):
        thereafter.resume(tmp_path / "broken")
    thereafter.resume(tmp_path / "broken")
    one, other = (load_file(tmp_path / run / "weights.safetensors") for run in ("whole", "broken"))
    assert one.keys() == other.keys()
    assert all((one[key] == other[key]).all() for key in one)


TYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.uint8]
FACTS = dict.fromkeys(SNAPSHOT_FACTS) | {"at": {field.name: 0 for field in fields(Counters)}}


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_every_type_comes_back_to_the_bit(dtype: torch.dtype, tmp_path: Path) -> None:
    drawn = (100 * torch.randn(3, 5, generator=torch.Generator().manual_seed(1))).abs()
    if dtype.is_floating_point:
        drawn[0, :3] = torch.tensor([float("nan"), float("inf"), -0.0])
    tensors = {"carried/h": drawn.to(dtype), "carried/turned": drawn.to(dtype).t(), "one": drawn[1, 1].to(dtype)}
    snapshot = take_snapshot(tensors, FACTS)
    write_snapshot(tmp_path / "state.safetensors", snapshot)
    again = read_snapshot(tmp_path / "state.safetensors", COUNTED)
    assert again.tensors.keys() == tensors.keys()
    assert dict(again.facts) == FACTS
    for name, tensor in tensors.items():
        assert again.tensors[name].dtype == dtype
        assert torch.equal(bits(again.tensors[name]), bits(tensor))


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1).view(torch.uint8)


@pytest.mark.parametrize(
    "types", [{"h": "complex64"}, {"h": "float32"}, {"g": "bfloat16"}, ["h"], {"h": ["x"]}], ids=str
)
def test_types_that_do_not_fit_are_refused(types: Any, tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    write_snapshot(path, Snapshot({"h": torch.zeros(2)}, FACTS | {"types": types}))
    with pytest.raises(FormatError, match="types of its tensors"):
        read_snapshot(path, COUNTED)
    write_snapshot(path, Snapshot({"h": torch.zeros(2)}, FACTS | {"types": {"h": "bfloat16"}}))
    with assert_refused(FormatError, "float32", "bfloat16"):
        read_snapshot(path, COUNTED)
