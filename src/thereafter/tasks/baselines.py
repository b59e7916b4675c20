"""Simple models beside every result: what a network has to beat to be worth its training.

| task | rows |
|---|---|
| tag | a hidden Markov model with Viterbi (`tasks/tag/chains.py`) |
| classify | Naive Bayes, a word counted once a text (`classify/measures.py`); convolutions and maximum (Kim 2014) |
| classify-series | one nearest neighbour (`series/classifying/nearest.py`); the most frequent label |
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

from dataclasses import dataclass, replace

from thereafter.base import config as toml
from thereafter.base import progress
from thereafter.tasks.answering import answers
from thereafter.tasks.finding import Part
from thereafter.tasks.fitting import Fitted, fit
from thereafter.tasks.task import AnyTask, Baselines, Measured, Solving, aspect
from thereafter.training.settings import TrainingSettings


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
