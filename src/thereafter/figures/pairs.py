"""The figure of minimal pairs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thereafter.evaluation.intervals import wilson
from thereafter.figures import style
from thereafter.figures.figure import Cell, Figure
from thereafter.figures.spread import by_model, join_words
from thereafter.inspection.measurement import Arrays, Measurement

_ROW = 26  # pixels a group
_HEADS = {"by": "by", "group": "group", "pairs": "total", "accuracy": "accuracy", "nats": "nats"}


def accuracy_by_group(measurements: Sequence[Measurement]) -> Figure:
    """How often the good sentence is likelier: over all pairs, and over each group of them, with 95 % intervals.

    Example: figures.accuracy_by_group([instruments.pairs(lm, "pairs.tsv")])
    """
    groups = by_model(measurements, "pairs")
    counted = ("low", "high", "unknown", "same")
    table: dict[str, list[Cell]] = {head: [] for head in ("model", *_HEADS, *counted)}
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
        table["model"] += [name] * len(one["group"])
        for head, key in _HEADS.items():
            table[head] += one[key].tolist()
        for head in counted:
            table[head] += ends[head].tolist()
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
