"""The results of `thereafter compare`: scores of all models, agreement of each model and seed, bits side by side."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from thereafter.base.config import Table
from thereafter.errors import FormatError, OptionError
from thereafter.evaluation.verdicts import Verdicts
from thereafter.figures import style
from thereafter.figures.figure import Figure
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.memory import from_tallies

FILE = "compare.json"


def is_comparison(path: Path) -> bool:
    """Whether a path is the folder of a comparison, or its file."""
    return (path / FILE).is_file() if path.is_dir() else path.name == FILE


def agreements(path: Path) -> list[Measurement]:
    """The verdicts of every trial; several of one model are its seeds."""
    with _reading(path) as stored:
        return agreements_of(stored)


def scores(path: Path) -> Measurement:
    """The bits per byte of every model: a measurement "comparison"."""
    with _reading(path) as stored:
        return scores_of(stored)


def agreements_of(stored: Table) -> list[Measurement]:
    """The verdicts of every trial, from all that a comparison keeps (`Comparison.as_dict`)."""
    source = str(stored["source"])
    measurements = []
    for trial in (trial for row in stored["rows"] for trial in row["trials"] if trial.get("agreement")):
        tallies = Verdicts.from_dict(trial["agreement"])
        text = f"{tallies.overall.total:,} test sentences of {source}"
        measurements.append(from_tallies(tallies, {"model": str(trial["name"]), "trained_on": source, "text": text}))
    if not measurements:
        raise FormatError("the comparison has no agreement results; expected that of: thereafter compare agreement")
    return measurements


def scores_of(stored: Table) -> Measurement:
    """Arrays [model]: `bits_per_byte` and its `spread` over seeds, `seconds`, `parameters`."""
    rows = stored["rows"]
    bits = [row["bits_per_byte"] for row in rows]
    arrays = {
        "model": np.array([str(row["name"]) for row in rows]),
        "bits_per_byte": np.array([_number(one["mean"]) for one in bits]),
        "spread": np.array([_number(one["spread"]) for one in bits]),
        "seconds": np.array([_number(row["seconds"]) for row in rows]),
        "parameters": np.array([int(row["parameters"]) for row in rows]),
    }
    seeds = max((len(row["trials"]) for row in rows), default=0)
    names = ", ".join(arrays["model"].tolist())
    about = {"model": names, "text": f"the test part of {stored['source']}", "seeds": seeds}
    return Measurement.of("comparison", arrays, about)


@contextmanager
def _reading(path: Path) -> Iterator[Table]:
    """What a file of a comparison holds; FormatError that names it where it is something else."""
    file = path / FILE if path.is_dir() else path
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        yield stored
    except FormatError as error:
        raise FormatError(f"{file}: {error}") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{file} is not a comparison ({error}); expected what thereafter compare writes") from error


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


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
