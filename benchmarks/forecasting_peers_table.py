"""The rows of `forecasting_peers.py`: printed as they come, kept in a file, shown as a table."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """Errors of one model on the windows of a part, in standardised units."""

    name: str
    horizon: int
    seed: int
    stride: int
    windows: int
    mse: float
    mae: float
    valid_mse: float | None = None
    steps: int = 0
    seconds: float = 0.0
    options: dict[str, object] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    date: str = ""

    @property
    def key(self) -> tuple[str, int, int, int]:
        return self.name, self.horizon, self.seed, self.stride


class Table:
    """The rows so far, in a file if one is named."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        kept = json.loads(file.read_text()) if file is not None and file.exists() else []
        self.rows = {row.key: row for row in (Row(**fields) for fields in kept)}

    def add(self, row: Row) -> None:
        self.rows[row.key] = row
        print(line(row), flush=True)
        if self._file is not None:
            self._file.write_text(json.dumps([asdict(row) for row in self.rows.values()], indent=1) + "\n")

    def show(self) -> None:
        """All rows as a Markdown table; where there are several seeds, their means below."""
        print("| horizon | model | seed | windows | MSE | MAE | valid MSE | steps | seconds |\n|" + "---|" * 9)
        for row in sorted(self.rows.values(), key=lambda row: (row.horizon, row.stride, row.name, row.seed)):
            print(line(row))
        for (name, horizon), rows in self._by_model().items():
            if len(rows) > 1:
                mse, mae = (sum(figures) / len(rows) for figures in zip(*((r.mse, r.mae) for r in rows), strict=True))
                windows = f"{rows[0].windows:,}"
                print(f"| {horizon} | {name} | mean of {len(rows)} | {windows} | {mse:.4f} | {mae:.4f} | | | |")

    def _by_model(self) -> dict[tuple[str, int], list[Row]]:
        models: dict[tuple[str, int], list[Row]] = {}
        for row in self.rows.values():
            if row.stride == 1:
                models.setdefault((row.name, row.horizon), []).append(row)
        return models


def line(row: Row) -> str:
    valid = "" if row.valid_mse is None else f"{row.valid_mse:.4f}"
    windows = f"{row.windows:,}" + (f" (every {row.stride}th)" if row.stride > 1 else "")
    trained = f"{row.steps or ''} | {row.seconds:.0f}" if row.seconds else " | "
    seed = row.seed or ""
    return f"| {row.horizon} | {row.name} | {seed} | {windows} | {row.mse:.4f} | {row.mae:.4f} | {valid} | {trained} |"
