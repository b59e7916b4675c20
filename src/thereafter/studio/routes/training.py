"""The verb `train`: begin, pause, go on with, stop, and the curve of each training."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from pydantic import Field

from thereafter.serving.schema import TEXT_LIMIT
from thereafter.studio.answers.training import CurveAnswer, JobAnswer
from thereafter.studio.commands import Corpus, Kind, Tokens, TrainingNumbers, numbers_of
from thereafter.studio.routes.common import LoadedStudio, make_router

router = make_router()

JobName = Annotated[
    str,
    Path(pattern=r"^[^/\\\x00]{1,200}$", description="A training of the list, by its name, which is that of its run."),
]


class TrainAsked(TrainingNumbers):
    """A text or the name of a corpus, one of the two. What is left out is chosen by the size of the text.

    `order` is for n-grams alone, `hidden`, `layers`, `minutes` and `epochs` for all others; what a kind of model does
    not have is not looked at.
    """

    model: Kind = "lstm"
    text: Annotated[str, Field(max_length=TEXT_LIMIT)] | None = None
    source: Corpus | None = None
    name: Annotated[str, Field(max_length=60)] = ""
    tokens: Tokens | None = None


@router.get("/jobs")
def jobs(studio: LoadedStudio) -> list[JobAnswer]:
    """All trainings: those of this studio, runs of the folder that were left unfinished, and what runs elsewhere."""
    return studio.jobs.all()


@router.post("/train")
def train(asked: TrainAsked, studio: LoadedStudio) -> JobAnswer:
    """Begin a training in a process of its own."""
    options = asked.model_dump(include=set(numbers_of(asked.model)), exclude_none=True)
    return studio.jobs.begin(
        asked.name, asked.model, text=asked.text, source=asked.source, tokens=asked.tokens, options=options
    )


@router.post("/jobs/{name}/pause")
def pause(name: JobName, studio: LoadedStudio) -> JobAnswer:
    """Pause a training: its state is saved."""
    return studio.jobs.pause(name)


@router.post("/jobs/{name}/resume")
def resume(name: JobName, studio: LoadedStudio) -> JobAnswer:
    """Go on with a training that was paused, stopped or left unfinished."""
    return studio.jobs.resume(name)


@router.post("/jobs/{name}/stop")
def stop(name: JobName, studio: LoadedStudio) -> JobAnswer:
    """Stop a training for good; the best weights so far stay."""
    return studio.jobs.stop(name)


@router.get("/jobs/{name}/curve")
def curve(name: JobName, studio: LoadedStudio) -> CurveAnswer:
    """The losses of a training so far."""
    return studio.jobs.curve(name)
