"""A comparison as one HTML page that needs nothing but itself: no network, no script, good to print."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from thereafter.base.config import Table
from thereafter.comparing import tables
from thereafter.comparing.advice import advice
from thereafter.comparing.budget import describe_budget
from thereafter.comparing.curves import Axis, ChartLine, chart
from thereafter.evaluation.verdicts import Tally, Verdicts

if TYPE_CHECKING:
    from thereafter.comparing.rows import Compared, ProbeRows, Row

_TRAINING = ("batching", "batch", "steps", "optimizer", "rate", "schedule", "clip", "weight_decay", "device")
_POINTS = 8  # of a curve over distances, about: each stands for neighbouring ones
_SECONDS_SHOWN = 120.0


def page(comparison: Compared) -> str:
    """The whole page."""
    about = comparison.about
    name = escape(str(about["source"]))
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>Language models on {name}</title><style>{STYLE}</style></head><body>",
        f"<h1>Language models on {name}</h1>",
        f'<p class="quiet">{escape(_summary(comparison))}</p>',
    ]
    sentences = advice([comparison])
    if sentences:
        parts.append("<ul>" + "".join(f"<li>{escape(one)}</li>" for one in sentences) + "</ul>")
    parts += ["<h2>Scores on the test part</h2>", _score_table(comparison)]
    parts.append('<p class="quiet">' + " ".join(map(escape, tables.legend(comparison))) + "</p>")
    parts += _differences(comparison) + _pairs(comparison)
    for probed in comparison.probes():
        parts += _probe(probed, _styles(comparison))
    parts += _learning(comparison) + _samples(comparison)
    parts += ["<h2>How the models were compared</h2>", definitions(_facts(about))]
    if comparison.notes:
        parts.append("<ul>" + "".join(f"<li>{escape(note)}</li>" for note in comparison.notes) + "</ul>")
    parts += ["<h2>Settings</h2>", definitions({row.name: _settings(row) for row in comparison.rows})]
    return "\n".join([*parts, "</body></html>", ""])


def _summary(comparison: Compared) -> str:
    about = comparison.about
    sizes = ", ".join(f"{part} {size:,}" for part, size in about["bytes"].items())
    seeds = len(about["seeds"])
    return (
        f"{len(comparison.rows)} models, trained on the same part of a text and tested on another ({sizes} bytes). "
        f"Budget of each neural model: {describe_budget(about['budget'])}, {seeds} seed{'s' * (seeds != 1)}."
    )


def _score_table(comparison: Compared) -> str:
    rows = comparison.rows
    normalised = [row for row in rows if row.normalised]
    best = min(normalised, key=lambda row: row.bits_per_byte.mean, default=None)
    heads, lines = tables.score_table(comparison)
    marks = {(number, 2) for number, row in enumerate(rows) if row is best}
    return html_table(heads, lines, marks, words=(0, 1))


def _differences(comparison: Compared) -> list[str]:
    """How sure the order of the models is: a table, and a sentence for each pair."""
    if not comparison.differences:
        return []
    title, heads, lines = tables.difference_table(comparison.differences)
    sentences = "".join(f"<li>{escape(str(one))}.</li>" for one in comparison.differences)
    return [
        "<h2>Differences and their intervals</h2>",
        f'<p class="quiet">{escape(title)}.</p>',
        html_table(heads, lines, set()),
        f'<p class="quiet">{escape(" ".join(tables.DIFFERENCES))}</p>',
        f"<ul>{sentences}</ul>",
    ]


def _pairs(comparison: Compared) -> list[str]:
    """Minimal pairs by group, where they were asked for."""
    if comparison.pairs is None:
        return []
    title, heads, lines = tables.pairs_table(comparison.pairs)
    return ["<h2>Minimal pairs</h2>", f'<p class="quiet">{escape(title)}.</p>', html_table(heads, lines, set())]


def _probe(probed: ProbeRows, style: dict[str, int]) -> list[str]:
    """The section of a probe: accuracy over distance as a picture, then its tables."""
    words, chance, rows = probed.probe.words, probed.probe.chance, probed.rows
    width = max(1, probed.longest // _POINTS)
    curves = [_by_distance(probed, row, style[row.name], width) for row in rows]
    least = 0.0 if chance is None else chance - 0.05
    lowest = min(least, *(value for curve in curves for _, value in curve.points))
    svg = chart(
        curves,
        Axis(words.x_label, 0.0, float(probed.longest)),
        Axis(words.y_label, math.floor(20 * lowest) / 20, 1.01, percent=True),
        words.title,
        None if chance is None else (chance, "chance"),
    )
    seeds = "the band is the standard deviation over seeds" if any(len(row.trials) > 1 for row in rows) else "one seed"
    each = "one distance" if width == 1 else f"{width} neighbouring distances"
    caption = f"{words.caption} A point stands for {each}; {seeds}. {words.remark}"
    parts = [f"<h2>{escape(words.heading)}</h2>", figure(svg, caption)]
    for title, heads, lines in tables.probe_tables(probed):
        parts += [f'<p class="quiet">{escape(title)}.</p>', html_table(heads, lines, set())]
    return parts


def _by_distance(probed: ProbeRows, row: Row, style: int, width: int) -> ChartLine:
    points, spread = [], []
    longest = probed.longest
    for low in range(0, max(longest - width + 2, 1), width):
        high = longest if low + 2 * width - 1 > longest else low + width - 1  # the last takes what is left
        share = probed.accuracy(row, _between(low, high))
        if math.isfinite(share.mean):
            points.append(((low + high) / 2, share.mean))
            spread.append(share.spread or 0.0)
    seeds = len(row.probed[probed.probe.name])
    return ChartLine(row.name, points, style, spread if seeds > 1 else ())


def _between(low: int, high: int) -> Callable[[Verdicts], Tally]:
    return lambda verdicts: verdicts.between(low, high)


def _learning(comparison: Compared) -> list[str]:
    style = _styles(comparison)
    trained = [row for row in comparison.rows if any(trial.curve for trial in row.trials)]
    if not trained:
        return []
    level = [
        ChartLine(row.name, [(0.0, row.average(lambda trial: trial.validation).mean)], style[row.name], flat=True)
        for row in comparison.rows
        if row not in trained and isfinite(row.average(lambda trial: trial.validation).mean)
    ]
    parts = ["<h2>Learning</h2>"]
    caption = (
        "Bits per byte of the validation part during training; the test part is not used here. A line across is a "
        "model that is not trained in steps."
    )
    minutes = max(trial.curve[-1][0] for row in trained for trial in row.trials if trial.curve) > _SECONDS_SHOWN
    for place, unit, label, log in (
        (0, 60.0 if minutes else 1.0, f"{'minutes' if minutes else 'seconds'} of training", False),
        (1, 1.0, "tokens trained on (logarithmic)", True),
    ):
        curves = [_validation(row, style[row.name], place, unit) for row in trained]
        ends = [curve.points[-1][1] for curve in (*curves, *level) if curve.points and isfinite(curve.points[-1][1])]
        lowest = min([*ends, *(value for curve in curves for _, value in curve.points)])
        reach = max(max(ends) - lowest, 0.1 * lowest)
        across = [at for curve in curves for at, _ in curve.points]
        svg = chart(
            [*curves, *level],
            Axis(label, min(across) if log else 0.0, max(across) * (1.0 if log else 1.001), log=log),
            Axis("validation bits per byte", lowest - 0.05 * reach, max(ends) + 0.35 * reach),
            f"Validation by {'tokens' if log else 'time'}",
        )
        parts.append(figure(svg, caption if not log else "The same over the number of tokens a model was trained on."))
    return parts


def _validation(row: Row, style: int, place: int, unit: float) -> ChartLine:
    """The mean over seeds where all of them have points, and the standard deviation between them."""
    several = [np.array(trial.curve) for trial in row.trials if trial.curve]
    xs = [one[:, place] / unit for one in several]
    low, high = max(x[0] for x in xs), min(x[-1] for x in xs)
    at = np.unique(np.clip(np.concatenate(xs), low, high)) if high > low else np.array([min(x[-1] for x in xs)])
    at = at[np.linspace(0, len(at) - 1, min(len(at), 60)).round().astype(int)]
    values = np.stack([np.interp(at, x, one[:, 2]) for x, one in zip(xs, several, strict=True)])
    spread = values.std(axis=0, ddof=1).tolist() if len(values) > 1 else ()
    return ChartLine(row.name, list(zip(at.tolist(), values.mean(axis=0).tolist(), strict=True)), style, spread)


def _styles(comparison: Compared) -> dict[str, int]:
    """The same colour, dash and marker for a model in all pictures."""
    return {row.name: number for number, row in enumerate(comparison.rows)}


def _samples(comparison: Compared) -> list[str]:
    shown = [row for row in comparison.rows if row.first.sample]
    if not shown:
        return []
    about = "The first words of the test part (bold), continued at temperature 0.8 by the model of the first seed."
    parts = ["<h2>How each model continues a text</h2>", f'<p class="quiet">{about}</p>']
    for row in shown:
        text = f"<b>{escape(row.first.prompt)}</b>{escape(row.first.sample)}"
        parts.append(f'<section><p class="quiet">{escape(row.name)}</p><pre>{text}</pre></section>')
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


STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, "Segoe UI", Helvetica, Arial, sans-serif; color: #1b1b1b; background: #fff;
  max-width: 60rem; margin: 2.5rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.6rem; margin: 0 0 .3rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .5rem; }
p, li { max-width: 46rem; } .quiet { color: #555; font-size: .92rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; margin: .4rem 0; }
th, td { padding: .22rem .6rem; text-align: right; white-space: nowrap; border-bottom: 1px solid #e4e4e4; }
th { border-bottom: 1.5px solid #888; font-weight: 600; vertical-align: bottom; }
th:first-child, td:first-child, td.word, th.word { text-align: left; }
td.best { font-weight: 700; }
svg { width: 100%; height: auto; max-width: 52rem; display: block; }
figure { margin: .6rem 0 1.4rem; } figcaption { color: #555; font-size: .92rem; max-width: 46rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #f6f6f4; padding: .6rem .8rem; border-radius: 4px;
  font: .86rem/1.45 ui-monospace, Menlo, Consolas, monospace; margin: .2rem 0 1rem; }
pre b { font-weight: 700; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; font-size: .92rem; }
dt { color: #555; } dd { margin: 0; overflow-wrap: anywhere; }
@media print { body { margin: 0; max-width: none; font-size: 11pt; } h2 { break-after: avoid; }
  figure, table, section { break-inside: avoid; } pre { background: none; border: 1px solid #ccc; } }
"""


def html_table(
    heads: Sequence[str], lines: Sequence[Sequence[str]], best: set[tuple[int, int]], words: Sequence[int] = (0,)
) -> str:
    """A table; `best` are cells in bold (line, column), `words` the columns that are no numbers."""

    def cell(tag: str, text: str, column: int, mark: bool = False) -> str:
        kinds = " ".join(kind for kind, on in (("word", column in words), ("best", mark)) if on)
        return f"<{tag}{f' class={chr(34)}{kinds}{chr(34)}' if kinds else ''}>{escape(text)}</{tag}>"

    head = "".join(cell("th", text, column) for column, text in enumerate(heads))
    body = "\n".join(
        "<tr>"
        + "".join(cell("td", text, column, (number, column) in best) for column, text in enumerate(line))
        + "</tr>"
        for number, line in enumerate(lines)
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>'


def figure(svg: str, caption: str) -> str:
    """A picture with its caption."""
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def definitions(named: dict[str, str]) -> str:
    """Names with what they stand for."""
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in named.items()) + "</dl>"
