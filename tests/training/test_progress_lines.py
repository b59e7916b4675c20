"""What a user sees of a training: a line now and then, or a bar with the figures beside it."""

from __future__ import annotations

import pytest

from thereafter import terminal
from thereafter.terminal import TerminalReporter


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(terminal, "time", clock)
    return clock


def test_plain_lines(clock: Clock, capsys: pytest.CaptureFixture[str]):
    advance = TerminalReporter().begin("training", 100, "%")
    for _ in range(20):
        clock.now += 1.0
        advance(0.5, "loss 4.61  ppl 100.5")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "training: 2 %  loss 4.61  ppl 100.5  0:03:15 left"
    assert len(lines) == 4


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
    assert (shown.completed, shown.fields["status"]) == (50, "loss 1.23")
    advance(1)
    assert shown.fields["status"] == "loss 1.23"
    reporter.end("training")
    assert not reporter._bars
    assert task == shown.id
    capsys.readouterr()
