"""Predictions of a trained network: computed in batches of about one length, given in the order of the examples.

Beside them what examples have been to a trained network, those that chose its weights, those that it learned from; and
simple models beside every result, what a network has to beat to be worth its training.

| task | rows |
|---|---|
| tag | a hidden Markov model with Viterbi (`tasks/tag/chains.py`) |
| classify | Naive Bayes, a word counted once a text (`tasks/classify.py`); convolutions and maximum (Kim 2014) |
| classify-series | one nearest neighbour (`series/classifying/task.py`); the most frequent label |
| classify-pictures | the label of the nearest training picture; the most frequent label (`vision/task.py`) |
| glimpse | as for classify-pictures; glimpses at random places, at the centre; convolutions of as many parameters |
| forecast | the value a season ago, where there is a season; the last value; least squares on the window |
| caption | one sentence; the nearest picture's caption; the network on other pictures; one blind |
| video | the same network that sees the last frame alone; the most frequent labels |
| next-frames | the last frame again, smoothed; a dense LSTM with as many parameters |
| draw | every pixel by itself; the same network without attention |
| act | random actions; standing still; one that sees the whole screen; the same network that looks at the centre |
| fill | the most frequent words, whatever stands around the blank; the same network from the left side alone |

Each task names its own (`task.Baselines`). They learn from the examples that the network learned from. Those that are
trained have its sizes, its seed and its budget; one that is what the network itself is has no row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from thereafter.base import config as toml
from thereafter.base import progress
from thereafter.base.devices import ANSWERING, memory_in_words
from thereafter.errors import EmptyCorpusError, OptionError, nearest
from thereafter.models.task_net import Batched
from thereafter.tasks import finding
from thereafter.tasks.answers import Explained, NamedPrediction, PredictedRows, PredictionTable
from thereafter.tasks.batching import batches
from thereafter.tasks.finding import Part
from thereafter.tasks.fitting import Fitted, fit
from thereafter.tasks.task import (
    Answering,
    AnyTask,
    Asking,
    Baselines,
    Codecs,
    Dividing,
    Explaining,
    Measured,
    Solving,
    Tabulating,
    aspect,
    describe,
)
from thereafter.text.reading import lines_of
from thereafter.training.settings import TrainingSettings

_ROWS, _PLACES = 64, 64 * 64  # examples at a time, padding included


T = TypeVar("T")


def answers(fitted: Fitted, examples: Sequence[object], **options: object) -> list[object]:
    """The answer to every example; options are those that the task is `asked` with."""
    _check_options(fitted.task, options)
    return _in_batches(fitted, examples, lambda batch, _: _answered(fitted, batch, options))


def predictions(
    fitted: Fitted, chunks: Iterable[str], name: str, *, pretokenised: bool = False, **options: object
) -> PredictionTable:
    """The answers to all examples of a text, as a table: a line each, unless the task cuts a text by itself.

    `pretokenised` text is a sentence a line with spaces between its words.
    """
    task, asking = fitted.task, aspect(fitted.task, Asking)
    if pretokenised and not asking.cuts_words:
        raise OptionError(
            f"pretokenised (--pretokenised) is for taggers, and the run holds the task {task.name!r}, which takes a "
            "line as one text; try leaving it out"
        )
    questions = asking.cut(chunks, fitted.codecs, pretokenised=pretokenised)
    if questions is None:
        lines = ((number, line) for number, line in enumerate(lines_of(chunks), start=1) if line.strip())
        questions = ((number, line.strip(), task.prepare(line, fitted.codecs)) for number, line in lines)
    return tabulated(fitted, questions, name, **options)


def tabulated(
    fitted: Fitted, questions: Iterable[tuple[int, str, object]], name: str, **options: object
) -> PredictionTable:
    """The answers to questions, each with its number and its text or name, as a table."""
    task, net, codecs = fitted.task, fitted.net, fitted.codecs
    _check_options(task, options)
    asked = list(questions)
    if not asked:
        raise EmptyCorpusError(f"{name} holds nothing to predict on; expected text that is not empty")
    numbers, texts = tuple(number for number, _, _ in asked), [text for _, text, _ in asked]
    examples = [example for _, _, example in asked]
    tabulating = aspect(task, Tabulating)

    def ask(batch: Batched, places: list[int]) -> Sequence[PredictedRows]:
        chosen, stood = [examples[place] for place in places], [texts[place] for place in places]
        rows = tabulating.tabulate(net, batch, stood, chosen, codecs, options)
        if rows is not None:
            return rows
        given = [restored(task, answer, codecs) for answer in _answered(fitted, batch, options)]
        return [
            NamedPrediction(tabulating.unit, text, tabulating.columns(answer), describe(answer))
            for text, answer in zip(stood, given, strict=True)
        ]

    items = _in_batches(fitted, examples, ask)
    choices, note = tuple(tabulating.choices(codecs)), tabulating.explain_probabilities(net)
    return PredictionTable(tuple(items), numbers, name, tabulating.numbered, choices, note)


def restored(task: AnyTask, answer: object, codecs: Codecs) -> object:
    """An answer as people write it, where the training examples were written otherwise."""
    return task.restore(answer, codecs) if isinstance(task, Answering) else answer


def explanations(fitted: Fitted, examples: Sequence[object]) -> list[Explained]:
    """The answer to every example with the evidence for it."""
    task, net, codecs = fitted.task, fitted.net, fitted.codecs
    if not isinstance(task, Explaining):
        raise OptionError(f"the task {task.name!r} explains nothing beyond its answer; try predict")
    explain = task.explain
    return _in_batches(
        fitted, examples, lambda batch, places: explain(net, batch, [examples[place] for place in places], codecs)
    )


def _check_options(task: AnyTask, options: Mapping[str, object]) -> None:
    asked = task.asked if isinstance(task, Answering) else {}
    for name in options:
        if name not in asked:
            known = nearest(name, sorted(asked)) if asked else "it has none"
            raise OptionError(f"the task {task.name!r} answers without an option {name!r}; {known}")


def _answered(fitted: Fitted, batch: Batched, options: Mapping[str, object]) -> Sequence[object]:
    task, net, codecs = fitted.task, fitted.net, fitted.codecs
    if isinstance(task, Answering):
        return task.answers_with(net, batch, codecs, options)
    return task.answers(net, batch, codecs)


def _in_batches(
    fitted: Fitted, examples: Sequence[object], ask: Callable[[Batched, list[int]], Sequence[T]]
) -> list[T]:
    """The results of `ask(batch, the places of its examples)` for all examples, in their order."""
    plan = batches(fitted.task.lengths(examples, fitted.codecs), _ROWS, _PLACES, shuffle=False)
    places: list[int] = []
    results: list[T] = []
    device = fitted.net.device
    with (
        progress.task("answering", total=len(examples)) as advance,
        memory_in_words(device, "answering", ANSWERING),
        fitted.net.remembering(),
    ):
        for k in range(len(plan)):
            chosen = plan.examples(k).tolist()
            batch = fitted.task.batch([examples[place] for place in chosen], fitted.codecs).to(device)
            places += chosen
            results += ask(batch, chosen)
            advance(len(chosen))
    return [answer for _, answer in sorted(zip(places, results, strict=True), key=lambda pair: pair[0])]


_SEEN = {"captioned": "pictures", "pictures": "pictures", "clips": "clips"}


def training_caveat(fitted: Fitted, scored: Part) -> str:
    """Why the score of these examples is no test score; "" where nothing is known against it.

    Examples are known by a hash of their files: a copy under another name is the same.
    """
    learned = fitted.config["source"].get("sha256")
    divides = isinstance(fitted.task, Dividing)  # parts of one file have one hash
    if divides or not learned or scored.fingerprint != learned:
        return ""
    what = _SEEN.get(fitted.task.kind, "examples")
    return f"training score, not a test: it learned from these very {what} ({scored.name})"


def validation_score(fitted: Fitted) -> Measured:
    """Measure the answers of a network on its validation examples: those that were given, else those held out."""
    _, valid = finding.learned_from(fitted.task, fitted.config, "the training")
    return fitted.task.measure(valid.examples, answers(fitted, valid.examples), fitted.codecs)


@dataclass(frozen=True)
class Budget:
    """What a row needs that is trained: examples to validate on, the network's settings and the training's."""

    valid: Part
    settings: object
    training: TrainingSettings


Row = tuple[str, Measured]


def baseline_rows(
    task: AnyTask, train: Part, test: Part, budget: Budget | None = None, network: Fitted | None = None
) -> list[Row]:
    """Names and figures of all simple models of a task, on the test part; without a budget none that is trained.

    `network`: the one they are compared with, for the row that rotates its answers.
    """
    if not isinstance(task, Baselines):
        return []
    learned, asked = train.examples, test.examples
    codecs = task.codecs(learned)
    task.check(asked, codecs, test.name)
    rows: list[Row] = []
    for name, guesses in task.beside(learned, asked).items():
        with progress.task(name):
            rows.append((name, task.measure(asked, guesses(), codecs)))
    if network is not None and task.rotated:
        given = answers(network, asked)
        half = max(1, len(given) // 2) if len(given) > 1 else 0
        rows.append((task.rotated, task.measure(asked, [*given[half:], *given[:half]], network.codecs)))
    if budget is None:
        return rows
    solving, ours = aspect(task, Solving), vars(budget.settings)
    for name, changes in task.variants(learned).items():
        if ours == ours | dict(changes):
            continue
        settings = toml.build(task.settings, ours | dict(changes), task.name)
        if solving.solves(budget.settings) and not solving.solves(settings):
            continue  # what is solved at once is simpler than any network
        training = replace(budget.training, tensorboard=False, log="", unfreeze=False, layer_decay=1.0)
        progress.note(f"training {name}, for comparison")
        fitted: Fitted = fit(task, train, budget.valid, settings, training, source={}, notes=[])
        rows.append((name, task.measure(asked, answers(fitted, asked), fitted.codecs)))
    return rows
