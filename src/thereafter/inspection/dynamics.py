"""How the state of a recurrent model moves: trajectories, saturated gates, timescales. All from a saved trace.

Shapes: T steps, U units of a field, K components.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thereafter.base.kinds import KINDS, listed
from thereafter.errors import OptionError, nearest
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.trace import Trace

GATES = ("input", "forget", "output", "reset", "update")
"""The fields that lie between 0 and 1."""
LOW, HIGH = 0.1, 0.9
"""A gate under the one or over the other is called saturated."""
BINS = 40


@dataclass(frozen=True)
class Plane:
    """The directions in which points differ most: `axes_KU` are unit vectors, `share_K` of the variance each."""

    mean_U: NDArray[np.float64]
    axes_KU: NDArray[np.float64]
    share_K: NDArray[np.float64]

    def project(self, points_TU: NDArray[np.number]) -> NDArray[np.float64]:
        """Coordinates along the axes, [T, K]."""
        coordinates_TK: NDArray[np.float64] = (np.asarray(points_TU, np.float64) - self.mean_U) @ self.axes_KU.T
        return coordinates_TK

    def lift(self, coordinates_TK: NDArray[np.number]) -> NDArray[np.float64]:
        """The points of the plane that have these coordinates, [T, U]."""
        points_TU: NDArray[np.float64] = self.mean_U + np.asarray(coordinates_TK, dtype=np.float64) @ self.axes_KU
        return points_TU


def principal(points_TU: NDArray[np.number], components: int = 3) -> Plane:
    """Principal components by the singular values of the centred points (Pearson 1901): X - mean = U S V^T.

    The sign of an axis is chosen so that its largest entry is positive, and with it every picture is the same again.
    """
    points = np.asarray(points_TU, dtype=np.float64)
    if len(points) < 2:
        raise OptionError(f"there are {len(points)} states; expected at least 2; try a longer text")
    mean_U = points.mean(axis=0)
    _, sizes, axes = np.linalg.svd(points - mean_U, full_matrices=False)
    kept = min(components, len(sizes))
    axes_KU = axes[:kept]
    axes_KU = axes_KU * np.sign(axes_KU[np.arange(kept), np.abs(axes_KU).argmax(axis=1)])[:, None]
    variance = sizes**2
    return Plane(mean_U, axes_KU, variance[:kept] / max(float(variance.sum()), np.finfo(float).tiny))


def trajectory(trace: Trace, field: str = "l0.h", components: int = 3) -> Measurement:
    """The path of a state: `point` [step, component], `share` [component] of the variance, `token` [step].

    `stride` [step] is how far the whole state moved in that step, relative to the mean length of the state.
    """
    states_TU = field_of(trace, field)
    plane = principal(states_TU, components)
    moved = np.linalg.norm(np.diff(states_TU.astype(np.float64), axis=0, prepend=states_TU[:1]), axis=1)
    mean = max(float(np.linalg.norm(states_TU, axis=1).mean()), np.finfo(float).tiny)
    arrays = {"point": plane.project(states_TU), "share": plane.share_K}
    arrays |= {"token": np.array(trace.tokens), "stride": moved / mean}
    return Measurement.of("trajectory", arrays, {"field": field, "text": _text(trace), **trace.about})


def saturation(trace: Trace) -> Measurement:
    """How far the gates are closed or open: `low` and `high` [gate], the shares of all values under 0.1 and over 0.9.

    `histogram` [gate, bin] are shares of the values, `edge` [edge] the borders of the bins; `unit_low` and `unit_high`
    [gate, unit] the shares of each unit's own steps (as Karpathy, Johnson and Li 2015 draw them).
    """
    names = gates_of(trace)
    edges = np.linspace(0.0, 1.0, BINS + 1)
    values = [trace[name] for name in names]
    histogram = np.stack([np.histogram(array, edges)[0] / array.size for array in values])
    arrays = {
        "gate": np.array(names),
        "low": np.array([np.mean(array < LOW) for array in values]),
        "high": np.array([np.mean(array > HIGH) for array in values]),
        "histogram": histogram,
        "edge": edges,
        "unit_low": _padded([(array < LOW).mean(axis=0) for array in values]),
        "unit_high": _padded([(array > HIGH).mean(axis=0) for array in values]),
    }
    return Measurement.of("saturation", arrays, {"text": _text(trace), "tokens": len(trace.tokens), **trace.about})


def _padded(rows: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Numbers of units, a row a gate or a layer; NaN where it has fewer units than others."""
    units = max(map(len, rows))
    return np.stack([np.pad(row, (0, units - len(row)), constant_values=np.nan) for row in rows])


def timescales(trace: Trace) -> Measurement:
    """In how many steps each unit's memory falls to 1/e by its gate alone: `steps` [layer, unit].

        tau = -1 / log f,    f the mean over the text of what the gate keeps in a step

    (Tallec and Ollivier 2018; Mahto et al. 2021). What is kept is the forget gate of an LSTM, the update gate of a GRU
    (which keeps the old state where it is 1), and 1 - update of a minGRU. The timescale
    of a unit that keeps everything is infinite.
    """
    by_layer = {}
    layers = sorted({name.split(".")[0] for name in trace.arrays if "." in name})
    for layer in layers:
        kept_TU = _kept(trace, layer)
        if kept_TU is not None:
            kept_U = np.clip(kept_TU.mean(axis=0, dtype=np.float64), np.finfo(np.float64).tiny, 1.0)
            with np.errstate(divide="ignore"):
                by_layer[layer] = 1.0 / np.abs(np.log(kept_U))
    if not by_layer:
        raise OptionError("the trace has no gate that keeps a memory; expected that of an lstm, gru or a minimal one")
    arrays = {"layer": np.array(list(by_layer)), "steps": _padded(list(by_layer.values()))}
    return Measurement.of("timescales", arrays, {"text": _text(trace), "tokens": len(trace.tokens), **trace.about})


def by_class(traces: Sequence[Trace], classes: Sequence[Sequence[str]], layer: str = "l0") -> Measurement:
    """Mean gates by the class of the word that was read: `mean` and `spread` [gate, class], `count` [class].

    `classes[i][t]` names the class of token t of trace i. `spread` is the standard deviation over tokens of a token's
    mean over units.
    """
    names = [name for name in gates_of(traces[0]) if name.startswith(f"{layer}.")]
    labels = np.concatenate([np.asarray(list(one)) for one in classes])
    kinds = sorted(set(labels.tolist()))
    mean, spread = np.empty((len(names), len(kinds))), np.empty((len(names), len(kinds)))
    for row, name in enumerate(names):
        level_T = np.concatenate([trace[name].mean(axis=1, dtype=np.float64) for trace in traces])
        for column, kind in enumerate(kinds):
            mean[row, column] = level_T[labels == kind].mean()
            spread[row, column] = level_T[labels == kind].std()
    arrays = {"gate": np.array(names), "class": np.array(kinds), "mean": mean, "spread": spread}
    arrays |= {"count": np.array([int((labels == kind).sum()) for kind in kinds])}
    about = {"sentences": len(traces), "tokens": len(labels), **traces[0].about}
    return Measurement.of("gates-by-class", arrays, about)


def gates_of(trace: Trace) -> list[str]:
    """The gates a trace has, such as `l0.forget`."""
    names = [name for name in trace.arrays if name.rpartition(".")[2] in GATES and "." in name]
    if not names:
        gated = [name for name, kind in KINDS.items() if kind.gated]
        raise OptionError(f"the trace has no gates; expected that of a model with gates: {listed(gated)}")
    return names


def field_of(trace: Trace, field: str) -> NDArray[np.number]:
    """An array of a trace that has one row of units a step."""
    if trace.axes.get(field) != ("step", "unit"):
        known = [name for name, axes in trace.axes.items() if axes == ("step", "unit")]
        raise OptionError(f"the trace has no states {field!r}; {nearest(field, known)}")
    return trace[field]


def _kept(trace: Trace, layer: str) -> NDArray[np.number] | None:
    if f"{layer}.forget" in trace.arrays:
        return trace[f"{layer}.forget"]
    if f"{layer}.update" not in trace.arrays:
        return None
    update = trace[f"{layer}.update"]
    return update if f"{layer}.reset" in trace.arrays else 1 - update


def _text(trace: Trace) -> str:
    """The beginning of the text, for a caption."""
    characters = all(len(token) <= 1 for token in trace.tokens)
    glue = "" if characters or any(token[:1].isspace() for token in trace.tokens[1:]) else " "
    text = " ".join(glue.join(trace.tokens[:60]).split())
    return text if len(text) <= 60 else text[:57] + "..."
