"""Series that are made here: each is a pure function of its seed, and a corpus by name.

noisy-sine      x_t = sin(0.01 t) + noise: the first series of Dive into Deep Learning's chapter on sequence models
seasonal        hourly, with a daily and a weekly season and a trend
mackey-glass    chaotic: dx/dt = 0.2 x(t - 17) / (1 + x(t - 17)^10) - 0.1 x  (Mackey and Glass 1977)
many-seasons    200 short series in long form: one season, levels and scales of their own
wave-shapes     labelled: cylinder, bell and funnel (Saito 1994), a row a series
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from thereafter.series.times import Floats
from thereafter.text.builtin import Built, keep_corpus

SEED = 20_261_117
SHAPES = ("cylinder", "bell", "funnel")
_LABELLED = {"train": 120, "valid": 60, "test": 300}
_SHAPE_LENGTH = 128


def noisy_sine_values(seed: int = SEED, points: int = 1000) -> Floats:
    """sin(0.01 t) for t = 1, 2, ... with normal noise of deviation 0.2."""
    noise = np.random.default_rng(seed).normal(0, 0.2, points)
    return np.asarray(np.sin(0.01 * np.arange(1, points + 1)) + noise, np.float64)


def seasonal_values(seed: int = SEED, hours: int = 2 * 365 * 24) -> Floats:
    """A load by the hour from a Monday on: a day with two peaks, quiet weekends, a trend, noise with a memory."""
    hour = np.arange(hours)
    day = 2 * np.pi * hour / 24
    daily = 12 * np.sin(day - 2.2) + 5 * np.sin(2 * day - 1.0)
    weekly = np.where(hour // 24 % 7 < 5, 0.0, -9.0)
    noise = _with_memory(np.random.default_rng(seed).normal(0, 1.5, hours), 0.8)
    return np.asarray(100 + 10 * hour / hours + daily + weekly + noise, np.float64)


def mackey_glass_values(points: int = 5000, delay: float = 17.0, skipped: int = 500) -> Floats:
    """The equation by Runge-Kutta steps of 0.1, one point for each unit of time, without the beginning."""
    per_unit = 10
    step = 1 / per_unit
    lag = round(delay * per_unit)
    total = (points + skipped) * per_unit
    x = [1.2] * (total + lag + 1)  # a list: single elements of an array are slow
    for at in range(lag, total + lag):
        begin, end = _pull(x[at - lag]), _pull(x[at - lag + 1])
        middle = (begin + end) / 2  # of the delayed value within the step
        one = begin - 0.1 * x[at]
        two = middle - 0.1 * (x[at] + step / 2 * one)
        three = middle - 0.1 * (x[at] + step / 2 * two)
        four = end - 0.1 * (x[at] + step * three)
        x[at + 1] = x[at] + step / 6 * (one + 2 * two + 2 * three + four)
    return np.array(x[lag + skipped * per_unit :: per_unit][:points])


def many_seasons_values(seed: int = SEED, series: int = 200) -> list[Floats]:
    """Series of 54 to 66 months that end together: level + scale * (season of the month + noise with a memory)."""
    draw = np.random.default_rng(seed)
    season = draw.normal(0, 1, 12)
    made = []
    for _ in range(series):
        months = int(draw.integers(54, 67))
        level, scale = np.exp(draw.normal(3, 1)), np.exp(draw.normal(0, 0.7))
        noise = _with_memory(draw.normal(0, 0.5, months), 0.5)
        made.append(level + scale * (season[np.arange(-months, 0) % 12] + noise))
    return made


def wave_shape(draw: np.random.Generator, shape: str, length: int = _SHAPE_LENGTH) -> Floats:
    """One series: noise, and from a to b a plateau (cylinder), a rise (bell) or a fall (funnel) of height 6 + noise."""
    begin = int(draw.integers(length // 8, length // 4 + 1))
    end = begin + int(draw.integers(length // 4, 3 * length // 4 + 1))
    at = np.arange(length)
    inside = (at >= begin) & (at <= end)
    rise = (at - begin) / (end - begin)
    form = {"cylinder": np.ones(length), "bell": rise, "funnel": 1 - rise}[shape]
    return (6 + draw.normal()) * inside * form + draw.normal(0, 1, length)


def noisy_sine() -> Built:
    """The noisy sine as a table of t and x."""
    return _built("noisy-sine", {"text": _counted_table(noisy_sine_values())})


def seasonal() -> Built:
    """The seasonal series as a table of time and load."""
    values = seasonal_values()
    times = np.datetime64("2022-01-03T00", "h") + np.arange(len(values))
    rows = (f"{str(time).replace('T', ' ')}:00:00,{value:.4f}" for time, value in zip(times, values, strict=True))
    return _built("seasonal", {"text": _lines("time,load", rows)})


def mackey_glass() -> Built:
    """The chaotic series as a table of t and x."""
    return _built("mackey-glass", {"text": _counted_table(mackey_glass_values())})


def many_seasons() -> Built:
    """The short series as a table of series, time and value."""
    rows = []
    for number, values in enumerate(many_seasons_values()):
        months = np.datetime64("2025-01", "M") + np.arange(-len(values), 0)
        rows += [f"s{number + 1:03},{month}-01,{value:.4f}" for month, value in zip(months, values, strict=True)]
    return _built("many-seasons", {"text": _lines("series,time,value", rows)})


def wave_shapes() -> Built:
    """The labelled series in three parts: a row a series, its label first."""
    texts = {}
    for number, (part, size) in enumerate(_LABELLED.items()):
        draw = np.random.default_rng([SEED, number])
        shapes = draw.permutation(np.arange(size) % len(SHAPES))
        rows = [(SHAPES[shape], wave_shape(draw, SHAPES[shape])) for shape in shapes]
        texts[part] = "".join(f"{label},{','.join(f'{value:.4f}' for value in row)}\n" for label, row in rows)
    return _built("wave-shapes", texts)


def _pull(delayed: float) -> float:
    return 0.2 * delayed / (1 + delayed**10)


def _with_memory(shock_T: Floats, share: float) -> Floats:
    """Noise of which a share is that of the step before."""
    noise = np.empty_like(shock_T)
    last = 0.0
    for at, shock in enumerate(shock_T.tolist()):
        last = share * last + shock
        noise[at] = last
    return noise


def _counted_table(values: Floats) -> str:
    return _lines("t,x", (f"{at},{value:.6f}" for at, value in enumerate(values, start=1)))


def _lines(header: str, rows: Iterable[str]) -> str:
    return "".join(f"{row}\n" for row in (header, *rows))


def _built(name: str, texts: dict[str, str]) -> Built:
    rows = " / ".join(f"{text.count(chr(10)):,}" for text in texts.values())
    return keep_corpus(name, texts, f"generated, seed {SEED}, {rows} lines", ".csv")
