"""Figures of memory: what a model keeps over a distance, and what sequence length costs in time, memory and state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thereafter.figures import style
from thereafter.figures.figure import Cell, Figure
from thereafter.figures.lines import (
    add_curve,
    add_level,
    add_line,
    add_mark,
    add_rows,
    by_model,
    join_words,
    legend_beside,
)
from thereafter.figures.style import CYCLE, DASHES, canvas, colour
from thereafter.inspection.measurement import Measurement


def information_decay(measurements: Sequence[Measurement]) -> Figure:
    """Bits about the subject's number that a linear probe reads from the last layer, by words after the subject.

    Example: figures.information_decay([instruments.probe(lm, "number")])
    """
    groups = by_model(measurements, "probe-number")
    plot = style.canvas("words after the subject", "bits about the subject's number")
    table: dict[str, list[Cell]] = {}
    lowest = 0.0
    for place, (name, trials) in enumerate(groups.items()):
        distance = trials[0]["distance"].tolist()
        bits = np.stack([one["bits"][-1] for one in trials])
        lowest = min(lowest, float(bits.min()))
        add_line(plot, name, distance, bits, place)
        means = {cell: np.mean([one[cell][-1] for one in trials], axis=0) for cell in ("accuracy", "control", "bits")}
        add_rows(table, {"model": name, "distance": distance, **means})
    add_level(plot, 1.0, "all there is to know", inside=True)
    plot.update_yaxes(range=[lowest - 0.05, 1.12])
    legend_beside(plot)
    ends = ", ".join(
        f"{name} {np.mean([one['accuracy'][-1, -1] for one in trials]):.0%}" for name, trials in groups.items()
    )
    first = measurements[0]
    cells = [name for name, trials in groups.items() if trials[0].about.get("field") == "c"]
    memory = f" (of {join_words(cells)} the cell state c)" if cells else ""
    caption = (
        f"How many bits about the subject's number a linear probe reads from the last layer's state of "
        f"{join_words(groups)}"
        f"{memory}, trained on {join_words([one.about['trained_on'] for one in measurements])}: {first.about['text']}. "
        f"Probe accuracy {first['distance'][-1]} words on: {ends}."
    )
    return Figure("information-decay", "Information kept about the subject", caption, plot, table)


def accuracy_by_n(
    measurements: Sequence[Measurement],
    *,
    name: str = "memory",
    title: str = "How far back each cell remembers",
    asked: str = "",
    note: str = "",
) -> Figure:
    """Accuracy in a memory task by the number of steps n, a line for each model or way of training.

    The caption says who was `asked`, by default the names of the models, and ends with the `note`.

    Example: figures.accuracy_by_n([instruments.memory(lm)])
    """
    groups = by_model(measurements, "memory")
    first = measurements[0]
    plot = style.canvas("n (steps to remember over)", "questions answered rightly")
    table: dict[str, list[Cell]] = {}
    for place, (label, trials) in enumerate(groups.items()):
        n = trials[0]["n"].tolist()
        add_line(plot, label, n, np.stack([one["accuracy"] for one in trials]), place)
        mean = np.mean([one["accuracy"] for one in trials], axis=0)
        rest = {"chance": trials[0]["chance"], "questions": trials[0]["total"]}
        add_rows(table, {"model": label, "n": n, "accuracy": mean, **rest})
    line = {"color": style.GREY, "width": 1.5, "dash": "dot"}
    add_curve(plot, first["n"].tolist(), first["chance"].tolist(), "chance", line)
    trained = first.about.get("longest")
    if trained is not None and trained < first["n"].max():
        add_mark(plot, trained, "longest in training", 1.09)
    plot.update_yaxes(range=[-0.04, 1.14], tickformat=".0%")
    legend_beside(plot, 190)
    seeds = max(map(len, groups.values()))
    caption = (
        f"{asked or join_words(groups)} asked {first.about['question']}, by n: mean over {first.about['text']}"
        + (f", {seeds} seeds (band: least to most)" if seeds > 1 else "")
        + (f"; {note}" if note else "")
        + "".join(f"; {pair} give the same line" for pair in _alike(groups))
        + "."
    )
    return Figure(name, title, caption, plot, table)


def word_class_by_layer(measurements: Sequence[Measurement]) -> Figure:
    """How well the class of a word is read from each layer, beside the control task of random classes.

    Example: figures.word_class_by_layer([instruments.probe(lm, "class")])
    """
    groups = by_model(measurements, "probe-class")
    plot = style.canvas("layer", "accuracy of a linear probe", barmode="group")
    table: dict[str, list[Cell]] = {}
    for name, trials in groups.items():
        one = trials[0]
        layers = [_layer(layer) for layer in one["layer"].tolist()]
        several = f"{name}: " if len(groups) > 1 else ""
        for cell, label, tint in (
            ("accuracy", "word class", style.colour(name)),
            ("control", "control: a random class for each word", "#C8C8C8"),
        ):
            plot.add_bar(
                x=[f"{several}{layer}" for layer in layers],
                y=one[cell].tolist(),
                name=f"{several}{label}",
                marker={"color": tint},
                text=[f"{value:.0%}" for value in one[cell]],
                textposition="outside",
            )
        figures = {"accuracy": one["accuracy"], "control": one["control"]}
        figures |= {"selectivity": one["accuracy"] - one["control"], "bits": one["bits"]}
        add_rows(table, {"model": name, "layer": layers, **figures})
    add_level(plot, float(measurements[0]["chance"].mean()), "most frequent class")
    plot.update_yaxes(range=[0, 1.12], tickformat=".0%")
    plot.update_layout(
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}, margin={"t": 60, "l": 92, "r": 150}
    )
    plot.update_yaxes(title_standoff=14)
    caption = (
        f"How well a linear probe reads the class of the word just read from each layer of {join_words(groups)}, "
        f"trained on {join_words([one.about['trained_on'] for one in measurements])}, beside a control task in which "
        f"every word has a class at random: {measurements[0].about['text']}."
    )
    return Figure("word-class-by-layer", "Word class, layer by layer", caption, plot, table)


def _layer(name: str) -> str:
    """A layer's name for readers, who count from 1."""
    if name == "words":
        return "word vectors"
    return f"layer {int(name.removeprefix('l').removeprefix('block')) + 1}" if name[-1].isdigit() else name


def _alike(groups: dict[str, list[Measurement]]) -> list[str]:
    """Models whose lines hide each other from end to end, "a and b"."""
    lines: dict[tuple[float, ...], list[str]] = {}
    for name, trials in groups.items():
        lines.setdefault(tuple(np.mean([one["accuracy"] for one in trials], axis=0).tolist()), []).append(name)
    return [join_words(names) for names in lines.values() if len(names) > 1]


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

    Example: figures.bptt_memory_by_length(growth.bptt_memory())
    """
    figure = canvas("sequence length (steps)", "hidden states kept (MiB)", width=860)
    columns: dict[str, list[Cell]] = {}
    for row, size in enumerate(measurement["truncation"].tolist()):
        label = f"pieces of {size} steps" if size else "the whole sequence"
        # short sequences fit in one piece: thinner lines let the lower ones through
        line = {"color": CYCLE[row % len(CYCLE)], "width": max(2, 6 - 2 * row)}
        add_curve(figure, measurement["length"], measurement["states"][row] / MIB, label, line, size=9)
        figures = {key: measurement[key][row] for key in ("states", "autograd")}
        add_rows(columns, {"truncation": label, "length": measurement["length"], **figures})
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
    columns: dict[str, list[Cell]] = {}
    seen: dict[str, list[int]] = {}
    for place, model in enumerate(growth["model"].tolist()):
        values = growth[key][place]
        if any(np.array_equal(values, growth[key][other]) for other in seen.get(colour(model, place), [])):
            continue  # another way of computing the same model
        nth = len(seen.setdefault(colour(model, place), []))
        seen[colour(model, place)].append(place)
        line = {"color": colour(model, place), "dash": DASHES[nth % len(DASHES)], "width": 2.5}
        add_curve(figure, lengths, values * factor, f"{model}{_slope(lengths, values)}", line, size=7)
        add_rows(columns, {"model": model, "length": lengths, key: values})
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
