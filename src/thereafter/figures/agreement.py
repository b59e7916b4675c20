"""Pictures of right and wrong forms: the number of the verb, what is expected along a sentence, minimal pairs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thereafter.evaluation.agreement import BINS, CONGRUENCE
from thereafter.evaluation.bootstrap import wilson
from thereafter.figures import style
from thereafter.figures.figure import Cell, Figure
from thereafter.figures.lines import add_level, add_line, add_mark, add_rows, by_model, join_words, legend_beside
from thereafter.inspection.measurement import Arrays, Measurement


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
        # one training has no spread of its own: what is left is that of a share of so many sentences
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
        f"{_seeds(groups) or ' (one training each; band: 95 % interval of a share of so many sentences)'}."
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
