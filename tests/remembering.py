"""Answers of a studio that take seconds, worked out once: a dozen tests of its page ask the same."""

from __future__ import annotations

from typing import Any

SLOW = ("/api/units/ranked", "/api/verb-gradients")


class Remembering:
    """An application that gives an answer again where the very same request comes again, headers included.

    For a studio whose ready models stay as they are. What was refused or broken off is asked anew.
    """

    def __init__(self, app: Any) -> None:
        self._app = app
        self._answers: dict[tuple[Any, ...], list[dict[str, Any]]] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] not in SLOW:
            await self._app(scope, receive, send)
            return
        asked = [await receive()]
        while asked[-1].get("more_body"):
            asked.append(await receive())
        body = b"".join(message.get("body", b"") for message in asked)
        request = (scope["method"], scope["path"], *sorted(scope["headers"]), body)
        if request not in self._answers:
            sent = await self._ask(scope, asked, receive, send)
            if b"ready:" in body and b"runs:" not in body and sent[0].get("status") == 200 and _is_whole(sent):
                self._answers[request] = sent
            return
        for message in self._answers[request]:
            await send(message)

    async def _ask(self, scope: Any, asked: list[Any], receive: Any, send: Any) -> list[dict[str, Any]]:
        """All that the application sends, given that it hears what was heard already."""
        waiting, sent = list(asked), []

        async def hear() -> Any:
            return waiting.pop(0) if waiting else await receive()

        async def tell(message: dict[str, Any]) -> None:
            sent.append(message)
            await send(message)

        await self._app(scope, hear, tell)
        return sent


def _is_whole(sent: list[dict[str, Any]]) -> bool:
    return sent[-1]["type"] == "http.response.body" and not sent[-1].get("more_body")
