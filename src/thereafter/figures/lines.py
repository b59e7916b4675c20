"""What many figures draw: curves and their spread over training runs with different seeds, marks, legends, tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import OptionError
from thereafter.figures.figure import Cell
from thereafter.figures.style import CYCLE, DASHES, GREY, MONO, Plot, colour
from thereafter.inspection.measurement import Measurement


def by_model(measurements: Sequence[Measurement], *kinds: str) -> dict[str, list[Measurement]]:
    """Measurements by the name of their model, in the order given; refused where they are of another kind."""
    if not measurements:
        raise OptionError(f"there is nothing to draw; expected at least one measurement of kind {' or '.join(kinds)}")
    groups: dict[str, list[Measurement]] = {}
    for one in measurements:
        if one.kind not in kinds:
            raise OptionError(f"got a measurement of kind {one.kind!r}; expected {' or '.join(map(repr, kinds))}")
        groups.setdefault(str(one.about["model"]), []).append(one)
    return groups


def join_words(values: Iterable[object]) -> str:
    """Words joined for a sentence, each once: "a, b and c".

    >>> join_words(["rnn", "gru", "rnn", "lstm"])
    'rnn, gru and lstm'
    """
    once = [str(value) for value in dict.fromkeys(values)]
    return once[0] if len(once) == 1 else f"{', '.join(once[:-1])} and {once[-1]}"


Values = NDArray[np.float64]


def add_line(
    plot: Plot,
    name: str,
    x: Sequence[Cell],
    rows: Values,
    place: int = 0,
    band: tuple[Values, Values] | None = None,
    tint: str = "",
) -> None:
    """The mean of `rows` [seed, x] as a line with marks; the band is from least to most of the seeds, or as given.

    The `place`-th line and its marks are smaller than those before, so that lines on top of each other are all seen.
    """
    tint = tint or colour(name, place)
    if len(rows) > 1 and band is None:
        band = rows.min(axis=0), rows.max(axis=0)
    if band is not None:
        edge = {"x": [*x, *reversed(x)], "y": [*band[1], *band[0][::-1]]}
        plot.add_scatter(**edge, fill="toself", fillcolor=tint, opacity=0.18, line={"width": 0}, mode="lines",
                         hoverinfo="skip", showlegend=False)  # fmt: skip
    dash = DASHES[place // len(CYCLE) % len(DASHES)]
    plot.add_scatter(
        x=list(x),
        y=rows.mean(axis=0).tolist(),
        name=name,
        mode="lines+markers",
        line={"color": tint, "width": max(1.6, 5.5 - 0.9 * place), "dash": dash},
        marker={"size": max(6, 11.5 - 1.3 * place), "symbol": place % 8},
    )


def legend_beside(plot: Plot, room: int = 130) -> None:
    """Put the legend to the right of the axes, `room` pixels wide, and leave space before the axis title."""
    plot.update_layout(legend={"x": 1.02, "y": 1, "xanchor": "left"}, margin={"r": room, "l": 92})
    plot.update_yaxes(title_standoff=14)


def add_mark(plot: Plot, x: float, text: str, y: float, anchor: str = "center") -> None:
    """A thin vertical line with its name at the height y."""
    plot.add_vline(x=x, line={"color": GREY, "width": 1, "dash": "dash"})
    plot.add_annotation(x=x, y=y, text=text, showarrow=False, xanchor=anchor, bgcolor="white", borderpad=3,
                        font={"size": 12, "color": GREY})  # fmt: skip


def add_level(plot: Plot, y: float, text: str, *, inside: bool = False) -> None:
    """A thin horizontal line with its name at its right end, beside the axes unless `inside`."""
    plot.add_hline(y=y, line={"color": GREY, "width": 1.5, "dash": "dot"})
    place = {"x": 1, "xanchor": "right", "yanchor": "bottom"} if inside else {"x": 1.01, "xanchor": "left"}
    plot.add_annotation(**place, xref="paper", y=y, text=text, showarrow=False,
                        font={"size": 12, "color": GREY})  # fmt: skip


def add_curve(
    plot: Plot, x: object, y: object, name: str, line: Mapping[str, object], *, size: float = 0, **options: object
) -> None:
    """A line, with marks of a size where it has any."""
    marks = {"mode": "lines+markers", "marker": {"size": size}} if size else {"mode": "lines"}
    plot.add_scatter(x=x, y=y, name=name, line=line, **marks, **options)


def add_letters(
    plot: Plot, values_LC: Values, letters_LC: NDArray[np.object_], ends: tuple[float, float], **options: object
) -> None:
    """Lines of text, black letters on the colours of their values, which reach from the first of `ends` to the second.

    Lines and columns count from 1.
    """
    lines, columns = values_LC.shape
    plot.add_heatmap(
        z=values_LC,
        x=np.arange(1, columns + 1),
        y=np.arange(1, lines + 1),
        zmin=ends[0],
        zmax=ends[1],
        text=letters_LC,
        texttemplate="%{text}",
        textfont={"family": MONO, "size": 12, "color": "#000000"},
        **options,
    )


def log_axis(plot: Plot) -> None:
    """Powers of ten along y, and the legend to the right of the axes."""
    plot.update_yaxes(type="log", exponentformat="power", dtick=1)
    plot.update_layout(legend={"x": 1.02, "y": 1}, margin={"l": 92})


def log_ticks(plot: Plot, values: Sequence[float], room: float) -> None:
    """A logarithmic axis along y, ticks at 1, 2 and 5 of every power of ten, and `room` powers beyond the values."""
    low, high = np.log10(min(values)), np.log10(max(values))
    ticks = [m * 10.0**p for p in range(int(np.floor(low)), int(np.ceil(high)) + 1) for m in (1, 2, 5)]
    spelled = [f"{tick:g}" for tick in ticks]
    plot.update_yaxes(type="log", range=[low - room, high + room], tickvals=ticks, ticktext=spelled)


def add_rows(table: dict[str, list[Cell]], columns: Mapping[str, Cell | Sequence[Cell] | NDArray[np.generic]]) -> None:
    """Rows below those of a table; a single value stands in each of them.

    >>> table: dict[str, list[Cell]] = {}
    >>> add_rows(table, {"model": "rnn", "n": np.array([1, 2])})
    >>> table
    {'model': ['rnn', 'rnn'], 'n': [1, 2]}
    """
    rows = next(len(value) for value in columns.values() if isinstance(value, list | np.ndarray))
    for name, value in columns.items():
        if value is None or isinstance(value, str | int | float):
            cells: list[Cell] = [value] * rows
        else:
            cells = value.tolist() if isinstance(value, np.ndarray) else list(value)
        table.setdefault(name, []).extend(cells)
