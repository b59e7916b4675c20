"""Batches that a thread makes ahead, as it does beside a GPU: the same ones, in any order, and no fault is lost."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

import torch

from refusals import assert_refused
from thereafter.errors import FormatError
from thereafter.tasks import TASKS
from thereafter.tasks.batching import ExampleEpoch, Examples
from thereafter.tasks.task import AnyTask
from thereafter.text.conll import TaggedSentence
from thereafter.training.settings import TrainingSettings
from thereafter.vision.acting.game import CatchRule, Episode, Episodes
from thereafter.vision.acting.network import CatchBatch

GAMES = Episodes([CatchRule(size=6, count=23, seed=5)])
AHEAD = TrainingSettings(batch=4, steps=1, seed=3, device="cuda")
"""A thread makes the next batch in the host's memory; nothing goes to the GPU here, so none is needed."""
ACT: AnyTask = TASKS.load("act")


def examples_of(training: TrainingSettings, given: Sequence[Episode] = GAMES, *, shuffle: bool = True) -> Examples:
    return Examples(ACT, ACT.codecs(GAMES), training, given, shuffle=shuffle)


def starts(epoch: ExampleEpoch, k: int) -> torch.Tensor:
    batch = epoch.of.taken(epoch, k).made
    assert isinstance(batch, CatchBatch)
    return batch.starts_B3


def test_batches_made_ahead_are_the_same_in_any_order() -> None:
    ahead, plain = examples_of(AHEAD), examples_of(replace(AHEAD, device="cpu"))
    ours, theirs = ([one.epoch(number) for number in range(2)] for one in (ahead, plain))
    for number, k in ((0, 0), (0, 1), (0, 1), (1, 2), (0, 2), (1, 3), (1, 1), (0, 5), (0, 4), (0, 5), (1, 0), (1, 1)):
        assert torch.equal(starts(ours[number], k), starts(theirs[number], k))


def test_sentences_for_a_gpu_come_in_few_shapes() -> None:
    """Each shape is recorded once: so there are few of them, and what is filled in counts for nothing."""
    tag: AnyTask = TASKS.load("tag")
    sentences = [TaggedSentence(("w" * (k % 7 + 1),) * (k % 90 + 1), ("A", "B") * 45) for k in range(400)]
    sentences = [replace(one, tags=one.tags[: len(one.words)]) for one in sentences]
    given = replace(AHEAD, batch=16, steps=40)
    made = Examples(tag, tag.codecs(sentences), given, sentences, recordable=True).epoch(0)
    plain = Examples(tag, tag.codecs(sentences), given, sentences).epoch(0)
    shapes, counted = set(), 0
    for k in range(len(made)):
        batch, own = made.make(k), plain.make(k)
        places = batch.places()
        assert places is not None
        assert float(places["count"]) == batch.count == own.count
        assert own.places() is None
        counted += batch.count
        shapes.add(tuple(place.shape for place in places.values()))
    assert counted == sum(len(one.words) for one in sentences)
    assert len(shapes) <= 12 < len({tuple(plain.make(k).made.words_BT.shape) for k in range(len(plain))})  # type: ignore[attr-defined]


class _Broken(Sequence[Episode]):
    """Games of which one cannot be read."""

    def __len__(self) -> int:
        return len(GAMES)

    def __getitem__(self, at: int) -> Episode:  # type: ignore[override]
        if at == 9:
            raise FormatError("the game 9 is damaged")
        return GAMES[at]


def test_a_fault_of_the_thread_is_raised_where_its_batch_is_asked_for() -> None:
    epoch = examples_of(AHEAD, _Broken(), shuffle=False).epoch(0)
    assert len(starts(epoch, 0)) == len(starts(epoch, 1)) == 4
    for _ in range(2):
        with assert_refused(FormatError, "game", 9):
            starts(epoch, 2)
    assert len(starts(epoch, 3)) == 4


def test_the_thread_ends_with_its_examples() -> None:
    before = set(threading.enumerate())
    epoch = examples_of(AHEAD).epoch(0)
    starts(epoch, 0)
    (thread,) = set(threading.enumerate()) - before
    del epoch
    thread.join(30)
    assert not thread.is_alive()
