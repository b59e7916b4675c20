"""The figure of minimal pairs."""

from __future__ import annotations

from collections.abc import Sequence

from thereafter.figures import style
from thereafter.figures.figure import Cell, Figure
from thereafter.figures.spread import by_model, join_words
from thereafter.inspection.measurement import Measurement

_ROW = 26  # pixels a group


def accuracy_by_group(measurements: Sequence[Measurement]) -> Figure:
    """How often the good sentence is likelier: over all pairs, and over each group of them."""
    groups = by_model(measurements, "pairs")
    table: dict[str, list[Cell]] = {head: [] for head in ("model", "by", "group", "pairs", "accuracy", "nats")}
    rows = len(measurements[0]["group"]) * len(groups)
    plot = style.canvas("good sentence likelier", "group of pairs", height=150 + _ROW * rows, barmode="group")
    for place, (name, trials) in enumerate(groups.items()):
        one = trials[0]
        plot.add_bar(
            y=one["group"].tolist(),
            x=one["accuracy"].tolist(),
            orientation="h",
            name=name,
            marker={"color": style.colour(name, place)},
            text=[f"{value:.0%}" for value in one["accuracy"]],
            textposition="outside",
        )
        table["model"] += [name] * len(one["group"])
        for head, key in (("by", "by"), ("group", "group"), ("pairs", "total"), ("accuracy", "accuracy")):
            table[head] += one[key].tolist()
        table["nats"] += one["nats"].tolist()
    plot.add_vline(x=0.5, line={"color": style.GREY, "width": 1.5, "dash": "dot"})
    plot.update_xaxes(range=[0, 1.1], tickformat=".0%")
    plot.update_yaxes(autorange="reversed", automargin=True, title_standoff=14)
    plot.update_layout(showlegend=len(groups) > 1)
    caption = (
        f"How often the good sentence of a pair is likelier than the bad one in {join_words(groups)}, trained on "
        f"{join_words(one.about['trained_on'] for one in measurements)}: {measurements[0].about['text']}. Dotted: "
        f"guessing."
    )
    return Figure("minimal-pairs", "Minimal pairs", caption, plot, table)
