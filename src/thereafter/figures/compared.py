"""The figure of a comparison: bits per byte of its models side by side."""

from __future__ import annotations

import numpy as np

from thereafter.errors import OptionError
from thereafter.figures import style
from thereafter.figures.figure import Figure
from thereafter.inspection.measurement import Measurement

_ROW = 34  # pixels a model


def bits_by_model(measurement: Measurement) -> Figure:
    """Bits per byte of every model of a comparison, the best first, with the spread over seeds.

    Example: figures.bits_by_model(comparisons.scores(Path("runs/compare-book")))
    """
    bits, spread = measurement["bits_per_byte"], measurement["spread"]
    order = [int(place) for place in np.argsort(bits, kind="stable") if np.isfinite(bits[place])]
    if not order:
        raise OptionError("no model of the comparison has bits per byte; expected at least one whose scores are finite")
    names = [str(measurement["model"][place]) for place in order]
    plot = style.canvas("bits per byte (less is better)", "model", height=150 + _ROW * len(order))
    plot.add_bar(
        x=bits[order].tolist(),
        y=names,
        orientation="h",
        marker={"color": [style.colour(name, place) for place, name in enumerate(names)]},
        text=[f"{value:.3f}" for value in bits[order]],
        textposition="inside",
        insidetextanchor="start",
        error_x={"array": np.nan_to_num(spread[order]).tolist(), "color": style.GREY, "thickness": 1.5},
    )
    plot.update_layout(showlegend=False)
    plot.update_yaxes(autorange="reversed", automargin=True, title_standoff=14, type="category")
    seeds = int(measurement.about["seeds"])
    lines = f"; lines: standard deviation over {seeds} seeds" if seeds > 1 else ""
    return Figure(
        "bits-per-byte",
        "Bits per byte of each model",
        f"Bits per byte on {measurement.about['text']}, less is better{lines}.",
        plot,
        {
            "model": names,
            "bits per byte": bits[order].tolist(),
            "spread": [float(value) if np.isfinite(value) else None for value in spread[order]],
            "seconds of training": measurement["seconds"][order].tolist(),
            "parameters": measurement["parameters"][order].tolist(),
        },
    )
