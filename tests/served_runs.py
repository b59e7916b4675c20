"""A server of runs on a thread, for tests that ask it over a real connection."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn

from thereafter.language_model import LanguageModel
from thereafter.serving.engine import Engine
from thereafter.serving.listening import listen
from thereafter.serving.server.app import make_app
from thereafter.serving.server.models import ServedModel, ServedModels
from thereafter.serving.server.start import make_server
from waiting import wait_for


@dataclass(frozen=True)
class ServedRuns:
    """A server, its runs and its address."""

    models: ServedModels
    server: uvicorn.Server
    address: str


def served_language_model(lm: LanguageModel, name: str, *, most_rows: int = 64) -> ServedModel:
    """A language model that is loaded already, with an engine of its own."""
    return ServedModel(name, language_model=lm, engine=Engine(lm.model, most_rows=most_rows))


@contextmanager
def served_runs(
    models: Sequence[ServedModel], *, token: str | None = None, seconds: float = 60.0, grace: float = 0.0
) -> Iterator[ServedRuns]:
    """A server for as long as the block is open."""
    runs = ServedModels(models)
    with listen("127.0.0.1", [0]) as door:
        server = make_server(make_app(runs, token=token, seconds=seconds), grace=grace)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [door]}, daemon=True)
        thread.start()
        try:
            wait_for(lambda: server.started)
            yield ServedRuns(runs, server, f"http://127.0.0.1:{door.getsockname()[1]}")
        finally:
            server.should_exit = True
            thread.join(60)
    assert not thread.is_alive(), "the server did not end"
