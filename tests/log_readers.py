"""The logs of a training as other programs read them: rows of a CSV file, scalars by TensorBoard's own reader."""

from __future__ import annotations

import csv
from pathlib import Path

import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a log without the clock."""
    with path.open(encoding="utf-8", newline="") as file:
        return [{name: value for name, value in row.items() if name != "seconds"} for row in csv.DictReader(file)]


def places_of(path: Path) -> list[tuple[int, str]]:
    """Step and event of every row."""
    return [(int(row["step"]), row["event"]) for row in rows_of(path)]


def scalars_of(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard shows of a folder."""
    reader = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    return {tag: [(event.step, event.value) for event in reader.Scalars(tag)] for tag in reader.Tags()["scalars"]}


def check_board(folder: Path, rows: list[dict[str, str]], every: int = 5) -> None:
    """TensorBoard's reader finds what the CSV has, of one step in `every`, in float32."""
    expected: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        names = ("loss", "rate", "norm") if row["event"] == "step" else ("loss", "perplexity")
        if row["event"] == "validation" or int(row["step"]) % every == 0:
            for name in (name for name in names if row.get(name)):
                value = torch.tensor(float(row[name])).item()
                expected.setdefault(f"{row['event']}/{name}", []).append((int(row["step"]), value))
    assert scalars_of(folder) == expected
