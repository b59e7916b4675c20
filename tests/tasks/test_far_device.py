"""Nothing forgets the device: every task and every kind of language model answers on one that is not the host."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from gpu_answers_check import CASES, MODELS, SMALL, Different, Write, answers_of, difference, readings_of
from gpu_answers_check import _words as words

import thereafter
from far_device import Far, far_device
from thereafter.base.kinds import KINDS
from thereafter.tasks import TASKS

ALL = [
    pytest.param(task, *case, marks=pytest.mark.wide if number else ())
    for task, cases in CASES.items()
    for number, case in enumerate(cases)
]
QUICK = ("average", "lstm")  # the others are steps of the same stack


def test_every_task_and_kind_has_a_case() -> None:
    assert set(CASES) == set(TASKS)
    assert set(MODELS) == set(KINDS) - {"ngram"}


def test_the_far_device_refuses_what_a_gpu_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    with far_device(monkeypatch) as far:
        there = torch.ones(3, device=far)
        assert isinstance(there, Far)
        assert (there + 1).sum().item() == 6.0
        assert (2 * there).cpu().numpy().tolist() == [2.0, 2.0, 2.0]
        with pytest.raises(RuntimeError, match="two devices"):
            there + torch.ones(3)
        with pytest.raises((RuntimeError, TypeError)):
            there.numpy()
        with pytest.raises(RuntimeError, match="two devices"):
            torch.nn.functional.embedding(torch.tensor([1]), torch.zeros(2, 2, device=far))


def test_differences_are_seen() -> None:
    assert difference({"p": [0.5, "a"]}, {"p": [0.5, "a"]}) == 0.0
    for other in ({"p": [0.501, "a"]}, {"p": [0.5, "b"]}, {"p": [0.5]}, {"q": [0.5, "a"]}):
        with pytest.raises(Different):
            difference({"p": [0.5, "a"]}, other)


@pytest.mark.parametrize(("task", "name", "write", "options"), ALL, ids=lambda one: one if isinstance(one, str) else "")
def test_a_task_answers_there_as_here(
    task: str, name: str, write: Write, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write(tmp_path / "examples.tsv", random.Random(1))
    model = thereafter.train(source, task=task, device="cpu", **{**SMALL, "epochs": 0.5, **options})
    here = answers_of(model, source)
    with far_device(monkeypatch) as far:
        model.net.to(far)
        assert model.net.device == far
        there = answers_of(model, source)
    assert difference(here, there, task) < 1e-5


@pytest.mark.parametrize(
    "kind", [kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.wide) for kind in MODELS]
)
def test_a_language_model_answers_there_as_here(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = words(tmp_path / "text.txt", random.Random(1))
    text = source.read_text(encoding="utf-8")[:600]
    options = {"tokens": "word", "epochs": 0.5, "batch": 8, "steps": 8, **MODELS[kind]}
    lm = thereafter.train(source, model=kind, device="cpu", **options)
    here = readings_of(lm, text)
    with far_device(monkeypatch) as far:
        lm.model.to(far).eval()
        assert lm.model.device == far
        there = readings_of(lm, text)
    assert difference(here, there, kind) < 1e-5
