"""Predictions of a trained network: computed in batches of about one length, given in the order of the examples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from thereafter.base import progress
from thereafter.base.memory import ANSWERING, memory_in_words
from thereafter.errors import EmptyCorpusError, OptionError, nearest
from thereafter.models.task_net import Batched
from thereafter.tasks import batching
from thereafter.tasks.fitting import Fitted
from thereafter.tasks.predictions import PredictedRows, PredictionTable
from thereafter.tasks.shown import Explained

_ROWS, _PLACES = 64, 64 * 64  # examples at a time, padding included


T = TypeVar("T")


def answers(fitted: Fitted, examples: Sequence[object], **options: object) -> list[object]:
    """The answer to every example; options are those that the task is `asked` with."""
    task, net, codecs = fitted.task, fitted.net, fitted.codecs
    _check_options(fitted, options)
    return _in_batches(fitted, examples, lambda batch, _: task.answers_with(net, batch, codecs, options))


def predictions(
    fitted: Fitted, chunks: Iterable[str], name: str, *, pretokenised: bool = False, **options: object
) -> PredictionTable:
    """The answers to all examples of a text, as a table."""
    task = fitted.task
    if pretokenised and not task.cuts_words:
        raise OptionError(
            f"pretokenised (--pretokenised) is for taggers, and the run holds the task {task.name!r}, which takes a "
            "line as one text; try leaving it out"
        )
    return tabulated(fitted, task.cut(chunks, fitted.codecs, pretokenised=pretokenised), name, **options)


def tabulated(
    fitted: Fitted, questions: Iterable[tuple[int, str, object]], name: str, **options: object
) -> PredictionTable:
    """The answers to questions, each with its number and its text or name, as a table."""
    task, net, codecs = fitted.task, fitted.net, fitted.codecs
    _check_options(fitted, options)
    numbers, texts, examples = [], [], []
    for number, text, example in questions:
        numbers.append(number)
        texts.append(text)
        examples.append(example)
    if not examples:
        raise EmptyCorpusError(f"{name} holds nothing to predict on; expected text that is not empty")

    def ask(batch: Batched, places: list[int]) -> Sequence[PredictedRows]:
        chosen = [examples[place] for place in places]
        return task.tabulate(net, batch, [texts[place] for place in places], chosen, codecs, options)

    items = _in_batches(fitted, examples, ask)
    choices, note = tuple(task.choices(codecs)), task.explain_probabilities(net)
    return PredictionTable(tuple(items), tuple(numbers), name, task.numbered, choices, note)


def _check_options(fitted: Fitted, options: Mapping[str, object]) -> None:
    task = fitted.task
    for name in options:
        if name not in task.asked:
            known = nearest(name, sorted(task.asked)) if task.asked else "it has none"
            raise OptionError(f"the task {task.name!r} answers without an option {name!r}; {known}")


def explanations(fitted: Fitted, examples: Sequence[object]) -> list[Explained]:
    """The answer to every example with the evidence for it."""
    task, net, codecs = fitted.task, fitted.net, fitted.codecs

    def ask(batch: Batched, places: list[int]) -> Sequence[Explained]:
        return task.explain(net, batch, [examples[place] for place in places], codecs)

    return _in_batches(fitted, examples, ask)


def _in_batches(
    fitted: Fitted, examples: Sequence[object], ask: Callable[[Batched, list[int]], Sequence[T]]
) -> list[T]:
    """The results of `ask(batch, the places of its examples)` for all examples, in their order."""
    plan = batching.batches(fitted.task.lengths(examples, fitted.codecs), _ROWS, _PLACES, shuffle=False)
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
