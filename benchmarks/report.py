"""What the benchmarks print: the machine, and every figure beside what is required of it."""

from __future__ import annotations

import json
import os
import platform
from datetime import date
from pathlib import Path

import torch


def machine() -> str:
    """Where the figures come from, in a line."""
    return (
        f"{platform.machine()}, {torch.get_num_threads()} threads, Python {platform.python_version()}, "
        f"torch {torch.__version__}, {date.today()}"
    )


def processor_seconds(process: int) -> float:
    """Seconds of processor time that a process has had; 0 where the system does not show that."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Report:
    """Rows of (figure, measured, required); without a requirement a row is there for information."""

    def __init__(self) -> None:
        self.rows: list[dict[str, object]] = []
        self.missed: list[str] = []

    def add(
        self, figure: str, got: float, required: float | None = None, beside: str = "", *, at_least: bool = True
    ) -> None:
        """Print a figure and keep it."""
        ok = required is None or (got >= required if at_least else got <= required)
        if not ok:
            self.missed.append(figure)
        self.rows.append({"figure": figure, "got": got, "required": required, "ok": ok, "beside": beside})
        wanted = "" if required is None else f"{'>=' if at_least else '<='} {required:<5} {'ok' if ok else 'MISSED'}"
        print(f"{figure:<56} {got:8.3f} {wanted:<15} {beside}", flush=True)

    def close(self, to: Path | None) -> int:
        """Print the verdict, and write the rows to a file if one is named; returns what the program exits with."""
        if to is not None:
            to.write_text(json.dumps(self.rows, indent=1))
        print("\n" + ("MISSED: " + ", ".join(self.missed) if self.missed else "every requirement holds"))
        return 1 if self.missed else 0
