"""What a stop saves, in one process: the very step, and all that the rest of the training depends on."""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import thereafter
from stops import stopping_at
from thereafter.base import progress
from thereafter.runs.writer import read_snapshot
from thereafter.training.control import COUNTED, Stop, undisturbed
from thereafter.training.learner import Loss
from thereafter.training.neural import TextLearner, Validation
from thereafter.training.watching import Training, watching

TEXT = "".join(
    f"{line}\n" for line in ["the cat sat on the mat .", "it rained .", "a dog saw the cat , and ran ."] * 20
)
SMALL: dict[str, Any] = {"hidden": 8, "batch": 4, "steps": 8, "layers": 1, "log_every": 1, "tokens": "char"}
SMALL |= {"model": "gru", "dropout": 0.2, "epochs": 3, "validate_every": 6, "checkpoint_every": 15}


def ctrl_c(how: signal.Signals = signal.SIGINT) -> None:
    os.kill(os.getpid(), how)


def once(at: int, action: Callable[[], Any]) -> AbstractContextManager[None]:
    """Inside the block something happens in the middle of a step, the first time it has come: the gradients are there,
    the weights are the old ones."""
    left = [action]

    def act(training: Training) -> None:
        if training.at.step == at and left:
            left.pop()()

    return watching(before_update=act)


def book(tmp_path: Path) -> Path:
    path = tmp_path / "book.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[thereafter.LanguageModel, Path]:
    """A training that is never stopped, and its folder."""
    folder = tmp_path_factory.mktemp("whole")
    return thereafter.train(book(folder), out=folder / "run", **SMALL), folder / "run"


Whole = tuple[thereafter.LanguageModel, Path]


def same_end(one: Path, other: Path) -> bool:
    return (one / "weights.safetensors").read_bytes() == (other / "weights.safetensors").read_bytes()


def untimed(lm: thereafter.LanguageModel) -> list[dict[str, Any]]:
    clock = ("seconds", "seconds_training", "seconds_tokenizing", "tokens_per_second")
    lines = [line for line in lm.log if line["event"] != "resumed"]
    return [{name: value for name, value in line.items() if name not in clock} for line in lines]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_for_the_end_of_the_step(how: signal.Signals, tmp_path: Path, whole: Whole):
    before = signal.getsignal(how)
    with once(8, lambda: ctrl_c(how)), pytest.raises(KeyboardInterrupt):
        thereafter.train(book(tmp_path), out=tmp_path / "run", **SMALL)
    assert signal.getsignal(how) is before
    assert not (tmp_path / "run" / ".lock").exists()
    saved = read_snapshot(tmp_path / "run" / "state.safetensors", COUNTED)
    assert saved.facts["at"]["step"] == 9
    assert saved.earlier is not None
    assert saved.earlier.facts["at"]["step"] == 0  # where the guard would go back to: none was due yet
    assert untimed(thereafter.resume(tmp_path / "run")) == untimed(whole[0])
    assert same_end(tmp_path / "run", whole[1])


def test_a_second_signal_does_not_wait(tmp_path: Path, whole: Whole):
    with once(20, lambda: (ctrl_c(), ctrl_c())), pytest.raises(KeyboardInterrupt):
        thereafter.train(book(tmp_path), out=tmp_path / "run", **SMALL)
    assert (
        read_snapshot(tmp_path / "run" / "state.safetensors", COUNTED).facts["at"]["step"] == 15
    )  # the last whole one
    assert untimed(thereafter.resume(tmp_path / "run")) == untimed(whole[0])
    assert same_end(tmp_path / "run", whole[1])


def test_a_run_goes_on_with_the_threads_it_began_with(tmp_path: Path):
    """Sums of several threads have other last bits."""
    options = SMALL | {"hidden": 160, "batch": 16, "steps": 16}
    thereafter.train(book(tmp_path), out=tmp_path / "whole", **options)
    with stopping_at(2), pytest.raises(KeyboardInterrupt):
        thereafter.train(book(tmp_path), out=tmp_path / "run", **options)
    notes: list[str] = []
    listener = progress.Silent()
    listener.note = notes.append  # type: ignore[method-assign]
    torch.set_num_threads(2)
    try:
        with stopping_at(6), pytest.raises(KeyboardInterrupt):
            thereafter.resume(tmp_path / "run")
        facts = read_snapshot(tmp_path / "run" / "state.safetensors", COUNTED).facts
        assert (facts["threads"], facts["at"]["step"]) == (1, 6)
        with progress.reporting(listener):
            thereafter.resume(tmp_path / "run")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert not any("last digits may differ" in note for note in notes)
    assert same_end(tmp_path / "run", tmp_path / "whole")


@pytest.mark.parametrize("at", [pytest.param(6, marks=pytest.mark.wide), 30])
def test_a_validation_is_broken_off_and_done_again(at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """At step 30 a snapshot is due after it as well."""
    options = SMALL | {"model": "lstm", "optimizer": "nt-asgd", "rate": 20.0, "nonmono": 1}
    whole = thereafter.train(book(tmp_path), out=tmp_path / "whole", **options)
    own, measured = Validation.measure, 0

    def measure(self: Validation) -> float:
        nonlocal measured
        measured += 1
        if measured == at // 6:
            ctrl_c()
        return own(self)

    monkeypatch.setattr(Validation, "measure", measure)
    with pytest.raises(KeyboardInterrupt):
        thereafter.train(book(tmp_path), out=tmp_path / "run", **options)
    saved = read_snapshot(tmp_path / "run" / "state.safetensors", COUNTED).facts["at"]
    assert (saved["step"], saved["validated"]) == (at, at - 6 if at > 6 else -1)
    assert untimed(thereafter.resume(tmp_path / "run")) == untimed(whole)
    assert same_end(tmp_path / "run", tmp_path / "whole")


def test_a_bad_step_after_a_stop_goes_back_to_where_it_would_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The guard goes back to the snapshot of step 15, not to the one of step 18 that only the stop has made."""
    own, bad = TextLearner.loss, False

    def look(training: Training) -> None:
        nonlocal bad
        bad = training.at.step == 20 and training.guard.attempts == 0

    def loss(self: TextLearner, *given: Any) -> Loss:
        computed = own(self, *given)
        return replace(computed, extra=computed.extra * math.nan) if bad else computed

    monkeypatch.setattr(TextLearner, "loss", loss)
    with watching(before_step=look):
        whole = thereafter.train(book(tmp_path), out=tmp_path / "whole", **SMALL)
        assert [line["step"] for line in whole.log if line["event"] == "guard"] == [21]
        with once(17, ctrl_c), pytest.raises(KeyboardInterrupt):
            thereafter.train(book(tmp_path), out=tmp_path / "run", **SMALL)
    saved = read_snapshot(tmp_path / "run" / "state.safetensors", COUNTED)
    assert saved.earlier is not None
    assert (saved.facts["at"]["step"], saved.earlier.facts["at"]["step"]) == (18, 15)
    with watching(before_step=look):
        assert untimed(thereafter.resume(tmp_path / "run")) == untimed(whole)
    assert same_end(tmp_path / "run", tmp_path / "whole")


def test_another_programs_own_handler_stays(tmp_path: Path):
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        with once(3, ctrl_c):
            thereafter.train(book(tmp_path), **SMALL)
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT]


def test_a_training_in_a_thread_hears_no_signals(tmp_path: Path):
    logs: list[Any] = []
    thread = threading.Thread(target=lambda: logs.append(thereafter.train(book(tmp_path), **SMALL).log))
    thread.start()
    thread.join()
    assert logs[0][-1]["event"] == "trained"


def test_saving_is_not_disturbed():
    before = signal.getsignal(signal.SIGINT)
    with undisturbed():
        ctrl_c()
    assert signal.getsignal(signal.SIGINT) is before


def test_what_a_stop_has_begun_is_not_broken_off_again():
    stop, put_back = Stop(), False

    def validate() -> None:
        nonlocal put_back
        stop.allow()
        try:
            ctrl_c()
        finally:
            ctrl_c()  # as impatient users do
            put_back = True

    with stop.listening(), pytest.raises(KeyboardInterrupt):
        validate()
    assert put_back
