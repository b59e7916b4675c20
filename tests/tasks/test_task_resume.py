"""A task's run: gone on with on its own examples only, loaded without a trace, told nothing that does nothing."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from toys import labelled, reversed_pairs, sentences, tagged

import thereafter
from thereafter.errors import OptionError, SourceError
from thereafter.training.loop import Loop

SMALL: dict[str, Any] = {"hidden": 8, "epochs": 1, "batch": 4}


def stopped(monkeypatch: pytest.MonkeyPatch, source: Path, run: Path, **options: Any) -> None:
    own = Loop._step

    def step(loop: Loop) -> bool:
        if loop.at.step == 3:
            raise KeyboardInterrupt
        return own(loop)

    monkeypatch.setattr(Loop, "_step", step)
    with pytest.raises(KeyboardInterrupt):
        thereafter.train(source, task="tag", out=run, **SMALL, **options)
    monkeypatch.setattr(Loop, "_step", own)


def test_resume_notices_that_the_validation_examples_have_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    source, valid, run = (
        tagged(tmp_path / "train.tsv", 40),
        tagged(tmp_path / "valid.tsv", 20, seed=2),
        tmp_path / "run",
    )
    stopped(monkeypatch, source, run, valid=valid)
    before = valid.read_text()
    valid.write_text(before.replace("\tLOW", "\tCAP", 1))
    with pytest.raises(SourceError, match=r"valid\.tsv has changed since the run .*run began"):
        thereafter.resume(run)
    valid.write_text(before)
    assert thereafter.resume(run).log[-1]["event"] == "trained"


def test_resume_without_validation_examples_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    source, run = tagged(tmp_path / "train.tsv", 40), tmp_path / "run"
    stopped(monkeypatch, source, run)
    tagged(source, 40, seed=3)
    with pytest.raises(SourceError, match=r"train\.tsv has changed"):
        thereafter.resume(run)
    tagged(source, 40)
    assert thereafter.resume(run).log[-1]["event"] == "trained"
    assert not (run / "state.safetensors").exists()


TASKS = {"tag": tagged, "classify": labelled, "fill": sentences, "translate": reversed_pairs}


@pytest.mark.parametrize("task", TASKS)
def test_loading_draws_from_no_generator(task: str, tmp_path: Path):
    run = thereafter.train(TASKS[task](tmp_path / "examples.tsv", 40), task=task, out=tmp_path / "run", **SMALL)
    assert run.log[-1]["event"] == "trained"
    torch.manual_seed(3)
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # type: ignore[index]
    thereafter.load(tmp_path / "run")
    thereafter.resume(tmp_path / "run")
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1:] == (np.random.get_state()[1].tolist(), random.getstate())  # type: ignore[index]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("name", "value"), [("jitter", True), ("batching", "stream"), ("graphs", True)])
def test_options_that_would_do_nothing_are_refused(task: str, name: str, value: Any, tmp_path: Path):
    with pytest.raises(
        OptionError, match=rf"{name} is {value!r}, which does nothing in the task '{task}'.*try leaving"
    ):
        thereafter.train(tmp_path / "never-read.tsv", task=task, **{name: value})


def test_what_a_configuration_says_of_them_is_taken(tmp_path: Path):
    fitted = thereafter.train(
        tagged(tmp_path / "t.tsv", 20), task="tag", **SMALL, jitter=False, graphs=False, batching=None
    )
    assert fitted.config["training"]["graphs"] is False
