"""Which figure is drawn of a measurement, a trace or a comparison: the one that is named, or the first that fits.

`Measurement.figure`, `Trace.figure` and `Comparison.figure` come here (`inspection/drawing.py` names these functions).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping

from thereafter.base.config import Table
from thereafter.errors import OptionError, UnknownNameError
from thereafter.figures import comparisons
from thereafter.figures.catalogue import (
    FIGURES,
    SURPRISAL,
    TRACE,
    FigureEntry,
    captions,
    drawer,
    has_surprisal,
    surprisal_of,
)
from thereafter.figures.figure import Figure
from thereafter.inspection.dynamics import GATES
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.trace import Trace

_COMPARED = ("comparison", "agreement")


def draw_measurement(measured: Measurement, name: str | None = None, *others: Measurement, **options: object) -> Figure:
    """A figure of a measurement, together with others of its kind where the figure compares models."""
    chosen, entry = _entry(name, figures_of(measured.kind), f"a measurement of {measured.kind!r}")
    for other in others:
        if other.kind != measured.kind:
            raise OptionError(f"got measurements of {measured.kind!r} and {other.kind!r}; expected one kind")
    if others and not entry.together:
        raise OptionError(f"the figure {chosen!r} shows one measurement; got {1 + len(others)}; draw each by itself")
    shown: object = [measured, *others] if entry.together else measured
    return _call(chosen, drawer(entry), shown, captions(drawer(entry), measured), options)


def draw_trace(trace: Trace, name: str | None = None, **options: object) -> Figure:
    """A figure of a trace; without a name, the first for which the trace has the arrays."""
    if has_surprisal(trace) and name in (None, SURPRISAL):
        if name is None and not any(_has_arrays(trace, entry.needs) for entry in figures_of(TRACE).values()):
            name = SURPRISAL
        if name is not None:
            return draw_measurement(surprisal_of(trace), name, **options)
    known = figures_of(TRACE)
    fitting = {one: entry for one, entry in known.items() if _has_arrays(trace, entry.needs)}
    if name is None and not fitting:
        needs = ", ".join(f"{one} ({entry.needs})" for one, entry in known.items())
        raise OptionError(
            f"this trace has {', '.join(trace.arrays)}; the figures of a trace need other arrays: {needs}"
        )
    chosen, entry = _entry(name, fitting if name is None else known, "a trace")
    return _call(chosen, drawer(entry), trace, captions(drawer(entry), trace), options)


def draw_comparison(stored: Table, name: str | None = None, **options: object) -> Figure:
    """A figure of all that a comparison keeps: its scores, or what the corpus asked about agreement."""
    known = {one: entry for kind in _COMPARED for one, entry in figures_of(kind).items()}
    chosen, entry = _entry(name, known, "a comparison")
    if entry.takes == "agreement":
        first, *others = comparisons.agreements_of(stored)
        return draw_measurement(first, chosen, *others, **options)
    return draw_measurement(comparisons.scores_of(stored), chosen, **options)


def figures_of(kind: str) -> dict[str, FigureEntry]:
    """The figures that can be drawn of a kind, by name; the first is drawn where none is named."""
    return {name: entry for name, entry in FIGURES.items() if entry.takes == kind}


def _entry(name: str | None, known: Mapping[str, FigureEntry], what: str) -> tuple[str, FigureEntry]:
    if not known:
        raise OptionError(f"there is no figure of {what}; it has a table: try .to_rows() or .to_csv()")
    if name is None:
        name = next(iter(known))
    if name not in FIGURES:
        raise UnknownNameError("figure", name, known)
    if name not in known:
        raise OptionError(f"the figure {name!r} is not one of {what}; try {' or '.join(known)}")
    return name, known[name]


def _call(
    name: str, function: Callable[..., Figure], shown: object, words: Mapping[str, str], options: Mapping[str, object]
) -> Figure:
    allowed = list(inspect.signature(function).parameters)[1:]
    for option in options:
        if option not in allowed:
            raise UnknownNameError(f"option of the figure {name}", option, allowed)
    return function(shown, **{**words, **options})


def _has_arrays(trace: Trace, needs: str) -> bool:
    if needs == "gates":
        return any("." in name and name.rpartition(".")[2] in GATES for name in trace.arrays)
    return not needs or needs in trace.arrays
