"""The verb `trace`: what a model did over a text, as plain lists and as the file that `thereafter figure` reads."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

from pydantic import Field

from thereafter.errors import OptionError
from thereafter.language_model import LanguageModel
from thereafter.serving.schema import Answer, Asked, ModelName, Prompt
from thereafter.studio.asking import Visitor, answers, of_language_model
from thereafter.studio.panels.numbers import nested


class FieldAnswer(Answer):
    """The values of a field, nested as its axes say; the first axis is always the step."""

    axes: list[str]
    values: list[object]


class WordAnswer(Answer):
    text: str
    p: float


class TraceAnswer(Answer):
    """`top[t]` are the likeliest tokens before token t was read. `cut` says how much of the text was left out."""

    tokens: list[str]
    cut: str
    fields: dict[str, FieldAnswer]
    top: list[list[WordAnswer]]


class TraceAsked(Asked):
    model: ModelName
    text: Prompt
    limit: Annotated[int, Field(ge=1, le=400)] = 100
    top: Annotated[int, Field(ge=1, le=50)] = 10
    fields: Annotated[list[str], Field(max_length=40)] | None = None


@of_language_model(TraceAsked)
def trace(lm: LanguageModel, text: str, *, limit: int, top: int, fields: list[str] | None = None) -> TraceAnswer:
    """What a model did at every token of a text: states, gates, attention, predictions.

    For each field its axes and its values, those of `lm.trace` in float32 as they are. `fields` chooses some; none
    means all.
    """
    recorded = lm.trace(text, limit=limit, top=top)
    wanted = [name for name in recorded.arrays if name != "top_token"] if fields is None else fields
    missing = [name for name in wanted if name not in recorded.arrays]
    if missing:
        raise OptionError(f"the trace has no field {missing[0]!r}; it has {', '.join(recorded.arrays)}")
    steps = range(len(recorded.tokens))
    return TraceAnswer(
        tokens=recorded.tokens,
        fields={name: FieldAnswer(axes=list(recorded.axes[name]), values=nested(recorded[name])) for name in wanted},
        cut=str(recorded.about.get("cut", "")),
        top=[[WordAnswer(text=word, p=p) for word, p in recorded.top(step)] for step in steps],
    )


@answers("The trace as a .npz file.", file="trace.npz")
async def trace_file(asked: TraceAsked, visitor: Visitor) -> bytes:
    """The same trace as `lm.trace(...).save` writes it."""

    def work(lm: LanguageModel) -> bytes:
        recorded = lm.trace(asked.text, limit=asked.limit, top=asked.top)
        with tempfile.TemporaryDirectory() as folder:
            return recorded.save(Path(folder) / "trace.npz").read_bytes()

    return await visitor.ask(asked.model, work)
