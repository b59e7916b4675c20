"""Answers of the Forecast panel: a series, what each forecaster expects, k steps ahead, gates over the window."""

from __future__ import annotations

from pydantic import Field

from thereafter.serving.schema import Answer, FailedAnswer


class OfferedSeriesAnswer(Answer):
    """A series by name; `seasonal` where its rows have a season. `networks`: ready models that were trained on it."""

    name: str
    title: str
    seasonal: bool
    networks: list[str]


class OfferedAnswer(Answer):
    """`solved`: forecasters that are fitted on the spot, the simplest first."""

    series: list[OfferedSeriesAnswer]
    solved: list[str]


class BandAnswer(Answer):
    """The band of a coverage, calibrated on rows that were not learned from."""

    coverage: float
    low: list[float | None]
    high: list[float | None]


class ExpectedAnswer(Answer):
    """What one forecaster expects. `rmse` is over the steps that have come, null where none has."""

    model: str
    mean: list[float | None]
    bands: list[BandAnswer]
    rmse: float | None


class ForecastAnswer(Answer):
    """`times` and `values` are the rows before the forecast and then those that it is of; null where none has come.

    The first `before` are history. `rows` are all that the series has here, `learned` those that forecasters were
    fitted to and `most_back` how many rows before the end a forecast may begin; `back` is where this one begins.
    """

    target: str
    frequency: str
    season: int
    rows: int
    learned: int
    back: int
    most_back: int
    notes: list[str]
    times: list[str]
    values: list[float | None]
    before: int
    forecasts: list[ExpectedAnswer]
    failed: list[FailedAnswer] = Field(default_factory=list)


class AheadModelAnswer(Answer):
    """`predicted`: each row as it was forecast k steps before; `rmse` by the number of steps."""

    model: str
    predicted: list[float | None]
    rmse: list[float | None]


class AheadAnswer(Answer):
    """`steps` are 1, 2, ... up to the most; `last_value` is the error of the value so many steps before."""

    target: str
    k: int
    steps: list[int]
    compared: int
    times: list[str]
    actual: list[float | None]
    last_value: list[float | None]
    models: list[AheadModelAnswer]
    failed: list[FailedAnswer] = Field(default_factory=list)


class WindowGateAnswer(Answer):
    """The mean of a gate over the units of the first layer after each step."""

    name: str
    values: list[float | None]


class WindowGatesAnswer(Answer):
    """`values` are what was read in each step, its mean where a step has several rows; `size` is the mean size of the
    state `state`."""

    times: list[str]
    values: list[float | None]
    rows: int
    units: int
    gates: list[WindowGateAnswer]
    state: str
    size: list[float | None]
