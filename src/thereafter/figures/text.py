"""Figures of distributions over words: temperature, and how sparse n-gram counts are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thereafter.figures import style
from thereafter.figures.figure import Cell, Figure
from thereafter.inspection.measurement import Measurement

_FLOOR = 1e-30  # a probability of 0 stays 0 at every temperature


def temperature(
    probability_V: NDArray[np.float64],
    tokens: Sequence[str],
    *,
    model: str,
    prompt: str,
    temperatures: Sequence[float] = (0.2, 0.5, 1.0, 2.0),
    shown: int = 10,
) -> Figure:
    """p_T(w) = p(w)^(1/T) / sum p(v)^(1/T): the likeliest tokens at several temperatures, and the entropy of all.

    Example: figures.temperature(lm.distribution("the cat"), tokens, model="ngram", prompt="the cat")
    """
    p_V = np.asarray(probability_V, dtype=np.float64)
    best = np.argsort(-p_V, kind="stable")[:shown]
    names = [_visible(tokens[i]) for i in best]
    plot = style.canvas("next token", "probability", barmode="group", width=860)
    columns: dict[str, Sequence[Cell]] = {"token": names}
    entropies = []
    for place, warmth in enumerate(temperatures):
        warped = _warp(p_V, warmth)
        entropies.append(float(-(warped * np.log2(np.maximum(warped, _FLOOR))).sum()))
        label = f"T = {warmth:g}, {entropies[-1]:.1f} bits"
        plot.add_bar(x=names, y=warped[best], name=label, marker_color=_HEAT[place % len(_HEAT)])
        columns[f"T={warmth:g}"] = warped[best].round(6).tolist()
    plot.update_layout(legend={"x": 0.99, "xanchor": "right", "y": 0.98, "title": {"text": "temperature, entropy"}})
    plot.update_xaxes(type="category", tickfont_size=13)
    return Figure(
        "temperature",
        "Temperature and the distribution",
        f"What {model} expects after “{prompt}”: its {len(best)} likeliest next tokens at {len(temperatures)} "
        f"temperatures; the entropy is that of the whole distribution over {len(p_V):,} tokens.",
        plot,
        columns,
    )


def sparsity(measurement: Measurement) -> Figure:
    """How many n-grams were counted, of how many possible, and which share of new text's n-grams was among them.

    Example: figures.sparsity(sparsity.sparsity(lm.model, lm.encode("the cat sat")))
    """
    orders = measurement["order"].tolist()
    filled = measurement["counted"] / measurement["possible"]
    titles = ("n-grams of new text that were seen", "possible n-grams that were counted")
    plot = style.panels(1, 2, width=900, height=430, subplot_titles=titles, horizontal_spacing=0.16)
    marks = {"mode": "lines+markers", "line": {"width": 3}, "marker": {"size": 9}, "showlegend": False}
    percent = [f"{share:.0%}" if share >= 0.1 else f"{share:.2g}" for share in measurement["seen"]]
    plot.add_bar(
        x=orders, y=measurement["seen"], text=percent, textposition="outside", cliponaxis=False,
        marker_color=style.BLUE, showlegend=False, row=1, col=1,
    )  # fmt: skip
    plot.add_scatter(x=orders, y=filled, line_color=style.RED, **marks, row=1, col=2)
    lowest = int(np.floor(np.log10(filled.min()))) - 1
    step = max(1, -lowest // 6)
    ticks = [10.0**power for power in range(0, lowest, -step)]
    names = ["1" if t == 1 else f"10<sup>{round(np.log10(t))}</sup>" for t in ticks]
    line = {"linecolor": "#444444", "ticks": "outside"}
    plot.update_xaxes(title_text="order n", tickvals=orders, **line)
    plot.update_yaxes(title_text="share", range=[0, 1.1], tickformat=".0%", gridcolor="#E6E6E6", **line, row=1, col=1)
    logarithmic = {"type": "log", "range": [lowest, 0.8], "tickvals": ticks, "ticktext": names}
    plot.update_yaxes(title_text="share of V<sup>n</sup>", gridcolor="#E6E6E6", **logarithmic, **line, row=1, col=2)
    plot.update_annotations(font_size=15)
    plot.update_layout(margin={"t": 48})
    return Figure(
        "ngram-sparsity",
        "n-grams: the longer, the fewer were ever seen",
        f"A {measurement.about['model']} model over {measurement.about['vocabulary']:,} forms, on "
        f"{measurement.about['new']:,} tokens of "
        f"{measurement.about['text']}: the share of their n-grams that training had seen, and the share of all "
        "possible n-grams that it had counted; forms it does not know count as one, <unk>.",
        plot,
        {
            "order": orders,
            "counted": measurement["counted"].tolist(),
            "possible": [f"{value:.4g}" for value in measurement["possible"]],
            "seen in new text": measurement["seen"].round(5).tolist(),
        },
    )


_HEAT = (style.BLUE, style.SKY, style.ORANGE, style.RED)


def _warp(p_V: NDArray[np.float64], warmth: float) -> NDArray[np.float64]:
    with np.errstate(divide="ignore"):
        logs = np.log(p_V) / warmth
    raised = np.exp(logs - logs.max())
    warped: NDArray[np.float64] = raised / raised.sum()
    return warped


def _visible(token: str) -> str:
    """A token one can see: its space as ␣, a line end as ¬."""
    shown = token.replace("\n", "¬").replace("\t", "→")
    return "␣" + shown[1:] if shown.startswith(" ") else shown
