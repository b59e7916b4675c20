"""Simple models beside every result: what a network has to beat to be worth its training.

| task | rows |
|---|---|
| tag | a hidden Markov model with Viterbi (`tasks/tag/hmm.py`) |
| classify | Naive Bayes, a word counted once a text (`classify/measures.py`); convolutions and maximum (Kim 2014) |
| classify-series | one nearest neighbour (`series/classifying/nearest.py`); the most frequent label |
| classify-pictures | the label of the nearest training picture; the most frequent label (`vision/classifying`) |
| glimpse | as for classify-pictures; glimpses at random places, at the centre; convolutions of as many parameters |
| forecast | the value a season ago, where there is a season; the last value; least squares on the window |
| caption | one sentence; the nearest picture's caption; the network on other pictures; one blind (`caption_rows.py`) |
| video | the same network that sees the last frame alone; the most frequent labels |
| next-frames | the last frame again, smoothed; a dense LSTM with as many parameters |
| draw | every pixel by itself; the same network without attention |
| act | random actions; standing still; one that sees the whole screen; the same network that looks at the centre |
| fill | the most frequent words, whatever stands around the blank; the same network from the left side alone |

They learn from the examples that the network learned from. Those that are trained have its sizes, its seed and its
budget; one that is what the network itself is has no row.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from thereafter.base import config as toml
from thereafter.base import progress
from thereafter.series.classifying.nearest import NearestNeighbour, most_frequent
from thereafter.series.classifying.task import CLASSIFYING_SERIES
from thereafter.series.labelled_series import LabelledSeries, with_channels
from thereafter.series.windows import Windows
from thereafter.tasks.answering import answers
from thereafter.tasks.classify.measures import NaiveBayes
from thereafter.tasks.classify.task import words_of
from thereafter.tasks.fill.task import CANDIDATES, ClozeSentence, Filled
from thereafter.tasks.finding import Part
from thereafter.tasks.fitting import Fitted, fit
from thereafter.tasks.tag.hmm import HiddenMarkov
from thereafter.tasks.task import AnyTask, E, Measured
from thereafter.text.conll import TaggedSentence
from thereafter.text.labelled import LabelledText
from thereafter.training.settings import TrainingSettings
from thereafter.vision.acting.game import ACTIONS, SIZE, Episode, Moment, caught, foreseeing, play
from thereafter.vision.acting.task import Played
from thereafter.vision.baselines import caption_rows, picture_rows, rotated_answers
from thereafter.vision.clips.answers import ClipLabels, label_columns
from thereafter.vision.clips.reading import Clip, Clips
from thereafter.vision.rules import uniforms

_SEED = 20_261_117
Player = Callable[[Moment], int]
"""What to do, from all that can be seen."""


def at_random(train: Part, test: Part) -> list[Played]:
    """Every action is as likely as any other; drawn from the number of the episode."""

    def player(episode: Episode) -> Player:
        drawn_T = uniforms(_SEED + episode.seed, [episode.number], episode.size or SIZE)[0].tolist()
        return lambda moment: int(drawn_T[moment.row] * len(ACTIONS))

    return _played(player, test)


def standing_still(train: Part, test: Part) -> list[Played]:
    """The paddle stays where it is."""
    return _played(lambda _: lambda _: ACTIONS.index("stay"), test)


def seeing_all(train: Part, test: Part) -> list[Played]:
    """Sees the whole screen, and knows where the ball comes down."""
    return _played(lambda episode: foreseeing(episode, episode.size or SIZE), test)


def _played(player: Callable[[Episode], Player], test: Part) -> list[Played]:
    ends = [play(one, player(one), one.size or SIZE)[-1] for one in test.examples if isinstance(one, Episode)]
    return [Played(caught(last), last.column, last.paddle) for last in ends]


def frequent_labels(train: Part, test: Part) -> list[ClipLabels]:
    """The same answer for every clip; equal counts are decided by the spelling."""
    examples = train.examples
    learned = examples if isinstance(examples, Clips) else [one for one in examples if isinstance(one, Clip)]
    spread = {}
    for name, labels in label_columns(learned, train.name).items():
        counts = Counter(labels)
        ranked = sorted(counts, key=lambda label: (-counts[label], label))
        spread[name] = {label: counts[label] / len(labels) for label in ranked}
    answer = ClipLabels({name: next(iter(known)) for name, known in spread.items()}, spread)
    return [answer] * len(test.examples)


_MANY_TAGS = 400  # a table of three tags in a row would be too large


@dataclass(frozen=True)
class Budget:
    """What a row needs that is trained: examples to validate on, the network's settings and the training's."""

    valid: Part
    settings: object
    training: TrainingSettings


Row = tuple[str, Measured]


def has_rows(task: AnyTask) -> bool:
    """Whether there are simple models for a task: else nothing need be read."""
    return any(task.name in rows for rows in (_COUNTED, _CHOSEN, _TRAINED))


def baseline_rows(
    task: AnyTask, train: Part, test: Part, budget: Budget | None = None, network: Fitted | None = None
) -> list[Row]:
    """Names and figures of all simple models of a task, on the test part; without a budget none that is trained.

    `network`: the one they are compared with, for rows that ask it something else.
    """
    if not has_rows(task):
        return []
    codecs = task.codecs(train.examples)
    task.check(test.examples, codecs, test.name)
    rows: list[Row] = []
    chosen = _CHOSEN.get(task.name)
    for name, guesses in (_COUNTED.get(task.name, {}) if chosen is None else chosen(train, test)).items():
        with progress.task(name):
            rows.append((name, task.measure(test.examples, guesses(train, test), codecs)))
    for name, ask in _ASKED.get(task.name, {}).items():
        if network is not None:
            rows.append((name, task.measure(test.examples, ask(network, test), network.codecs)))
    for name, changes in _TRAINED.get(task.name, {}).items():
        if budget is None or vars(budget.settings) == vars(budget.settings) | dict(changes):
            continue
        settings = toml.build(task.settings, vars(budget.settings) | dict(changes), task.name)
        if task.solves(budget.settings) and not task.solves(settings):
            continue  # what is solved at once is simpler than any network
        if changes == _SEASONAL and isinstance(train.examples, Windows) and not train.examples.frame.is_seasonal:
            continue
        training = replace(budget.training, tensorboard=False, log="", unfreeze=False, layer_decay=1.0)
        progress.note(f"training {name}, for comparison")
        fitted: Fitted = fit(task, train, budget.valid, settings, training, source={}, notes=[])
        rows.append((name, task.measure(test.examples, answers(fitted, test.examples), fitted.codecs)))
    return rows


def _of(kind: type[E], part: Part) -> list[E]:
    """The examples of a part, which are of one kind."""
    return [one for one in part.examples if isinstance(one, kind)]


def _hidden_markov(train: Part, test: Part) -> list[list[str]]:
    learned, asked = _of(TaggedSentence, train), _of(TaggedSentence, test)
    tags = {tag for one in learned for tag in one.tags}
    tagger = HiddenMarkov(order=2 if len(tags) <= _MANY_TAGS else 1)
    tagger.fit((one.words, one.tags) for one in learned)
    return [tagger.tag(one.words) for one in asked]


def _naive_bayes(train: Part, test: Part) -> list[str]:
    learned = _of(LabelledText, train)
    texts, labels = [words_of(one.text) for one in learned], [one.label for one in learned]
    return NaiveBayes.fit(texts, labels, binary=True).predict(words_of(one.text) for one in _of(LabelledText, test))


def _most_frequent(train: Part, test: Part) -> list[Filled]:
    """p(w) = c(w) / N, all words without a number of their own counted as the unknown one."""
    from thereafter.tasks.fill.task import FILLING

    learned = _of(ClozeSentence, train)
    lexicon = FILLING.codecs(learned)["words"]
    counts = Counter(lexicon.forms[word] for one in learned for word in lexicon.encode(one.words).tolist())
    counts[lexicon.forms[1]] += 1  # a word never met must be possible even where every word of the training was
    total = counts.total()
    guesses = [form for form, _ in counts.most_common() if form != lexicon.forms[1]][:CANDIDATES]
    scores = []
    for one in _of(ClozeSentence, test):
        targets = [lexicon.forms[word] for word in lexicon.encode(one.words).tolist()]
        nats = math.fsum(-math.log(counts[form] / total) for form in targets)
        unknown, first = targets.count(lexicon.forms[1]), targets.count(guesses[0])
        scores.append(Filled(len(targets), unknown, nats, first, sum(map(targets.count, guesses)), sides="neither"))
    return scores


def _series_rows(train: Part, test: Part) -> Mapping[str, Guesses]:
    """The nearest neighbour by the distance that the lengths of the series allow, and the most frequent label."""
    learned, asked = _of(LabelledSeries, train), _of(LabelledSeries, test)
    scaler, labels = CLASSIFYING_SERIES.codecs(learned)["channels"], [one.label for one in learned]

    def scaled(series: Sequence[LabelledSeries]) -> list[NDArray[np.float64]]:
        return [scaler.encode(with_channels(one, scaler.names).values_TC).astype(np.float64) for one in series]

    neighbour, questions = NearestNeighbour.fit(scaled(learned), labels), scaled(asked)
    return {
        f"nearest neighbour ({neighbour.measure_of(questions)})": lambda _, __: neighbour.predict(questions),
        "most frequent label": lambda _, __: [most_frequent(labels)] * len(asked),
    }


Guesses = Callable[[Part, Part], Sequence[object]]
_COUNTED: Mapping[str, Mapping[str, Guesses]] = {
    "tag": {"hidden Markov model": _hidden_markov},
    "classify": {"Naive Bayes": _naive_bayes},
    "fill": {"most frequent words": _most_frequent},
    "video": {"most frequent labels": frequent_labels},
    "act": {"random actions": at_random, "standing still": standing_still, "sees the whole screen": seeing_all},
}
_CHOSEN: Mapping[str, Callable[[Part, Part], Mapping[str, Guesses]]] = {
    "classify-series": _series_rows,
    "classify-pictures": picture_rows,
    "glimpse": picture_rows,
    "caption": caption_rows,
}
"""Rows that depend on the examples."""
_ASKED: Mapping[str, Mapping[str, Callable[[Fitted, Part], Sequence[object]]]] = {
    "caption": {"this model, other pictures": rotated_answers}
}
"""Rows of the network itself, asked something else."""
_SEASONAL: Mapping[str, object] = {"model": "seasonal-naive"}
_TRAINED: Mapping[str, Mapping[str, Mapping[str, object]]] = {
    "classify": {"1-D convolution": {"encoder": "cnn", "pooling": "max", "sizes": (), "weight_drop": 0.0}},
    "caption": {"blind network": {"see": "nothing"}},
    "fill": {"left side alone": {"sides": "left"}},
    "forecast": {"seasonal naive": _SEASONAL, "last value": {"model": "naive"}, "least squares": {"model": "linear"}},
    "glimpse": {
        "glimpses at random": {"places": "random"},
        "glimpses at the centre": {"places": "centre"},
        "convolutions, all pixels": {"places": "all"},
    },
    "video": {"last frame alone": {"sees": "last"}},
    "act": {"looks at the centre": {"places": "centre"}},
    "draw": {"pixels alone": {"model": "pixels"}, "without attention": {"model": "draw", "attend": False}},
    "next-frames": {"last frame again": {"model": "copy"}, "dense LSTM of that size": {"model": "lstm", "units": 0}},
}
