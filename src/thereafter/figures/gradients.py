"""Pictures of gradients: by distance, by distance and depth, through Jacobians, and under truncation. Of repeated
multiplication: activations in a vanilla RNN, and eigenvalues below, at and above 1.

Every sentence of a caption is read off the measured curves, whether or not it fits a claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import OptionError
from thereafter.figures.figure import Cell, Figure
from thereafter.figures.lines import add_curve, add_rows, log_axis
from thereafter.figures.style import AMOUNT, CYCLE, DASHES, GREY, Plot, canvas, colour, panels
from thereafter.inspection.gradients import KEPT, SHARE, fit_decay, in_words
from thereafter.inspection.measurement import Measurement

WORDS = "words"
"""The layer every model has: its word vectors."""

NOTHING = 1e-12
"""What a log axis shows of a gradient that is exactly 0: nothing, so the line ends."""


def gradient_decay(
    flows: Sequence[Measurement], *, layer: str | None = None, name: str = "gradient-decay", title: str = ""
) -> Figure:
    """| d loss_T / d state_{T-d} | by distance on a log axis, each curve as a share of its value at distance 1.

    Of several models it is one layer of each, the last that all have (`layer` names another; word vectors, "words",
    are in all); of a single model it is all layers. Where the direct path was measured it is dotted beside its memory,
    on the scale of that memory's curve.

    Example: figures.gradient_decay([instruments.gradients(rnn), instruments.gradients(lstm)])
    """
    curves = _curves(flows, layer)
    figure = canvas("distance back from the loss (steps)", "gradient, share of distance 1", width=900)
    columns: dict[str, list[Cell]] = {}
    verdicts = []
    for place, curve in enumerate(curves):
        flow, label = curve.flow, curve.label
        of, field, model = str(flow["layer"][curve.layer]), str(flow["field"][curve.field]), str(flow.about["model"])
        decay = fit_decay(curve.norm_D, flow["distance"])
        line = {"color": colour(model if len(flows) > 1 else "", place), "width": 2.5}
        nth = sum(1 for other in curves[:place] if other.flow is flow)  # of its own model
        dash = DASHES[nth % len(DASHES)]
        _add_curve(figure, flow, curve.share_D, f"{label}<br>{decay}", line | {"dash": dash})
        verdicts.append(f"{label} {decay}")
        blank_D = np.full(len(curve.norm_D), np.nan)
        direct_D = curve.direct_D()
        if direct_D is not None:
            _add_curve(figure, flow, direct_D, f"{label}, direct path", line | {"dash": "dot", "width": 1.5})
        gates_D = blank_D if direct_D is None else flow["gates"][curve.layer]
        along = {"direct": blank_D if direct_D is None else direct_D, "gates": gates_D}
        values = {"distance": flow["distance"], "norm": curve.norm_D, "share": curve.share_D, **along}
        add_rows(columns, {"model": model, "layer": of, "field": field, **values})
    if all(curve.direct_D() is None for curve in curves):
        del columns["direct"], columns["gates"]
    figure.update_yaxes(type="log", exponentformat="power", dtick=1)
    for share in (SHARE, KEPT):
        figure.add_hline(y=share, line={"color": GREY, "dash": "dot"})
        figure.add_annotation(
            x=1, xref="paper", y=np.log10(share), text=in_words(share), showarrow=False, xanchor="left",
            font={"color": GREY},
        )  # fmt: skip
    figure.update_layout(legend={"x": 1.07, "y": 1, "tracegroupgap": 6}, margin={"r": 40, "l": 92})
    what = "word vectors" if set(columns["layer"]) == {WORDS} else "states"
    caption = (
        f"{what_was_measured(flows, what)}, on {_text(flows)}, as a share of the value one step back: "
        f"{'; '.join(verdicts)}.{comparison_with_first(curves)}{direct_path_share(curves)}{first_norms(curves)}"
        f"{accuracy_at_verbs(flows)}"
    )
    return Figure(name, title or "How far a gradient travels back in time", caption, figure, columns)


def _add_curve(
    figure: Plot, flow: Measurement, share_D: NDArray[np.float64], name: str, line: dict[str, object]
) -> None:
    shown = flow["distance"] >= 1
    add_curve(figure, flow["distance"][shown], np.where(share_D > NOTHING, share_D, np.nan)[shown], name, line)


def gradient_depth(flow: Measurement, *, name: str = "gradient-depth") -> Figure:
    """The same norms over time and depth as a heat map, the loss on the right, the top layer above.

    Example: figures.gradient_depth(instruments.gradients(lm))
    """
    rows = [(i, k) for i in range(len(flow["layer"])) for k in range(len(flow["field"])) if _has_field(flow, i, k)]
    labels = [f"{flow['layer'][i]} {flow['field'][k]}" for i, k in rows]
    norm_RD = np.stack([flow["norm"][i, :, k] for i, k in rows])
    log_RD = np.log10(np.where(norm_RD > NOTHING, norm_RD, np.nan))
    low, high = int(np.floor(np.nanmin(log_RD))), int(np.ceil(np.nanmax(log_RD)))
    figure = canvas("distance back from the loss (steps)", "layer and field", height=120 + 46 * max(5, len(rows)))
    figure.add_heatmap(
        x=flow["distance"],
        y=labels,
        z=log_RD,
        colorscale=AMOUNT,
        zmin=low,
        zmax=high,
        colorbar={
            "title": {"text": "norm of the<br>gradient<br> "},
            "tickvals": list(range(low, high + 1)),
            "ticktext": [f"10<sup>{power}</sup>" for power in range(low, high + 1)],
        },
    )
    figure.update_xaxes(autorange="reversed", showgrid=False)
    figure.update_yaxes(showgrid=False, automargin=True)
    caption = (
        f"Norm of d loss / d state in {flow.about['model']}, by layer and by steps back, mean over "
        f"{int(flow.about['losses'])} losses, on {_text([flow])}; the loss is on the right, the word vectors are at "
        "the bottom."
    )
    distances = flow["distance"].tolist()
    table = {
        "layer": [label for label in labels for _ in distances],
        "distance": distances * len(rows),
        "norm": norm_RD.flatten().tolist(),
    }
    return Figure(name, "The gradient over time and depth", caption, figure, table)


def jacobian_paths(jacobians: Sequence[Measurement], *, name: str = "jacobian-paths") -> Figure:
    """The whole product of Jacobians against the direct path, the product of gates alone.

    Example: figures.jacobian_paths([instruments.jacobians(lm)])
    """
    figure = canvas("steps multiplied", "root mean square singular value", width=860)
    columns: dict[str, list[Cell]] = {}
    for place, one in enumerate(jacobians):
        model, i = str(one.about["model"]), len(one["layer"]) - 1
        layer, field = str(one["layer"][i]), one.about["memory"][i]
        for dash, path in zip(DASHES, ("full", "direct"), strict=False):
            value_K = one[path][i]
            if np.isnan(value_K).any():
                continue
            path_name = f"all paths, d{field}/d{field}" if path == "full" else "gates alone"
            line = {"color": colour(model, place), "dash": dash, "width": 2.5}
            add_curve(figure, one["span"], value_K, f"{model}, {layer}: {path_name}", line)
            add_rows(columns, {"model": model, "layer": layer, "path": path, "steps": one["span"], "value": value_K})
    log_axis(figure)
    models = ", ".join(str(one.about["model"]) for one in jacobians)
    caption = (
        "Root mean square singular value of the product of one-step Jacobians of the memory (solid) and of the product "
        f"of its gates alone (dashed), top layer of {models}, along {jacobians[0].about['steps']} "
        f"steps of {_text(jacobians)}; an rnn has no direct path."
    )
    return Figure(name, "Gradient highways: all paths against the direct one", caption, figure, columns)


def jacobian_spectrum(jacobians: Measurement, *, name: str = "jacobian-spectrum") -> Figure:
    """Largest and median singular value and spectral radius of each one-step Jacobian, along the text; top layer.

    Example: figures.jacobian_spectrum(instruments.jacobians(lm))
    """
    i = len(jacobians["layer"]) - 1
    singular_TS = jacobians["singular"][i]
    lines = {
        "largest singular value": np.nanmax(singular_TS, axis=1),
        "spectral radius": jacobians["radius"][i],
        "median singular value": np.nanmedian(singular_TS, axis=1),
    }
    steps = list(range(1, len(singular_TS) + 1))
    figure = canvas("step", "singular value or spectral radius", width=860)
    for place, (label, values) in enumerate(lines.items()):
        line = {"color": colour("", place), "width": 2}
        figure.add_scatter(x=steps, y=values, mode="lines+markers", name=label, line=line)
    figure.add_hline(y=1, line={"color": GREY, "dash": "dot"})
    log_axis(figure)
    caption = (
        f"Singular values and spectral radius of each one-step Jacobian of {jacobians.about['model']}, layer "
        f"{jacobians['layer'][i]}, along {len(steps)} steps of {_text([jacobians])}."
    )
    table = {"step": steps} | {label: values.tolist() for label, values in lines.items()}
    return Figure(name, "One step's Jacobian along a text", caption, figure, table)


def truncation_kept(truncations: Sequence[Measurement], *, name: str = "truncated-bptt") -> Figure:
    """How much of the full gradient pieces of n steps keep: cosine (solid) and share of the norm.

    Example: figures.truncation_kept([instruments.truncation(lm)])
    """
    figure = canvas("steps a gradient may travel", "agreement with the full gradient", width=860)
    columns: dict[str, list[Cell]] = {}
    for place, one in enumerate(truncations):
        model, lengths = str(one.about["model"]), one["length"]
        for dash, (key, measure) in zip(DASHES, {"cosine": "cosine", "share": "norm"}.items(), strict=False):
            line = {"color": colour(model, place), "dash": dash, "width": 2.5}
            add_curve(figure, lengths, one[key][-1], f"{model}: {measure}", line, size=7)
        add_rows(columns, {"model": model, "length": lengths, "cosine": one["cosine"][-1], "share": one["share"][-1]})
    ticks = sorted({int(length) for one in truncations for length in one["length"]})
    figure.update_xaxes(type="log", tickvals=ticks, ticktext=[str(tick) for tick in ticks])
    figure.add_hline(y=1, line={"color": GREY, "dash": "dot"})
    figure.update_yaxes(rangemode="tozero")
    figure.update_layout(legend={"x": 1.02, "y": 1})
    models = ", ".join(str(one.about["model"]) for one in truncations)
    caption = (
        "Gradient of the recurrent weights found in pieces of n steps against the one over "
        f"{truncations[0].about['steps']} steps: cosine between them (solid) and ratio of their norms (dashed), "
        f"{models} on {_text(truncations)}."
    )
    return Figure(name, "What truncated backpropagation keeps", caption, figure, columns)


def _curves(flows: Sequence[Measurement], layer: str | None) -> list[FlowCurve]:
    """The curves to draw."""
    if not flows:
        raise OptionError("there is nothing to draw; expected at least one gradient flow")
    if layer is None and len(flows) > 1:
        shared = [name for name in flows[0]["layer"].tolist() if all(name in flow["layer"] for flow in flows)]
        layer = shared[-1]
    curves = []
    for flow in flows:
        names, model = flow["layer"].tolist(), str(flow.about["model"])
        if layer is not None and layer not in names:
            raise OptionError(f"{flow.about['model']} has no layer {layer!r}; its layers are {', '.join(names)}")
        for i in range(len(names)) if layer is None else [names.index(layer)]:
            short = names[i] == WORDS and len(flows) > 1
            for k, field in enumerate(flow["field"].tolist()):
                if _has_field(flow, i, k):
                    curves.append(FlowCurve(model if short else f"{model}, {names[i]} {field}", flow, i, k))
    return curves


def _has_field(flow: Measurement, i: int, k: int) -> bool:
    return not bool(np.isnan(flow["norm"][i, :, k]).any())


def _text(measurements: Sequence[Measurement]) -> str:
    """Which text, and whether lines were read on end, so that a gradient had to cross their borders."""
    texts = dict.fromkeys(str(one.about["text"]) for one in measurements if one.about["text"])
    alone = {one.about["context"] for one in measurements} == {"line"}
    return f"{', '.join(texts) or 'a text'} ({'each line alone' if alone else 'read straight on'})"


SAME = 0.02
"""Curves that differ by less than this share of the higher one are described as equal."""


@dataclass(frozen=True)
class FlowCurve:
    """One layer's field of one flow: the label in the legend, and its norm by distance over that at distance 1."""

    label: str
    flow: Measurement
    layer: int
    field: int

    @property
    def norm_D(self) -> NDArray[np.float64]:
        norm_D: NDArray[np.float64] = self.flow["norm"][self.layer, :, self.field]
        return norm_D

    @property
    def first(self) -> float:
        """The norm at distance 1."""
        return float(self.norm_D[self.flow["distance"] == 1][0])

    @property
    def share_D(self) -> NDArray[np.float64]:
        return self.norm_D / self.first if self.first > 0 else np.zeros_like(self.norm_D)

    def direct_D(self) -> NDArray[np.float64] | None:
        """What comes along the direct path alone, on the same scale; None where this field has no direct path."""
        fields = self.flow["field"].tolist()
        memory = "c" if "c" in fields else "h"
        if "direct" not in self.flow.arrays or fields[self.field] != memory or not self.first > 0:
            return None
        direct_D: NDArray[np.float64] = self.flow["direct"][self.layer] / self.first
        return None if np.isnan(direct_D).any() else direct_D


def what_was_measured(flows: Sequence[Measurement], what: str) -> str:
    """Which loss, which states or word vectors, how many of them."""
    counts = " or ".join(map(str, sorted({int(flow.about["losses"]) for flow in flows})))
    if any(flow.about.get("at") != "verb" for flow in flows):  # else each verb back to its own subject
        return f"Norm of the gradient of the loss at one step in the {what} before it, mean over {counts} losses"
    between = " or ".join(map(str, sorted({int(flow.about["distance"]) for flow in flows})))
    return (
        f"Norm of the gradient of the loss at a verb in the {what} back to its subject, with {between} words between, "
        f"mean over {counts} sentences"
    )


def accuracy_at_verbs(flows: Sequence[Measurement]) -> str:
    """How often the verb had the right number, for flows that were measured at verbs."""
    known = [f"{flow.about['model']} {in_words(flow.about['right'])}" for flow in flows if "right" in flow.about]
    return f" Verbs with the right number: {', '.join(known)}." if known else ""


def first_norms(curves: Sequence[FlowCurve]) -> str:
    """The absolute norms one step back, and what can be compared between models."""
    norms = ", ".join(f"{curve.label} {curve.first:.2g}" for curve in curves)
    sizes = " States differ in size and scale between models, so that only shares are compared." * (len(curves) > 1)
    return f" The norm one step back, of which shares are taken: {norms}.{sizes}"


def direct_path_share(curves: Sequence[FlowCurve]) -> str:
    """How much of the gradient in a memory at the farthest distance came along its gates alone."""
    shares = []
    for curve in curves:
        if curve.direct_D() is None:
            continue
        gates, share = (float(curve.flow[key][curve.layer, -1]) for key in ("gates", "additive"))
        shares.append(f"{in_words(share)} in {curve.label} (product of gates {gates:.2g}, mean over units)")
    return (
        f" Of the gradient at the farthest step the direct path (dotted) carries {'; '.join(shares)}." if shares else ""
    )


def comparison_with_first(curves: Sequence[FlowCurve]) -> str:
    """Where the curves of the other models lie above and below the first one, where it is one model's only curve."""
    first = curves[0]
    others = [curve for curve in curves if curve.flow is not first.flow]
    if not others or any(curve.flow is first.flow for curve in curves[1:]):
        return ""
    return f" Against {first.label}: {'; '.join(f'{one.label} {_comparison(one, first)}' for one in others)}."


def _comparison(one: FlowCurve, other: FlowCurve) -> str:
    """Where one curve lies above another and where below, in words, for the distances both have from 2 on."""
    both = range(2, min(len(one.share_D), len(other.share_D)))
    margin = {d: one.share_D[d] - other.share_D[d] for d in both}
    near = {d: SAME * max(one.share_D[d], other.share_D[d]) for d in both}
    above = [d for d in both if margin[d] > near[d]]
    below = [d for d in both if margin[d] < -near[d]]
    if not both:
        return "has no step in common with it"
    if len(above) == len(both):
        return "is larger at every step from 2 on"
    if len(below) == len(both):
        return "is smaller at every step from 2 on"
    parts = [f"{word} at {_ranges(steps)}" for word, steps in (("larger", above), ("smaller", below)) if steps]
    return f"is {' and '.join(parts)} steps" if parts else "lies with it"


def _ranges(steps: list[int]) -> str:
    """
    >>> _ranges([2, 3, 4, 7])
    '2 to 4, 7'
    """
    runs: list[list[int]] = []
    for step in steps:
        if runs and step == runs[-1][-1] + 1:
            runs[-1].append(step)
        else:
            runs.append([step])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


SHOWN = (1e-20, 1e20)
"""What the log axes show; the table has the rest."""


def activation_stability(measurement: Measurement, *, name: str = "activation-stability") -> Figure:
    """Largest state forward (above), gain of the gradient backward (below), a column a scale.

    Example: figures.activation_stability(stability.activation_stability())
    """
    radii, activations = measurement["radius"].tolist(), measurement["activation"].tolist()
    rows = {"state": ("step", "largest state"), "gradient": ("distance", "gradient gain")}
    titles = [f"spectral radius {radius:g}" for radius in radii]
    shares = {"shared_yaxes": "rows", "horizontal_spacing": 0.03, "vertical_spacing": 0.17}
    figure = panels(len(rows), len(radii), width=940, height=640, column_titles=titles, **shares)
    figure.update_yaxes(type="log", exponentformat="power", nticks=6)
    figure.update_annotations(font_size=14)
    figure.update_layout(margin={"t": 40, "l": 110}, legend={"x": 1.02, "y": 1})
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
