"""What changes by itself, sent to every open page: the start, the models, the trainings."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from fastapi import WebSocket, WebSocketDisconnect
from starlette.concurrency import run_in_threadpool

from thereafter.studio.routes.common import make_router
from thereafter.studio.studio import Studio

router = make_router()
_EVERY = 0.3  # seconds between two looks


@router.websocket("/events")
async def events(socket: WebSocket) -> None:
    """The snapshot of the studio at once, and again whenever it has changed."""
    studio: Studio = socket.app.state.studio
    await socket.accept()
    gone = asyncio.create_task(_until_closed(socket))
    last = None
    with suppress(WebSocketDisconnect, RuntimeError):  # a page may close while something is sent to it
        while not gone.done():
            now = await run_in_threadpool(studio.snapshot)
            if now != last:
                await socket.send_json(now.model_dump())
                last = now
            await asyncio.wait([gone], timeout=_EVERY)
    gone.cancel()


async def _until_closed(socket: WebSocket) -> None:
    """Pages say nothing here; whatever comes is taken and left alone."""
    with suppress(RuntimeError):
        while (await socket.receive())["type"] != "websocket.disconnect":
            pass
