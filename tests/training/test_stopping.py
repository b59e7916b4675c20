"""What a stop saves, in one process: the very step, and all that the rest of the training depends on."""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

import thereafter
from thereafter.runs import checkpoint
from thereafter.training.counters import COUNTED
from thereafter.training.loop import Loop
from thereafter.training.stopping import Stop, undisturbed
from thereafter.training.validation import Validation

TEXT = "".join(
    f"{line}\n" for line in ["the cat sat on the mat .", "it rained .", "a dog saw the cat , and ran ."] * 20
)
SMALL: dict[str, Any] = {"hidden": 8, "batch": 4, "steps": 8, "layers": 1, "log_every": 1, "tokens": "char"}
SMALL |= {"model": "gru", "dropout": 0.2, "epochs": 3, "validate_every": 6, "checkpoint_every": 15}


def ctrl_c(how: signal.Signals = signal.SIGINT) -> None:
    os.kill(os.getpid(), how)


def once(at: int, action: Callable[[], Any]) -> Callable[[int], None]:
    """Do something the first time a step has come."""
    left = [action]

    def look(step: int) -> None:
        if step == at and left:
            left.pop()()

    return look


def at_step(monkeypatch: pytest.MonkeyPatch, look: Callable[[int], None]) -> None:
    """Look in the middle of every step: its gradients are there, its weights are the old ones."""
    own = Loop._gradients

    def gradients(self: Loop, *given: Any) -> Any:
        found = own(self, *given)
        look(self.at.step)
        return found

    monkeypatch.setattr(Loop, "_gradients", gradients)


def book(tmp_path: Path) -> Path:
    path = tmp_path / "book.txt"
    path.write_text(TEXT)
    return path


def same_end(one: Path, other: Path) -> bool:
    return (one / "weights.safetensors").read_bytes() == (other / "weights.safetensors").read_bytes()


def untimed(lm: thereafter.LanguageModel) -> list[dict[str, Any]]:
    clock = ("seconds", "seconds_training", "seconds_tokenizing", "tokens_per_second")
    lines = [line for line in lm.log if line["event"] != "resumed"]
    return [{name: value for name, value in line.items() if name not in clock} for line in lines]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_for_the_end_of_the_step(how: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    before = signal.getsignal(how)
    whole = thereafter.train(book(tmp_path), out=tmp_path / "whole", **SMALL)
    at_step(monkeypatch, once(8, lambda: ctrl_c(how)))
    with pytest.raises(KeyboardInterrupt):
        thereafter.train(book(tmp_path), out=tmp_path / "run", **SMALL)
    assert signal.getsignal(how) is before
    assert not (tmp_path / "run" / ".lock").exists()
    saved = checkpoint.read(tmp_path / "run" / "state.safetensors", COUNTED)
    assert saved.facts["at"]["step"] == 9
    assert saved.earlier is not None
    assert saved.earlier.facts["at"]["step"] == 0  # where the guard would go back to: none was due yet
    assert untimed(thereafter.resume(tmp_path / "run")) == untimed(whole)
    assert same_end(tmp_path / "run", tmp_path / "whole")


def test_a_second_signal_does_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    whole = thereafter.train(book(tmp_path), out=tmp_path / "whole", **SMALL)
    at_step(monkeypatch, once(20, lambda: (ctrl_c(), ctrl_c())))
    with pytest.raises(KeyboardInterrupt):
        thereafter.train(book(tmp_path), out=tmp_path / "run", **SMALL)
    assert (
        checkpoint.read(tmp_path / "run" / "state.safetensors", COUNTED).facts["at"]["step"] == 15
    )  # the last whole one
    assert untimed(thereafter.resume(tmp_path / "run")) == untimed(whole)
    assert same_end(tmp_path / "run", tmp_path / "whole")


@pytest.mark.parametrize("at", [6, 30])
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
    saved = checkpoint.read(tmp_path / "run" / "state.safetensors", COUNTED).facts["at"]
    assert (saved["step"], saved["validated"]) == (at, at - 6 if at > 6 else -1)
    assert untimed(thereafter.resume(tmp_path / "run")) == untimed(whole)
    assert same_end(tmp_path / "run", tmp_path / "whole")


def test_a_bad_step_after_a_stop_goes_back_to_where_it_would_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The guard goes back to the snapshot of step 15, not to the one of step 18 that only the stop has made."""
    bad: list[int] = []
    own = Loop._loss

    def loss(self: Loop, *given: Any) -> tuple[Tensor, Tensor, Any]:
        nats, mean, after = own(self, *given)
        return (
            (nats, mean * math.nan, after) if self.at.step == 20 and self._guard.attempts == 0 else (nats, mean, after)
        )

    monkeypatch.setattr(Loop, "_loss", loss)
    whole = thereafter.train(book(tmp_path), out=tmp_path / "whole", **SMALL)
    assert [line["step"] for line in whole.log if line["event"] == "guard"] == [21]
    at_step(monkeypatch, once(17, lambda: (bad.append(1), ctrl_c())))
    with pytest.raises(KeyboardInterrupt):
        thereafter.train(book(tmp_path), out=tmp_path / "run", **SMALL)
    saved = checkpoint.read(tmp_path / "run" / "state.safetensors", COUNTED)
    assert saved.earlier is not None
    assert (saved.facts["at"]["step"], saved.earlier.facts["at"]["step"]) == (18, 15)
    assert untimed(thereafter.resume(tmp_path / "run")) == untimed(whole)
    assert same_end(tmp_path / "run", tmp_path / "whole")


def test_another_programs_own_handler_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        at_step(monkeypatch, once(3, ctrl_c))
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
