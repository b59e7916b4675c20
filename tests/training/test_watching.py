"""Functions of one's own in a training: each step and validation is reported once, in order, with the right figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import thereafter
from tasks.toys import tagged
from thereafter.base.config import Table
from thereafter.models.quiet import NeuralState
from thereafter.training import loop
from thereafter.training.watching import StepReport, Training, ValidationReport

TEXT = "the cat sat on the mat .\nthe dog sat on the log .\n" * 30
SMALL: dict[str, Any] = {
    "model": "lstm", "tokens": "char", "hidden": 8, "layers": 1, "batch": 4, "steps": 8, "tokens_budget": 1400,
    "log_every": 5, "validate_every": 20, "checkpoint_every": 10, "checkpoint_seconds": 0,
}  # fmt: skip
Reports = list[StepReport | ValidationReport]


@contextmanager
def collecting() -> Iterator[Reports]:
    """The reports of the trainings inside the block, without the clock."""
    reports: Reports = []

    def collect(training: Training, report: StepReport | ValidationReport) -> None:
        reports.append(replace(report, seconds=0.0))

    with thereafter.watching(after_step=collect, at_validation=collect):
        yield reports


def lines(log: list[Table], event: str) -> list[Table]:
    return [line for line in log if line["event"] == event]


def assert_reports_are_the_log(reports: Reports, log: list[Table]) -> None:
    """The log has the sum over every five steps, summed up by the loop itself, and every validation."""
    steps = [report for report in reports if isinstance(report, StepReport)]
    validations = [report for report in reports if isinstance(report, ValidationReport)]
    assert [report.step for report in steps] == list(range(1, log[-1]["steps"] + 1))
    counts = [after.seen - before for after, before in zip(steps, [0, *(one.seen for one in steps)], strict=False)]
    for line in lines(log, "step"):
        five = range(line["step"] - 5, line["step"])
        mean = sum(steps[k].loss * counts[k] for k in five) / sum(counts[k] for k in five)
        assert mean == pytest.approx(line["loss"], rel=1e-12)
        last = steps[line["step"] - 1]
        assert (last.norm, last.rate, last.seen) == (line["norm"], line["rate"], line["seen"])
    reported = [(one.step, one.epoch, one.loss, one.best, *one.figures.values()) for one in validations]
    names = ["step", "epoch", "loss", "best", *validations[0].figures]
    assert reported == [tuple(line[name] for name in names) for line in lines(log, "validation")]
    places = [(report.step, isinstance(report, ValidationReport)) for report in reports]
    assert places == sorted(places)  # a validation after its step, nothing twice


def test_a_language_model_reports_every_step_and_validation():
    with collecting() as reports:
        lm = thereafter.train(text=TEXT, **SMALL)
    assert len(lines(lm.log, "validation")) > 2
    assert_reports_are_the_log(reports, lm.log)
    assert all(report.figures["perplexity"] == pytest.approx(math.exp(report.loss)) for report in reports)
    epochs = [report.epoch for report in reports if isinstance(report, StepReport)]
    assert epochs[0] == 0
    assert epochs == sorted(epochs)


def test_a_task_reports_every_step_and_validation(tmp_path: Path):
    with collecting() as reports:
        trained = thereafter.train(
            tagged(tmp_path / "tags.tsv", 40), task="tag", hidden=8, batch=4, epochs=3, log_every=5, validate_every=7
        )
    assert_reports_are_the_log(reports, trained.log)


class Played:
    """Steps as CUDA graphs play them, on a CPU: a whole step without a look at its figures."""

    def __init__(self, learn: Callable[[Any, NeuralState | None, Tensor], tuple[Tensor, NeuralState]]) -> None:
        self._learn = learn

    def play(self, batch: Any, state: NeuralState | None, rate: float) -> tuple[Tensor, NeuralState | None]:
        figures, after = self._learn(batch, state, torch.tensor(rate))
        kept = {name: tensor.detach().clone() for name, tensor in after.tensors().items()}
        return figures, None if state is None else after.with_tensors(kept)

    def clear(self) -> None:
        """They keep no memory."""


def test_steps_that_are_played_and_read_seldom_are_reported_too(monkeypatch: pytest.MonkeyPatch):
    """As on a GPU: eight steps at a time, from a graph. The loop itself says what they are without."""
    with collecting() as plain:
        thereafter.train(text=TEXT, **SMALL, clip=0.5)
    monkeypatch.setitem(loop.STEPS_AT_ONCE, "cpu", 8)
    with collecting() as seldom:
        thereafter.train(text=TEXT, **SMALL, clip=0.5)
    assert seldom == plain
    monkeypatch.setattr(loop.Loop, "new_graphs", lambda self: Played(self._learn))
    late: list[int] = []

    def look(training: Training, report: StepReport) -> None:
        late.append(training.at.step - report.step)

    with collecting() as played, thereafter.watching(after_step=look):
        lm = thereafter.train(text=TEXT, **SMALL, clip=0.5)
    assert max(late) == 4  # a line of the log every five steps reads them
    assert_reports_are_the_log(played, lm.log)
    assert [one.loss for one in played] == pytest.approx([one.loss for one in plain], rel=1e-4)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Table], Reports]:
    """A training that is never stopped: its folder, its log and what was reported of it."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "book.txt").write_text(TEXT)
    with collecting() as reports:
        lm = thereafter.train(folder / "book.txt", out=folder / "run", **SMALL)
    return folder / "run", lm.log, reports


@pytest.mark.parametrize("event", ["after_step", "at_validation", "at_checkpoint"])
def test_a_function_may_stop_a_training_and_nothing_is_lost(
    event: str, tmp_path: Path, whole: tuple[Path, list[Table], Reports]
):
    """Stopped at a step with a line of the log, a validation and a checkpoint: the end is that of a whole run."""
    (tmp_path / "book.txt").write_text(TEXT)
    run, whole_log, whole_reports = whole
    stops = [20, 40]

    def stop(training: Training, report: object = None) -> None:
        if stops and training.at.step == stops[0]:
            stops.pop(0)
            raise KeyboardInterrupt

    with collecting() as reports, thereafter.watching(**{event: stop}):
        with pytest.raises(KeyboardInterrupt):
            thereafter.train(tmp_path / "book.txt", out=tmp_path / "run", **SMALL)
        with pytest.raises(KeyboardInterrupt):
            thereafter.resume(tmp_path / "run")
        again = thereafter.resume(tmp_path / "run")
    assert not stops
    assert (tmp_path / "run" / "weights.safetensors").read_bytes() == (run / "weights.safetensors").read_bytes()
    clock = {"seconds", "seconds_training", "seconds_tokenizing", "tokens_per_second"}
    plain = [
        [{name: value for name, value in line.items() if name not in clock} for line in log]
        for log in (whole_log, [line for line in again.log if line["event"] != "resumed"])
    ]
    assert plain[0] == plain[1]
    assert reports == whole_reports  # nothing twice, nothing left out


def test_blocks_add_up_and_end_with_themselves():
    order: list[str] = []

    def note(name: str) -> Callable[[Training, StepReport], None]:
        return lambda training, report: order.append(name)

    few = SMALL | {"tokens_budget": 30}
    with thereafter.watching(after_step=note("outer")):
        with thereafter.watching(after_step=note("inner")):
            thereafter.train(text=TEXT, **few)
        thereafter.train(text=TEXT, **few)
    thereafter.train(text=TEXT, **few)
    assert order == ["outer", "inner", "outer"]
