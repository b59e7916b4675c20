"""Pictures of repeated multiplication: activations in a vanilla RNN, and eigenvalues below, at and above 1."""

from __future__ import annotations

import numpy as np

from thereafter.figures.figure import Cell, Figure
from thereafter.figures.lines import add_curve, add_rows, log_axis
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
    columns: dict[str, list[Cell]] = {}
    for j, radius in enumerate(radii):
        for i, activation in enumerate(activations):
            for row, (key, (axis, _)) in enumerate(rows.items(), start=1):
                value = measurement[key][i, j]
                shown = np.where((value >= SHOWN[0]) & (value <= SHOWN[1]), value, np.nan)
                # relu, leaky relu and relu6 often lie on each other: thinner dashes let the lower ones through
                line: dict[str, object] = {"color": CYCLE[i % len(CYCLE)], "dash": DASHES[i % len(DASHES)]}
                line |= {"width": max(1.5, 5.5 - 0.8 * i)}
                place = {"legendgroup": activation, "showlegend": row == 1 and j == 0, "row": row, "col": j + 1}
                add_curve(figure, measurement[axis], shown, activation, line, **place)
            values = {key: measurement[key][i, j] for key in rows}
            add_rows(columns, {"activation": activation, "radius": radius, "step": measurement["step"], **values})
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
    columns: dict[str, list[Cell]] = {}
    for j, radius in enumerate(measurement["radius"].tolist()):
        for dash, (key, label) in zip(DASHES, lines.items(), strict=False):
            line = {"color": CYCLE[j % len(CYCLE)], "dash": dash, "width": 2.5}
            add_curve(figure, measurement["step"], measurement[key][j], f"{radius:g}: {label}", line)
        values = {key: measurement[key][j] for key in ("power", *lines, "gates")}
        add_rows(columns, {"radius": radius, "step": measurement["step"], **values})
    log_axis(figure)
    figure.update_layout(legend={"title": {"text": "size of all eigenvalues"}})
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
