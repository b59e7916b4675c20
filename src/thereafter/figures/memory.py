"""Figures of memory: what a model keeps over a distance, and what sequence length costs in time, memory and state.

Right and wrong forms: the number of the verb, what is expected along a sentence, minimal pairs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thereafter.evaluation.agreement import BINS, CONGRUENCE
from thereafter.evaluation.bootstrap import wilson
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
from thereafter.inspection.measurement import Arrays, Measurement


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


def accuracy_by_distance(measurements: Sequence[Measurement]) -> Figure:
    """Accuracy of the verb's number by the words between subject and verb, with the spread over seeds.

    Example: figures.accuracy_by_distance([instruments.agreement(lm)])
    """
    groups = by_model(measurements, "agreement")
    reached = max(int(one["distance"].max()) for one in measurements)
    bins = [(low, high) for low, high in BINS if low <= reached]
    labels = [str(low) if low == high else f"{low}-{high}" for low, high in bins]
    plot = style.canvas("words between subject and verb", "verbs in the right number")
    table: dict[str, list[Cell]] = {}
    least: list[float] = []
    for place, (name, trials) in enumerate(groups.items()):
        shares = np.array([[_share(one, "distance", _within(one, *ends)) for ends in bins] for one in trials])
        counted = np.array([trials[0]["total_distance"][_within(trials[0], *ends)].sum() for ends in bins])
        # one training has no spread of its own: what is left is that of a share over that many sentences
        band = (shares.min(axis=0), shares.max(axis=0)) if len(trials) > 1 else wilson(shares[0], counted)
        least += band[0].tolist()
        add_line(plot, name, labels, shares, place, band)
        figures = {"mean": shares.mean(axis=0), "least": band[0], "most": band[1], "sentences": counted}
        add_rows(table, {"model": name, "words between": labels, **figures})
    add_level(plot, 0.5, "guessing")
    lowest = min(0.45, *(value for value in least if value == value))
    plot.update_yaxes(range=[lowest - 0.02, 1.03], tickformat=".0%")
    plot.update_xaxes(type="category")
    legend_beside(plot)
    caption = (
        f"How often {join_words(groups)} find the right form of the verb likelier than the wrong one, by its "
        f"distance from the subject; trained on {join_words(one.about['trained_on'] for one in measurements)}, tested "
        f"on {measurements[0].about['text']}"
        f"{_seeds(groups) or ' (one training each; band: 95 % interval of a share over that many sentences)'}."
    )
    return Figure("agreement-by-distance", "Agreement by distance", caption, plot, table)


def accuracy_by_congruence(measurements: Sequence[Measurement]) -> Figure:
    """Accuracy of the verb's number by whether the last noun before the verb has the subject's number.

    Example: figures.accuracy_by_congruence([instruments.agreement(lm)])
    """
    groups = by_model(measurements, "agreement")
    names = [name for name in CONGRUENCE.values() if any(name in one["congruence"] for one in measurements)]
    order = [name for name in ("no attractor", "congruent", "incongruent") if name in names]
    plot = style.canvas("the last noun between subject and verb", "verbs in the right number", barmode="group")
    table: dict[str, list[Cell]] = {}
    shown = {
        "no attractor": "there is none",
        "congruent": "has the<br>subject's number",
        "incongruent": "has the<br>other number",
    }
    for place, (name, trials) in enumerate(groups.items()):
        shares = np.array([[_share(one, "congruence", one["congruence"] == key) for key in order] for one in trials])
        spread = [shares.max(axis=0) - shares.mean(axis=0), shares.mean(axis=0) - shares.min(axis=0)]
        error = {"type": "data", "array": spread[0].tolist(), "arrayminus": spread[1].tolist(), "symmetric": False}
        plot.add_bar(
            x=[shown[key] for key in order],
            y=shares.mean(axis=0).tolist(),
            name=name,
            marker={"color": style.colour(name, place)},
            error_y=error if len(trials) > 1 else None,
        )
        figures = {"mean": shares.mean(axis=0), "least": shares.min(axis=0), "most": shares.max(axis=0)}
        add_rows(table, {"model": name, "last noun": order, **figures})
    add_level(plot, 0.5, "guessing")
    plot.update_yaxes(range=[0, 1.05], tickformat=".0%")
    plot.update_xaxes(title_standoff=12)
    legend_beside(plot)
    plot.update_layout(height=480, margin={"b": 90})
    caption = (
        f"How often {join_words(groups)} find the right form of the verb likelier, by the number of the last noun "
        f"before it; trained on {join_words(one.about['trained_on'] for one in measurements)}, tested on "
        f"{measurements[0].about['text']}{_seeds(groups) or ' (one training each)'}."
    )
    return Figure("agreement-by-congruence", "Led astray by the last noun", caption, plot, table)


def expectation_along(measurements: Sequence[Measurement], *, verb: int | None = None) -> Figure:
    """p(first) / (p(first) + p(second)) after each word of a sentence; `verb` is the place of the word to come.

    Example: figures.expectation_along([expectation.expectation(reader, "the keys to the cabinet", ["is", "are"])])
    """
    groups = by_model(measurements, "expectation")
    first = measurements[0]
    one, other = first["word"].tolist()[:2]
    read = first["step"].tolist()
    plot = style.canvas("after reading", f"P({one}) / (P({one}) + P({other}))", height=480)
    table: dict[str, list[Cell]] = {}
    for place, (name, trials) in enumerate(groups.items()):
        p = np.mean([each["probability"] for each in trials], axis=0)
        share = p[:, 0] / np.maximum(p[:, :2].sum(axis=1), np.finfo(np.float64).tiny)
        add_line(plot, name, list(range(len(read))), share[None], place)
        figures = {f"P({one})": p[:, 0], f"P({other})": p[:, 1], "share": share}
        add_rows(table, {"model": name, "after": read, **figures})
    add_level(plot, 0.5, "undecided")
    if verb is not None:
        add_mark(plot, verb - 1, "the verb comes next", 1.09, "right")
    plot.update_xaxes(tickmode="array", tickvals=list(range(len(read))), ticktext=read, tickangle=-55)
    plot.update_yaxes(range=[-0.04, 1.15], tickformat=".0%")
    legend_beside(plot)
    plot.update_layout(margin={"b": 120})
    caption = (
        f"How {join_words(groups)}, trained on {join_words([each.about['trained_on'] for each in measurements])}, "
        f"weigh {one!r} against {other!r} as the next word after each word of “{first.about['text']}”."
    )
    return Figure("expectation", f"“{one}” or “{other}”", caption, plot, table)


def _within(one: Measurement, low: int, high: int) -> NDArray[np.bool_]:
    """The distances of a bin."""
    inside_D: NDArray[np.bool_] = (one["distance"] >= low) & (one["distance"] <= high)
    return inside_D


def _share(one: Measurement, group: str, inside: NDArray[np.bool_]) -> float:
    total = int(one[f"total_{group}"][inside].sum())
    return float(one[f"right_{group}"][inside].sum() / total) if total else float("nan")


def _seeds(groups: dict[str, list[Measurement]]) -> str:
    most = max(map(len, groups.values()))
    return f", mean of {most} seeds (spread: least to most)" if most > 1 else ""


_ROW = 26  # pixels a group
_HEADS = {"by": "by", "group": "group", "pairs": "total", "accuracy": "accuracy", "nats": "nats"}


def accuracy_by_group(measurements: Sequence[Measurement]) -> Figure:
    """How often the good sentence is likelier: over all pairs, and over each group of them, with 95 % intervals.

    Example: figures.accuracy_by_group([instruments.pairs(lm, "pairs.tsv")])
    """
    groups = by_model(measurements, "pairs")
    table: dict[str, list[Cell]] = {}
    rows = len(measurements[0]["group"]) * len(groups)
    plot = style.canvas("good sentence likelier", "group of pairs", height=150 + _ROW * rows, barmode="group")
    for place, (name, trials) in enumerate(groups.items()):
        one = trials[0]
        ends = _ends(one)
        accuracy = np.nan_to_num(one["accuracy"])
        plot.add_bar(
            y=one["group"].tolist(),
            x=accuracy.tolist(),
            orientation="h",
            name=name,
            marker={"color": style.colour(name, place)},
            text=[f"{value:.0%}" if value == value else "none judged" for value in one["accuracy"].tolist()],
            textposition="inside",
            insidetextanchor="start",
            error_x={
                "type": "data",
                "symmetric": False,
                "array": (ends["high"] - accuracy).tolist(),
                "arrayminus": (accuracy - ends["low"]).tolist(),
                "color": style.GREY,
                "thickness": 1.5,
            },
        )
        add_rows(table, {"model": name, **{head: one[key] for head, key in _HEADS.items()}, **ends})
    plot.add_vline(x=0.5, line={"color": style.GREY, "width": 1.5, "dash": "dot"})
    plot.update_xaxes(range=[0, 1.1], tickformat=".0%")
    plot.update_yaxes(autorange="reversed", automargin=True, title_standoff=14)
    plot.update_layout(showlegend=len(groups) > 1)
    return Figure("minimal-pairs", "Minimal pairs", _caption(groups, measurements), plot, table)


def _caption(groups: dict[str, list[Measurement]], measurements: Sequence[Measurement]) -> str:
    reasons = {"unknown": "that differ in a word unknown to the model", "same": "whose tokens are the same"}
    parts: list[str] = []
    for key, reason in reasons.items():
        counts = {name: int(_ends(trials[0])[key][0]) for name, trials in groups.items()}
        apart = [f"{count:,} for {name}" for name, count in counts.items() if count]
        parts += [f"{reason}: {join_words(apart)}"] if apart else []
    left = f" Left out are pairs {'; '.join(parts)}." if parts else ""
    return (
        f"How often the good sentence of a pair is likelier than the bad one in {join_words(groups)}, trained on "
        f"{join_words(one.about['trained_on'] for one in measurements)}: {measurements[0].about['text']}. Lines: 95 % "
        f"intervals (Wilson). Dotted: guessing.{left}"
    )


def _ends(one: Measurement) -> Arrays:
    """The intervals and the pairs that were left out; files of earlier versions have neither, and left none out."""
    if "low" in one.arrays:
        return {head: one[head] for head in ("low", "high", "unknown", "same")}
    low, high = wilson(one["accuracy"], one["total"])
    none = np.zeros(len(one["total"]), np.int64)
    return {"low": low, "high": high, "unknown": none, "same": none}
