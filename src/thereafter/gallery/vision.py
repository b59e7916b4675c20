"""Pictures of pictures and clips: where a captioner looks, what is believed of a moving digit frame by frame, the
frames that are expected next, glimpses of a digit, and a digit drawn stroke by stroke.

Shapes: N clips, T frames that are read, K frames ahead, H rows, W columns.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from thereafter.data import corpora
from thereafter.figures.figure import Figure
from thereafter.gallery.claims import per_model, verdict
from thereafter.gallery.models import Models
from thereafter.gallery.picture import GalleryPicture
from thereafter.vision.captioning.task import CaptionExplained
from thereafter.vision.clips.labels import ClipExplained
from thereafter.vision.clips.moving import MovingClips
from thereafter.vision.clips.next_frames import FramesExplained, JudgedFrames, NextFrames
from thereafter.vision.drawing.network import Drawer
from thereafter.vision.figures import (
    attended_picture,
    belief_by_frame,
    drawn_strokes,
    glimpse_path,
    measured_belief,
    measured_frames,
    measured_glimpses,
    measured_nats,
    measured_strokes,
    nats_by_step,
    predicted_frames,
)
from thereafter.vision.glimpsing.network import GlimpseSensor
from thereafter.vision.glimpsing.task import GlimpsesExplained
from thereafter.vision.made_pictures import clutter_rules, moving_rules
from thereafter.vision.measures import (
    CopyCounts,
    Floats,
    copied,
    frame_errors,
    frame_nats,
    least_nats,
    score_frames,
)
from thereafter.vision.pictures.glyphs import ClutteredPictures, numbered_glyphs
from thereafter.vision.pictures.picture import pictures_of
from thereafter.vision.pictures.sources import open_pictures


def more_frames_are_surer(figure: Figure) -> str:
    """Whether the right label of every column is likelier after all frames than after the first."""
    rows = [row for row in figure.to_rows() if row["right"]]
    columns = list(dict.fromkeys(str(row["column"]) for row in rows))
    ends = {}
    for column in columns:
        along = [float(str(row["probability"])) for row in rows if row["column"] == column]
        ends[column] = along[0], along[-1]
    figures = ", ".join(f"the right {column} has {first:.2f} and {last:.2f}" for column, (first, last) in ends.items())
    holds = all(last > first for first, last in ends.values())
    return verdict(holds, "more frames make the label surer", f"after the first and the last {figures}", "the paper")


def beside_copying(figure: Figure) -> str:
    """The nats of the network and of copying the last frame, farthest ahead, and whether it needs fewer everywhere."""
    nats = per_model(figure, "step", "nats")
    copying = nats.pop("copying")
    ((name, network),) = nats.items()
    last = list(copying)[-1]
    fewer = all(network[step] < copying[step] for step in copying)
    where = "fewer at every step" if fewer else "not fewer at every step"
    return f"The {name} needs {network[last]:.0f} nats {last} frames ahead, copying {copying[last]:.0f}; {where}."


def surer_by_looking(figure: Figure) -> str:
    """Whether the right label is likelier after all glimpses than after the first."""
    along = [float(str(row["probability"])) for row in figure.to_rows() if row["right"]]
    figures = f"after the first and the last the right label has {along[0]:.2f} and {along[-1]:.2f}"
    return verdict(along[-1] > along[0], "more glimpses make the label surer", figures, "the paper")


SHAPES, GLYPH, CLUTTERED = "shapes", "moving-glyph", "cluttered-glyphs"
NETWORK, COPYING = "conv-lstm", "copying"
_PICTURE, _CLIP = 13, 3  # of the test parts
_CLUTTERED_DIGIT, _CLUTTERED_SIDE, _DRAWN_DIGIT = 55, 40, 3
_AHEAD = 5
_COUNTED = 300  # clips of either part


def _attended(models: Models) -> Figure:
    picture = pictures_of(open_pictures(corpora.locate(SHAPES).parts["test"]))[_PICTURE]
    explained = models.ready_task("shapes-captioner").explain(picture)
    assert isinstance(explained, CaptionExplained)
    return attended_picture(explained, model="an LSTM of 32 units over drawn shapes")


def _clips(part: str) -> MovingClips:
    return MovingClips(moving_rules(GLYPH)[part])


def _belief(models: Models) -> Figure:
    clip = _clips("test")[_CLIP]
    explained = models.ready_task(GLYPH).explain(clip)
    assert isinstance(explained, ClipExplained)
    text = f"a clip of {GLYPH} that no training has seen"
    return belief_by_frame(measured_belief(explained, model="An LSTM of 28 units", text=text, truth=dict(clip.labels)))


@cache
def _smoothing() -> Floats:
    """How sure copying the last frame is, step by step: what is best on clips of the training part."""
    frames_NTHW = _clips("train").read_many(range(_COUNTED))
    counts = CopyCounts(_AHEAD)
    counts.add(frames_NTHW[:, -_AHEAD - 1], frames_NTHW[:, -_AHEAD:])
    return counts.smoothing()


def _frames(models: Models) -> Figure:
    clip = _clips("test")[_CLIP]
    explained = models.ready_task("next-glyphs").explain(clip)
    assert isinstance(explained, FramesExplained)
    came_KHW = explained.came_KHW
    p_KHW = copied(explained.read_THW[-1:], _smoothing())[0]
    nats_K, errors_K = frame_nats(came_KHW, p_KHW), frame_errors(came_KHW, p_KHW)
    judged = JudgedFrames(tuple(nats_K.tolist()), tuple(errors_K.tolist()), explained.judged.least_K)
    copy = FramesExplained(explained.read_THW, came_KHW, NextFrames(p_KHW.astype(np.float32)), judged)
    text = f"a clip of {GLYPH} that no training has seen"
    pairs = ((NETWORK, explained), (COPYING, copy))
    return predicted_frames([measured_frames(one, model=name, text=text) for name, one in pairs])


def _nats(models: Models) -> Figure:
    frames_NTHW = _clips("test").read_many(range(_COUNTED))
    came_NKHW = frames_NTHW[:, -_AHEAD:]
    least_NK = least_nats(came_NKHW)
    answers = models.ready_task("next-glyphs").predict(list(frames_NTHW[:, :-_AHEAD]))
    predictions: dict[str, NDArray[np.floating]] = {
        NETWORK: np.stack([one.frames_KHW for one in answers if isinstance(one, NextFrames)]),
        COPYING: copied(frames_NTHW[:, -_AHEAD - 1], _smoothing()),
    }
    return nats_by_step(
        [
            measured_nats(
                score_frames(frame_nats(came_NKHW, p_NKHW), frame_errors(came_NKHW, p_NKHW), least_NK),
                model=name,
                text=GLYPH,
            )
            for name, p_NKHW in predictions.items()
        ]
    )


def _glimpses(models: Models) -> Figure:
    pictures = ClutteredPictures(replace(clutter_rules(CLUTTERED)["test"], size=_CLUTTERED_SIDE))
    model = models.ready_task("glyph-glimpses")
    explained = model.explain(pictures.read(_CLUTTERED_DIGIT))
    assert isinstance(explained, GlimpsesExplained)
    sensor = model.net.sensor
    assert isinstance(sensor, GlimpseSensor)
    measured = measured_glimpses(
        explained,
        patch=sensor.patch,
        scales=sensor.scales,
        model="An LSTM of 32 units",
        text=f"a picture of {CLUTTERED} that no training has seen",
        truth=pictures.labels()[_CLUTTERED_DIGIT],
    )
    return glimpse_path(measured)


def _strokes(models: Models) -> Figure:
    model = models.ready_task("glyph-drawer")
    assert isinstance(model.net, Drawer)
    settings = model.net.settings
    trace = model.trace(numbered_glyphs([clutter_rules(CLUTTERED)["test"].begin + _DRAWN_DIGIT])[0])
    text = "a written digit that no training has seen"
    sides = {"read": settings.read, "write": settings.write}
    return drawn_strokes(measured_strokes(trace, **sides, model="A network of 40 units", text=text))


PICTURES = [
    GalleryPicture("attended-picture", "Xu et al. (2015)", _attended),
    GalleryPicture("belief-by-frame", "Yue-Hei Ng et al. (2015)", _belief, more_frames_are_surer),
    GalleryPicture("predicted-frames", "Srivastava, Mansimov and Salakhutdinov (2015) and Shi et al. (2015)", _frames),
    GalleryPicture("nats-by-step", "Shi et al. (2015)", _nats, beside_copying),
    GalleryPicture("glimpse-path", "Mnih et al. (2014)", _glimpses, surer_by_looking),
    GalleryPicture("drawn-strokes", "Gregor et al. (2015)", _strokes),
]
