"""Pictures of distributions over words: temperature, and how thin counted n-grams lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thereafter.figures import style
from thereafter.figures.figure import Figure
from thereafter.inspection.measurement import Measurement

_FLOOR = 1e-30  # a probability of 0 stays 0 at every temperature


def temperature(
    probability_V: NDArray[Any],
    tokens: Sequence[str],
    *,
    model: str,
    prompt: str,
    temperatures: Sequence[float] = (0.2, 0.5, 1.0, 2.0),
    shown: int = 10,
) -> Figure:
    """p_T(w) = p(w)^(1/T) / sum p(v)^(1/T): the likeliest tokens at several temperatures, and the entropy of all."""
    p_V = np.asarray(probability_V, dtype=np.float64)
    best = np.argsort(-p_V, kind="stable")[:shown]
    names = [_visible(tokens[i]) for i in best]
    plot = style.canvas("next token", "probability", barmode="group", width=860)
    columns: dict[str, Sequence[Any]] = {"token": names}
    entropies = []
    for place, warmth in enumerate(temperatures):
        warped = _warped(p_V, warmth)
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


def sparsity(found: Measurement) -> Figure:
    """How many n-grams were counted, of how many possible, and which share of new text's n-grams was among them."""
    orders = found["order"].tolist()
    filled = found["counted"] / found["possible"]
    plot = style.canvas("order n", "share", width=760)
    marks = {"mode": "lines+markers", "line": {"width": 3}, "marker": {"size": 9}}
    plot.add_scatter(x=orders, y=found["seen"], name="of the n-grams of new text: seen", line_color=style.BLUE, **marks)
    plot.add_scatter(x=orders, y=filled, name="of all V<sup>n</sup> possible: counted", line_color=style.RED, **marks)
    for order, share in zip(orders, found["seen"], strict=True):
        plot.add_annotation(
            x=order, y=np.log10(max(share, 1e-30)), text=f"{share:.1%}", showarrow=False, yshift=16, font_size=12
        )
    lowest = int(np.floor(np.log10(filled.min()))) - 1
    step = max(1, -lowest // 6)
    ticks = [10.0**power for power in range(0, lowest, -step)]
    names = ["1" if t == 1 else f"10<sup>{round(np.log10(t))}</sup>" for t in ticks]
    plot.update_yaxes(type="log", range=[lowest, 0.8], tickvals=ticks, ticktext=names)
    plot.update_xaxes(tickvals=orders)
    plot.update_layout(legend={"x": 0.02, "y": 0.04, "yanchor": "bottom"})
    return Figure(
        "ngram-sparsity",
        "n-grams: the longer, the fewer were ever seen",
        f"A {found.about['model']} model over {found.about['vocabulary']:,} forms, on {found.about['new']:,} tokens of "
        f"{found.about['text']}: the share of their n-grams that training had seen, and the share of all possible "
        "n-grams that it had counted; forms it does not know count as one, <unk>.",
        plot,
        {
            "order": orders,
            "counted": found["counted"].tolist(),
            "possible": [f"{value:.4g}" for value in found["possible"]],
            "seen in new text": found["seen"].round(5).tolist(),
        },
    )


_HEAT = (style.BLUE, style.SKY, style.ORANGE, style.RED)


def _warped(p_V: NDArray[np.float64], warmth: float) -> NDArray[np.float64]:
    with np.errstate(divide="ignore"):
        logs = np.log(p_V) / warmth
    raised = np.exp(logs - logs.max())
    found: NDArray[np.float64] = raised / raised.sum()
    return found


def _visible(token: str) -> str:
    """A token one can see: its space as ␣, a line end as ¬."""
    shown = token.replace("\n", "¬").replace("\t", "→")
    return "␣" + shown[1:] if shown.startswith(" ") else shown
