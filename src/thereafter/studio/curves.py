"""The curves of a run, read from its log: losses while training, and each validation."""

from __future__ import annotations

import json
import math
from pathlib import Path

from thereafter.base.storage import read_plain
from thereafter.serving.schema import Answer

Line = dict[str, object]
"""A line of a log; somebody else may have written it."""
_POINTS = 600  # of a curve at most: more than a screen can show
_LARGEST = 1e300
_LOG = "log.jsonl"


class CurveAnswer(Answer):
    """Losses in nats a token by step and by tokens read (`seen`), while training and on the validation text."""

    step: list[int]
    seen: list[float | None]
    loss: list[float | None]
    valid_step: list[int]
    valid_seen: list[float | None]
    valid_seconds: list[float | None]
    valid_loss: list[float | None]
    valid_perplexity: list[float | None]


def curve(run: Path) -> CurveAnswer:
    """Losses in nats a token by step and by tokens read (`seen`); of validations also the perplexity and the seconds.

    All lists are empty where there is no log yet. What is not a number is None.
    """
    lines = _lines(run / _LOG)
    steps = _thin_out([line for line in lines if line.get("event") == "step" and _step(line) is not None])
    valid = _thin_out([line for line in lines if line.get("event") == "validation" and _step(line) is not None])
    valid_steps = _steps(valid)
    return CurveAnswer(
        step=_steps(steps),
        seen=_column(steps, "seen"),
        loss=_column(steps, "loss"),
        valid_step=valid_steps,
        valid_seen=_seen_at(valid_steps, lines),
        valid_seconds=_column(valid, "seconds"),
        valid_loss=_column(valid, "loss"),
        valid_perplexity=_column(valid, "perplexity"),
    )


def _column(lines: list[Line], name: str) -> list[float | None]:
    return [_number(line.get(name)) for line in lines]


def _steps(lines: list[Line]) -> list[int]:
    return [step for line in lines if (step := _step(line)) is not None]


def _seen_at(steps: list[int], lines: list[Line]) -> list[float | None]:
    """The tokens read up to some steps, by the lines that have both; the last line calls its steps otherwise."""
    import numpy as np

    pairs = ((_number(line.get("step", line.get("steps"))), _number(line.get("seen"))) for line in lines)
    known = sorted({(at, seen) for at, seen in pairs if at is not None and seen is not None} | {(0.0, 0.0)})
    if len(known) < 2:
        return [None] * len(steps)
    at, seen = zip(*known, strict=True)
    return list(np.interp(steps, at, seen).tolist())


def _lines(path: Path) -> list[Line]:
    """What can be read of a log that may be written to at this moment, or by anybody."""
    try:
        written = read_plain(path, links=False).decode("utf-8", "replace")
    except OSError:
        return []
    lines = []
    for line in written.splitlines():
        try:
            content = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(content, dict):
            lines.append(content)
    return lines


def _thin_out(lines: list[Line]) -> list[Line]:
    """So many lines that a chart can show them, the last among them."""
    every = max(1, -(-len(lines) // _POINTS))
    return lines[::-every][::-1]


def _step(line: Line) -> int | None:
    step = line.get("step")
    return step if isinstance(step, int) and _number(step) is not None else None


def _number(value: object) -> float | None:
    """A number that JSON can say; a log that somebody else wrote may hold anything."""
    if not isinstance(value, int | float) or abs(value) > _LARGEST:
        return None
    return float(value) if math.isfinite(value) else None
