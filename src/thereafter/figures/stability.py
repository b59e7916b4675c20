"""Pictures of repeated multiplication: activations in a vanilla RNN, and eigenvalues below, at and above 1.

Here too, for many figures: lines with their spread over training runs with different seeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import OptionError
from thereafter.figures import style
from thereafter.figures.figure import Cell, Figure
from thereafter.figures.style import CYCLE, DASHES, FONT, Plot, canvas
from thereafter.inspection.measurement import Measurement

SHOWN = (1e-20, 1e20)
"""What the log axes show; the table has the rest."""


def activation_stability(measurement: Measurement, *, name: str = "activation-stability") -> Figure:
    """Largest state forward (above), gain of the gradient backward (below), a column a scale.

    Example: figures.activation_stability(stability.activation_stability())
    """
    radii, activations = measurement["radius"].tolist(), measurement["activation"].tolist()
    rows = {"state": ("step", "largest state"), "gradient": ("distance", "gradient gain")}
    figure = _panels(len(rows), radii, width=940, height=640)
    columns: dict[str, list[Cell]] = {key: [] for key in ("activation", "radius", "step", "state", "gradient")}
    for j, radius in enumerate(radii):
        for i, activation in enumerate(activations):
            for row, (key, (axis, _)) in enumerate(rows.items(), start=1):
                value = measurement[key][i, j]
                inside = (value >= SHOWN[0]) & (value <= SHOWN[1])
                figure.add_scatter(
                    x=measurement[axis],
                    y=np.where(inside, value, np.nan),
                    mode="lines",
                    name=activation,
                    legendgroup=activation,
                    showlegend=row == 1 and j == 0,
                    # relu, leaky relu and relu6 often lie on each other: thinner dashes let the lower ones through
                    line={
                        "color": CYCLE[i % len(CYCLE)],
                        "width": max(1.5, 5.5 - 0.8 * i),
                        "dash": DASHES[i % len(DASHES)],
                    },
                    row=row,
                    col=j + 1,
                )
            columns["activation"] += [activation] * len(measurement["step"])
            columns["radius"] += [radius] * len(measurement["step"])
            columns["step"] += measurement["step"].tolist()
            columns["state"] += measurement["state"][i, j].tolist()
            columns["gradient"] += measurement["gradient"][i, j].tolist()
    for row, (axis, label) in enumerate(rows.values(), start=1):
        figure.update_xaxes(title_text="step" if axis == "step" else "steps back", title_standoff=6, row=row)
        figure.update_yaxes(title_text=label, title_standoff=18, row=row, col=1)
    caption = (
        f"Largest |h| by step and largest singular value of d h_T / d h_(T-d) in an {measurement.about['model']} "
        f"driven by {measurement.about['text']}, the same matrix and noise for every activation, at spectral radius "
        f"{', '.join(f'{radius:g}' for radius in radii)}. Over all {len(measurement['distance']) - 1} steps "
        f"{_growth(measurement)}. A line ends where it leaves {SHOWN[0]:g} to {SHOWN[1]:g}."
    )
    return Figure(name, "Activation functions and stability in a vanilla RNN", caption, figure, columns)


def repeated_multiplication(measurement: Measurement, *, name: str = "repeated-multiplication") -> Figure:
    """|W^k x|, and the gradient through a linear and a tanh RNN, for eigenvalues below, at and above 1.

    Example: figures.repeated_multiplication(stability.repeated_multiplication())
    """
    figure = canvas("multiplications, or steps back", "size, relative to the start", width=860)
    lines = {"linear": "linear RNN's gradient = |W<sup>k</sup> x|", "tanh": "tanh RNN's gradient"}
    lines["lstm"] = "LSTM's gradient along c"
    columns: dict[str, list[Cell]] = {key: [] for key in ("radius", "step", "power", *lines, "gates")}
    for j, radius in enumerate(measurement["radius"].tolist()):
        for dash, (key, label) in zip(DASHES, lines.items(), strict=False):
            figure.add_scatter(
                x=measurement["step"],
                y=measurement[key][j],
                mode="lines",
                name=f"{radius:g}: {label}",
                line={"color": CYCLE[j % len(CYCLE)], "dash": dash, "width": 2.5},
            )
        columns["radius"] += [radius] * len(measurement["step"])
        columns["step"] += measurement["step"].tolist()
        for key in ("power", *lines, "gates"):
            columns[key] += measurement[key][j].tolist()
    figure.update_yaxes(type="log", dtick=1, exponentformat="power")
    figure.update_layout(legend={"x": 1.02, "y": 1, "title": {"text": "size of all eigenvalues"}}, margin={"l": 92})
    ends = "; ".join(
        f"{radius:g} leaves {measurement['linear'][j, -1]:.3g} of a linear gradient, "
        f"{measurement['tanh'][j, -1]:.3g} through "
        f"tanh, {measurement['lstm'][j, -1]:.3g} along c"
        for j, radius in enumerate(measurement["radius"].tolist())
    )
    caption = (
        f"Size of W^k x and of d h_T / d h_(T-k) (largest singular value) in an {measurement.about['model']}, driven "
        f"by {measurement.about['text']}; the LSTM has the same matrix in its candidate and its gates kept at f = "
        f"{measurement.about['forget']:g}, i = 1 - f, o = 1, so that f^k = {measurement['gates'][0, -1]:.3g} comes "
        f"along its gates alone. After {measurement['step'][-1]} steps {ends}."
    )
    return Figure(name, "Eigenvalues and repeated multiplication", caption, figure, columns)


def _growth(measurement: Measurement) -> str:
    """Which gradients grew a hundredfold at each radius, in words."""
    parts = []
    for j, radius in enumerate(measurement["radius"].tolist()):
        names = [
            str(name)
            for name, last in zip(measurement["activation"], measurement["gradient"][:, j, -1], strict=True)
            if last > 100
        ]
        parts.append(f"{', '.join(names) or 'none'} at {radius:g}")
    return f"the gradient grows a hundredfold with {'; '.join(parts)}"


def _panels(rows: int, radii: list[float], width: int, height: int) -> Plot:
    """Small panels in the common look, a column for each spectral radius."""
    figure = canvas(width=width, height=height)
    titles = [f"spectral radius {radius:g}" for radius in radii]
    figure.set_subplots(
        rows, len(radii), column_titles=titles, shared_yaxes="rows", horizontal_spacing=0.03, vertical_spacing=0.17
    )
    axis = {"showgrid": True, "gridcolor": "#E6E6E6", "zeroline": False, "linecolor": "#444444", "ticks": "outside"}
    figure.update_xaxes(**axis)
    figure.update_yaxes(**axis, type="log", exponentformat="power", nticks=6)
    figure.update_annotations(font={"family": FONT, "size": 14})
    figure.update_layout(margin={"t": 40, "l": 110}, legend={"x": 1.02, "y": 1})
    return figure


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
    tint = tint or style.colour(name, place)
    if len(rows) > 1 and band is None:
        band = rows.min(axis=0), rows.max(axis=0)
    if band is not None:
        edge = {"x": [*x, *reversed(x)], "y": [*band[1], *band[0][::-1]]}
        plot.add_scatter(**edge, fill="toself", fillcolor=tint, opacity=0.18, line={"width": 0}, mode="lines",
                         hoverinfo="skip", showlegend=False)  # fmt: skip
    dash = style.DASHES[place // len(style.CYCLE) % len(style.DASHES)]
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
    plot.add_vline(x=x, line={"color": style.GREY, "width": 1, "dash": "dash"})
    plot.add_annotation(x=x, y=y, text=text, showarrow=False, xanchor=anchor, bgcolor="white", borderpad=3,
                        font={"size": 12, "color": style.GREY})  # fmt: skip


def add_level(plot: Plot, y: float, text: str, *, inside: bool = False) -> None:
    """A thin horizontal line with its name at its right end, beside the axes unless `inside`."""
    plot.add_hline(y=y, line={"color": style.GREY, "width": 1.5, "dash": "dot"})
    place = {"x": 1, "xanchor": "right", "yanchor": "bottom"} if inside else {"x": 1.01, "xanchor": "left"}
    plot.add_annotation(**place, xref="paper", y=y, text=text, showarrow=False,
                        font={"size": 12, "color": style.GREY})  # fmt: skip
