"""Figures of attention: attention maps, and positional encodings."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thereafter.base.packages import require
from thereafter.errors import OptionError
from thereafter.figures import style
from thereafter.figures.figure import Figure
from thereafter.inspection.trace import Trace


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
    subplots = require("plotly.subplots", "drawing a picture")
    titles = [f"layer {one + 1}, head {other + 1}" for one in range(layers) for other in range(heads)]
    grid = subplots.make_subplots(
        layers, heads, subplot_titles=titles, horizontal_spacing=0.02, vertical_spacing=0.07, shared_yaxes=True
    )
    width, height = 180 + 250 * heads, 160 + 320 * layers
    plot = style.canvas(width=width, height=height)
    grid.update_layout(plot.layout)
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
    grid.update_xaxes(linecolor="#444444", ticks="outside")
    grid.update_yaxes(linecolor="#444444", ticks="outside")
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
    subplots = require("plotly.subplots", "drawing a picture")
    grid = subplots.make_subplots(
        1, 2, subplot_titles=("the vectors", "cosine of two positions"), horizontal_spacing=0.2
    )
    grid.update_layout(style.canvas(width=940, height=430).layout)
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
    grid.update_yaxes(title_text="position", autorange="reversed", row=1, col=1)
    grid.update_xaxes(title_text="position", row=1, col=2)
    grid.update_yaxes(title_text="position", autorange="reversed", row=1, col=2)
    grid.update_xaxes(linecolor="#444444", ticks="outside")
    grid.update_yaxes(linecolor="#444444", ticks="outside")
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
