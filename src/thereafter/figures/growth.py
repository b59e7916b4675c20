"""Pictures of what length costs: time, memory for the way back, and the state that is carried on."""

from __future__ import annotations

from typing import Any

import numpy as np

from thereafter.figures.figure import Figure
from thereafter.figures.style import CYCLE, DASHES, canvas, colour
from thereafter.inspection.measurement import Measurement

MIB = 2**20


def time_by_length(found: Measurement, *, name: str = "time-by-length", size: str = "") -> Figure:
    """Seconds of one pass forward and back by sequence length, both axes logarithmic."""
    caption = (
        f"Measured time of one training pass (forward and back) by sequence length, {_about(found, size)}; the "
        "exponent in the legend is the slope between the two longest lengths: 1 is linear, 2 quadratic."
    )
    return _by_length(found, "seconds", 1e3, "milliseconds", name, "Time by sequence length", caption)


def memory_by_length(found: Measurement, *, name: str = "memory-by-length", size: str = "") -> Figure:
    """Memory held for the way back by sequence length, both axes logarithmic."""
    caption = (
        f"Measured bytes held for the way back by sequence length, {_about(found, size)}; the exponent in the legend "
        "is the slope between the two longest lengths. With the matrix kept, attention is computed as its formula is "
        "written."
    )
    return _by_length(found, "saved", 1 / MIB, "memory (MiB)", name, "Memory by sequence length", caption)


def state_by_length(found: Measurement, *, name: str = "state-by-length", size: str = "") -> Figure:
    """What is carried on to the next token, by how much was read."""
    caption = (
        f"Measured bytes of the state after so many tokens, {_about(found, size)}: fixed in a recurrent net, keys and "
        "values of every token in a Transformer, however its attention is computed."
    )
    return _by_length(found, "state", 1 / 1024, "state (KiB)", name, "What is carried to the next token", caption)


def bptt_memory_by_length(found: Measurement, *, name: str = "bptt-memory") -> Figure:
    """Hidden states that backpropagation through time keeps, by length and truncation."""
    figure = canvas("sequence length (steps)", "hidden states kept (MiB)", width=860)
    columns: dict[str, list[Any]] = {key: [] for key in ("truncation", "length", "states", "autograd")}
    for row, size in enumerate(found["truncation"].tolist()):
        label = f"pieces of {size} steps" if size else "the whole sequence"
        # short sequences fit in one piece: thinner lines let the lower ones through
        line = {"color": CYCLE[row % len(CYCLE)], "width": max(2, 6 - 2 * row)}
        kept = found["states"][row] / MIB
        figure.add_scatter(x=found["length"], y=kept, mode="lines+markers", name=label, line=line, marker={"size": 9})
        columns["truncation"] += [label] * len(kept)
        columns["length"] += found["length"].tolist()
        columns["states"] += found["states"][row].tolist()
        columns["autograd"] += found["autograd"][row].tolist()
    figure.update_yaxes(rangemode="tozero")
    figure.update_layout(legend={"x": 0.02, "y": 0.98})
    same = bool(np.array_equal(found["states"], found["autograd"]))
    caption = (
        f"Bytes of hidden states kept at once by backpropagation through time in an {found.about['model']}, on "
        f"{found.about['text']}, counted on the tensors; autograd over the plain loop keeps "
        f"{'the same' if same else 'more (see the table)'}."
    )
    return Figure(name, "Memory of backpropagation through time", caption, figure, columns)


def _by_length(found: Measurement, key: str, factor: float, unit: str, name: str, title: str, caption: str) -> Figure:
    figure = canvas("sequence length (tokens)", unit, width=860)
    lengths = found["length"]
    columns: dict[str, list[Any]] = {"model": [], "length": [], key: []}
    seen: dict[str, list[int]] = {}
    for place, model in enumerate(found["model"].tolist()):
        values = found[key][place]
        if any(np.array_equal(values, found[key][other]) for other in seen.get(colour(model, place), [])):
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


def _slope(lengths: Any, values: Any) -> str:
    """How a curve grows at its end: the exponent p in length^p."""
    if len(lengths) < 2 or min(values[-2:]) <= 0:
        return ""
    power = np.log(values[-1] / values[-2]) / np.log(lengths[-1] / lengths[-2])
    return f"<br>length^{power:.1f}"


def _about(found: Measurement, size: str) -> str:
    """What was measured, on what; `size` says how large the models are."""
    threads = found.about["threads"]
    rows = found.about["batch"]
    return (
        f"for {found.about['model']}{f' ({size})' if size else ''} on "
        f"{found.about['text']}, {rows} {'row' if rows == 1 else 'rows'}, "
        f"{threads} {'thread' if threads == 1 else 'threads'}"
    )
