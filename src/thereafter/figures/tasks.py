"""Figures of tasks: alignments of a translator, BLEU by source length, confusion matrices.

A task answers with plain values (the `task.py` and `measures.py` of its folder). The functions `measured_...` put them
into measurements, which can be saved, and from which `thereafter figure` draws.
Shapes: T output tokens, S source tokens, K classes, N bins of lengths.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thereafter.errors import OptionError
from thereafter.figures import style
from thereafter.figures.figure import Cell, Figure
from thereafter.figures.lines import add_rows, by_model, join_words, legend_beside
from thereafter.figures.style import Plot
from thereafter.inspection.measurement import Measurement
from thereafter.tasks.translate.measures import LengthBin

_NUMBERED = 20
"""Classes, or tokens of a source, up to which the numbers are written into a matrix: more would not be readable."""


def measured_alignment(
    source: Sequence[str], output: Sequence[str], weights_TS: ArrayLike, *, model: str, text: str
) -> Measurement:
    """The attention of each output token over the source: the "alignment" of one sentence. `text` names the sentence.

    >>> measured_alignment(["ein", "Haus"], ["a", "house"], np.eye(2), model="gru", text="ein Haus").kind
    'alignment'
    """
    weight_TS = np.asarray(weights_TS, dtype=np.float64)
    if weight_TS.shape != (len(output), len(source)):
        raise OptionError(
            f"the weights have the shape {weight_TS.shape}; expected ({len(output)}, {len(source)}): a row for each "
            "output token, a column for each source token"
        )
    arrays = {"source": np.array(source, dtype=str), "said": np.array(output, dtype=str), "weight": weight_TS}
    return Measurement.of("alignment", arrays, {"model": model, "text": text})


def measured_bleu(bins: Sequence[LengthBin], *, model: str, text: str, signature: str = "") -> Measurement:
    """BLEU by source length, as `evaluation.translation` measured it: "bleu-by-length".

    Example: figures.measured_bleu(model.score("pairs.tsv").translation.by_length, model="gru", text="pairs.tsv")
    """
    if not bins:
        raise OptionError(
            "there is no bin of lengths to draw; expected at least one; try measure_translation(sources=...)"
        )
    arrays: dict[str, NDArray[np.float64]] = {
        "bin": np.array([one.name for one in bins]),
        "low": np.array([one.low for one in bins]),
        "sentences": np.array([one.sentences for one in bins]),
        "bleu": np.array([one.bleu for one in bins]),
    }
    about = {"model": model, "text": text, "signature": signature}
    return Measurement.of("bleu-by-length", arrays, about)


def measured_confusion(labels: Sequence[str], counts_KK: ArrayLike, *, model: str, text: str) -> Measurement:
    """How often a class (row) was predicted as another (column): "confusion", of the two fields of `Classes`.

    Example: figures.measured_confusion(score.labels, score.confusion, model="lstm", text="sst2")
    """
    count_KK = np.asarray(counts_KK, dtype=np.int64)
    if count_KK.shape != (len(labels), len(labels)) or (count_KK < 0).any():
        raise OptionError(
            f"the counts have the shape {count_KK.shape} for {len(labels)} labels; expected a row and a column for "
            "each, of numbers that are not below 0"
        )
    names = np.array(labels, dtype=str)
    return Measurement.of("confusion", {"is": names, "given": names, "count": count_KK}, {"model": model, "text": text})


def alignment(measurement: Measurement) -> Figure:
    """Attention weights: a row for each output token, a column for each source token.

    Example: figures.alignment(figures.measured_alignment(source, output, weights, model="gru", text="ein Haus"))
    """
    # tokens without their leading space; one that is only a space is shown as a mark
    source, written = ([token.strip() or "␣" for token in measurement[side].tolist()] for side in ("source", "said"))
    weight_TS = measurement["weight"]
    rows, columns = weight_TS.shape
    plot = style.canvas("source", "said", width=200 + max(300, 40 * columns), height=190 + max(160, 30 * rows))
    _add_matrix(plot, weight_TS, ".2f" if max(rows, columns) <= _NUMBERED else "", "weight", least=0.05)
    _label(plot, source, written, room=_room(written))
    pairs = [(row, column) for row in range(rows) for column in range(columns)]
    return Figure(
        "alignment",
        "Where the translator looks",
        f"Attention of {measurement.about['model']} while it translates “{measurement.about['text']}”: each row is a "
        "token said and sums to 1, each column a token of the source (numbers: weights of 0.05 and more).",
        plot,
        {
            "said": [written[row] for row, _ in pairs],
            "source": [source[column] for _, column in pairs],
            "weight": [round(float(weight_TS[pair]), 5) for pair in pairs],
        },
    )


def bleu_by_length(measurements: Sequence[Measurement]) -> Figure:
    """BLEU by the words of the source, a line a model; several of one name are seeds, drawn as their mean.

    Example: figures.bleu_by_length([figures.measured_bleu(bins, model="gru", text="pairs.tsv")])
    """
    groups = by_model(measurements, "bleu-by-length")
    bins = {str(name): int(low) for one in measurements for name, low in zip(one["bin"], one["low"], strict=True)}
    names = sorted(bins, key=lambda name: (bins[name], name))
    plot = style.canvas("words of the source (below: sentences)", "BLEU")
    tints = style.tints(list(groups))
    table: dict[str, list[Cell]] = {}
    for place, (model, trials) in enumerate(groups.items()):
        values = [_in_bin(trials, name, "bleu") for name in names]
        line = {"color": tints[place], "width": 3, "dash": style.DASHES[place // len(style.CYCLE) % len(style.DASHES)]}
        error = {
            "type": "data",
            "symmetric": False,
            "array": [max(each) - np.mean(each) if each else 0 for each in values],
            "arrayminus": [np.mean(each) - min(each) if each else 0 for each in values],
        }
        plot.add_scatter(
            x=names,
            y=[float(np.mean(each)) if each else None for each in values],
            name=model,
            mode="lines+markers",
            line=line,
            marker={"size": 10, "symbol": place % 8},
            error_y=error if len(trials) > 1 else None,
        )
        bleu = {name: each for name, each in zip(names, values, strict=True) if each}
        counted = [int(_in_bin(trials, name, "sentences")[0]) for name in bleu]
        figures = {
            head: [round(float(of(each)), 3) for each in bleu.values()]
            for head, of in (("BLEU", np.mean), ("least", min), ("most", max))
        }
        add_rows(table, {"model": model, "words": list(bleu), "sentences": counted, **figures})
    counts = [{int(count) for count in _in_bin(measurements, name, "sentences")} for name in names]
    below = ["/".join(f"{count:,}" for count in sorted(each)) for each in counts]
    plot.update_xaxes(type="category", categoryorder="array", categoryarray=names, tickmode="array", tickvals=names)
    plot.update_xaxes(ticktext=[f"{name}<br>{count}" for name, count in zip(names, below, strict=True)])
    plot.update_yaxes(rangemode="tozero")
    legend_beside(plot, 190)
    plot.update_layout(margin={"b": 80}, width=style.WIDTH + 40)
    signature = str(measurements[0].about.get("signature") or "sacreBLEU")
    most = max(map(len, groups.values()))
    seeds = f", mean of {most} seeds (bars: least to most)" if most > 1 else ", one training each"
    caption = (
        f"BLEU ({signature}) of {join_words(groups)} on {join_words(one.about['text'] for one in measurements)}, by "
        f"the words of the source{seeds}."
    )
    return Figure("bleu-by-length", "Translations by the length of the source", caption, plot, table)


def confusion(measurement: Measurement) -> Figure:
    """A confusion matrix: numbers are counts, colours the share of the row's class.

    Example: figures.confusion(figures.measured_confusion(labels, counts, model="lstm", text="sst2"))
    """
    labels, count_KK = measurement["is"].tolist(), measurement["count"]
    total_K = count_KK.sum(axis=1)
    share_KK = count_KK / np.maximum(total_K, 1)[:, None]
    many = len(labels)
    plot = style.canvas("given", "is", width=280 + max(220, 46 * many), height=170 + max(180, 32 * many))
    _add_matrix(plot, share_KK, ",d" if many <= _NUMBERED else "", "share of the row", numbers=count_KK)
    _label(plot, labels, labels, room=_room(labels))
    pairs = [(row, column) for row in range(many) for column in range(many)]
    right, total = int(np.trace(count_KK)), int(total_K.sum())
    return Figure(
        "confusion",
        "What is taken for what",
        f"{measurement.about['model']} on {measurement.about['text']}: rows are what is, columns what was given; "
        f"numbers are counts, colours shares of a row; {right:,} of {total:,} right "
        f"({100 * right / max(1, total):.1f} %).",
        plot,
        {
            "is": [labels[row] for row, _ in pairs],
            "given": [labels[column] for _, column in pairs],
            "count": [int(count_KK[pair]) for pair in pairs],
            "share": [round(float(share_KK[pair]), 5) for pair in pairs],
        },
    )


def _add_matrix(
    plot: Plot,
    share_RC: NDArray[np.float64],
    form: str,
    title: str,
    *,
    least: float = 0.0,
    numbers: NDArray[np.float64] | None = None,
) -> None:
    """A matrix of shares from white to blue; `form` writes the numbers that are not too small, empty writes none."""
    shown = share_RC if numbers is None else numbers
    text = (
        [[format(value, form) if value and value >= least else "" for value in row] for row in shown] if form else None
    )
    bar = style.colour_bar(title, tickformat=".1f", dtick=0.2)
    plot.add_heatmap(
        z=share_RC,
        zmin=0,
        zmax=1,
        colorscale="Blues",
        text=text,
        texttemplate="%{text}" if form else None,
        textfont={"size": 11},
        xgap=1,
        ygap=1,
        hovertemplate="%{y}, %{x}: %{z:.3f}<extra></extra>",
        colorbar=bar,
    )


def _label(plot: Plot, columns: Sequence[str], rows: Sequence[str], *, room: int) -> None:
    """Tick labels at positions, because a token may occur twice, and escaped, because `</s>` is not markup."""
    across, down = ([html.escape(name, quote=False) for name in names] for names in (columns, rows))
    ticks = {"showgrid": False, "tickmode": "array", "tickfont_size": 13}
    plot.update_xaxes(tickvals=list(range(len(columns))), ticktext=across, **ticks)
    plot.update_xaxes(tickangle=-50 if max(map(len, columns), default=0) > 3 else 0, title_standoff=10)
    plot.update_yaxes(tickvals=list(range(len(rows))), ticktext=down, autorange="reversed", **ticks)
    plot.update_yaxes(title_standoff=10)
    plot.update_layout(margin={"l": 50 + room, "b": 60 + _room(columns), "r": 90})


def _room(names: Sequence[str]) -> int:
    return 8 * max(map(len, names), default=0)


def _in_bin(measurements: Sequence[Measurement], name: str, array: str) -> list[float]:
    """The values of a bin in all measurements that have it."""
    return [float(one[array][place]) for one in measurements for place in np.flatnonzero(one["bin"] == name)]
