"""Pictures of what tasks answer. Forecasts: k steps ahead, the error by k, gates over two days, a fan chart, unusual
points. Pictures and clips: where a captioner looks, what is believed of a moving digit frame by frame, the frames that
are expected next, glimpses of a digit, and a digit drawn stroke by stroke.

Shapes: N clips, T frames that are read, K frames ahead, H rows, W columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thereafter import figures, instruments
from thereafter.base.storage import write_text
from thereafter.data import corpora
from thereafter.figures.figure import Figure
from thereafter.gallery.claims import per_model, verdict
from thereafter.gallery.models import SEQUENCES, GalleryPicture, Models, after_book
from thereafter.inspection.measurement import Measurement
from thereafter.series.forecasting.answers import Forecast, ForecastTable
from thereafter.series.made import seasonal_values
from thereafter.series.reading import read_series
from thereafter.series.table import Window
from thereafter.task_model import TaskModel
from thereafter.vision.captioning.task import CaptionExplained
from thereafter.vision.clips.labels import ClipExplained
from thereafter.vision.clips.moving import MovingClips
from thereafter.vision.clips.next_frames import FramesExplained, JudgedFrames, NextFrames
from thereafter.vision.drawing.network import Drawer
from thereafter.vision.glimpsing.network import GlimpseSensor
from thereafter.vision.glimpsing.task import GlimpsesExplained
from thereafter.vision.made_pictures import clutter_rules, moving_rules
from thereafter.vision.measures import CopyCounts, copied, frame_errors, frame_nats, least_nats, score_frames
from thereafter.vision.pictures.glyphs import ClutteredPictures, numbered_glyphs
from thereafter.vision.pictures.picture import pictures_of
from thereafter.vision.pictures.sources import open_pictures
from thereafter.vision.rules import Floats

_WORSE = 1.5  # times the error of one step


def far_is_worse(figure: Figure) -> str:
    """Whether every model errs much more 64 steps ahead than one step ahead."""
    errors = per_model(figure, "steps", "rmse")
    errors.pop("last value", None)
    growth = {model: rows["64"] / rows["1"] for model, rows in errors.items()}
    evidence = ", ".join(f"{model} {factor:.1f}" for model, factor in growth.items())
    evidence = f"the error 64 steps ahead over that of one step: {evidence}"
    return verdict(min(growth.values()) > _WORSE, "forecasts lose their quality many steps ahead", evidence)


def faults_are_marked(planted: tuple[str, ...]) -> Callable[[Figure], str]:
    """A claim over the faults that were planted at these times."""

    def claim(figure: Figure) -> str:
        marks = dict(zip(figure.words("time"), figure.table["unusual"], strict=True))
        times = [time for time in planted if marks.get(time)]
        others = sum(bool(mark) for mark in marks.values()) - len(times)
        return (
            f"Planted were {len(planted)} faults, {len(times)} of which are marked; {others} other "
            f"{'point is' if others == 1 else 'points are'} marked."
        )

    return claim


SINE, SEASONAL, REAL = "noisy-sine", "seasonal", "ett"
STEPS = (1, 2, 4, 8, 16, 32, 64)
SPLIT = "70/10/20"
_FAULTS = {"2022-02-24 09:00": 22.0, "2022-02-26 17:00": -24.0, "2022-02-28 03:00": 18.0}
"""When something is planted, and how much is added there."""
_HOURS = 60 * 24
_DAYS = 8  # that are drawn of the series with faults


def _autoregression(models: Models, source: str, **options: object) -> TaskModel:
    asked = {"model": "ar", "horizon": 1, "split": SPLIT, **options}
    return models.forecaster(f"ar-{source}", source, **asked)


def _least_squares(models: Models, source: str, **options: object) -> TaskModel:
    asked = {"model": "linear", "horizon": 24, "lookback": 168, "split": SPLIT, **options}
    return models.forecaster(f"linear-{source}", source, **asked)


def _sine(models: Models, steps: tuple[int, ...] = (1, 4, 16, 64)) -> Measurement:
    """The books' AR(4)."""
    return instruments.steps_ahead(_autoregression(models, SINE, order=4, lookback=4), SINE, steps, name="AR(4)")


def _sine_errors(models: Models) -> Figure:
    linear = _least_squares(models, SINE, horizon=16, lookback=64)
    return figures.error_by_steps(
        [
            _sine(models, STEPS),
            instruments.steps_ahead(linear, SINE, STEPS, name="linear"),
            instruments.steps_ahead(models.ready_task("sine-lstm"), SINE, STEPS, name="lstm"),
        ]
    )


def _real() -> tuple[str, dict[str, object]]:
    """A measured series where it is on this machine, else a generated one; and the column to forecast."""
    here = corpora.status(REAL).startswith(("found", "in the cache"))
    return (REAL, {"target": "OT"}) if here else (SEASONAL, {})


def _real_measured(models: Models, steps: tuple[int, ...]) -> Measurement:
    source, columns = _real()
    model = _autoregression(models, source, lookback=168, **columns)
    return instruments.steps_ahead(model, source, steps, name="AR")


def _real_errors(models: Models) -> Figure:
    source, columns = _real()
    linear = _least_squares(models, source, **columns)
    return figures.error_by_steps(
        [_real_measured(models, STEPS), instruments.steps_ahead(linear, source, STEPS, name="linear")]
    )


def _window(days_before_end: int) -> Window:
    table = read_series([corpora.locate(SEASONAL).parts["text"]])
    return Window(table, 0, table.rows - 24 * days_before_end)


def _gates(models: Models) -> Figure:
    trace = models.ready_task("season-lstm").trace(_window(20))
    return figures.gates_over_series(trace, model="an LSTM", text=SEASONAL, last=48)


def _fan(models: Models) -> Figure:
    window = _window(20)
    forecast = models.ready_task("season-lstm").predict(window, horizon=48, samples=12)
    assert isinstance(forecast, Forecast)
    rows = slice(window.origin - 24 * 5, window.origin)
    history = (window.table.times(0)[rows], window.table.values(0)[rows])
    note = f"the series is {SEASONAL}; nothing after {window.table.times(0)[12_263]} was learned from"
    return figures.forecast_fan(
        ForecastTable((forecast,), (history,), note.replace("T", " ")), model="an LSTM of 24 units"
    )


def _faulty(folder: Path) -> Path:
    """Hours of a load, in three of which something is wrong."""
    path = folder / "texts" / "series" / "faulty.csv"
    times = [str(time).replace("T", " ") for time in np.datetime64("2022-01-03T00:00") + 60 * np.arange(_HOURS)]
    values = seasonal_values(hours=_HOURS) + np.array([_FAULTS.get(time, 0.0) for time in times])
    rows = (f"{time},{value:.4f}" for time, value in zip(times, values, strict=True))
    write_text(path, "\n".join(["time,load", *rows]) + "\n")
    return path


def _unusual(models: Models) -> Figure:
    source = _faulty(models.folder)
    model = models.forecaster("ar-faulty", source, model="ar", horizon=1, lookback=72, split=SPLIT)
    return figures.unusual_points(model.surprises(source), model="AR", text="a generated hourly load", rows=24 * _DAYS)


def more_frames_are_surer(figure: Figure) -> str:
    """Whether the right label of every column is likelier after all frames than after the first."""
    rows = [row for row in figure.to_rows() if row["right"]]
    columns = list(dict.fromkeys(str(row["column"]) for row in rows))
    ends = {}
    for column in columns:
        along = [float(str(row["probability"])) for row in rows if row["column"] == column]
        ends[column] = along[0], along[-1]
    sure = ", ".join(f"the right {column} has {first:.2f} and {last:.2f}" for column, (first, last) in ends.items())
    holds = all(last > first for first, last in ends.values())
    return verdict(holds, "more frames make the label surer", f"after the first and the last {sure}", "the paper")


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
    sure = f"after the first and the last the right label has {along[0]:.2f} and {along[-1]:.2f}"
    return verdict(along[-1] > along[0], "more glimpses make the label surer", sure, "the paper")


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
    return figures.attended_picture(explained, model="an LSTM of 32 units over drawn shapes")


def _clips(part: str) -> MovingClips:
    return MovingClips(moving_rules(GLYPH)[part])


def _belief(models: Models) -> Figure:
    clip = _clips("test")[_CLIP]
    explained = models.ready_task(GLYPH).explain(clip)
    assert isinstance(explained, ClipExplained)
    text = f"a clip of {GLYPH} that no training has seen"
    return figures.belief_by_frame(
        figures.measured_belief(explained, model="An LSTM of 28 units", text=text, truth=dict(clip.labels))
    )


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
    return figures.predicted_frames([figures.measured_frames(one, model=name, text=text) for name, one in pairs])


def _nats(models: Models) -> Figure:
    frames_NTHW = _clips("test").read_many(range(_COUNTED))
    came_NKHW = frames_NTHW[:, -_AHEAD:]
    least_NK = least_nats(came_NKHW)
    answers = models.ready_task("next-glyphs").predict(list(frames_NTHW[:, :-_AHEAD]))
    predictions: dict[str, NDArray[np.floating]] = {
        NETWORK: np.stack([one.frames_KHW for one in answers if isinstance(one, NextFrames)]),
        COPYING: copied(frames_NTHW[:, -_AHEAD - 1], _smoothing()),
    }
    return figures.nats_by_step(
        [
            figures.measured_nats(
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
    measured = figures.measured_glimpses(
        explained,
        patch=sensor.patch,
        scales=sensor.scales,
        model="An LSTM of 32 units",
        text=f"a picture of {CLUTTERED} that no training has seen",
        truth=pictures.labels()[_CLUTTERED_DIGIT],
    )
    return figures.glimpse_path(measured)


def _strokes(models: Models) -> Figure:
    model = models.ready_task("glyph-drawer")
    assert isinstance(model.net, Drawer)
    settings = model.net.settings
    trace = model.trace(numbered_glyphs([clutter_rules(CLUTTERED)["test"].begin + _DRAWN_DIGIT])[0])
    text = "a written digit that no training has seen"
    sides = {"read": settings.read, "write": settings.write}
    return figures.drawn_strokes(figures.measured_strokes(trace, **sides, model="A network of 40 units", text=text))


PICTURES = [
    GalleryPicture("sine-ahead", SEQUENCES, lambda models: figures.steps_ahead(_sine(models))),
    GalleryPicture("sine-errors", SEQUENCES, _sine_errors, far_is_worse),
    GalleryPicture(
        "series-ahead", SEQUENCES, lambda models: figures.steps_ahead(_real_measured(models, (1, 4, 16, 64)), rows=240)
    ),
    GalleryPicture("series-errors", SEQUENCES, _real_errors, far_is_worse),
    GalleryPicture("series-gates", after_book(), _gates),
    GalleryPicture("forecast-fan", "Salinas, Flunkert, Gasthaus and Januschowski (2020)", _fan),
    GalleryPicture("unusual-points", SEQUENCES, _unusual, faults_are_marked(tuple(_FAULTS))),
    GalleryPicture("attended-picture", "Xu et al. (2015)", _attended),
    GalleryPicture("belief-by-frame", "Yue-Hei Ng et al. (2015)", _belief, more_frames_are_surer),
    GalleryPicture("predicted-frames", "Srivastava, Mansimov and Salakhutdinov (2015) and Shi et al. (2015)", _frames),
    GalleryPicture("nats-by-step", "Shi et al. (2015)", _nats, beside_copying),
    GalleryPicture("glimpse-path", "Mnih et al. (2014)", _glimpses, surer_by_looking),
    GalleryPicture("drawn-strokes", "Gregor et al. (2015)", _strokes),
]
