"""The networks of a task compared: the same examples, the same budget, several seeds, the spread shown."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from thereafter import progress
from thereafter.comparing.budget import read_seeds
from thereafter.config import Table
from thereafter.data.files import AnySource
from thereafter.runs.folder import is_run
from thereafter.tasks import answering, finding, fitting, store
from thereafter.tasks.fitting import Fitted
from thereafter.tasks.task import TASKS, AnyTask

RUNS = "runs"


@dataclass(frozen=True)
class TaskTrial:
    """One network trained with one seed, and how good its answers are."""

    name: str
    seed: int
    figures: Mapping[str, float]
    validation: float
    parameters: int
    seconds: float


@dataclass(frozen=True)
class TaskComparison:
    """All trials of a comparison. `part` is what the figures were measured on."""

    task: str
    source: str
    part: str
    trials: tuple[TaskTrial, ...]

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(trial.name for trial in self.trials))

    def figures(self, name: str) -> dict[str, tuple[float, float]]:
        """Mean and half the range over the seeds of each figure of a network, its validation loss first."""
        trials = [trial for trial in self.trials if trial.name == name]
        columns = {"validation": [trial.validation for trial in trials]}
        columns |= {key: [trial.figures[key] for trial in trials] for key in trials[0].figures}
        return {key: (math.fsum(v) / len(v), (max(v) - min(v)) / 2) for key, v in columns.items()}

    def table(self) -> str:
        """A line a network: mean ± half the range over the seeds."""
        rows = {name: self.figures(name) for name in self.names}
        keys = list(dict.fromkeys(key for figures in rows.values() for key in figures))
        lines = [["network", "seeds", "parameters", *keys]]
        for name, figures in rows.items():
            trials = [trial for trial in self.trials if trial.name == name]
            cells = [_cell(*figures[key]) if key in figures else "" for key in keys]
            lines.append([name, str(len(trials)), f"{trials[0].parameters:,}", *cells])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        texts = ["  ".join(f"{cell:<{w}}" for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines]
        return "\n".join([f"{self.task} on {self.source}, measured on its {self.part} part", *texts])

    def to_json(self) -> str:
        """Everything as JSON."""
        return json.dumps(asdict(self))

    def __str__(self) -> str:
        return self.table()


def compare_task(
    source: AnySource,
    task: str,
    *,
    models: Mapping[str, Table] | None = None,
    valid: AnySource | None = None,
    seeds: int | Sequence[int] | None = None,
    seed: int | None = None,
    out: Path | None = None,
    options: Table | None = None,
) -> TaskComparison:
    """Train each network with each seed on the same examples, and measure it on the test part, else on what validates.

    `models`: names with the options in which they differ; one alone, with the task's own, where none are given. `out`:
    a folder that keeps every run; the same call again goes on where it stopped.
    """
    known: AnyTask = TASKS.load(task)
    trials = []
    part = ""
    for name, own in (models or {task: {}}).items():
        for number in read_seeds(seeds, seed):
            settings, training = fitting.settle(known, {**(options or {}), **own, "seed": number})
            progress.note(f"{name}, seed {number}")
            folder = None if out is None else out / RUNS / f"{name}-{number}"
            if folder is not None and is_run(folder):
                fitted = store.resume(folder)
            else:
                fitted = store.train(known, source, valid, settings, training, folder)
            part, trial = _measured(fitted, name, number, source, valid)
            trials.append(trial)
    comparison = TaskComparison(task, source if isinstance(source, str) else str(source), part, tuple(trials))
    if out is not None:
        (out / "compare.json").write_text(comparison.to_json(), encoding="utf-8")
    return comparison


def _measured(
    fitted: Fitted, name: str, seed: int, source: AnySource, valid: AnySource | None
) -> tuple[str, TaskTrial]:
    task, codecs = fitted.task, fitted.codecs
    if finding.has(task, source, "test"):
        part, examples = "test", finding.find(task, source, "test").examples
    else:
        part, examples = "validation", finding.train_and_valid(task, source, valid)[1].examples
    measured = task.measure(examples, answering.answers(fitted, examples), codecs).as_dict()
    figures = dict(_numbers(measured.items()))
    last = fitted.log[-1]
    trial = TaskTrial(name, seed, figures, last["validation"], last["parameters"], last["seconds_training"])
    return part, trial


def _numbers(items: Iterable[tuple[str, object]]) -> Iterable[tuple[str, float]]:
    """What can be averaged."""
    for name, value in items:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            yield name, float(value)


def _cell(mean: float, half: float) -> str:
    return f"{mean:.4g}" + (f" ± {half:.2g}" if half else "")
