"""The verb `trace`, as JSON and as the file that `thereafter figure` reads."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

from fastapi import Response
from pydantic import Field

from thereafter.studio.routes.common import LoadedStudio, make_router
from thereafter.studio.schema import Answer, Asked, ModelName, Prompt

router = make_router()


class TraceAsked(Asked):
    model: ModelName
    text: Prompt
    limit: Annotated[int, Field(ge=1, le=400)] = 100
    top: Annotated[int, Field(ge=1, le=50)] = 10
    fields: Annotated[list[str], Field(max_length=40)] | None = None


class FieldAnswer(Answer):
    """The values of a field, nested as its axes say; the first axis is always the step."""

    axes: list[str]
    values: list[Any]


class WordAnswer(Answer):
    text: str
    p: float


class TraceAnswer(Answer):
    """`top[t]` are the likeliest tokens before token t was read."""

    tokens: list[str]
    fields: dict[str, FieldAnswer]
    top: list[list[WordAnswer]]


@router.post("/trace")
def trace(asked: TraceAsked, studio: LoadedStudio) -> TraceAnswer:
    """What a model did at every token of a text: states, gates, attention, predictions."""
    from thereafter.studio.verbs.tracing import trace as traced

    with studio.shelf.held(asked.model) as lm:
        found = traced(lm, asked.text, limit=asked.limit, top=asked.top, fields=asked.fields)
    return TraceAnswer(**found)


@router.post(
    "/trace.npz",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}, "description": "The trace as a .npz file."}},
)
def trace_file(asked: TraceAsked, studio: LoadedStudio) -> Response:
    """The same trace as `lm.trace(...).save` writes it."""
    with studio.shelf.held(asked.model) as lm:
        found = lm.trace(asked.text, limit=asked.limit, top=asked.top)
    with tempfile.TemporaryDirectory() as folder:
        content = found.save(Path(folder) / "trace.npz").read_bytes()
    named = {"Content-Disposition": 'attachment; filename="trace.npz"'}
    return Response(content, media_type="application/octet-stream", headers=named)
