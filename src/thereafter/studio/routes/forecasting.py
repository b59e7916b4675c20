"""The Forecast panel: which series there are, what forecasters expect of one, k steps ahead, gates over a window."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from fastapi import Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from thereafter.serving.schema import Asked, ModelName
from thereafter.studio.answers.forecasting import (
    AheadAnswer,
    ExpectedAnswer,
    ForecastAnswer,
    OfferedAnswer,
    WindowGatesAnswer,
)
from thereafter.studio.routes.common import (
    LoadedStudio,
    TheVisitor,
    Visitor,
    as_json,
    attempt,
    make_router,
    part,
    reply,
)

if TYPE_CHECKING:
    from thereafter.inspection.measurement import Measurement
    from thereafter.studio.verbs.series import OpenedSeries
    from thereafter.task_model import TaskModel

router = make_router()
T = TypeVar("T")
LONGEST = 500_000
"""Characters of a table."""
LANE = "forecast"
SeriesName = Literal["noisy-sine", "seasonal", "mackey-glass", "ett", "own"]
ForecasterName = Annotated[
    str,
    Field(
        pattern=r"^(naive|seasonal-naive|drift|ar|linear|(ready|runs):[^/\\\x00]{1,200})$",
        description="A forecaster that is fitted on the spot, or a task model of the list.",
        examples=["ar", "ready:season-gru"],
    ),
]
Forecasters = Annotated[list[ForecasterName], Field(min_length=1, max_length=8)]
Back = Annotated[int, Field(ge=0, le=100_000, description="Rows before the end at which the forecast begins.")]


class SeriesAsked(Asked):
    """`text` is the table where the series is "own"; `target` its column, chosen where it is left out."""

    series: SeriesName
    text: Annotated[str, Field(max_length=LONGEST)] = ""
    target: Annotated[str, Field(max_length=200)] = ""


class ForecastAsked(SeriesAsked):
    models: Forecasters
    horizon: Annotated[int, Field(ge=1, le=96)] = 24
    back: Back = 0


class AheadAsked(SeriesAsked):
    models: Forecasters
    k: Annotated[int, Field(ge=1, le=64)] = 16


class WindowGatesAsked(SeriesAsked):
    model: ModelName
    back: Back = 0


@router.get("/tasks/forecast/series")
def offered_series(studio: LoadedStudio) -> OfferedAnswer:
    """The series by name that are on this machine, and the forecasters that are fitted on the spot."""
    from thereafter.studio.verbs.series import offered

    return offered()


@router.post("/tasks/forecast", response_model=ForecastAnswer)
async def forecast(asked: ForecastAsked, visitor: TheVisitor) -> Response:
    """What each forecaster expects of a series from a row on, with its bands, beside what came."""
    opened = await _open(asked, visitor)

    def expect(name: str, model: TaskModel) -> ExpectedAnswer:
        from thereafter.studio.verbs import forecasting as verbs

        return verbs.expect(model, verbs.place_of(opened, asked.back, asked.horizon), name=name)

    answers, failed = part(
        [
            await attempt(name, _with_model(visitor, opened, name, partial(expect, name)))
            for name in dict.fromkeys(asked.models)
        ]
    )

    def answer() -> bytes:
        from thereafter.studio.verbs import forecasting as verbs

        place = verbs.place_of(opened, asked.back, asked.horizon)
        return as_json(verbs.forecast_answer(place, answers).model_copy(update={"failed": failed}))

    return reply(await run_in_threadpool(answer))


@router.post("/tasks/forecast/ahead", response_model=AheadAnswer)
async def ahead(asked: AheadAsked, visitor: TheVisitor) -> Response:
    """The last rows of a series as forecasters expected them k steps before, and the error by k."""
    opened = await _open(asked, visitor)

    def measure(name: str, model: TaskModel) -> tuple[str, Measurement]:
        from thereafter.studio.verbs import forecasting as verbs

        return name, verbs.measure_ahead(model, opened)

    measured, failed = part(
        [
            await attempt(name, _with_model(visitor, opened, name, partial(measure, name)))
            for name in dict.fromkeys(asked.models)
        ]
    )

    def answer() -> bytes:
        from thereafter.studio.verbs import forecasting as verbs

        return as_json(verbs.ahead_answer(opened, asked.k, measured).model_copy(update={"failed": failed}))

    return reply(await run_in_threadpool(answer))


@router.post("/tasks/forecast/gates", response_model=WindowGatesAnswer)
async def window_gates(asked: WindowGatesAsked, visitor: TheVisitor) -> Response:
    """The gates of a recurrent forecaster while it reads the window before a row."""
    opened = await _open(asked, visitor)

    def work(model: TaskModel) -> bytes:
        from thereafter.studio.verbs import forecasting as verbs

        return as_json(verbs.window_gates(model, verbs.place_of(opened, asked.back, 1)))

    return reply(await visitor.ask_task(asked.model, work))


async def _open(asked: SeriesAsked, visitor: Visitor) -> OpenedSeries:
    def work() -> OpenedSeries:
        from thereafter.studio.verbs.series import open_series

        return open_series(asked.series, asked.text, asked.target)

    return await visitor.apart(LANE, work)


async def _with_model(visitor: Visitor, opened: OpenedSeries, name: str, work: Callable[[TaskModel], T]) -> T:
    """What a function makes of a forecaster: one that is fitted here, or one of the list."""
    if ":" in name:
        return await visitor.ask_task(name, work)

    def solved() -> T:
        from thereafter.studio.verbs.forecasting import solve

        return work(solve(opened, name))

    return await visitor.apart(LANE, solved)
