"""The largest batch of examples that the memory of a GPU holds: what `training/largest_batch.py` tries of a task.

Shapes: R examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from thereafter.tasks.codecs import Codecs
from thereafter.tasks.learning import MEASURED_AT_ONCE, ExampleBatch, ExampleLearner, Examples
from thereafter.tasks.task import AnyTask
from thereafter.training import largest_batch
from thereafter.training.settings import TrainingSettings


def choose_batch(
    task: AnyTask,
    codecs: Codecs,
    train: Sequence[object],
    valid: Sequence[object],
    settings: object,
    training: TrainingSettings,
    usual: int,
) -> tuple[int, str]:
    """The most examples that fit into the memory of a GPU, elsewhere the usual number, and the note on it."""
    steps, device = training.steps or 1, torch.device(training.device)
    most = min(len(train), max(1, largest_batch.MOST_PLACES // steps))
    if task.solves(settings):
        return usual, f"batch {usual:,}: this network is solved at once and takes no steps"
    if not largest_batch.is_searched(training):
        return usual, largest_batch.describe_batch(usual, most, training)
    lengths_R = task.lengths(train, codecs)
    recordable = False

    def begin(device: torch.device) -> ExampleLearner:
        nonlocal recordable
        net = task.build(settings, codecs).to(device)
        recordable = net.recordable
        return ExampleLearner(net)

    def batches(rows: int) -> list[ExampleBatch]:
        examples = Examples(task, codecs, replace(training, batch=rows), train, recordable=recordable)
        chosen = longest_examples(lengths_R, rows, rows * steps)
        return [examples.make([train[place] for place in places]).to(device) for places in chosen]

    def validated(rows: int) -> list[ExampleBatch]:
        at_once = MEASURED_AT_ONCE * rows
        examples = Examples(task, codecs, replace(training, batch=at_once), valid, shuffle=False)
        chosen = longest_examples(task.lengths(valid, codecs), at_once, at_once * steps)
        return [examples.make([valid[place] for place in places]).to(device) for places in chosen]

    rows = largest_batch.find_batch(
        begin, batches, training, first=min(usual, most), most=most, validated=validated if len(valid) else None
    )
    return rows, largest_batch.describe_batch(rows, most, training)


def longest_examples(lengths_R: NDArray[np.int64], most: int, places: int) -> list[list[int]]:
    """The examples of the two largest batches within the limits of `batching.batches`: the longest ones there are, and
    the longest of which `most` fit.

    >>> longest_examples(np.array([1, 9, 2, 3, 2]), most=3, places=9)
    [[1], [2, 4, 3]]
    """
    order_R = np.argsort(lengths_R, kind="stable")
    long = max(1, min(most, places // int(lengths_R[order_R[-1]])))
    within = int((lengths_R <= places // most).sum())
    chosen = [order_R[-long:], order_R[max(0, within - most) : within]]
    return [one.tolist() for one in chosen if len(one)]
