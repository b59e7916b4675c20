"""A comparison as one HTML page: tables, and curves as figures with their numbers.

Without plotly the page has everything but the curves, and says how to get them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from html import escape

import numpy as np

from thereafter.base.config import Table
from thereafter.base.packages import installed
from thereafter.comparing import tables
from thereafter.comparing.budget import describe_budget
from thereafter.comparing.rows import Compared, ProbeRows, Row
from thereafter.evaluation.agreement import Verdicts
from thereafter.figures.figure import Cell, Figure, document, html_table, section
from thereafter.figures.lines import Values, add_curve, add_level, add_line, add_rows, legend_beside
from thereafter.figures.style import DASHES, Plot, canvas, tints

_TRAINING = ("batching", "batch", "steps", "optimizer", "rate", "schedule", "clip", "weight_decay", "device")
_POINTS = 8  # of a curve over distances, about: each stands for neighbouring ones
_STEPS = 60  # points of a curve over a training
_MARKS = 12  # marks on a curve
_SECONDS_SHOWN = 120.0
_WIDTH = 860  # pixels
NO_PLOTS = "The curves of this page need plotly; try: pip install plotly, and then the same command again."


def page(comparison: Compared, *, beside: bool = False) -> str:
    """The whole page; plotly's script is inside, or in a file `beside` it (`figures.pictures.write_script`)."""
    about, plots = comparison.about, installed("plotly")
    parts = [f'<p class="quiet">{escape(_summary(comparison))}</p>', _list(tables.advice([comparison]))]
    parts += ["<h2>Scores on the test part</h2>", _score_table(comparison)]
    parts.append('<p class="quiet">' + " ".join(map(escape, tables.legend(comparison))) + "</p>")
    if comparison.differences:
        parts += [
            "<h2>Differences and their intervals</h2>",
            *_titled(*tables.difference_table(comparison.differences)),
        ]
        parts.append(f'<p class="quiet">{escape(" ".join(tables.DIFFERENCES))}</p>')
        parts.append(_list([f"{difference}." for difference in comparison.differences]))
    if comparison.pairs is not None:
        parts += ["<h2>Minimal pairs</h2>", *_titled(*tables.pairs_table(comparison.pairs))]
    for probed in comparison.probes():
        heading = f"<h2>{escape(probed.probe.words.heading)}</h2>"
        parts.append(section(probe_figure(comparison, probed)) if plots else heading)
        parts += [part for table in tables.probe_tables(probed) for part in _titled(*table)]
    parts += map(section, learning_figures(comparison)) if plots else [f"<p>{NO_PLOTS}</p>"]
    parts += _samples(comparison)
    parts += ["<h2>How the models were compared</h2>", _definitions(_facts(about)), _list(comparison.notes)]
    parts += ["<h2>Settings</h2>", _definitions({row.name: _settings(row) for row in comparison.rows})]
    return document(f"Language models on {about['source']}", parts, plots=plots, beside=beside)


def _summary(comparison: Compared) -> str:
    about = comparison.about
    sizes = ", ".join(f"{part} {size:,}" for part, size in about["bytes"].items())
    seeds = len(about["seeds"])
    return (
        f"{len(comparison.rows)} models, trained on the same part of a text and tested on another ({sizes} bytes). "
        f"Budget of each neural model: {describe_budget(about['budget'])}, {seeds} seed{'s' * (seeds != 1)}."
    )


def _list(sentences: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(sentence)}</li>' for sentence in sentences)}</ul>" if sentences else ""


def _definitions(named: Mapping[str, str]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in named.items()) + "</dl>"


def _titled(title: str, heads: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    return [f'<p class="quiet">{escape(title)}.</p>', html_table(heads, lines)]


def _score_table(comparison: Compared) -> str:
    rows = comparison.rows
    normalised = [place for place, row in enumerate(rows) if row.normalised]
    best = min(normalised, key=lambda place: rows[place].bits_per_byte.mean, default=-1)
    return html_table(*tables.score_table(comparison), words=(0, 1), best=(best, 2))


Looks = Mapping[str, tuple[int, str]]
"""The place and the colour of each model, the same in all figures."""


def _looks(comparison: Compared) -> Looks:
    names = [row.name for row in comparison.rows]
    return dict(zip(names, enumerate(tints(names)), strict=True))


def probe_figure(comparison: Compared, probed: ProbeRows) -> Figure:
    """The accuracy of a probe over distance."""
    looks = _looks(comparison)
    words, chance, longest = probed.probe.words, probed.probe.chance, probed.longest
    width = max(1, longest // _POINTS)
    starts = range(0, max(longest - width + 2, 1), width)
    # the last span takes what is left
    spans = [(low, longest if low + 2 * width - 1 > longest else low + width - 1) for low in starts]
    plot = canvas(words.x_label, words.y_label, width=_WIDTH)
    table: dict[str, list[Cell]] = {}
    lowest = 0.0 if chance is None else chance - 0.05
    for row in probed.rows:
        shares = [probed.accuracy(row, partial(Verdicts.between, shortest=low, longest=high)) for low, high in spans]
        points = {sum(span) / 2: share for span, share in zip(spans, shares, strict=True) if math.isfinite(share.mean)}
        mean = np.array([share.mean for share in points.values()])
        spread = np.array([share.spread or 0.0 for share in points.values()])
        _add_mean(plot, row, list(points), mean, spread, looks)
        add_rows(table, {"model": row.name, words.x_label: list(points), "accuracy": mean, "spread": spread})
        lowest = min(lowest, *mean)
    if chance is not None:
        add_level(plot, chance, "chance", inside=True)
    plot.update_xaxes(range=[0, longest])
    plot.update_yaxes(range=[math.floor(20 * lowest) / 20, 1.01], tickformat=".0%")
    _finish(plot, looks)
    several = any(len(row.trials) > 1 for row in probed.rows)
    seeds = "the band is the standard deviation over seeds" if several else "one seed"
    each = "one distance" if width == 1 else f"{width} neighbouring distances"
    caption = f"{words.caption} A point stands for {each}; {seeds}. {words.remark}"
    return Figure(f"{probed.probe.name}-by-distance", words.heading, caption, plot, table)


def learning_figures(comparison: Compared) -> list[Figure]:
    """Bits per byte of the validation part by time and by tokens; none where no model is trained in steps."""
    looks = _looks(comparison)
    trained = [row for row in comparison.rows if any(trial.curve for trial in row.trials)]
    if not trained:
        return []
    slow = any(trial.curve[-1][0] > _SECONDS_SHOWN for row in trained for trial in row.trials if trial.curve)
    caption = (
        "Bits per byte of the validation part during training; the test part is not used here. A line across is a "
        "model that is not trained in steps."
    )
    over_tokens = "The same over the number of tokens a model was trained on."
    others = [row for row in comparison.rows if row not in trained]
    means = {row.name: row.average(lambda trial: trial.validation).mean for row in others}
    levels = {name: mean for name, mean in means.items() if math.isfinite(mean)}
    figures: list[Figure] = []
    for column, unit, scale, axis, text in (
        (0, "time", 60.0 if slow else 1.0, f"{'minutes' if slow else 'seconds'} of training", caption),
        (1, "tokens", 1.0, "tokens trained on (logarithmic)", over_tokens),
    ):
        plot = canvas(axis, "validation bits per byte", width=_WIDTH)
        table: dict[str, list[Cell]] = {}
        ends = list(levels.values())
        for row in trained:
            at, mean, spread = _validation(row, column, scale)
            _add_mean(plot, row, at.tolist(), mean, spread, looks)
            add_rows(table, {"model": row.name, axis: at, "bits per byte": mean, "spread": spread})
            ends += [float(mean[-1])] * math.isfinite(mean[-1])
        reached, bits = (np.array(table[name], np.float64) for name in (axis, "bits per byte"))
        for name, level in levels.items():
            place, tint = looks[name]
            line = {"color": tint, "dash": DASHES[1 + place % (len(DASHES) - 1)], "width": 2}
            add_curve(plot, [0.0 if column == 0 else reached.min(), reached.max()], [level, level], name, line)
        lowest, highest = min(float(bits.min()), *ends), max(ends)
        reach = max(highest - lowest, 0.1 * lowest)
        plot.update_xaxes(type="log" if column else "linear")
        plot.update_yaxes(range=[lowest - 0.05 * reach, highest + 0.35 * reach])
        _finish(plot, looks)
        figures.append(Figure(f"learning-by-{unit}", f"Learning by {unit}", text, plot, table))
    return figures


def _validation(row: Row, column: int, scale: float) -> tuple[Values, Values, Values]:
    """Places, means over seeds where all of them have points, and the standard deviations between them."""
    several = [np.array(trial.curve) for trial in row.trials if trial.curve]
    xs = [curve[:, column] / scale for curve in several]
    low, high = max(x[0] for x in xs), min(x[-1] for x in xs)
    at = np.unique(np.clip(np.concatenate(xs), low, high)) if high > low else np.array([min(x[-1] for x in xs)])
    at = at[np.linspace(0, len(at) - 1, min(len(at), _STEPS)).round().astype(int)]
    values = np.stack([np.interp(at, x, curve[:, 2]) for x, curve in zip(xs, several, strict=True)])
    return at, values.mean(axis=0), values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(len(at))


def _add_mean(plot: Plot, row: Row, x: list[float], mean: Values, spread: Values, looks: Looks) -> None:
    place, tint = looks[row.name]
    band = (mean - spread, mean + spread) if len(row.trials) > 1 else None
    add_line(plot, row.name, x, mean[None], place, band, tint)


def _finish(plot: Plot, looks: Looks) -> None:
    plot.update_traces(marker_maxdisplayed=_MARKS)
    legend_beside(plot, 70 + 8 * max(map(len, looks)))


def _samples(comparison: Compared) -> list[str]:
    sampled = [row for row in comparison.rows if row.first.sample]
    if not sampled:
        return []
    about = "The first words of the test part (bold), continued at temperature 0.8 by the model of the first seed."
    parts = ["<h2>How each model continues a text</h2>", f'<p class="quiet">{about}</p>']
    for row in sampled:
        text = f"<b>{escape(row.first.prompt)}</b>{escape(row.first.sample)}"
        parts.append(f'<section class="text"><p class="quiet">{escape(row.name)}</p><pre>{text}</pre></section>')
    return parts


def _facts(about: Table) -> dict[str, str]:
    return {
        "command": str(about["command"]),
        "text": f"{about['source']}: {about['detail']}" if about["detail"] else str(about["source"]),
        "sha256": str(about["sha256"]),
        "budget": f"{describe_budget(about['budget'])} for each neural model and seed",
        "seeds": ", ".join(map(str, about["seeds"])),
        "matched": str(about["match"] or "no"),
        "options": ", ".join(f"{name}={value}" for name, value in about["options"].items()) or "none",
        "date": str(about["date"]),
        "machine": str(about["machine"]),
        "versions": ", ".join(f"{name} {version}" for name, version in about["versions"].items()),
    }


def _settings(row: Row) -> str:
    """What a model was and how it was trained, without what is off."""
    trial = row.first
    off: tuple[object, ...] = (None, "", 0, False, [], ())
    own = {name: value for name, value in trial.settings.items() if value not in off}
    trained = {name: trial.training[name] for name in _TRAINING if trial.training.get(name) not in off}
    words = [f"{name} {_format(value)}" for name, value in (own | trained).items()]
    return ", ".join([*words, f"{trial.seen:,} tokens trained on"])


def _format(value: object) -> str:
    if isinstance(value, list | tuple):
        return "/".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
