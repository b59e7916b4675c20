"""The verbs of the panel Moving digits: what is believed of a clip after every frame, and the frames that come.

Shapes: T frames, K frames ahead, L labels.
"""

from __future__ import annotations

import numpy as np

from thereafter.errors import OptionError
from thereafter.studio.answers.moving import BeliefAnswer, ForeseenAnswer, WatchedAnswer
from thereafter.studio.verbs.clips import OpenedClip
from thereafter.studio.verbs.numbers import numbers, rows
from thereafter.studio.verbs.pictures import packed
from thereafter.task_model import TaskModel
from thereafter.vision.clips.answers import ClipExplained, FramesExplained
from thereafter.vision.clips.clip import ClipCodec
from thereafter.vision.clips.moving import NAMES

FRAMES = 10
"""Of a clip whose labels are asked for, where it is made here."""


def codec_of(model: TaskModel, task: str) -> ClipCodec:
    """What the clips of a model have in common; OptionError where it was trained to something else."""
    codec = model.codecs.get("clips")
    if model.task.name != task or not isinstance(codec, ClipCodec):
        raise OptionError(f"this model was trained to {model.task.name}; expected one trained to {task}; pick another")
    return codec


def watch(model: TaskModel, opened: OpenedClip) -> WatchedAnswer:
    """The labels of a clip, and what was believed after each frame."""
    explained = model.explain(opened.frames_THW)
    assert isinstance(explained, ClipExplained)
    beliefs = [
        BeliefAnswer(
            column=column,
            labels=list(explained.names[column]),
            turns=_turns(explained.names[column]),
            belief=rows(belief_TL.astype(np.float64).round(6)),
            answer=explained.answer.labels[column],
            true=opened.labels.get(column),
        )
        for column, belief_TL in explained.beliefs.items()
    ]
    return WatchedAnswer(name=opened.name, count=opened.count, frames=packed(opened.frames_THW), beliefs=beliefs)


def foresee(model: TaskModel, opened: OpenedClip) -> ForeseenAnswer:
    """The last frames of a clip as they are predicted from those before them, beside what came."""
    explained = model.explain(opened.frames_THW)
    assert isinstance(explained, FramesExplained)
    came_KHW = explained.came_KHW / 255
    copied_K = np.square(came_KHW - explained.read_THW[-1] / 255).sum((1, 2))
    return ForeseenAnswer(
        name=opened.name,
        digits=opened.digits,
        read=packed(explained.read_THW),
        came=packed(explained.came_KHW),
        predicted=packed(explained.predicted.pixels_KHW),
        nats=numbers(np.array(explained.judged.nats_K)),
        errors=numbers(np.array(explained.judged.errors_K)),
        copied=numbers(copied_K),
    )


def _turns(labels: tuple[str, ...]) -> list[float] | None:
    """The angles of labels that are directions."""
    if not set(labels) <= set(NAMES):
        return None
    return [NAMES.index(label) / len(NAMES) for label in labels]
