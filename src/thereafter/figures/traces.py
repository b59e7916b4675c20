"""Pictures of a trace and of a training: gates over a sentence and by word class, attention, curves, parameter counts.

Positional encodings are drawn here too, beside attention.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import OptionError
from thereafter.figures import style
from thereafter.figures.figure import Cell, Figure
from thereafter.figures.lines import add_rows, log_ticks
from thereafter.inspection.dynamics import gates_of
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.trace import Trace

_STEPS = 40  # words that can be written below a picture
LogLine = Mapping[str, Any]
"""A line of `log.jsonl`: "event", and by the event "step", "seen", "loss"."""
_MARKS = ("circle", "diamond-open", "square-open", "x", "cross")


def gates(
    trace: Trace, *, model: str, layer: str = "l0", name: str = "gates", labels: Sequence[str] | None = None
) -> Figure:
    """The mean of each gate over a layer's units at every word, and how large the cell state is.

    `labels` are written below in place of the tokens, where these are not the words of the text.

    Example: figures.gates(lm.trace("the cat that the dogs saw was asleep"), model="lstm")
    """
    if len(trace.tokens) > _STEPS:
        raise OptionError(f"the trace has {len(trace.tokens)} tokens; a picture has room for {_STEPS}; trace fewer")
    rows = [one for one in gates_of(trace) if one.startswith(f"{layer}.")]
    means = {one.rpartition(".")[2] + " gate": trace[one].mean(axis=1, dtype=np.float64) for one in rows}
    memory = "c" if f"{layer}.c" in trace.arrays else "h"
    size = np.abs(trace[f"{layer}.{memory}"]).mean(axis=1, dtype=np.float64)
    width = max(620, 150 + 40 * len(trace.tokens))
    shares = {"row_heights": [0.62, 0.38], "vertical_spacing": 0.06}
    grid = style.panels(2, 1, width=width, height=440, shared_xaxes=True, **shares)
    places = list(range(len(trace.tokens)))
    z = np.stack(list(means.values()))
    grid.add_heatmap(
        z=z,
        x=places,
        y=list(means),
        colorscale=style.AMOUNT,
        zmin=0,
        zmax=1,
        text=np.char.mod("%.2f", z),
        texttemplate="%{text}",
        textfont={"size": 12},
        colorbar=style.colour_bar("mean gate", len=0.66, y=0.7, tickvals=[0, 0.5, 1]),
    )
    label = "cell state" if memory == "c" else "state"
    grid.add_bar(x=places, y=size, marker_color=style.PURPLE, showlegend=False, row=2, col=1)
    grid.update_yaxes(title_text=f"mean |{memory}|", row=2, col=1)
    grid.update_yaxes(title_text="gate", title_standoff=4, autorange="reversed", row=1, col=1)
    grid.update_xaxes(ticks="", row=1, col=1)
    words = [token.strip() or "¬" for token in (trace.tokens if labels is None else labels)]
    grid.update_xaxes(tickvals=places, ticktext=words, tickangle=-50, title_text="word read", row=2, col=1)
    grid.update_layout(margin={"l": 120, "b": 112})
    columns: dict[str, Sequence[Cell]] = {"word": trace.tokens}
    columns |= {one: values.round(5).tolist() for one, values in means.items()} | {f"mean |{memory}|": size.tolist()}
    sentence = textwrap.shorten(" ".join(words), 200, placeholder=" ...")
    return Figure(
        name,
        "Gates over a sentence",
        f"Mean over the units of layer {int(layer[1:]) + 1} of {model} after each word of “{sentence}”: its "
        f"gates, and below the mean size of the {label}.",
        grid,
        columns,
    )


def gates_by_class(measurement: Measurement, *, model: str, text: str) -> Figure:
    """Mean gates by the class of the word read, with the spread over words.

    Example: figures.gates_by_class(dynamics.by_class([trace], [classes]), model="lstm", text="agreement")
    """
    classes = measurement["class"].tolist()
    plot = style.canvas("class of the word read", "mean gate", barmode="group", width=1000)
    columns: dict[str, Sequence[Cell]] = {"class": classes, "words": measurement["count"].tolist()}
    for place, gate in enumerate(measurement["gate"].tolist()):
        label = gate.rpartition(".")[2] + " gate"
        plot.add_bar(
            x=classes,
            y=measurement["mean"][place],
            error_y={"array": measurement["spread"][place], "thickness": 1.2, "width": 3, "color": "#444444"},
            name=label,
            marker_color=style.CYCLE[place],
        )
        columns[label] = measurement["mean"][place].round(5).tolist()
        columns[f"{label}, spread"] = measurement["spread"][place].round(5).tolist()
    top = float((measurement["mean"] + measurement["spread"]).max())
    plot.update_yaxes(range=[0, min(1.0, top * 1.1)])
    plot.update_layout(legend={"orientation": "h", "x": 0, "y": 1.1}, margin={"t": 48})
    return Figure(
        "gates-by-class",
        "Gates by word class",
        f"Mean over units and words of each gate of {model} when it reads a word of the class, over "
        f"{measurement.about['tokens']:,} words of {text}; bars on top are standard deviations between words.",
        plot,
        columns,
    )


def training_curves(logs: Mapping[str, Sequence[LogLine]], *, text: str) -> Figure:
    """Perplexity of training and validation by tokens seen, from the lines of `log.jsonl`.

    Example: figures.training_curves({"lstm": lm.log}, text="book.txt")
    """
    plot = style.canvas("tokens seen", "perplexity", width=820, height=560)
    columns: dict[str, list[Cell]] = {}
    levels: list[float] = []
    for place, (model, lines) in enumerate(logs.items()):
        colour = style.colour(model, place)
        for part, event, dash in (("training", "step", "dot"), ("validation", "validation", "solid")):
            lines_shown = [line for line in lines if line.get("event") == event and line.get("loss") is not None]
            seen = _tokens_seen(lines_shown, lines)
            level = [float(np.exp(line["loss"])) for line in lines_shown]
            if not lines_shown:
                continue
            plot.add_scatter(
                x=seen,
                y=level,
                name=f"{model}, {part}" + (f", {level[-1]:.1f} at the end" if event == "validation" else ""),
                marker={"symbol": _MARKS[place % len(_MARKS)], "size": 9},
                mode="lines" if event == "step" else "lines+markers",
                line={"color": colour, "dash": dash, "width": 1.2 if event == "step" else 2},
            )
            rounded = [round(value, 4) for value in level]
            add_rows(columns, {"model": model, "part": part, "tokens seen": seen, "perplexity": rounded})
            levels += [value for value in rounded if value < np.inf]
    if not levels:
        raise OptionError("the logs have no steps; expected the log of a neural model's training")
    log_ticks(plot, levels, 0.05)
    plot.update_layout(legend={"x": 0.98, "xanchor": "right", "y": 0.98})
    return Figure(
        "training-curves",
        "Training curves",
        f"Perplexity of {', '.join(logs)} on {text} while training: dotted on the batches as they came, solid on "
        "held-out text.",
        plot,
        columns,
    )


def parameter_counts(counts: Mapping[str, tuple[int, int, str]], *, inputs: int, hidden: int) -> Figure:
    """Learned numbers of a layer: {cell: (counted, by formula, the formula)}.

    Example: figures.parameter_counts({"lstm": (counted, formula, "4 (I H + H H + 2 H)")}, inputs=64, hidden=128)
    """
    names = list(counts)
    counted = [counts[name][0] for name in names]
    expected = [counts[name][1] for name in names]
    plot = style.canvas("cell", "learned numbers", barmode="group", width=820)
    plot.add_bar(
        x=names,
        y=counted,
        name="counted in the model",
        marker_color=[style.colour(name) for name in names],
        text=[f"{value:,}" for value in counted],
        textposition="outside",
        cliponaxis=False,
    )
    plot.add_scatter(
        x=names,
        y=expected,
        name="by the formula",
        mode="markers",
        marker={"symbol": "line-ew", "size": 46, "line": {"width": 3, "color": "#000000"}},
    )
    plot.update_layout(showlegend=False, margin={"l": 100, "b": 84})
    plot.update_xaxes(title_standoff=22)
    plot.update_yaxes(range=[0, 1.15 * max(counted)], tickformat=",d")
    formulas = [f"{name}<br>{counts[name][2]}" for name in names]
    plot.update_xaxes(tickvals=names, ticktext=formulas)
    return Figure(
        "parameter-counts",
        "Parameters of a recurrent layer",
        f"Learned numbers of one layer of each cell for inputs of d = {inputs} and H = {hidden} units, one bias "
        "a gate, without embedding and head: bars are counted from the cell's own weights, black lines are the formula "
        "below it.",
        plot,
        {"cell": names, "counted": counted, "formula": expected, "how": [counts[name][2] for name in names]},
    )


def _tokens_seen(lines_shown: Sequence[LogLine], lines: Sequence[LogLine]) -> list[int]:
    """Tokens seen at each line. A validation line has no such number: it is interpolated from the steps around it."""
    known = [(line["step"], line["seen"]) for line in lines if "seen" in line and "step" in line]
    steps, tokens = zip(*known, strict=True) if known else ((0,), (0,))
    estimates = np.interp([line["step"] for line in lines_shown], steps, tokens)
    return [int(line.get("seen", place)) for line, place in zip(lines_shown, estimates, strict=True)]


def by_key(trace: Trace) -> NDArray[np.float64]:
    """Attention from every token to every token, [layer, head, reader, read]; `<s>` before the first is left out.

    A trace counts backwards from the reader. A row sums to 1 together with what went to `<s>`.
    """
    if "attention" not in trace.arrays:
        raise OptionError("the trace has no attention; expected that of a transformer")
    back_TLKN = trace["attention"]
    steps, layers, heads, seen = back_TLKN.shape
    weights = np.zeros((layers, heads, steps, steps))
    for reader in range(steps):
        for distance in range(min(reader + 1, seen)):
            weights[:, :, reader, reader - distance] = back_TLKN[reader, :, :, distance]
    return weights


def head_maps(trace: Trace, *, model: str, text: str) -> Figure:
    """One map for each head of each layer: rows read, columns are read (Vaswani et al. 2017).

    Example: figures.head_maps(lm.trace("the keys to the cabinet are here"), model="transformer", text="book.txt")
    """
    weights = by_key(trace)
    layers, heads, steps, _ = weights.shape
    titles = [f"layer {one + 1}, head {other + 1}" for one in range(layers) for other in range(heads)]
    spaces = {"horizontal_spacing": 0.02, "vertical_spacing": 0.07, "shared_yaxes": True}
    width, height = 180 + 250 * heads, 160 + 320 * layers
    grid = style.panels(layers, heads, width=width, height=height, subplot_titles=titles, **spaces)
    grid.update_layout(margin={"l": 120, "b": 110, "t": 40}, coloraxis={"colorscale": "Blues", "cmin": 0, "cmax": 1})
    grid.update_layout(coloraxis_colorbar={"title": {"text": "weight", "side": "right"}, "thickness": 12})
    places = list(range(steps))
    words = [token.strip() or "¬" for token in trace.tokens]
    for layer in range(layers):
        for head in range(heads):
            at = {"row": layer + 1, "col": head + 1}
            z = np.where(np.tri(steps, dtype=bool), weights[layer, head], np.nan)
            grid.add_heatmap(z=z, x=places, y=places, coloraxis="coloraxis", **at)
            last = layer == layers - 1
            grid.update_xaxes(tickvals=places, ticktext=words if last else [""] * steps, tickangle=-90, **at)
            grid.update_xaxes(title_text="token read" if last else None, tickfont_size=12, showgrid=False, **at)
            grid.update_yaxes(tickvals=places, ticktext=words, tickfont_size=12, showgrid=False, **at)
            grid.update_yaxes(autorange="reversed", title_text="reading token" if head == 0 else None, **at)
    grid.update_annotations(font_size=15)
    rows = [(la, h, r, c) for la in range(layers) for h in range(heads) for r in range(steps) for c in range(r + 1)]
    return Figure(
        "attention-heads",
        "Self-attention: which token each head looks at",
        f"Attention weights of {model} over “{text}”, one map a head: each row is a token that reads, each column one "
        "that is read; what a row lacks to 1 went to the start mark.",
        grid,
        {
            "layer": [la + 1 for la, *_ in rows],
            "head": [h + 1 for _, h, *_ in rows],
            "reading token": [trace.tokens[r] for *_, r, _ in rows],
            "token read": [trace.tokens[c] for *_, c in rows],
            "weight": [round(float(weights[place]), 5) for place in rows],
        },
    )


def positions(table_CH: NDArray[np.float64], *, kind: str, model: str) -> Figure:
    """Positional encodings, and the cosine similarity of every two positions.

    Example: figures.positions(table, kind="sinusoidal", model="transformer")
    """
    table = np.asarray(table_CH, dtype=np.float64)
    titles = ("the vectors", "cosine of two positions")
    grid = style.panels(1, 2, width=940, height=430, subplot_titles=titles, horizontal_spacing=0.2)
    lengths = np.linalg.norm(table, axis=1)
    alike = table @ table.T / np.outer(lengths, lengths)
    bar = {"thickness": 12, "len": 0.9}
    reach = float(np.abs(table).max())
    colours = [list(stop) for stop in style.SIGN]
    grid.add_heatmap(
        z=table, colorscale=colours, zmin=-reach, zmax=reach, colorbar=bar | {"x": 0.41, "title": {"text": ""}}
    )
    grid.add_heatmap(z=alike, colorscale=colours, zmin=-1, zmax=1, colorbar=bar | {"x": 1.01}, row=1, col=2)
    grid.update_xaxes(title_text="dimension", row=1, col=1)
    grid.update_xaxes(title_text="position", row=1, col=2)
    grid.update_yaxes(title_text="position", autorange="reversed")
    grid.update_layout(margin={"t": 40})
    places, sizes = table.shape
    return Figure(
        "positional-encodings",
        "Positional encodings",
        f"The {kind} position vectors of {model}: {places} positions of {sizes} numbers, and the cosine of each two.",
        grid,
        {
            "position": [p for p in range(places) for _ in range(sizes)],
            "dimension": [d for _ in range(places) for d in range(sizes)],
            "value": table.ravel().round(5).tolist(),
        },
    )
