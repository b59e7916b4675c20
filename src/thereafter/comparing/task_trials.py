"""The networks of a task compared: the same examples, the same budget, several seeds, the spread shown."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path

from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.base.storage import write_text
from thereafter.base.tabular import Row, Tabular, aligned
from thereafter.comparing.budget import planned_folder, read_seeds
from thereafter.comparing.differences import ModelDifference, task_differences, unit_of
from thereafter.data.files import AnySource
from thereafter.errors import OptionError, UnknownNameError
from thereafter.evaluation.bootstrap import Resampled
from thereafter.runs.folder import is_run
from thereafter.series.frames import AnyTable, as_source, naming
from thereafter.tasks import answering, finding, fitting
from thereafter.tasks.finding import Part, task_for
from thereafter.tasks.fitting import Fitted
from thereafter.tasks.task import AnyTask, Baselines, Comparing, Solving, aspect, scored
from thereafter.training.settings import TrainingSettings

RUNS = "runs"
RESULT = "compare.json"


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
class TaskComparison(Tabular):
    """All trials of a comparison. `part` is what the figures were measured on.

    `differences` are those of each network from the best, figure by figure, with their intervals; none for a task whose
    answers cannot be resampled.
    """

    task: str
    source: str
    part: str
    trials: tuple[TaskTrial, ...]
    folder: Path | None = None
    differences: tuple[ModelDifference, ...] = ()
    columns: tuple[str, ...] = ()
    """The figures that the table shows; all where none are named."""
    judged: str = ""
    """The figure by which networks are held against those that are `solved` at once; less of it is better."""
    solved: tuple[str, ...] = ()
    beside: tuple[Beside, ...] = ()
    """What is answered without a network, below the others."""

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(trial.name for trial in self.trials))

    def figures(self, name: str) -> dict[str, tuple[float, float]]:
        """Mean and half the range over the seeds of each figure of a network, its validation loss first."""
        trials = self._trials_of(name)
        columns = {"validation": [trial.validation for trial in trials]}
        columns |= {key: [trial.figures[key] for trial in trials] for key in trials[0].figures}
        return {key: (math.fsum(v) / len(v), (max(v) - min(v)) / 2) for key, v in columns.items()}

    def table(self) -> str:
        """A line a network: mean ± half the range over the seeds."""
        rows = {name: self.figures(name) for name in self.names}
        keys = list(self.columns or dict.fromkeys(key for figures in rows.values() for key in figures))
        lost = {one.network: f"loses to {one.simpler}" for one in self._losses()}
        lines = [["network", "seeds", "parameters", *keys, *(["seconds", ""] if self.columns else [])]]
        for name, figures in rows.items():
            trials = self._trials_of(name)
            cells = [_cell(*figures[key]) if key in figures else "" for key in keys]
            if self.columns:
                cells += [f"{_mean_seconds(trials):.1f}", lost.get(name, "")]
            lines.append([name, str(len(trials)), f"{trials[0].parameters:,}", *cells])
        for one in self.beside:
            cells = [_cell(one.figures[key], 0.0) if key in one.figures else "" for key in keys]
            lines.append([one.name, "", "", *cells, *(["", ""] if self.columns else [])])
        texts = aligned(list(zip(*lines, strict=True)), [False] * len(lines[0]))
        unused = f"was not used for training{' or' if self.part == 'test' else ', but'} for choosing weights"
        part = f"{'tested' if self.part == 'test' else 'measured'} on its {self.part} part"
        title = f"{self.task} on {self.source}, {part}, which {unused}"
        spread = ["± is half the range over the seeds."] if any("±" in text for text in texts) else []
        sentences = [f"{one}." for one in self.differences if one.figure == self.judged or not self.judged]
        return "\n".join([title, *texts, *spread, *([""] if sentences else []), *sentences])

    def advice(self) -> list[str]:
        """Which network is best, and which of them lose to what is solved at once; none without a figure `judged`."""
        first = verdict(self._judged(), self.solved, self.judged) if self.judged else ""
        return [f"{one}." for one in (first, *map(str, self._losses())) if one]

    def _trials_of(self, name: str) -> list[TaskTrial]:
        return [trial for trial in self.trials if trial.name == name]

    def _judged(self) -> dict[str, float]:
        return {name: self.figures(name)[self.judged][0] for name in self.names if self.judged in self.figures(name)}

    def _losses(self) -> list[Shortfall]:
        return losses(self._judged(), self.solved, self.judged)

    def to_rows(self) -> list[Row]:
        """A row a network: the mean of each figure over the seeds, and half of its range."""
        figures = {name: self.figures(name) for name in self.names}
        keys = list(dict.fromkeys(key for one in figures.values() for key in one))
        rows: list[Row] = []
        lost = {one.network: one.simpler for one in self._losses()}
        for name, known in figures.items():
            trials = self._trials_of(name)
            row: Row = {"network": name, "seeds": len(trials), "parameters": trials[0].parameters}
            if self.judged:
                row["loses_to"] = lost.get(name)
                row["seconds"] = _mean_seconds(trials)
            for key in keys:
                row[key], row[f"{key}_half_range"] = known.get(key, (None, None))
            rows.append(row)
        for one in self.beside:
            shown = {key: value for key, value in one.figures.items() if key in keys}
            rows.append(dict.fromkeys(rows[0]) | {"network": one.name} | shown)
        return rows

    def to_json(self) -> str:
        """Everything as JSON."""
        values = {name: value for name, value in asdict(self).items() if name != "folder"}
        differences = [one.as_dict() for one in self.differences]
        return json.dumps(values | {"differences": differences, "advice": self.advice()})

    def __str__(self) -> str:
        return self.table()


def compare_task(
    source: AnyTable,
    task: str,
    *,
    models: Networks = None,
    valid: AnyTable | None = None,
    seeds: int | Sequence[int] | None = None,
    seed: int | None = None,
    out: str | PathLike[str] | None = None,
    base: str | PathLike[str] | None = None,
    parts: bool = True,
    **options: object,
) -> TaskComparison:
    """Train each network with each seed on the same examples, and measure it on the test part, else on what validates.

    `models`: names with the options in which they differ, or names alone of a task that has kinds of network; without
    them those that the task names, or one with its own options. `out`: a folder that keeps every run; the same call
    again goes on where it stopped. `base`: in place of `out`, a folder in
    which one is chosen by the name of the source. Other options, and `parts`, are those of `train`, for all networks.
    """
    source, valid = as_source(source), None if valid is None else as_source(valid)
    with naming(source), progress.each_note_once():
        source = source if parts else finding.joined(task_for(task, source), source)
        return _compare(source, task, models, valid, read_seeds(seeds, seed), out, base, options)


def _compare(
    source: AnySource,
    task: str,
    models: Networks,
    valid: AnySource | None,
    seeds: Sequence[int],
    out: str | PathLike[str] | None,
    base: str | PathLike[str] | None,
    options: Mapping[str, object],
) -> TaskComparison:
    known = task_for(task, source)
    task = known.name
    if source == "-" or valid == "-":
        raise OptionError("the examples of a comparison are read more than once; write - (standard input) to a file")
    networks = choose_networks(known, models)
    options = with_test_part(known, source, options)
    wanted = {
        (name, number): fitting.settle(known, {**options, **own, "seed": number})
        for name, own in networks.items()
        for number in seeds
    }
    first, _ = next(iter(wanted.values()))
    chosen = known.configured(first)
    examples, heldout, _ = finding.train_and_valid(chosen, source, valid)
    tested = _tested(chosen, source, valid)[1]  # before anything is trained: it may have no answers
    plan: Table = {
        "task": task,
        "source": finding.name_of(source),
        "sha256": examples.fingerprint,
        "valid_sha256": heldout.fingerprint,
        "options": dict(options),
    }
    trials: list[TaskTrial] = []
    resampled: dict[str, list[Resampled]] = {}
    part = ""
    with planned_folder(out, base, plan) as folder:
        places = {trial: folder / RUNS / f"{trial[0]}-{trial[1]}" for trial in wanted}
        for trial, place in places.items():  # before anything is trained
            if is_run(place):
                _check_same(place, *wanted[trial])
        for (name, number), (settings, training) in wanted.items():
            progress.note(f"{name}, seed {number}")
            place = places[name, number]
            if is_run(place):
                fitted = fitting.resume(place)
            else:
                fitted = fitting.train(known, source, valid, settings, training, place)
            part, result, answers = _measure(fitted, name, number, source, valid)
            trials.append(result)
            resampled.setdefault(name, []).extend([] if answers is None else [answers])
        kept = None if out is None and base is None else folder
        solving, about = aspect(known, Solving), aspect(known, Comparing)
        solved = tuple(dict.fromkeys(name for (name, _), (settings, _) in wanted.items() if solving.solves(settings)))
        differences = task_differences(resampled)
        is_beside = "compare" in aspect(chosen, Baselines).printed_by
        rows = answering.baseline_rows(chosen, examples, tested) if is_beside else []
        beside = tuple(Beside(name, numbers(measured.as_dict())) for name, measured in rows)
        comparison = TaskComparison(
            task, plan["source"], part, tuple(trials), kept, differences, about.reported, about.judged, solved, beside
        )
        if kept is not None:
            write_text(kept / RESULT, comparison.to_json() + "\n")
    return comparison


def _check_same(folder: Path, settings: object, training: TrainingSettings) -> None:
    """OptionError where a run was begun with other settings than are wanted now."""
    config, _, task = fitting.read_config(folder)
    trained = fitting.training_of_run(config)
    # the one is chosen by the number of examples, the other by the machine
    trained = replace(trained, device=training.device, precision=training.precision)
    if training.validate_every is None:
        trained = replace(trained, validate_every=None)
    if not training.has_length:
        trained = replace(trained, epochs=None)
    for begun, now in ((vars(task.chosen), vars(settings)), (vars(trained), vars(training))):
        for name, value in now.items():
            if begun[name] != value:
                raise OptionError(
                    f"{folder} holds a network with {name} {begun[name]!r}, and this comparison wants {value!r}; "
                    "try another name for it, or another --out"
                )


def _measure(
    fitted: Fitted, name: str, seed: int, source: AnySource, valid: AnySource | None
) -> tuple[str, TaskTrial, Resampled | None]:
    """The part, the figures on it, and the answers ready to be resampled."""
    task, codecs = fitted.task, fitted.codecs
    part, tested = _tested(task, source, valid)
    examples, _ = scored(task, tested.examples, codecs)
    answers = answering.answers(fitted, examples)
    measured = task.measure(examples, answers, codecs).as_dict()
    figures = numbers(measured)
    last = fitted.log[-1]
    trial = TaskTrial(name, seed, figures, last["validation"], last["parameters"], last["seconds_training"])
    return part, trial, aspect(task, Comparing).resampled(examples, answers, codecs)


def _tested(task: AnyTask, source: AnySource, valid: AnySource | None) -> tuple[str, Part]:
    """The part that is measured on: the test part of a source, else what validates."""
    if finding.has(task, source, "test"):
        return "test", finding.find(task, source, "test")
    return "validation", finding.train_and_valid(task, source, valid)[1]


def _cell(mean: float, half: float) -> str:
    return f"{mean:.4g}" + (f" ± {half:.2g}" if half else "")


@dataclass(frozen=True)
class Beside:
    """What is answered without a network, and how good it is."""

    name: str
    figures: Mapping[str, float]


def numbers(figures: Table) -> dict[str, float]:
    """What can be averaged."""
    return {
        name: float(value)
        for name, value in figures.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    }


def _mean_seconds(trials: Sequence[TaskTrial]) -> float:
    return math.fsum(trial.seconds for trial in trials) / len(trials)


Networks = Mapping[str, Table] | Sequence[str] | None
"""Names with the options in which networks differ, or kinds of network by name alone."""


def choose_networks(task: AnyTask, models: Networks) -> dict[str, Table]:
    """The networks by name, each with its own options; a kind of network is one by its name alone."""
    if isinstance(models, str):
        models = [name.strip() for name in models.split(",") if name.strip()]
    about = aspect(task, Comparing)
    named = dict(models) if isinstance(models, Mapping) else {name: {} for name in models or about.peers()}
    for name, own in named.items():
        if not re.fullmatch(r"[\w-][\w.-]*", name):
            raise OptionError(f"{name!r} cannot be the name of a network; expected letters, digits, -, _ and dots")
        if name in about.kinds() and about.chooses not in {option.rpartition(".")[2] for option in own}:
            named[name] = {about.chooses: name, **own}
        elif not own and about.kinds():
            raise UnknownNameError(f"network of the task {task.name!r}", name, about.kinds())
        elif not own and not isinstance(models, Mapping):
            raise OptionError(f"{name!r} names no options; expected a table; try models={{{name!r}: {{'hidden': 64}}}}")
    return named or {task.name: {}}


def with_test_part(task: AnyTask, source: AnySource, options: Mapping[str, object]) -> dict[str, object]:
    """The options, with those that give a table a test part where it has none of its own."""
    defaults = aspect(task, Comparing).compared
    if not defaults:
        return dict(options)
    settings, _ = fitting.settle(task, dict(options))
    own = finding.located(task, source).part_files  # files of their own, and none of them to test on
    if own is not None or finding.has(task.configured(settings), source, "test"):
        return dict(options)
    return {**defaults, **options}


@dataclass(frozen=True)
class Shortfall:
    """A network that is worse than a simpler one."""

    network: str
    simpler: str
    figure: str
    value: float
    simpler_value: float

    def __str__(self) -> str:
        return (
            f"{self.network} loses to {self.simpler}, which is solved at once: {self.value:.4g} and "
            f"{self.simpler_value:.4g} {unit_of(self.figure)}"
        )


def losses(values: Mapping[str, float], solved: Sequence[str], figure: str) -> list[Shortfall]:
    """Each network that is trained in steps with the best of those that are solved and have less of the figure."""
    lost = []
    for name, value in values.items():
        better = [(values[other], other) for other in solved if other in values and values[other] < value]
        if name not in solved and better:
            least, simpler = min(better)
            lost.append(Shortfall(name, simpler, figure, value, least))
    return lost


def verdict(values: Mapping[str, float], solved: Sequence[str], figure: str) -> str:
    """Which network is best, in a sentence; nothing where there is only one."""
    if len(values) < 2:
        return ""
    best = min(values, key=lambda name: values[name])
    beaten = best in solved and any(name not in solved for name in values)
    advice = f"; no network that is trained in steps beats it here: take {best}" if beaten else ""
    return f"{best} is the best, {values[best]:.4g} {unit_of(figure)}{advice}"
