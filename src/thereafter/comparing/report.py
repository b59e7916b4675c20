"""A comparison as one HTML page that needs nothing but itself: no network, no script, good to print.

Its curves are SVG, legible in print and without colour: a curve is known by colour, dash and marker, and its name
stands at its end. Colours are those of Okabe and Ito (2008), which colour-blind readers tell apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from html import escape
from math import isfinite

import numpy as np

from thereafter.base.config import Table
from thereafter.comparing import tables
from thereafter.comparing.budget import describe_budget
from thereafter.comparing.rows import Compared, ProbeRows, Row
from thereafter.comparing.tables import advice
from thereafter.evaluation.agreement import Verdicts

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
        share = probed.accuracy(row, partial(Verdicts.between, low=low, high=high))
        if math.isfinite(share.mean):
            points.append(((low + high) / 2, share.mean))
            spread.append(share.spread or 0.0)
    seeds = len(row.probed[probed.probe.name])
    return ChartLine(row.name, points, style, spread if seeds > 1 else ())


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


COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#B8860B", "#000000", "#7A4FBF", "#8C564B")
DASHES = ("", "7 3", "2 3", "9 3 2 3", "12 4", "4 2")
_MARKERS = ("circle", "square", "triangle", "diamond", "cross", "down")
_WIDTH, _HEIGHT = 820, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 150, 16, 48
_LABEL = 13.5  # the least distance between two labels


@dataclass(frozen=True)
class ChartLine:
    """One curve: points in order of x; `spread` is half the height of the band round each point.

    A `flat` curve is a level without x, drawn across. `style` picks colour, dash and marker.
    """

    name: str
    points: Sequence[tuple[float, float]]
    style: int = 0
    spread: Sequence[float] = ()
    flat: bool = False


@dataclass(frozen=True)
class Axis:
    """What an axis shows: its label, its range, and whether it is logarithmic."""

    label: str
    low: float
    high: float
    log: bool = False
    percent: bool = False
    places: Sequence[float] = field(default_factory=tuple)

    def at(self, value: float) -> float:
        """Where on the axis a value lies, 0 to 1."""
        if self.log:
            low, high, value = (math.log(max(number, 1e-12)) for number in (self.low, self.high, value))
        else:
            low, high = self.low, self.high
        return (value - low) / (high - low) if high > low else 0.5

    def ticks(self) -> list[float]:
        """Round numbers inside the range, about five of them."""
        if self.places:
            return [place for place in self.places if self.low <= place <= self.high]
        if self.log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            several = (1, 2, 5) if self.high / self.low < 1e3 else (1,)
            ticks = [factor * 10.0**power for power in powers for factor in several]
            return [tick for tick in ticks if self.low * 0.999 <= tick <= self.high * 1.001]
        step = _round_step((self.high - self.low) / 5)
        first = math.ceil(self.low / step - 1e-9)
        return [step * number for number in range(first, math.floor(self.high / step + 1e-9) + 1)]

    def spell(self, value: float) -> str:
        """A value as it stands beside its tick."""
        if self.percent:
            return f"{100 * value:.0f} %"
        if value and abs(value) >= 10_000:
            return f"{value / 1e6:g}M" if abs(value) >= 1e6 else f"{value / 1e3:g}k"
        return f"{value:.6g}"


def chart(curves: Sequence[ChartLine], x: Axis, y: Axis, title: str, guide: tuple[float, str] | None = None) -> str:
    """An SVG of curves over two labelled axes; `guide` is a level worth a dotted line, with its name."""
    inner, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def px(value: float) -> float:
        return _LEFT + inner * x.at(value)

    def py(value: float) -> float:
        return _TOP + high * (1 - y.at(value))

    clip = f"inside-{sum(map(ord, title))}"  # a name for the clip of this picture, the same every time
    size = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="system-ui, sans-serif" font-size="12"'
    inside = f'<rect x="{_LEFT}" y="{_TOP}" width="{inner + 6}" height="{high}"/>'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(title)}" {size}>',
        f'<title>{escape(title)}</title><clipPath id="{clip}">{inside}</clipPath>',
        *_grid(x, y, px, py),
    ]
    if guide is not None:
        at, right = py(guide[0]), _LEFT + inner
        parts.append(
            f'<line x1="{_LEFT}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}" stroke="#777" stroke-dasharray="2 4"/>'
            f'<text x="{right - 6}" y="{at + 14:.1f}" text-anchor="end" fill="#555">{escape(guide[1])}</text>'
        )
    ends: list[tuple[float, ChartLine]] = []
    for curve in curves:
        if not curve.points:
            continue
        across = [(x.low, curve.points[0][1]), (x.high, curve.points[0][1])]
        points = [(px(a), py(b)) for a, b in (across if curve.flat else curve.points)]
        bands = [abs(py(y.low + s) - py(y.low)) for s in curve.spread] if len(curve.spread) == len(points) else []
        parts.append(f'<g clip-path="url(#{clip})">{_draw(curve, points, bands)}</g>')
        last, level_at = points[-1][0], min(max(points[-1][1], _TOP), _TOP + high)
        if last < _LEFT + inner - 1:  # from where it stops to its name
            parts.append(_thin(last, level_at, _LEFT + inner, level_at))
        ends.append((level_at, curve))
    parts += _labels(ends, _LEFT + inner)
    return "\n".join([*parts, "</svg>"])


def _grid(x: Axis, y: Axis, px: Callable[[float], float], py: Callable[[float], float]) -> list[str]:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = [
        f'<rect x="{_LEFT}" y="{_TOP}" width="{right - _LEFT}" height="{bottom - _TOP}" fill="none" stroke="#bbb"/>'
    ]
    for tick in y.ticks():
        at = py(tick)
        parts.append(
            f'<line x1="{_LEFT}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}" stroke="#e6e6e6"/>'
            f'<text x="{_LEFT - 7}" y="{at + 4:.1f}" text-anchor="end" fill="#333">{escape(y.spell(tick))}</text>'
        )
    for tick in x.ticks():
        at = px(tick)
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{bottom}" y2="{bottom + 5}" stroke="#777"/>'
            f'<text x="{at:.1f}" y="{bottom + 18}" text-anchor="middle" fill="#333">{escape(x.spell(tick))}</text>'
        )
    middle = (_LEFT + right) / 2
    parts.append(
        f'<text x="{middle}" y="{_HEIGHT - 8}" text-anchor="middle" font-size="13">{escape(x.label)}</text>'
        f'<text transform="translate(16 {(_TOP + bottom) / 2}) rotate(-90)" text-anchor="middle" font-size="13">'
        f"{escape(y.label)}</text>"
    )
    return parts


def _draw(curve: ChartLine, points: Sequence[tuple[float, float]], bands: Sequence[float]) -> str:
    colour, dash = COLOURS[curve.style % len(COLOURS)], DASHES[curve.style % len(DASHES)]
    parts = []
    if bands:
        above = [f"{a:.1f},{b - s:.1f}" for (a, b), s in zip(points, bands, strict=True)]
        below = [f"{a:.1f},{b + s:.1f}" for (a, b), s in zip(points, bands, strict=True)]
        parts.append(f'<polygon points="{" ".join([*above, *reversed(below)])}" fill="{colour}" opacity="0.14"/>')
    line = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.8"{dashed}/>')
    if not curve.flat:
        every = max(1, len(points) // 12)
        parts += [_marker(curve.style, *point, colour) for point in points[::every]]
    return "".join(parts)


def _marker(style: int, a: float, b: float, colour: str, r: float = 3.4) -> str:
    kind = _MARKERS[style % len(_MARKERS)]
    fill = f'fill="{colour}" stroke="white" stroke-width="0.6"'
    if kind == "circle":
        return f'<circle cx="{a:.1f}" cy="{b:.1f}" r="{r}" {fill}/>'
    if kind == "square":
        return f'<rect x="{a - r:.1f}" y="{b - r:.1f}" width="{2 * r}" height="{2 * r}" {fill}/>'
    if kind == "cross":
        ends = f"M{a - r:.1f},{b - r:.1f}l{2 * r},{2 * r}m0,{-2 * r}l{-2 * r},{2 * r}"
        return f'<path d="{ends}" stroke="{colour}" stroke-width="1.6" fill="none"/>'
    corners = {
        "triangle": ((0, -1.2), (1.1, 0.9), (-1.1, 0.9)),
        "diamond": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
        "down": ((0, 1.2), (1.1, -0.9), (-1.1, -0.9)),
    }[kind]
    path = " ".join(f"{a + r * u:.1f},{b + r * v:.1f}" for u, v in corners)
    return f'<polygon points="{path}" {fill}/>'


def _labels(ends: list[tuple[float, ChartLine]], right: float) -> list[str]:
    """The names at the ends of the curves, moved apart where they would cover each other."""
    ordered = sorted(ends, key=lambda end: end[0])
    places = [end for end, _ in ordered]
    for k in range(1, len(places)):
        places[k] = max(places[k], places[k - 1] + _LABEL)
    over = places[-1] - (_HEIGHT - _BOTTOM) if places else 0.0
    if over > 0:  # push them up again from the bottom
        places[-1] -= over
        for k in range(len(places) - 2, -1, -1):
            places[k] = min(places[k], places[k + 1] - _LABEL)
    parts = []
    for (end, curve), place in zip(ordered, places, strict=True):
        colour = COLOURS[curve.style % len(COLOURS)]
        parts.append(
            _thin(right, end, right + 9, place)
            + _draw(replace(curve, flat=True), [(right + 9, place), (right + 27, place)], ())
            + ("" if curve.flat else _marker(curve.style, right + 18, place, colour))
            + f'<text x="{right + 32}" y="{place + 4:.1f}" fill="#222">{escape(curve.name)}</text>'
        )
    return parts


def _thin(a: float, b: float, c: float, d: float) -> str:
    return f'<path d="M{a:.1f},{b:.1f}L{c:.1f},{d:.1f}" stroke="#999" stroke-dasharray="1 2" fill="none"/>'


def _round_step(rough: float) -> float:
    """The next of 1, 2, 5 times a power of ten."""
    if not rough > 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
