"""Pictures of how a state moves: trajectories, senses of a word, surfaces, saturation, timescales.

Labels of 3-D scenes stand beside their points and do not overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from thereafter.base.packages import require
from thereafter.figures import style
from thereafter.figures.figure import Cell, Figure
from thereafter.figures.lines import Values, add_curve, add_rows, log_ticks
from thereafter.figures.style import Plot
from thereafter.inspection.measurement import Measurement

_PATH = "Plasma"
"""From early to late."""


def trajectory(measurement: Measurement, *, model: str, name: str = "hidden-trajectory") -> Figure:
    """The path of a state through its first three principal components, one point a token.

    Example: figures.trajectory(dynamics.trajectory(lm.trace("the cat sat on the mat")), model="lstm")
    """
    points, words = measurement["point"], _words(measurement)
    letter = str(measurement.about["field"]).rpartition(".")[2]
    what = {"h": "hidden", "c": "cell"}.get(letter, letter)
    go = require("plotly.graph_objects", "drawing a picture")
    plot = style.canvas(width=860, height=620)
    x, y, z = (points[:, k] if k < points.shape[1] else np.zeros(len(points)) for k in range(3))
    plot.add_trace(
        go.Scatter3d(
            x=x,
            y=y,
            z=z,
            mode="lines+markers",
            line={"color": np.arange(len(points)), "colorscale": _PATH, "width": 5},
            marker={
                "color": np.arange(1, len(points) + 1),
                "colorscale": _PATH,
                "size": 5,
                "colorbar": style.colour_bar("token", len=0.6),
            },
        )
    )
    shares = measurement["share"]
    names = [f"component {k + 1}" + (f" ({shares[k]:.0%})" if k < len(shares) else "") for k in range(3)]
    scene(plot, names, [span(x), span(y), span(z)], (1.33, -1.44, 0.75))
    label(plot, np.stack([x, y, z], axis=1), [f"{at + 1} {word}" for at, word in enumerate(words)])
    drawn = ", ".join(f"{share:.0%}" for share in shares[:3])
    return Figure(
        name,
        f"Path of the {what} state",
        f"The {what} state of {model} after each token of “{measurement.about['text']}” in its first three principal "
        f"components ({drawn} of the variance); a step moves it by {measurement['stride'][1:].mean():.0%} of its "
        "length on average.",
        plot,
        {"token": words, **{f"component {k + 1}": points[:, k].round(5).tolist() for k in range(points.shape[1])}},
    )


def senses(measurement: Measurement, *, model: str) -> Figure:
    """One static vector, many states: a word in two senses.

    Example: figures.senses(senses.senses(lm.model, lm.tokenizer, "bank", contexts), model="lstm")
    """
    word, labels = measurement.about["word"], measurement["sense"].tolist()
    kinds = list(dict.fromkeys(labels))
    order = np.array([at for kind in kinds for at, own in enumerate(labels) if own == kind])
    middles = [float(np.mean([at for at, of in enumerate(order) if labels[of] == kind])) for kind in kinds]
    titles = (f"vector of “{word}”: cosine", f"state after “{word}”: cosine", f"state after “{word}”, 2 components")
    widths = {"column_widths": [0.28, 0.28, 0.44], "horizontal_spacing": 0.13}
    grid = style.panels(1, 3, width=1080, height=430, subplot_titles=titles, **widths)
    colours = [list(stop) for stop in style.SIGN]
    for column, field in ((1, "static"), (2, "cosine")):
        bar = {"thickness": 10, "x": 0.55, "xpad": 4, "len": 0.9, "tickvals": [-1, 0, 1], "title": {"text": ""}}
        grid.add_heatmap(
            z=measurement[field][np.ix_(order, order)],
            colorscale=colours,
            zmin=-1,
            zmax=1,
            showscale=field == "cosine",
            colorbar=bar,
            row=1,
            col=column,
        )
        by_sense = {"title_text": "context", "tickvals": middles, "ticktext": kinds, "row": 1, "col": column}
        grid.update_xaxes(**by_sense)
        grid.update_yaxes(autorange="reversed", tickangle=-90, **by_sense)
    for place, kind in enumerate(kinds):
        mine = np.array([label == kind for label in labels])
        grid.add_scatter(
            x=measurement["point"][mine, 0],
            y=measurement["point"][mine, 1],
            mode="markers",
            name=kind,
            text=measurement["context"][mine].tolist(),
            marker={"color": style.CYCLE[place], "symbol": ["circle", "diamond", "square", "x"][place % 4], "size": 11},
            row=1,
            col=3,
        )
    grid.update_xaxes(title_text=f"component 1 ({measurement['share'][0]:.0%})", row=1, col=3)
    grid.update_yaxes(title_text=f"component 2 ({measurement['share'][1]:.0%})", row=1, col=3)
    grid.update_yaxes(title_standoff=6)
    grid.update_annotations(font_size=15)
    grid.update_layout(
        margin={"t": 48, "b": 84}, legend={"orientation": "h", "x": 1, "xanchor": "right", "y": -0.22, "yanchor": "top"}
    )
    return Figure(
        "static-contextual",
        "One vector, many states",
        f"“{word}” at the end of {len(labels)} contexts in {len(kinds)} senses ({', '.join(kinds)}) of {model} "
        f"trained on {measurement.about['text']}: its vector is the same in all; cosines of the state (less the "
        f"mean state) average {float(measurement['within']):.2f} within a sense and "
        f"{float(measurement['between']):.2f} between.",
        grid,
        {
            "sense": labels,
            "context": measurement["context"].tolist(),
            "component 1": measurement["point"][:, 0].round(5).tolist(),
            "component 2": measurement["point"][:, 1].round(5).tolist(),
            "mean cosine with its own sense": _mean_cosine(measurement, own=True),
            "mean cosine with the others": _mean_cosine(measurement, own=False),
        },
    )


def gate_surface(measurement: Measurement, *, model: str) -> Figure:
    """A gate over the two sums that enter it, and where a text takes it.

    Example: figures.gate_surface(surface.gate_surface(lm.model, lm.tokenizer, text), model="lstm")
    """
    plot = style.canvas(width=860, height=600)
    grid = (measurement["word_part"], measurement["state_part"])
    _add_surface(plot, *grid, measurement["value"], "gate", cmax=1, opacity=0.85)
    words = _words(measurement)
    points = np.column_stack([measurement["met"], measurement["gate"] + 0.015])
    _add_points(plot, points, size=4)
    names = ["from the word, w·x", "from the state, u·h", "gate"]
    scene(plot, names, [*map(span, grid), (0.0, 1.05)], (-1.33, -1.44, 0.8))
    label(plot, points, words)
    return Figure(
        "gate-surface",
        "A gate over its two inputs",
        f"The {measurement.about['name']} of {model}: sigmoid(w·x + u·h {measurement.about['bias']:+.2f}) with its "
        f"trained weights; red where “{measurement.about['text']}” took it, from {measurement['gate'].min():.2f} to "
        f"{measurement['gate'].max():.2f}.",
        plot,
        {
            "token": words,
            "from the word": measurement["met"][:, 0].round(5).tolist(),
            "from the state": measurement["met"][:, 1].round(5).tolist(),
            "gate": measurement["gate"].round(5).tolist(),
        },
    )


def prediction_surface(measurement: Measurement, *, model: str) -> Figure:
    """The likeliest next word and its probability over the plane of two components.

    Example: figures.prediction_surface(surface.prediction_surface(lm.model, lm.tokenizer, text), model="lstm")
    """
    plot = style.canvas(width=900, height=640)
    first, second, height = (measurement[name] for name in ("first", "second", "likeliest_probability"))
    _add_surface(plot, first, second, height, "probability", opacity=0.9)
    peaks = _peaks(measurement)
    tops = np.array([(first[column], second[row], height[row, column]) for row, column, _ in peaks])
    _add_points(plot, tops + np.array([0, 0, 0.01]), size=3)
    shares = measurement["share"]
    names = [f"component 1 ({shares[0]:.0%})", f"component 2 ({shares[1]:.0%})", "p of the likeliest word"]
    # seen from where the surface is low, so that it hides little of itself
    right, back = (np.array_split(height.mean(axis=axis), 2) for axis in (0, 1))
    eye = (1.35 if right[0].mean() > right[1].mean() else -1.35, 1.4 if back[0].mean() > back[1].mean() else -1.4, 1.0)
    scene(plot, names, [span(first), span(second), (0.0, 1.05)], eye)
    label(plot, tops, [f"“{word.strip() or '¬'}”" for *_, word in peaks])
    table: dict[str, Sequence[Cell]] = {
        "word": [word for *_, word in peaks],
        "component 1": [round(float(x), 4) for x in tops[:, 0]],
        "component 2": [round(float(y), 4) for y in tops[:, 1]],
        "probability": [round(float(z), 5) for z in tops[:, 2]],
    }
    return Figure(
        "prediction-surface",
        "Predictions over the plane of the state",
        f"Probability of the likeliest next word of {model} over the plane of the first two principal components of "
        f"its state over {len(measurement['token'])} words of {measurement.about.get('source', 'text')} "
        f"({shares.sum():.0%} of the variance; the rest is set to its mean). Labels: each word where it is "
        f"likeliest; ¬ is the end of a line.",
        plot,
        table,
    )


def _words(measurement: Measurement) -> list[str]:
    return [token.strip() or "¬" for token in measurement["token"].tolist()]


def _add_surface(plot: Plot, x: Values, y: Values, z: Values, title: str, **options: object) -> None:
    go = require("plotly.graph_objects", "drawing a picture")
    bar = style.colour_bar(title, len=0.6)
    plot.add_trace(go.Surface(x=x, y=y, z=z, colorscale=style.AMOUNT, cmin=0, colorbar=bar, **options))


def _add_points(plot: Plot, points_N3: Values, *, size: int) -> None:
    """Red points of a scene."""
    x, y, z = points_N3.T
    scatter = require("plotly.graph_objects", "drawing a picture").Scatter3d
    plot.add_trace(scatter(x=x, y=y, z=z, mode="markers", marker={"size": size, "color": style.RED}, showlegend=False))


def saturation(measurement: Measurement, *, model: str) -> Figure:
    """How the values of each gate are spread from shut to open.

    Example: figures.saturation(dynamics.saturation(lm.trace("the cat sat on the mat")), model="lstm")
    """
    edges, width = measurement["edge"], float(measurement["edge"][1] - measurement["edge"][0])
    plot = style.canvas("value of the gate", f"share of the values in a bin of {width:g}", width=820)
    columns: dict[str, Sequence[Cell]] = {"gate value": ((edges[1:] + edges[:-1]) / 2).round(4).tolist()}
    for place, name in enumerate(measurement["gate"].tolist()):
        layer, _, gate = name.partition(".")
        called = f"layer {int(layer[1:]) + 1}, {gate} gate: {measurement['low'][place]:.0%} under 0.1"
        shares = measurement["histogram"][place]
        line = {"color": style.CYCLE[place % len(style.CYCLE)], "width": 2.5, "shape": "hv"}
        called += f", {measurement['high'][place]:.0%} over 0.9"
        add_curve(plot, edges, np.append(shares, shares[-1]), called, line)
        columns[name] = shares.round(6).tolist()
    plot.update_layout(legend={"x": 0.5, "xanchor": "center", "y": 0.98})
    plot.update_xaxes(range=[0, 1])
    return Figure(
        "gate-saturation",
        "How far gates shut and open",
        f"Gate values of {model} over {measurement.about['tokens']:,} tokens of "
        f"{measurement.about.get('source', 'text')}, "
        f"all units: the share in each bin of {width:g} from 0, shut, to 1, open.",
        plot,
        columns,
    )


def timescales(measurement: Measurement, *, model: str) -> Figure:
    """Units by how long their gate alone keeps a memory.

    Example: figures.timescales(dynamics.timescales(lm.trace("the cat sat on the mat")), model="lstm")
    """
    plot = style.canvas("rank of the unit", "steps until 1/e is left", width=760)
    columns: dict[str, list[Cell]] = {}
    for place, layer in enumerate(measurement["layer"].tolist()):
        steps = np.sort(measurement["steps"][place][np.isfinite(measurement["steps"][place])])[::-1]
        ranks = np.arange(1, len(steps) + 1)
        add_curve(plot, ranks, steps, f"layer {layer}", {"color": style.CYCLE[place], "width": 3})
        add_rows(columns, {"layer": layer, "rank": ranks, "steps": steps.round(4)})
    levels = np.array(columns["steps"])
    log_ticks(plot, levels.tolist(), 0.1)
    plot.update_layout(showlegend=len(measurement["layer"]) > 1)
    return Figure(
        "timescales",
        "How long units remember",
        f"Steps in which the gate that keeps the memory of a unit of {model} (of an LSTM the forget gate) alone lets "
        f"it fall to 1/e: −1 / log of the gate's mean over {measurement.about['tokens']:,} tokens of "
        f"{measurement.about.get('source', 'text')}; median {np.median(levels):.1f}.",
        plot,
        columns,
    )


def _peaks(measurement: Measurement, most: int = 7) -> list[tuple[int, int, str]]:
    """Where each word is likeliest, for the words that are the likeliest over the largest parts of the plane."""
    words, counts = np.unique(measurement["likeliest"], return_counts=True)
    peaks = []
    for word in words[np.argsort(-counts, kind="stable")][:most]:
        mine = np.where(measurement["likeliest"] == word, measurement["likeliest_probability"], -1.0)
        row, column = np.unravel_index(int(mine.argmax()), mine.shape)
        peaks.append((int(row), int(column), str(word)))
    return peaks


def _mean_cosine(measurement: Measurement, *, own: bool) -> list[float]:
    labels = measurement["sense"]
    means = []
    for place, sense in enumerate(labels):
        chosen = (labels == sense) == own
        chosen[place] = False
        means.append(round(float(measurement["cosine"][place, chosen].mean()), 5))
    return means


_CENTRE = np.array([0.0, 0.0, -0.08])
_MARGIN = 8
_VIEW = np.pi / 4  # plotly's angle from the lower edge of a scene to its upper one
_AWAY = np.arange(18, 100, 8)  # pixels from a point to the middle of its word, nearest first
_ROUND = np.pi / 2 + np.pi / 8 * np.array([0, 1, -1, 2, -2, 3, -3, 4, -4, 5, -5, 6, -6, 7, -7, 8])  # from above
_POINT = 6  # pixels from the middle of a point to its edge
_MOST = 40  # words there is room for


def scene(
    plot: Plot, names: Sequence[str], spans: Sequence[tuple[float, float]], eye: tuple[float, float, float]
) -> None:
    """Lay out the scene of a plot: names and spans of x, y and z, seen from `eye` (the scene is a cube of side 1)."""
    axis = {"backgroundcolor": "white", "gridcolor": "#DDDDDD", "showbackground": True, "tickfont": {"size": 13}}
    axes = {
        f"{letter}axis": axis
        | {"title": {"text": name, "font": {"size": 15}}, "range": [low, high], "tickvals": _ticks(low, high)}
        for letter, name, (low, high) in zip("xyz", names, spans, strict=True)
    }
    camera = {"eye": _place(eye), "center": _place(_CENTRE)}
    plot.update_scenes(**axes, camera=camera, aspectmode="cube")
    plot.update_layout(margin={"l": 0, "r": 0, "t": _MARGIN, "b": _MARGIN})


def span(values: NDArray[np.float64]) -> tuple[float, float]:
    """From the least value to the largest, with a little room."""
    room = 0.06 * max(float(np.ptp(values)), 1e-9)
    return float(values.min()) - room, float(values.max()) + room


def label(plot: Plot, points_N3: NDArray[np.float64], words: Sequence[str], size: int = 13) -> None:
    """Words beside points of a scene laid out before, each where it hides no other word and no point if there is room.

    As annotations: text of a 3-D trace is cut off by what stands before it. Of many words every second, third, ... is
    written.
    """
    every = -(-len(words) // _MOST)
    points_N3, words = np.asarray(points_N3, dtype=np.float64)[::every], words[::every]
    offsets = _offsets(_pixels(plot, points_N3), words, size)
    beside = {"font": {"size": size}, "bgcolor": "rgba(255,255,255,0.7)", "borderpad": 0, "standoff": 5}
    beside |= {"showarrow": True, "arrowhead": 0, "arrowwidth": 1, "arrowcolor": "#777777"}
    notes = [
        beside | {"x": float(x), "y": float(y), "z": float(z), "text": word, "ax": ax, "ay": ay}
        for (x, y, z), word, (ax, ay) in zip(points_N3, words, offsets, strict=True)
    ]
    plot.update_scenes(annotations=notes)


def _offsets(pixels_N2: NDArray[np.float64], words: Sequence[str], size: int) -> list[tuple[float, float]]:
    """For each word the nearest place beside its point that is free, else the least covered one."""
    taken = np.concatenate([pixels_N2 - _POINT, pixels_N2 + _POINT], axis=1)
    away, angle = (grid.ravel() for grid in np.meshgrid(_AWAY, _ROUND, indexing="ij"))
    chosen = []
    for word, point in zip(words, pixels_N2, strict=True):
        half = np.array([0.33 * size * len(word) + 3, 0.5 * size + 3])
        shifts = np.stack([(away + half[0] - half[1]) * np.cos(angle), -away * np.sin(angle)], axis=1)
        boxes = np.concatenate([point + shifts - half, point + shifts + half], axis=1)
        best = int((_covered(boxes, taken) + 0.01 * away).argmin())
        chosen.append((float(shifts[best, 0]), float(shifts[best, 1])))
        taken = np.concatenate([taken, boxes[best : best + 1]])
    return chosen


def _covered(boxes_N4: NDArray[np.float64], taken_M4: NDArray[np.float64]) -> NDArray[np.float64]:
    """Square pixels that each box (left, top, right, bottom) shares with those taken."""
    low = np.maximum(boxes_N4[:, None, :2], taken_M4[None, :, :2])
    high = np.minimum(boxes_N4[:, None, 2:], taken_M4[None, :, 2:])
    area_N: NDArray[np.float64] = np.maximum(high - low, 0.0).prod(axis=2).sum(axis=1)
    return area_N


def _pixels(plot: Plot, points_N3: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where points of the scene lie in the picture, in pixels from its middle, right and down."""
    laid = plot.layout.scene
    low, high = np.array([laid.xaxis.range, laid.yaxis.range, laid.zaxis.range]).T
    eye = np.array([laid.camera.eye.x, laid.camera.eye.y, laid.camera.eye.z])
    ahead = (_CENTRE - eye) / np.linalg.norm(_CENTRE - eye)
    right = np.cross(ahead, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    seen_N3 = (points_N3 - low) / (high - low) - 0.5 - eye
    scale = (plot.layout.height / 2 - _MARGIN) / np.tan(_VIEW / 2)
    across = np.stack([seen_N3 @ right, -(seen_N3 @ np.cross(right, ahead))], axis=1)
    pixels_N2: NDArray[np.float64] = scale * across / (seen_N3 @ ahead)[:, None]
    return pixels_N2


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers along an axis, none near its lower end, where those of another axis may stand, or at its upper one.

    >>> _ticks(-11.0, 11.0)
    [-5.0, 0.0, 5.0, 10.0]
    """
    rough = (high - low) / 8
    power = 10.0 ** np.floor(np.log10(rough))
    step = power * next(factor for factor in (1, 2, 5, 10) if factor * power >= 0.999 * rough)
    ticks = step * np.arange(np.ceil(low / step), np.floor(high / step) + 1)
    return [round(float(t), 9) for t in ticks if low + 0.06 * (high - low) < t < high - 0.04 * (high - low)]


def _place(point: Iterable[float]) -> dict[str, float]:
    return dict(zip("xyz", map(float, point), strict=True))
