"""Instruments over a trained model, from Python: what `thereafter inspect` does from the shell.

    from thereafter import instruments
    flow = instruments.gradients(lm, source="agreement")
    instruments.units(lm, "python-code", "quotes", "line-position")["held_out"]

Each returns a `Measurement`: named arrays with named axes (`describe()` says what they mean), a table (`to_csv`,
`to_pandas`), a picture (`figure()`), saved as `.npz`. `lm.trace(text)` is the trace that paths, gates and attention are
drawn of.
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from thereafter.base import progress
from thereafter.base.progress import show_progress
from thereafter.evaluation.text_reading import Context, items_before
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.sentence_reader import SentenceReader
from thereafter.language_model import LanguageModel, load_several

__all__ = [
    "agreement",
    "compare_pairs",
    "gradients",
    "jacobians",
    "memory",
    "pair_table",
    "pairs",
    "probe",
    "steps_ahead",
    "truncation",
    "units",
]

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from thereafter.base.config import Table
    from thereafter.comparing.rows import ComparedPairs
    from thereafter.inspection.pairs import PairFiles, PairScores
    from thereafter.series.frames import AnyTable
    from thereafter.task_model import TaskModel


def gradients(
    lm: LanguageModel,
    *,
    text: str | None = None,
    source: str | None = None,
    at: Literal["any", "verb"] = "any",
    **options: Any,
) -> Measurement:
    """How far a gradient travels back: norms of d loss / d state by distance, over a text or a source.

    Without either it is measured on the test part of what the model was trained on. Options and arrays:
    `inspection.gradients.gradient_flow`. With `at="verb"` it is the loss at the verbs of new sentences of `agreement`,
    back to the subject of each: `inspection.gradients.verb_flow`.

    Example: instruments.gradients(lm, source="agreement").figure()
    """
    from thereafter.errors import OptionError, UnknownNameError
    from thereafter.inspection.gradients import gradient_flow, verb_flow

    if at not in ("any", "verb"):
        raise UnknownNameError("loss", at, ("any", "verb"))
    if at == "verb":
        if text is not None or source is not None:
            raise OptionError(
                "the loss at a verb is measured on new sentences of agreement; got a text or a source too"
            )
        reader = _reader(lm, options.pop("name", None))
        with show_progress():
            return verb_flow(reader, **options)
    return _on_excerpt(gradient_flow, lm, text, source, options)


def jacobians(lm: LanguageModel, *, text: str | None = None, source: str | None = None, **options: Any) -> Measurement:
    """One-step Jacobians of a recurrent model, their products and the direct path: `inspection.jacobians.jacobians`.

    Example: instruments.jacobians(lm, text="the keys to the cabinet are on the table").to_pandas()
    """
    from thereafter.inspection.jacobians import jacobians as measure

    return _on_excerpt(measure, lm, text, source, options)


def truncation(lm: LanguageModel, *, text: str | None = None, source: str | None = None, **options: Any) -> Measurement:
    """What cutting gradients after n steps leaves of them: `inspection.jacobians.truncation_effect`.

    Example: instruments.truncation(lm, source="book.txt").figure()
    """
    from thereafter.inspection.jacobians import truncation_effect

    return _on_excerpt(truncation_effect, lm, text, source, options)


def units(
    lm: LanguageModel,
    source: str | PathLike[str],
    *properties: Any,
    part: str | None = None,
    encoding: str | None = None,
    **options: Any,
) -> Measurement:
    """Units that follow properties of a text: names of `inspection.properties.PROPERTIES`, or `Property` values.

    Options and arrays: `inspection.units.search`.

    Example: instruments.units(lm, "python-code", "quotes", "line-position", top=5).to_csv("units.csv")
    """
    from thereafter.inspection.properties import named
    from thereafter.inspection.units import search
    from thereafter.text.sources import resolve
    from thereafter.text.writing import in_style

    about = lm.config["text"]
    texts = resolve(
        source,
        encoding=encoding,
        lower=bool(about["lower"]),
        letters_only=bool(about["letters_only"]),
        part=part,
        forming=lm.text_settings().forming,
    )
    chosen = in_style(texts, texts.parts.get("test", next(iter(texts.parts.values()))), lm.writing)
    wanted = [named(one) if isinstance(one, str) else one for one in properties or ("quotes",)]
    options = {"about": {"text": chosen.name, "model": _kind(lm)}} | options
    with show_progress():
        return search(lm.model, lm.tokenizer, chosen.text(), wanted, **options)


def probe(lm: LanguageModel, what: Literal["number", "class"] = "number", **options: Any) -> Measurement:
    """A linear probe with its control, on `agreement`: the subject's number by distance, or word classes by layer.

    Example: instruments.probe(lm, "number", count=900).figure()
    """
    from thereafter.inspection.probing import probe_class, probe_number

    with show_progress():
        return _with_caution((probe_number if what == "number" else probe_class)(_reader(lm), **options))


def pairs(lm: LanguageModel, files: PairFiles, *, encoding: str | None = None, whole: bool = True) -> Measurement:
    """How often the good sentence of a pair is the likelier one, over all pairs and each group of them.

    `files`: tab-separated pairs or BLiMP's jsonl; a path, a glob, or several. Arrays:
    `inspection.pairs.PairScores.measurement`. A warning says where many pairs differ in unknown words.

    Example: instruments.pairs(lm, "pairs.tsv").to_csv("groups.csv")
    """
    with show_progress():
        scores = pair_table(lm, files, encoding=encoding, whole=whole)
        if scores.caution:
            progress.warn(scores.caution)
        return scores.measurement()


def pair_table(
    lm: LanguageModel,
    files: PairFiles,
    *,
    encoding: str | None = None,
    whole: bool = True,
    context: Context = "item",
    name: str | None = None,
) -> PairScores:
    """As `pairs`, a row a pair: both sentences, both log probabilities, unknown words, right or not.

    `context`: "item" reads each sentence from a fresh state, N or "document" after the good sentences of the pairs
    before it. `name`: what the model is called.

    Example: instruments.pair_table(lm, "pairs.tsv").to_csv("pairs.csv")
    """
    from thereafter.inspection.pairs import score_pair_files

    with show_progress():
        before = items_before(context, of_table=True)
        return score_pair_files(_reader(lm, name), files, encoding=encoding, whole=whole, before=before)


def compare_pairs(
    models: Sequence[LanguageModel | str | PathLike[str]],
    files: PairFiles,
    *,
    names: Sequence[str] | None = None,
    encoding: str | None = None,
    whole: bool = True,
    context: Context = "item",
) -> ComparedPairs:
    """Several models, or run folders, on the same pairs; options are those of `pair_table`.

    `differences` has every model against the most accurate, with intervals of a paired bootstrap.

    Example: instruments.compare_pairs(["runs/ngram", "runs/lstm"], "pairs.tsv").to_csv("pairs.csv")
    """
    from thereafter.comparing.rows import ComparedPairs

    return ComparedPairs(
        tuple(
            pair_table(lm, files, encoding=encoding, whole=whole, context=context, name=name)
            for name, lm in load_several(models, names).items()
        )
    )


def memory(lm: LanguageModel, name: str | None = None, *, longest: int | None = None, **options: Any) -> Measurement:
    """Accuracy by n in a memory task, by default the one the model was trained on: `inspection.memory.memory`.

    Example: instruments.memory(lm, "remember-first", longest=60).figure()
    """
    from thereafter.inspection.memory import memory as measure
    from thereafter.text.memory import TASKS, task

    reader = _reader(lm)
    one = task(name if name is not None else reader.source if reader.source in TASKS else "remember-first")
    with show_progress():
        return measure(reader, one, one.spans(longest=longest), **options)


def agreement(
    lm: LanguageModel, name: str | None = None, *, count: int = 2000, seed: int = 0, longest: int | None = None
) -> Measurement:
    """How often the right form is likelier than the wrong one, by distance: agreement, reflexives or filler-gap.

    Over `count` new sentences of the corpus `name`, by default the one the model was trained on, else `agreement`.
    Arrays: `inspection.memory.from_tallies`.

    Example: instruments.agreement(lm, count=2000).figure("congruence")
    """
    from thereafter.inspection.memory import agreement as measure
    from thereafter.text.agreement import CORPORA, sentence_corpus

    reader = _reader(lm)
    corpus = sentence_corpus(name if name is not None else reader.source if reader.source in CORPORA else "agreement")
    with show_progress():
        return _with_caution(measure(reader, corpus.sentences(count, seed=seed, longest=longest), corpus.name))


def steps_ahead(
    model: TaskModel,
    source: AnyTable | None = None,
    steps: Sequence[int] = (1, 4, 16, 64),
    *,
    series: str = "",
    part: str = "test",
    name: str = "",
) -> Measurement:
    """A series as a forecaster expected it k steps ahead, fed with its own predictions, and the error by k.

    Over the rows of a part of `source`, by default the table that the model was trained on; `series`: which of
    several. `name` is what captions call the model. Arrays: `tasks.forecast_ahead.steps_ahead`.

    Example: instruments.steps_ahead(model, "noisy-sine", steps=(1, 4, 16, 64)).figure("error-by-steps")
    """
    from thereafter.series.forecasting.asking import forecaster_of
    from thereafter.series.forecasting.asking import steps_ahead as measure
    from thereafter.series.frames import as_source
    from thereafter.tasks import finding
    from thereafter.tasks.task import scored

    net, scales = forecaster_of(model.net, model.codecs)
    with show_progress():
        table = finding.source_of(model.config) if source is None else as_source(source)
        given = finding.find(model.task, table, part)
        windows, _ = scored(model.task, given.examples, model.codecs)
        about = {"model": name or str(model.config["forecast"]["model"]), "text": given.name, "part": part}
        return measure(net, scales, windows, steps, series=series, about=about)


def _on_excerpt(
    measure: Callable[..., Measurement], lm: LanguageModel, text: str | None, source: str | None, options: Table
) -> Measurement:
    """A measurement over a text, or the beginning of a source: by default that of the training text."""
    from thereafter.inspection.sentence_reader import excerpt

    about = lm.config["text"]
    if text is None and source is None:
        source = lm.config["source"]["name"]
    reading = {"lower": about["lower"], "letters_only": about["letters_only"]}
    forming = lm.text_settings().forming
    ids, caption = excerpt(lm.tokenizer, text=text, source=source, writing=lm.writing, forming=forming, **reading)
    with show_progress():
        return measure(lm.model, ids, text=caption, **({"name": _kind(lm)} | options))


def _reader(lm: LanguageModel, name: str | None = None) -> SentenceReader:
    return SentenceReader.of(lm.model, lm.tokenizer, lm.config, name, as_written=lm.as_written)


def _with_caution(measured: Measurement) -> Measurement:
    """The measurement; where it has a caution, a warning says it."""
    if caution := measured.about.get("caution"):
        progress.warn(str(caution))
    return measured


def _kind(lm: LanguageModel) -> str:
    return str(lm.config["model"])


def __dir__() -> list[str]:
    return list(__all__)
