"""Pictures of forecasts: k steps ahead, the error by k, gates over two days, a fan chart, unusual points."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from thereafter import instruments
from thereafter.base.storage import write_text
from thereafter.data import corpora
from thereafter.figures.figure import Figure
from thereafter.figures.surprisal import unusual_points
from thereafter.gallery.claims import per_model, verdict
from thereafter.gallery.models import Models
from thereafter.gallery.picture import SEQUENCES, GalleryPicture, after_book
from thereafter.inspection.measurement import Measurement
from thereafter.series.forecasting.answers import Forecast, ForecastTable
from thereafter.series.forecasting.figures import forecast_fan
from thereafter.series.lines import error_by_steps, gates_over_series, steps_ahead
from thereafter.series.made import seasonal_values
from thereafter.series.reading import read_series
from thereafter.series.table import Window
from thereafter.task_model import TaskModel

_WORSE = 1.5  # times the error of one step


def far_is_worse(figure: Figure) -> str:
    """Whether every model errs much more 64 steps ahead than one step ahead."""
    errors = per_model(figure, "steps", "rmse")
    errors.pop("last value", None)
    growth = {model: rows["64"] / rows["1"] for model, rows in errors.items()}
    evidence = ", ".join(f"{model} {factor:.1f}" for model, factor in growth.items())
    figures = f"the error 64 steps ahead over that of one step: {evidence}"
    return verdict(min(growth.values()) > _WORSE, "forecasts lose their quality many steps ahead", figures)


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
    return error_by_steps(
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
    return error_by_steps(
        [_real_measured(models, STEPS), instruments.steps_ahead(linear, source, STEPS, name="linear")]
    )


def _window(days_before_end: int) -> Window:
    table = read_series([corpora.locate(SEASONAL).parts["text"]])
    return Window(table, 0, table.rows - 24 * days_before_end)


def _gates(models: Models) -> Figure:
    trace = models.ready_task("season-lstm").trace(_window(20))
    return gates_over_series(trace, model="an LSTM", text=SEASONAL, last=48)


def _fan(models: Models) -> Figure:
    window = _window(20)
    forecast = models.ready_task("season-lstm").predict(window, horizon=48, samples=12)
    assert isinstance(forecast, Forecast)
    rows = slice(window.origin - 24 * 5, window.origin)
    history = (window.table.times(0)[rows], window.table.values(0)[rows])
    note = f"the series is {SEASONAL}; nothing after {window.table.times(0)[12_263]} was learned from"
    return forecast_fan(ForecastTable((forecast,), (history,), note.replace("T", " ")), model="an LSTM of 24 units")


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
    return unusual_points(model.surprises(source), model="AR", text="a generated hourly load", rows=24 * _DAYS)


PICTURES = [
    GalleryPicture("sine-ahead", SEQUENCES, lambda models: steps_ahead(_sine(models))),
    GalleryPicture("sine-errors", SEQUENCES, _sine_errors, far_is_worse),
    GalleryPicture(
        "series-ahead",
        SEQUENCES,
        lambda models: steps_ahead(_real_measured(models, (1, 4, 16, 64)), rows=240),
    ),
    GalleryPicture("series-errors", SEQUENCES, _real_errors, far_is_worse),
    GalleryPicture("series-gates", after_book(), _gates),
    GalleryPicture("forecast-fan", "Salinas, Flunkert, Gasthaus and Januschowski (2020)", _fan),
    GalleryPicture("unusual-points", SEQUENCES, _unusual, faults_are_marked(tuple(_FAULTS))),
]
