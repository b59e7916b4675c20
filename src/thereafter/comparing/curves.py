"""Curves as SVG, drawn by hand: no library, no script, legible in print and without colour.

A curve is known by colour, dash and marker, and its name stands at its end. Colours are those of Okabe and Ito
(2008), which colour-blind readers tell apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from html import escape

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
