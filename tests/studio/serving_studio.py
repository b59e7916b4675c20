"""A studio over small ready models, served for real."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from remembering import Remembering
from thereafter.ready import shipped
from thereafter.studio.serve import listen, make_server
from thereafter.studio.studio import Studio
from waiting import wait_for

SCALE = 0.05
LEAST = 0.001
"""Of a training whose end is looked at, and nothing that it has learned: the fewest examples."""


def unit_of(model: str, property: str = "number") -> tuple[str, int]:
    """What is known of the units of a ready model: the field, such as "l0.c", and the number of the unit."""
    name = str(shipped.cards()[model]["scores"]["units"][property][0])
    field, _, number = name.rstrip("]").partition("[")
    return field, int(number)


@dataclass(frozen=True)
class Served:
    """A studio and its address."""

    studio: Studio
    address: str

    @property
    def runs(self) -> Path:
        return self.studio.jobs.folder


def served(studio: Studio, token: str | None = None, port: int = 0, *, remembering: bool = False) -> Iterator[Served]:
    """A studio behind a real server, on a thread, for as long as the generator is open."""
    listening = listen("127.0.0.1", port)
    server = make_server(studio, token=token)
    # A server that outlives its file asks an open page every 20 s whether it is there, with a number from Python's own
    # generator. Where hypothesis draws for a later test meanwhile, it takes that for a draw of the test's.
    server.config.ws_ping_interval = None
    if remembering:
        server.config.app = Remembering(server.config.app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        wait_for(lambda: server.started and studio.stage.loaded)
        yield Served(studio, f"http://127.0.0.1:{listening.getsockname()[1]}")
    finally:
        server.should_exit = True
        thread.join(60)
        listening.close()
    assert not thread.is_alive(), f"the server did not end; every thread stands at:\n{_places()}"


def _places() -> str:
    """Where each thread of this process is, and each task of the server."""
    frames = sys._current_frames()
    stacks = [(thread.name, traceback.format_stack(frames[thread.ident or 0])) for thread in threading.enumerate()]
    return "\n".join(f"{name}:\n{''.join(stack[-6:])}" for name, stack in stacks)
