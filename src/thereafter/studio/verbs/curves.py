"""The curves of a run, read from its log: losses while training, and each validation."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from thereafter.storage import read_plain

Curve = dict[str, list[Any]]
_POINTS = 600  # of a curve at most: more than a screen can show
_LARGEST = 1e300
_LOG = "log.jsonl"


def curve(run: Path) -> Curve:
    """Losses in nats a token by step and by tokens read (`seen`); of validations also the perplexity and the seconds.

    All lists are empty where there is no log yet. What is not a number is None.
    """
    lines = _lines(run / _LOG)
    steps = _thinned([line for line in lines if line.get("event") == "step" and _step(line) is not None])
    valid = _thinned([line for line in lines if line.get("event") == "validation" and _step(line) is not None])
    found: Curve = {"step": [_step(line) for line in steps], "valid_step": [_step(line) for line in valid]}
    for name in ("loss", "seen"):
        found[name] = [_number(line.get(name)) for line in steps]
    for name in ("loss", "perplexity", "seconds"):
        found[f"valid_{name}"] = [_number(line.get(name)) for line in valid]
    return found | {"valid_seen": _seen_at(found["valid_step"], lines)}


def _seen_at(steps: list[Any], lines: list[dict[str, Any]]) -> list[float | None]:
    """The tokens read up to some steps, by the lines that tell both; the last line calls its steps otherwise."""
    import numpy as np

    told = ((_number(line.get("step", line.get("steps"))), _number(line.get("seen"))) for line in lines)
    known = sorted({(at, seen) for at, seen in told if at is not None and seen is not None} | {(0.0, 0.0)})
    if len(known) < 2:
        return [None] * len(steps)
    at, seen = zip(*known, strict=True)
    return list(np.interp(steps, at, seen).tolist())


def _lines(path: Path) -> list[dict[str, Any]]:
    """What can be read of a log that may be written to at this moment, or by anybody."""
    try:
        written = read_plain(path, links=False).decode("utf-8", "replace")
    except OSError:
        return []
    lines = []
    for line in written.splitlines():
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(said, dict):
            lines.append(said)
    return lines


def _thinned(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """So many lines that a chart can show them, the last among them."""
    every = max(1, -(-len(lines) // _POINTS))
    return lines[::-every][::-1]


def _step(line: dict[str, Any]) -> int | None:
    step = line.get("step")
    return step if isinstance(step, int) and _number(step) is not None else None


def _number(value: Any) -> float | None:
    """A number that JSON can say; a log that somebody else wrote may hold anything."""
    if not isinstance(value, int | float) or abs(value) > _LARGEST:
        return None
    return float(value) if math.isfinite(value) else None
