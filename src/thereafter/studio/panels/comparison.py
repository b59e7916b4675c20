"""The verb `compare`: models measured on the same sentences, comparisons made before, and the curves of any model.

Both are a `Comparison` of the library, so one function describes both: rows, curves, agreement by distance.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field

from thereafter.base.config import Table
from thereafter.base.storage import open_plain
from thereafter.comparing import tables, trials
from thereafter.comparing.compare import JSON, Comparison
from thereafter.comparing.probes import offered_questions
from thereafter.comparing.rows import Row, Trial
from thereafter.comparing.trials import ValidationCurve, ask_all, make_trial, measure_validation
from thereafter.errors import FormatError
from thereafter.figures.memory import accuracy_by_distance
from thereafter.inspection.memory import from_tallies
from thereafter.language_model import LanguageModel
from thereafter.ready import models as ready
from thereafter.serving.schema import Answer, Asked, ModelName, NotThereError
from thereafter.serving.shelf import READY, RUNS
from thereafter.studio.asking import TheStudio, Visitor, answers, as_json, number, of_studio
from thereafter.studio.jobs import CurveAnswer, curve
from thereafter.studio.studio import Studio
from thereafter.text.sources import Source
from thereafter.training.kinds import Trained

SOURCE = "the test sentences"
AGREEMENT = "agreement"
"""The probe whose answers the panel shows by distance."""
SHIPPED = "compared.json"
"""Beside a ready model that ships: what was measured of it when it was made."""
_TIMED_CHARACTERS = 20_000
_LARGEST = 64_000_000  # bytes of a file that a comparison is read from
_DAMAGE = (FormatError, KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError)
"""What comes of reading a file as a comparison that is none."""
_FILES = ("weights.safetensors", "log.jsonl")
Stamp = tuple[tuple[int, int], ...]


class PointAnswer(Answer):
    """Verbs in the right number, with so many words between subject and verb; `least` to `most` is the interval."""

    words: str
    mean: float | None
    least: float | None
    most: float | None
    sentences: int


class RunCurveAnswer(Answer):
    """A point for each validation; `perplexity` is empty where only bits per byte are known."""

    seconds: list[float | None]
    tokens: list[float | None]
    bits: list[float | None]
    perplexity: list[float | None]


class LevelAnswer(Answer):
    """The validation of a model that is not trained in steps."""

    bits: float | None
    perplexity: float | None


class RowAnswer(Answer):
    """A model of a comparison: means over its seeds, and their standard deviations where there are several.

    `sees`: words back that it can see, where that is fixed. `apart`: its tokens are others than those of most rows, so
    that only its bits per byte compare. `normalised`: whether its scores are probabilities; else it has neither figure.
    """

    name: str
    kind: str
    tokens: str
    apart: bool
    normalised: bool
    bits_per_byte: float | None
    bits_per_byte_spread: float | None
    perplexity: float | None
    perplexity_spread: float | None
    parameters: int
    tokens_per_second: float | None
    next_ms: float | None
    megabytes: float | None
    seconds: float | None
    seeds: int
    sees: int | None
    curves: list[RunCurveAnswer]
    level: LevelAnswer | None
    agreement: list[PointAnswer]


class ComparisonAnswer(Answer):
    """`advice`: which model to use when. `legend`: what the figures mean."""

    source: str
    rows: list[RowAnswer]
    advice: list[str]
    legend: list[str]
    notes: list[str]


class KeptAnswer(Answer):
    """A comparison in the runs folder, as `thereafter compare --out` wrote it."""

    name: str
    source: str
    models: list[str]


class CurveOfAnswer(CurveAnswer):
    """The curves of a model by its log."""

    model: str
    label: str
    kind: str


Several = Annotated[list[ModelName], Field(min_length=1, max_length=16)]
ComparisonName = Annotated[
    str, Field(pattern=r"^[^/\\\x00]{1,200}$", description="A comparison of the list, by its name.")
]


class CompareAsked(Asked):
    models: Several
    measure: Annotated[list[ModelName], Field(max_length=16)] | None = Field(
        default=None,
        description="Those that are measured where that was not done before, all by default. "
        "Of the others the answer has what is known without measuring; a model of which nothing is known is left out.",
    )


class CurvesAsked(Asked):
    models: Several


@dataclass(frozen=True)
class ComparedModel:
    """A model's figures, and its validation perplexities: one a point of its curve, one alone where it has no steps."""

    trial: Trial
    perplexities: tuple[float, ...]

    def as_dict(self) -> Table:
        """For JSON, without what is another on every machine: the speed, and where the text lies."""
        score = self.trial.score | {"name": SOURCE}
        trial = replace(self.trial, latency=math.nan, score=score)
        return {"trial": trial.as_dict(), "perplexities": list(self.perplexities)}

    @classmethod
    def from_dict(cls, stored: Table) -> Self:
        """What `as_dict` gave; `with_speed` adds the speed."""
        trial = Trial.from_dict(stored["trial"])
        return cls(replace(trial, latency=math.nan), tuple(map(float, stored["perplexities"])))

    def with_speed(self, lm: LanguageModel, texts: Mapping[str, Path]) -> Self:
        """The same with the speed on this machine."""
        return replace(self, trial=replace(self.trial, latency=_latency(lm, texts)))


def read_shipped(run: Path) -> ComparedModel | None:
    """What ships with a ready model, so that nobody waits for it: all but the speed. None where nothing ships."""
    try:
        return ComparedModel.from_dict(json.loads((run / SHIPPED).read_text(encoding="utf-8")))
    except (OSError, *_DAMAGE):
        return None  # it is measured


def measure(lm: LanguageModel, name: str, run: Path, texts: Mapping[str, Path]) -> ComparedModel:
    """All that is compared of a model: score, speed, size and agreement on the test part of `texts`, and its curve."""
    trained = Trained(lm.model, lm.tokenizer, lm.config, lm.log)
    score = lm.score(texts["test"])
    probes = ask_all(trained, offered_questions(Source(texts["test"].name, (texts["test"],))))
    latency = _latency(lm, texts)
    valid = Source(texts["valid"].name, (texts["valid"],))
    # nothing is known of a run that was validated on another text
    elsewhere = "training" in lm.config and lm.config["source"].get("valid_sha256") != valid.fingerprint()
    try:
        validation = ValidationCurve() if elsewhere else measure_validation(trained, valid)
        trial = make_trial(trained, name, run, score=score, validation=validation, latency=latency, probes=probes)
    except OSError as error:
        raise NotThereError(f"the run {run.name!r} is no longer there; pick another") from error
    except _DAMAGE as error:
        raise FormatError(f"the log of {run.name!r} is damaged ({error!r}); expected what training writes") from error
    return ComparedModel(trial, validation.perplexities)


def comparison_of(models: Sequence[ComparedModel]) -> ComparisonAnswer:
    """Models that were measured one by one, side by side."""
    rows = tuple(Row(one.trial.name, (one.trial,)) for one in models)
    perplexities = {one.trial.name: one.perplexities for one in models}
    return describe(Comparison(rows, {"source": SOURCE}), perplexities)


def describe(comparison: Comparison, perplexities: Mapping[str, Sequence[float]] | None = None) -> ComparisonAnswer:
    """A comparison for the page: `rows` with figures, curves and agreement; `advice` and `legend` in sentences.

    Perplexity compares only rows with the same tokens: those that have others than most are marked `apart`, and the
    advice is about the rest. There is none as long as the speed of one is not known.
    """
    most = Counter(map(_tokens, comparison.rows)).most_common(1)
    together = most[0][0] if most else None
    alike = tuple(row for row in comparison.rows if _tokens(row) == together)
    timed = all(math.isfinite(row.latency) for row in alike)
    agreement = _agreement_points(comparison.rows)
    rows = [
        _row(row, (perplexities or {}).get(row.name, ()), apart=row not in alike, agreement=agreement.get(row.name, []))
        for row in comparison.rows
    ]
    return ComparisonAnswer(
        source=str(comparison.about["source"]),
        rows=rows,
        advice=replace(comparison, rows=alike).advice() if timed and len(alike) > 1 else [],
        legend=tables.legend(comparison) if rows else [],
        notes=list(map(str, comparison.notes)),
    )


def list_kept(folder: Path) -> list[KeptAnswer]:
    """The comparisons in a folder by name, with what they are about; links are not followed."""
    answers = []
    for path in _comparisons(folder):
        try:
            stored = _stored(path)
            names = [str(row["name"]) for row in stored["rows"]]
            answers.append(KeptAnswer(name=path.name, source=str(stored["source"]), models=names))
        except _DAMAGE:
            continue  # a folder somebody else wrote may hold anything; it is not offered, and that is all
    return answers


def read_kept(folder: Path, name: str) -> ComparisonAnswer:
    """The comparison of that name; one that is not listed is refused, whatever it looks like."""
    path = next((path for path in _comparisons(folder) if path.name == name), None)
    if path is None:
        raise NotThereError(f"there is no comparison {name!r} (any more); pick one of the list")
    stored = _stored(path)
    try:
        rows = tuple(
            Row(str(row["name"]), tuple(Trial.from_dict(trial) for trial in row["trials"])) for row in stored["rows"]
        )
        return describe(Comparison(rows, {"source": str(stored["source"])}, tuple(stored.get("notes", ()))))
    except _DAMAGE as error:
        raise FormatError(
            f"{path.name}/{JSON} is not a comparison ({error}); expected what thereafter compare writes"
        ) from error


def _row(row: Row, perplexities: Sequence[float], *, apart: bool, agreement: list[PointAnswer]) -> RowAnswer:
    first = row.first
    window = int(first.settings["order"]) - 1 if first.model == "ngram" else first.settings.get("window")
    levels = list(map(number, perplexities))
    curves = []
    for trial in row.trials:
        if trial.curve:
            seconds, tokens, bits = (list(map(number, column)) for column in zip(*trial.curve, strict=True))
            curves.append(RunCurveAnswer(seconds=seconds, tokens=tokens, bits=bits, perplexity=levels))
    validation = number(row.average(lambda trial: trial.validation).mean)
    is_level = not curves and validation is not None
    return RowAnswer(
        name=row.name,
        kind=first.model,
        tokens=first.tokens,
        apart=apart,
        normalised=row.normalised,
        bits_per_byte=number(row.bits_per_byte.mean),
        bits_per_byte_spread=number(row.bits_per_byte.spread),
        perplexity=number(row.perplexity.mean),
        perplexity_spread=number(row.perplexity.spread),
        parameters=first.parameters,
        tokens_per_second=number(row.tokens_per_second),
        next_ms=number(1e3 * row.latency),
        megabytes=number(first.size / 1e6),
        seconds=number(row.seconds),
        seeds=len(row.trials),
        sees=window if isinstance(window, int) else None,
        curves=curves,
        level=LevelAnswer(bits=validation, perplexity=levels[0] if levels else None) if is_level else None,
        agreement=agreement,
    )


def _tokens(row: Row) -> tuple[str, int | None]:
    """What must be the same for two perplexities to compare."""
    return row.first.tokens, row.first.score.get("vocabulary")


def _agreement_points(rows: Sequence[Row]) -> dict[str, list[PointAnswer]]:
    """Accuracy by the words between subject and verb, for each model; nothing where the text is another."""
    measurements = [
        from_tallies(verdicts, {"trained_on": "", "text": "", "model": row.name})
        for row in rows
        for verdicts in row.probed.get(AGREEMENT, ())
    ]
    if not measurements:
        return {}
    reached = max(int(measured["distance"].max()) for measured in measurements)
    table = accuracy_by_distance(measurements).table
    points: dict[str, list[PointAnswer]] = {}
    columns = ("model", "words between", "mean", "least", "most", "sentences")
    for model, words, *figures in zip(*(table[name] for name in columns), strict=True):
        mean, least, most, sentences = (None if isinstance(figure, str) else number(figure) for figure in figures)
        # as far as there are sentences in it: "6-10" is "6" where the longest has 6
        begin, _, end = str(words).partition("-")
        last = min(int(end or begin), reached)
        span = begin if last == int(begin) else f"{begin}-{last}"
        point = PointAnswer(words=span, mean=mean, least=least, most=most, sentences=round(sentences or 0))
        points.setdefault(str(model), []).append(point)
    return points


def _latency(lm: LanguageModel, texts: Mapping[str, Path]) -> float:
    with texts["test"].open(encoding="utf-8") as file:
        opening = file.read(_TIMED_CHARACTERS)
    return trials.next_token_latency(lm.model, lm.encode(opening))


def _comparisons(folder: Path) -> list[Path]:
    try:
        paths = [path for path in folder.iterdir() if not path.is_symlink() and not (path / JSON).is_symlink()]
        return sorted(path for path in paths if (path / JSON).is_file())
    except OSError:
        return []


def _stored(path: Path) -> Table:
    try:
        with open_plain(path / JSON, links=False) as file:
            size = os.fstat(file.fileno()).st_size
            if size > _LARGEST:
                raise FormatError(f"{path.name}/{JSON} has {size:,} bytes; expected at most {_LARGEST:,}")
            stored = json.loads(file.read(_LARGEST))
    except (OSError, ValueError, RecursionError) as error:
        raise FormatError(f"{path.name}/{JSON} cannot be read: {error}; try making the comparison again") from error
    if not isinstance(stored, dict):
        raise FormatError(f"{path.name}/{JSON} is not a comparison; expected what thereafter compare writes")
    return stored


_measured: dict[str, tuple[Stamp, ComparedModel]] = {}
"""What was measured, by the folder of the model."""


def _known(run: Path) -> ComparedModel | None:
    """What was measured of a model, as long as its files stay as they are."""
    stamp, model = _measured.get(str(run.absolute()), (None, None))
    return model if stamp == _stamp(run) else None


async def _measure_once(visitor: Visitor, name: str) -> ComparedModel:
    """What was measured of a model before, or is now. What is known is not waited for until the model is free."""
    known = await visitor.apart(f"known of {name}", lambda: _known(visitor.studio.shelf.place(name)))
    return await visitor.ask(name, lambda lm: _measure(visitor.studio, name, lm)) if known is None else known


async def _known_of(visitor: Visitor, name: str) -> ComparedModel | None:
    """What was measured of a model before, here or where it was made."""

    def look_up() -> ComparedModel | None:
        try:
            run = visitor.studio.shelf.place(name)
        except NotThereError:
            return None  # whoever asks to have it measured gets the error
        return _known(run) or _shipped(name, run)

    return await visitor.apart(f"known of {name}", look_up)


def _shipped(name: str, run: Path) -> ComparedModel | None:
    """What ships with a ready model. What a run of the user says of itself is not believed."""
    return read_shipped(run) if name.startswith(READY) else None


def _measure(studio: Studio, name: str, lm: LanguageModel) -> ComparedModel:
    run = studio.shelf.place(name)
    known = _known(run)  # another page may have asked meanwhile
    if known is not None:
        return known
    stamp, texts = _stamp(run), ready.compared_sentences(studio.shelf.folders[READY])
    label = name.partition(":")[2] if name.startswith(READY) else name
    shipped = _shipped(name, run)
    measured = measure(lm, label, run, texts) if shipped is None else shipped.with_speed(lm, texts)
    _measured[str(run.absolute())] = stamp, measured
    return measured


def _stamp(run: Path) -> Stamp:
    """Changes when the model or its log does."""
    facts = []
    for name in _FILES:
        try:
            status = (run / name).stat()
            facts.append((status.st_mtime_ns, status.st_size))
        except OSError:
            facts.append((0, 0))
    return tuple(facts)


@answers("/compare", ComparisonAnswer)
async def compare(asked: CompareAsked, visitor: Visitor) -> bytes:
    """Models measured on the same test sentences; what was measured before is not measured again."""
    names = dict.fromkeys(asked.models)
    to_measure = names if asked.measure is None else asked.measure
    measured = [
        await (_measure_once(visitor, name) if name in to_measure else _known_of(visitor, name)) for name in names
    ]
    return await visitor.apart(
        "comparison", lambda: as_json(comparison_of([one for one in measured if one is not None]))
    )


@of_studio("GET", "/comparisons")
def comparisons(studio: TheStudio) -> list[KeptAnswer]:
    """The comparisons in the runs folder."""
    return list_kept(studio.shelf.folders[RUNS])


@of_studio("GET", "/comparisons/{name}")
def comparison(name: ComparisonName, studio: TheStudio) -> ComparisonAnswer:
    """One of the comparisons in the runs folder."""
    return read_kept(studio.shelf.folders[RUNS], name)


@of_studio("POST", "/curves")
def curves(asked: CurvesAsked, studio: TheStudio) -> list[CurveOfAnswer]:
    """How the training of each model went, by its log. One that is counted and not trained in steps has no points."""
    cards = {card.name: card for card in studio.shelf.cards()}
    answers = []
    for name in dict.fromkeys(asked.models):
        points = curve(studio.shelf.place(name))  # refuses a model that is not there
        answers.append(CurveOfAnswer(model=name, label=cards[name].label, kind=cards[name].kind, **points.model_dump()))
    return answers
