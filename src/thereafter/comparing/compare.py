"""Models compared on one text: same parts, same bytes, equal budgets, several seeds, one table.

`Comparison` is a table, sentences of advice, JSON and a page. Every model and seed that has finished is kept in the
folder of the comparison, and one that was broken off goes on where it was: the same call again does what is left to do.

    OUT/plan.json            what is compared under: text, budget, options
    OUT/text/                the parts of the text, where they had to be cut or normalised
    OUT/runs/NAME/           a run folder for each model and seed
    OUT/results/NAME.json    what came of it
    OUT/results/NAME.npz     what each line of the test part costs it
    OUT/results/NAME.pairs.json    its verdicts on minimal pairs
    OUT/compare.json         everything
    OUT/report.html          everything, to be read, with curves where plotly is installed (its script lies beside)
"""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from os import PathLike
from pathlib import Path

from thereafter.base import config as toml
from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.base.packages import installed
from thereafter.base.processor import processor
from thereafter.base.storage import write_text
from thereafter.base.tabular import Tabular, finite
from thereafter.base.version import __version__
from thereafter.comparing import report, tables
from thereafter.comparing.budget import (
    Entry,
    SharedText,
    deal_options,
    default_budget,
    describe_budget,
    fingerprint,
    is_mixed,
    ladder,
    match_entries,
    parse_entries,
    planned_folder,
    read_budget,
    read_match,
    read_seeds,
    reference,
    refuse_uneven,
    share,
)
from thereafter.comparing.differences import NO_INTERVALS, LineSums, ModelDifference
from thereafter.comparing.probes import Questions, offered_questions
from thereafter.comparing.rows import AskedPairs, Compared, PairTable, PairVerdicts, Row, Trial, model_differences
from thereafter.comparing.trials import measure_lines, run_trial
from thereafter.data.corpora import require_own
from thereafter.data.files import AnySource
from thereafter.errors import EmptyCorpusError, FormatError, TrainingError
from thereafter.figures.pictures import write_script
from thereafter.inspection.measurement import DrawnFigure, draw
from thereafter.inspection.pairs import PairFiles
from thereafter.runs.folder import is_run
from thereafter.text.sources import Source
from thereafter.training.finding import find_texts
from thereafter.training.kinds import load_trained
from thereafter.training.settings import TextSettings

JSON, REPORT = "compare.json", "report.html"
LINES, PAIRS = ".npz", ".pairs.json"
"""Endings of the files in which a trial has its sums by line, and its answers to minimal pairs."""
FORMAT = 1


@dataclass(frozen=True)
class Comparison(Compared, Tabular):
    """Models compared on one text: what `compare` returns."""

    def table(self) -> str:
        """The figures for a terminal of 120 columns."""
        return tables.table(self)

    def advice(self) -> list[str]:
        """Which model to use when, in sentences made from the figures."""
        return tables.advice([self])

    def html(self) -> str:
        """A page that needs nothing but itself; its curves are interactive, and drawn where plotly is installed."""
        return report.page(self)

    def figure(self, name: str | None = None, **options: object) -> DrawnFigure:
        """Bits per byte side by side; `"agreement"` and `"congruence"` where the corpus asked about agreement."""
        return draw("comparison", self.as_dict(), name, **options)

    def as_dict(self) -> Table:
        """Everything, as plain JSON values."""
        rows = [row.as_dict() for row in self.rows]
        return {
            "format": FORMAT,
            **self.about,
            "notes": list(self.notes),
            "advice": self.advice(),
            **self.measured(),
            "rows": rows,
        }

    def to_json(self) -> str:
        """Everything as JSON; numbers that are none or infinite are null."""
        return json.dumps(finite(self.as_dict()), indent=1, allow_nan=False)

    def save(self, folder: str | PathLike[str]) -> Path:
        """Write `compare.json`, `report.html` and the script that draws the curves of the page."""
        place = Path(folder)
        write_text(place / JSON, self.to_json() + "\n")
        write_text(place / REPORT, report.page(self, beside=True))
        if installed("plotly"):
            write_script(place)
        return place

    def __str__(self) -> str:
        return self.table()


_READING = ("tokens", "encoding", "lower", "letters_only", "keep_licence", "wrapped", "markup")


def compare(
    source: AnySource | None = None,
    *,
    text: str | None = None,
    models: str | Iterable[str] | None = None,
    tokens: str | None = None,
    epochs: float | None = None,
    tokens_budget: int | None = None,
    minutes: float | None = None,
    seeds: int | Sequence[int] | None = None,
    seed: int | None = None,
    match: str | int | None = None,
    pairs: PairFiles | None = None,
    out: str | PathLike[str] | None = None,
    base: str | PathLike[str] | None = None,
    encoding: str | None = None,
    parts: bool = True,
    command: str | None = None,
    **options: object,
) -> Comparison:
    """Train models on the same text with the same budget and compare them on its test part.

    `models` (by default one of each generation) are names as `train` takes them, with a tokenizer where that is not the
    text's own (`lstm:char`), and n-grams with their order: `unigram`, `ngram-3`. The budget of each neural model and
    seed is `epochs`, `tokens_budget` or `minutes`; where none is given, as many epochs as make about 600,000 tokens, 30
    at most. With minutes a model reads what the machine lets it read, and the table shows how much that was. `seeds`:
    how many (1), or which; `seed=1` is `seeds=[1]`. `match="parameters"` gives all neural models as many parameters as
    the LSTM has (or the first of them), a number that many.
    `pairs`: files of minimal pairs (as `inspect pairs` takes them) that every model is scored on.
    `out`: a folder that keeps everything; the same call again goes on where it stopped. `base`: in place of `out`, a
    folder in which one is chosen by the name of the text: that of the same call if there is one, else a new one.
    Other options are those of `train`, each for all models that have it, or for one kind where spelled in full:
    `**{"lstm.hidden": 200}`. `parts` as in `train`. `command` is how the call is quoted in the report.
    """
    asked = {"tokens": tokens, "encoding": encoding, **_take(options, "text", _READING)}
    settings = toml.build(TextSettings, asked, "text")
    given: Table = {"epochs": epochs, "tokens_budget": tokens_budget, "minutes": minutes, "seed": seed}
    given |= _take(options, "training", given)
    refuse_uneven(options)
    asked_for, chosen, wanted = read_budget(given), read_seeds(seeds, given["seed"]), read_match(match)
    minimal = None if pairs is None else AskedPairs.read(pairs)
    texts = find_texts(source, text, settings, parts=parts)
    if not parts:
        require_own(texts)
    entries = parse_entries(ladder() if models is None else models, settings.tokens or texts.tokens)
    kinds = {entry.tokens for entry in entries}
    dealt = deal_options(entries, options)
    budget = asked_for or default_budget(texts, kinds)
    for entry in entries:
        if entry.kind.trained_in_steps:
            dealt[entry.stem] |= {f"training.{name}": value for name, value in budget.items()}
    plan: Table = {
        "source": texts.name,
        "sha256": fingerprint(texts),
        "normalised": is_mixed(kinds),
        "budget": budget,
        "match": wanted,
        "matched_to": reference(entries) if wanted == "parameters" else None,
        "options": dict(options),
    }
    with planned_folder(out, base, plan) as folder:
        shared = share(texts, settings, kinds, folder / "text")
        notes = list(shared.notes)
        if any(entry.kind.trained_in_steps for entry in entries):
            why = "" if asked_for else ", chosen by the size of the text; epochs, tokens_budget or minutes sets another"
            notes.append(f"each neural model and seed is trained for {describe_budget(budget)}{why}")
            progress.note(notes[-1])
        if wanted is not None:
            notes += match_entries(entries, dealt, shared, wanted)
        jobs = [
            PlannedTrial(entry, number, folder)
            for entry in entries
            for number in (chosen if entry.kind.trained_in_steps else [None])
        ]
        questions = offered_questions(texts.parts["test"]) if "test" in texts.parts else {}
        trials, failed = _run_all(jobs, dealt, shared, questions)
        about = {key: plan[key] for key in ("source", "sha256", "budget", "match", "options")}
        spelled = options if parts else {**options, "parts": False}
        called: Table = {"models": [entry.name for entry in entries], **budget, "seeds": list(chosen)}
        called |= {"match": match, "pairs": pairs, "out": out}
        about |= {
            "detail": texts.detail,
            "bytes": {name: part.size for name, part in shared.parts.items()},
            "seeds": chosen,
            "command": command or _call(texts.name, called, spelled),
            "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
            "machine": machine(),
            "versions": versions(),
        }
        models_run: dict[str, list[PlannedTrial]] = {}
        for job in trials:
            models_run.setdefault(job.entry.name, []).append(job)
        rows = tuple(Row(name, tuple(trials[job] for job in several)) for name, several in models_run.items())
        kept = None if out is None and base is None else folder
        differences: tuple[ModelDifference, ...] = ()
        if len(rows) > 1:
            test = shared.parts["test"]
            sums = {name: [job.line_sums(test) for job in several] for name, several in models_run.items()}
            differences = model_differences(
                rows, {name: [one for one in several if one is not None] for name, several in sums.items()}
            )
        if len(rows) > 1 and not differences:
            notes.append(NO_INTERVALS)
        comparison = Comparison(
            rows,
            about,
            (*notes, *failed),
            kept,
            differences=differences,
            pairs=None if minimal is None else _ask_pairs(models_run, minimal),
        )
        if kept is not None:
            comparison.save(kept)
    if not rows:
        raise TrainingError(f"no model could be trained; {failed[0]}")
    return comparison


def _run_all(
    jobs: Sequence[PlannedTrial], dealt: Mapping[str, Table], shared: SharedText, questions: Mapping[str, Questions]
) -> tuple[dict[PlannedTrial, Trial], list[str]]:
    """All trials that could be made, and a sentence for each that failed."""
    trials: dict[PlannedTrial, Trial] = {}
    failed: list[str] = []
    for number, job in enumerate(jobs, start=1):
        trial = job.finished_trial()
        if trial is None:
            progress.note(f"{number} of {len(jobs)}: {job.label}")
            try:
                trial = run_trial(
                    job.entry, job.seed, shared, dealt[job.entry.stem], job.run, questions, job.result(LINES)
                )
            except (TrainingError, EmptyCorpusError) as error:
                failed.append(f"{job.label} failed: {error}")
                progress.note(failed[-1])
                continue
            except KeyboardInterrupt:
                progress.note(
                    f"stopped; {number - 1} of {len(jobs)} are finished; the same command goes on with the rest"
                )
                raise
            write_text(job.result(), json.dumps(trial.as_dict(), indent=1) + "\n", durable=True)
        trials[job] = replace(trial, name=job.entry.name)
    return trials, failed


def _ask_pairs(models: Mapping[str, Sequence[PlannedTrial]], asked: AskedPairs) -> PairTable | None:
    """What every model answers to minimal pairs; None where no model can be asked any more."""
    answers = {name: [job.pair_verdicts(asked) for job in several] for name, several in models.items()}
    able = {name: [one for one in several if one is not None] for name, several in answers.items()}
    able = {name: several for name, several in able.items() if several}
    return PairTable(asked.name, len(asked.pairs), able) if able else None


def _take(options: Table, table: str, names: Iterable[str]) -> Table:
    """Options that are not for single models, taken out of the others, however they are spelled."""
    spelled = {f"{table}.{name}": name for name in names} | {name: name for name in names}
    return {spelled[name]: options.pop(name) for name in list(options) if name in spelled}


def _call(source: str, given: Table, options: Table) -> str:
    """The call in Python, for those who did not come by the command line."""
    words = [f"{name}={_spelled(value)!r}" for name, value in given.items() if value is not None]
    more = [f"**{dict(options)!r}"] if options else []
    return f"thereafter.compare({', '.join([repr(source), *words, *more])})"


def _spelled(value: object) -> object:
    """A path as its name, several of them too."""
    if isinstance(value, str | PathLike):
        return os.fspath(value)
    return [_spelled(part) for part in value] if isinstance(value, list | tuple) else value


_PACKAGES = ("numpy", "torch", "numba", "tokenizers")


def versions() -> dict[str, str]:
    """Versions of this package, of Python, and of the packages that compute."""
    numbers = {"thereafter": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            numbers[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return numbers


def machine() -> str:
    """The processor, how many threads torch takes of it, the GPU if there is one, the system."""
    parts = [processor().name, f"{os.cpu_count()} cores"]
    try:
        import torch
    except ModuleNotFoundError:
        pass
    else:
        parts.append(f"{torch.get_num_threads()} threads of torch")
        if torch.cuda.is_available():
            parts.append(torch.cuda.get_device_name())
    return ", ".join([*parts, f"{platform.system()} {platform.machine()}"])


@dataclass(frozen=True)
class PlannedTrial:
    """One model with one seed of a comparison, and the files that keep what came of it.

    Results of earlier versions have no sums by line, and pairs may be asked for later: both are measured then, of the
    model in its run folder, without training it again.
    """

    entry: Entry
    seed: int | None
    folder: Path

    @property
    def stem(self) -> str:
        return self.entry.stem if self.seed is None else f"{self.entry.stem}-seed{self.seed}"

    @property
    def label(self) -> str:
        """What it is called in notes."""
        return self.entry.name if self.seed is None else f"{self.entry.name}, seed {self.seed}"

    @property
    def run(self) -> Path:
        return self.folder / "runs" / self.stem

    def result(self, ending: str = ".json") -> Path:
        """A file of what came of it: of the trial, of its sums by line, or of its answers to minimal pairs."""
        return self.folder / "results" / f"{self.stem}{ending}"

    def finished_trial(self) -> Trial | None:
        """What came of it, where it was finished before."""
        try:
            return Trial.from_dict(json.loads(self.result().read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            raise FormatError(f"{self.result()} cannot be read: {error}; try removing it: it is made again") from error

    def line_sums(self, test: Source) -> LineSums | None:
        """What each line of the test part costs it; measured where that was not kept, None where it cannot be."""
        try:
            return LineSums.load(self.result(LINES))
        except FileNotFoundError:
            sums = measure_lines(load_trained(self.run), test) if is_run(self.run) else None
            if sums is not None:
                sums.save(self.result(LINES))
            return sums

    def pair_verdicts(self, asked: AskedPairs) -> PairVerdicts | None:
        """Its answers to these pairs; measured where they were not kept, None where its run is gone."""
        kept = PairVerdicts.load(self.result(PAIRS))
        if kept is not None and kept.sha256 == asked.sha256:
            return kept
        if not is_run(self.run):
            return None
        verdicts = asked.ask(load_trained(self.run))
        verdicts.save(self.result(PAIRS))
        return verdicts
