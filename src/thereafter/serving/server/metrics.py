"""/health and /metrics: figures of the server in the text format 0.0.4 of Prometheus.

https://prometheus.io/docs/instrumenting/exposition_formats/. A histogram counts, for each bound, the requests that took
no longer; `le="+Inf"` counts all of them. Labels come from a fixed list of addresses and from the runs that are served,
never from what a client sends, so the number of series is bounded.
"""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fastapi import APIRouter, Request, Response

from thereafter.base.version import __version__
from thereafter.serving.schema import Answer

if TYPE_CHECKING:
    from thereafter.serving.engine import Engine
    from thereafter.serving.server.models import ServedModels

ROUTER = APIRouter(tags=["figures"])
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Seconds: the upper bounds of the histogram."""
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ABANDONED = "Requests whose client went away before the end."
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class HealthAnswer(Answer):
    status: Literal["ok"]
    models: list[str]
    seconds: float


class Metrics:
    """Counters of a server, for any thread; `paths`: the addresses counted by name, all others are "other"."""

    def __init__(self, paths: Collection[str]) -> None:
        self.paths = frozenset(paths)
        self._lock = threading.Lock()
        self._begun, self._clock = time.time(), time.monotonic()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._buckets: defaultdict[str, list[int]] = defaultdict(lambda: [0] * (len(BOUNDS) + 1))
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._tokens = 0
        self._abandoned = 0

    @property
    def seconds(self) -> float:
        """Since the server has begun."""
        return time.monotonic() - self._clock

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count a request that was answered; a stream is answered at its end."""
        known = path if path in self.paths else "other"
        with self._lock:
            self._requests[known, status] += 1
            self._buckets[known][bisect_left(BOUNDS, seconds)] += 1
            self._seconds[known] += seconds

    def tokens(self, number: int) -> None:
        """Count tokens that were generated."""
        with self._lock:
            self._tokens += number

    def abandoned(self) -> None:
        """Count a request whose client went away before its end."""
        with self._lock:
            self._abandoned += 1

    def text(self, models: ServedModels) -> str:
        """All figures, a line each."""
        with self._lock:
            requests = [({"path": path, "status": str(s)}, n) for (path, s), n in sorted(self._requests.items())]
            lines = [
                *_family("build_info", "gauge", "Version of the package.", [({"version": __version__}, 1)]),
                *_family("start_time_seconds", "gauge", "When the server began.", [({}, self._begun)]),
                *_family("requests_total", "counter", "Requests that were answered, by address and status.", requests),
                *self._histogram(),
                *_family("generated_tokens_total", "counter", "Tokens generated.", [({}, self._tokens)]),
                *_family("abandoned_requests_total", "counter", _ABANDONED, [({}, self._abandoned)]),
            ]
        served = ((name, models.get(name).engine) for name in models.names)
        engines = [({"model": name}, engine) for name, engine in served if engine is not None]
        for name, kind, about, value in _ENGINE_FIGURES:
            lines += _family(name, kind, about, [(label, value(engine)) for label, engine in engines])
        if resident := resident_bytes():
            lines += _family("resident_bytes", "gauge", "Resident memory of the process.", [({}, resident)])
        return "\n".join(lines) + "\n"

    def _histogram(self) -> list[str]:
        name = "thereafter_request_seconds"
        lines = [f"# HELP {name} Seconds from request to the end of its answer.", f"# TYPE {name} histogram"]
        for path, counts in sorted(self._buckets.items()):
            below = 0
            for bound, count in zip((*map(str, BOUNDS), "+Inf"), counts, strict=True):
                below += count
                lines.append(_line(f"{name}_bucket", {"path": path, "le": bound}, below))
            lines.append(_line(f"{name}_sum", {"path": path}, self._seconds[path]))
            lines.append(_line(f"{name}_count", {"path": path}, below))
        return lines


@ROUTER.get("/health")
async def health(request: Request) -> HealthAnswer:
    """Whether the server answers, which runs it serves, and for how many seconds it has run."""
    models: ServedModels = request.app.state.models
    metrics: Metrics = request.app.state.metrics
    return HealthAnswer(status="ok", models=models.names, seconds=round(metrics.seconds, 3))


@ROUTER.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def figures(request: Request) -> Response:
    """Figures for Prometheus: requests, seconds, tokens, rows in flight, the queue."""
    metrics: Metrics = request.app.state.metrics
    return Response(metrics.text(request.app.state.models), media_type=MEDIA_TYPE)


def resident_bytes() -> int:
    """The resident memory of this process; 0 where the system does not show it."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


_ENGINE_FIGURES: tuple[tuple[str, str, str, Callable[[Engine], int]], ...] = (
    ("rows", "gauge", "Rows in flight.", lambda engine: engine.rows),
    ("waiting", "gauge", "Rows and texts to be scored in the queue.", lambda engine: engine.waiting),
    ("steps_total", "counter", "Steps, each of all rows in flight.", lambda engine: engine.steps),
    ("drawn_tokens_total", "counter", "Tokens drawn by the engine.", lambda engine: engine.tokens),
)


def _family(name: str, kind: str, about: str, samples: Sequence[tuple[Mapping[str, str], float]]) -> Iterable[str]:
    name = f"thereafter_{name}"
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"
    for labels, value in samples:
        yield _line(name, labels, value)


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    """One sample.

    >>> _line("rows", {"model": 'a"b'}, 3)
    'rows{model="a\\\\"b"} 3'
    """
    inside = ",".join(f'{key}="{text.translate(_ESCAPES)}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {value:.17g}" if inside else f"{name} {value:.17g}"
