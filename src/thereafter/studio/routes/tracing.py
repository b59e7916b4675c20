"""The verb `trace`, as JSON and as the file that `thereafter figure` reads."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fastapi import Response
from pydantic import Field

from thereafter.serving.schema import Asked, ModelName, Prompt
from thereafter.studio.answers.tracing import TraceAnswer
from thereafter.studio.routes.common import TheVisitor, as_json, make_router, reply

if TYPE_CHECKING:
    from thereafter.language_model import LanguageModel

router = make_router()


class TraceAsked(Asked):
    model: ModelName
    text: Prompt
    limit: Annotated[int, Field(ge=1, le=400)] = 100
    top: Annotated[int, Field(ge=1, le=50)] = 10
    fields: Annotated[list[str], Field(max_length=40)] | None = None


@router.post("/trace", response_model=TraceAnswer)
async def trace(asked: TraceAsked, visitor: TheVisitor) -> Response:
    """What a model did at every token of a text: states, gates, attention, predictions."""

    def work(lm: LanguageModel) -> bytes:
        from thereafter.studio.verbs import tracing as verbs

        return as_json(verbs.trace(lm, asked.text, limit=asked.limit, top=asked.top, fields=asked.fields))

    return reply(await visitor.ask(asked.model, work))


@router.post(
    "/trace.npz",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}, "description": "The trace as a .npz file."}},
)
async def trace_file(asked: TraceAsked, visitor: TheVisitor) -> Response:
    """The same trace as `lm.trace(...).save` writes it."""

    def work(lm: LanguageModel) -> bytes:
        recorded = lm.trace(asked.text, limit=asked.limit, top=asked.top)
        with tempfile.TemporaryDirectory() as folder:
            return recorded.save(Path(folder) / "trace.npz").read_bytes()

    content = await visitor.ask(asked.model, work)
    named = {"Content-Disposition": 'attachment; filename="trace.npz"'}
    return Response(content, media_type="application/octet-stream", headers=named)
