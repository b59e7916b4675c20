"""How fast a model is: tokens a second in training, and the time from one token to the next when it is used."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

import numpy as np

from thereafter.base.config import Table
from thereafter.errors import OptionError
from thereafter.models.any_model import AnyModel
from thereafter.models.base import Ids

STEPS = 256
_WARM_UP = 32


def next_token_latency(model: AnyModel, tokens: Ids, *, steps: int = STEPS) -> float:
    """The median time of reading one token and predicting the next, in seconds, one row, over tokens of a text.

    The first steps are not counted: what is compiled or cached on first use is no part of it.
    """
    given = np.asarray(tokens).ravel()
    if not len(given) or steps < 1:
        raise OptionError(f"got {len(given)} tokens and {steps} steps to time; expected at least one of each")
    read = np.resize(given, steps + _WARM_UP)
    state, taken = model.start(1), []
    for number in range(len(read)):
        token_B = read[number : number + 1]
        began = time.perf_counter()
        _, state = model.step(token_B, state)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken[_WARM_UP:])


def last_line(log: Sequence[Table]) -> Table:
    """The line of a log that says what came of the training; empty where it has not ended."""
    return next((line for line in reversed(log) if line.get("event") == "trained"), {})


def training_speed(log: Sequence[Table]) -> float | None:
    """Tokens a second by the last line of a training's log; None where it does not say."""
    done = last_line(log)
    if done.get("tokens_per_second"):
        return float(done["tokens_per_second"])
    seconds = done.get("seconds_training")
    return float(done["tokens"]) / max(float(seconds), 1e-3) if seconds is not None and "tokens" in done else None
