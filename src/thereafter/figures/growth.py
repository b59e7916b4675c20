"""Figures of what sequence length costs: time, memory for the backward pass, and the size of the state."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thereafter.figures.figure import Cell, Figure
from thereafter.figures.style import CYCLE, DASHES, canvas, colour
from thereafter.inspection.measurement import Measurement

MIB = 2**20


def time_by_length(growth: Measurement, *, name: str = "time-by-length", size: str = "") -> Figure:
    """Seconds of one pass forward and back by sequence length, both axes logarithmic.

    Example: figures.time_by_length(growth.growth({"lstm": lm.model}))
    """
    caption = (
        f"Measured time of one training pass (forward and back) by sequence length, {_about(growth, size)}; the "
        "exponent in the legend is the slope between the two longest lengths: 1 is linear, 2 quadratic."
    )
    return _by_length(growth, "seconds", 1e3, "milliseconds", name, "Time by sequence length", caption)


def memory_by_length(growth: Measurement, *, name: str = "memory-by-length", size: str = "") -> Figure:
    """Memory kept for the backward pass by sequence length, both axes logarithmic.

    Example: figures.memory_by_length(growth.growth({"lstm": lm.model}))
    """
    caption = (
        f"Measured bytes kept for the backward pass by sequence length, {_about(growth, size)}; the exponent in the "
        "legend is the slope between the two longest lengths. With the matrix kept, attention is computed as its "
        "formula is written."
    )
    return _by_length(growth, "saved", 1 / MIB, "memory (MiB)", name, "Memory by sequence length", caption)


def state_by_length(growth: Measurement, *, name: str = "state-by-length", size: str = "") -> Figure:
    """Size of the state that is carried to the next token, by the number of tokens read.

    Example: figures.state_by_length(growth.growth({"lstm": lm.model}))
    """
    caption = (
        f"Measured bytes of the state after so many tokens, {_about(growth, size)}: fixed in a recurrent net, keys and "
        "values of every token in a Transformer, however its attention is computed."
    )
    return _by_length(growth, "state", 1 / 1024, "state (KiB)", name, "What is carried to the next token", caption)


def bptt_memory_by_length(measurement: Measurement, *, name: str = "bptt-memory") -> Figure:
    """Hidden states that backpropagation through time keeps, by length and truncation.

    Example: figures.bptt_memory_by_length(bptt_memory.bptt_memory())
    """
    figure = canvas("sequence length (steps)", "hidden states kept (MiB)", width=860)
    columns: dict[str, list[Cell]] = {key: [] for key in ("truncation", "length", "states", "autograd")}
    for row, size in enumerate(measurement["truncation"].tolist()):
        label = f"pieces of {size} steps" if size else "the whole sequence"
        # short sequences fit in one piece: thinner lines let the lower ones through
        line = {"color": CYCLE[row % len(CYCLE)], "width": max(2, 6 - 2 * row)}
        kept = measurement["states"][row] / MIB
        figure.add_scatter(
            x=measurement["length"], y=kept, mode="lines+markers", name=label, line=line, marker={"size": 9}
        )
        columns["truncation"] += [label] * len(kept)
        columns["length"] += measurement["length"].tolist()
        columns["states"] += measurement["states"][row].tolist()
        columns["autograd"] += measurement["autograd"][row].tolist()
    figure.update_yaxes(rangemode="tozero")
    figure.update_layout(legend={"x": 0.02, "y": 0.98})
    same = bool(np.array_equal(measurement["states"], measurement["autograd"]))
    caption = (
        f"Bytes of hidden states kept at once by backpropagation through time in an {measurement.about['model']}, on "
        f"{measurement.about['text']}, counted on the tensors; autograd over the plain loop keeps "
        f"{'the same' if same else 'more (see the table)'}."
    )
    return Figure(name, "Memory of backpropagation through time", caption, figure, columns)


def _by_length(growth: Measurement, key: str, factor: float, unit: str, name: str, title: str, caption: str) -> Figure:
    figure = canvas("sequence length (tokens)", unit, width=860)
    lengths = growth["length"]
    columns: dict[str, list[Cell]] = {"model": [], "length": [], key: []}
    seen: dict[str, list[int]] = {}
    for place, model in enumerate(growth["model"].tolist()):
        values = growth[key][place]
        if any(np.array_equal(values, growth[key][other]) for other in seen.get(colour(model, place), [])):
            continue  # another way of computing the same model
        nth = len(seen.setdefault(colour(model, place), []))
        seen[colour(model, place)].append(place)
        figure.add_scatter(
            x=lengths,
            y=values * factor,
            mode="lines+markers",
            name=f"{model}{_slope(lengths, values)}",
            line={"color": colour(model, place), "dash": DASHES[nth % len(DASHES)], "width": 2.5},
            marker={"size": 7},
        )
        columns["model"] += [model] * len(lengths)
        columns["length"] += lengths.tolist()
        columns[key] += values.tolist()
    figure.update_xaxes(type="log", tickvals=lengths, ticktext=[f"{length:,}" for length in lengths])
    figure.update_yaxes(type="log", dtick=1, exponentformat="none")
    figure.update_layout(legend={"x": 1.02, "y": 1})
    return Figure(name, title, caption, figure, columns)


def _slope(lengths: NDArray[np.float64], values: NDArray[np.float64]) -> str:
    """How a curve grows at its end: the exponent p in length^p."""
    if len(lengths) < 2 or min(values[-2:]) <= 0:
        return ""
    power = np.log(values[-1] / values[-2]) / np.log(lengths[-1] / lengths[-2])
    return f"<br>length^{power:.1f}"


def _about(growth: Measurement, size: str) -> str:
    """Which models were measured on which text; `size` describes the models."""
    threads = growth.about["threads"]
    rows = growth.about["batch"]
    return (
        f"for {growth.about['model']}{f' ({size})' if size else ''} on "
        f"{growth.about['text']}, {rows} {'row' if rows == 1 else 'rows'}, "
        f"{threads} {'thread' if threads == 1 else 'threads'}"
    )
