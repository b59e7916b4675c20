"""The agreement results of `thereafter compare` as measurements, one for each model and seed."""

from __future__ import annotations

import json
from pathlib import Path

from thereafter.errors import FormatError
from thereafter.evaluation.verdicts import Verdicts
from thereafter.inspection.agreement import from_tallies
from thereafter.inspection.measurement import Measurement

FILE = "compare.json"


def is_comparison(path: Path) -> bool:
    """Whether a path is the folder of a comparison, or its file."""
    return (path / FILE).is_file() if path.is_dir() else path.name == FILE


def agreements(path: Path) -> list[Measurement]:
    """The verdicts of every trial; several of one model are its seeds."""
    file = path / FILE if path.is_dir() else path
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        source = str(stored["source"])
        trials = [trial for row in stored["rows"] for trial in row["trials"] if trial.get("agreement")]
        measurements = []
        for trial in trials:
            tallies = Verdicts.from_dict(trial["agreement"])
            text = f"{tallies.overall.total:,} test sentences of {source}"
            measurements.append(
                from_tallies(tallies, {"model": str(trial["name"]), "trained_on": source, "text": text})
            )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{file} is not a comparison ({error}); expected what thereafter compare writes") from error
    if not measurements:
        raise FormatError(f"{file} has no agreement results; expected the folder of: thereafter compare agreement")
    return measurements
