"""What a user sees of a training: a line now and then, or a bar with the figures beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

import thereafter
from tasks.toys import tagged
from thereafter.base import progress
from thereafter.base.progress import TerminalReporter
from thereafter.training import control


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def test_plain_lines(clock: Clock, capsys: pytest.CaptureFixture[str]):
    advance = TerminalReporter().begin("training", 100, "%")
    for _ in range(20):
        clock.now += 1.0
        advance(0.5, "loss 4.61  ppl 100.5")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "training: 2 %  loss 4.61  ppl 100.5  0:03:15 left"
    assert len(lines) == 4


def seconds(left: str) -> int:
    hours, minutes, rest = left.removesuffix(" left").split(":")
    return 3600 * int(hours) + 60 * int(minutes) + int(rest)


def test_the_time_left_after_a_resume_is_judged_by_this_process(clock: Clock, capsys: pytest.CaptureFixture[str]):
    """40 % were done by an earlier process: at 0.5 % a second the other 60 take two minutes."""
    advance = TerminalReporter().begin("training", 100, "%")
    clock.now += 8.0  # torch was imported, loops were compiled
    advance(40.5, "loss 4.61")
    for _ in range(10):
        clock.now += 1.0
        advance(0.5, "loss 4.61")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "training: 40 %  loss 4.61"  # nobody knows yet
    assert seconds(lines[-1].rpartition("  ")[2]) == pytest.approx(2 * 54.5, abs=2)


def test_a_slow_first_step_says_nothing_of_the_time_left(clock: Clock, capsys: pytest.CaptureFixture[str]):
    """Steps of 0.01 % in 0.1 s, the first of them after 9 s: a quarter of an hour, and never a day."""
    advance = TerminalReporter().begin("training", 100, "%")
    clock.now += 8.9
    for _ in range(200):
        clock.now += 0.1
        advance(0.01, "loss 4.61")
    lines = capsys.readouterr().err.splitlines()
    assert "left" not in lines[0]
    assert all(seconds(line.rpartition("  ")[2]) < 1001 for line in lines[1:])
    assert len(lines) > 3


@pytest.mark.parametrize("task", [None, "tag"])
def test_a_tagger_has_no_perplexity(task: str | None, tmp_path: Path):
    shown: list[str] = []

    class Listener(progress.Silent):
        def begin(self, label: str, total: float | None, unit: str) -> progress.Advance:
            return lambda amount, status="": shown.append(status) if label == "training" else None

    with progress.reporting(Listener()):
        if task:
            thereafter.train(tagged(tmp_path / "tags.tsv", 40), task=task, hidden=8, epochs=1, validate_every=1)
        else:
            thereafter.train(text="the cat sat on the mat .\n" * 40, model="rnn", hidden=8, epochs=1, tokens="char")
    assert shown
    assert all(("ppl" in status, "targets/s" in status) == (task is None, task is not None) for status in shown)


def test_work_without_a_status_says_only_how_far_it_is(clock: Clock, capsys: pytest.CaptureFixture[str]):
    advance = TerminalReporter().begin("reading", None, "B")
    clock.now += 6.0
    advance(1234)
    assert capsys.readouterr().err == "reading: 1,234\n"


def test_a_bar(clock: Clock, capsys: pytest.CaptureFixture[str]):
    reporter = TerminalReporter()
    reporter._fancy = True
    advance = reporter.begin("training", 100, "%")
    advance(1)
    assert not reporter._bars  # quick work shows nothing
    clock.now += 1.0
    advance(49, "loss 1.23")
    progress, task = reporter._bars["training"]
    (shown,) = progress.tasks
    assert (shown.completed, shown.fields["status"], shown.fields["time_left"]) == (50, "loss 1.23", "")
    for _ in range(4):
        clock.now += 1.0
        advance(1)
    assert shown.fields["time_left"] == "0:00:04 left"  # 53 in 5 seconds, 46 to go
    assert shown.fields["status"] == "loss 1.23"
    reporter.end("training")
    assert not reporter._bars
    assert task == shown.id
    capsys.readouterr()


def test_no_speed_is_shown_before_it_is_known(monkeypatch: pytest.MonkeyPatch):
    clock = Clock()
    monkeypatch.setattr(control, "time", clock)
    at = control.Counters()
    at.take(4096, 10)  # its time was spent on compiling, and the clock began after it
    clock.now += 0.001
    assert at.speed() is None
    clock.now += 2.0
    at.take(4096, 10)
    assert at.speed() == pytest.approx(8192 / 2.001)
    later = control.Counters.from_dict(at.as_dict())
    assert later.speed() is None  # a process that goes on knows nothing of its own speed yet
