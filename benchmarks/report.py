"""What the benchmarks print: the machine, and every figure beside what is required of it."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable
from datetime import date
from pathlib import Path


class Absent(Exception):
    """Something that a benchmark needs is not here."""


def machine() -> str:
    """Where the figures come from, in a line."""
    import torch  # not above: n-grams do without

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
    """Rows of (figure, measured, required, aim); without a requirement a row is there for information."""

    def __init__(self) -> None:
        self.rows: list[dict[str, object]] = []
        self.missed: list[str] = []
        self.jobs: dict[str, Callable[[], object]] = {}

    def add(
        self,
        figure: str,
        got: float,
        required: float | None = None,
        beside: str = "",
        *,
        at_least: bool = True,
        aim: float | None = None,
        job: Callable[[], object] | None = None,
    ) -> None:
        """Print a figure and keep it. `aim`: what is hoped for. `job`: what was timed, to profile if it is missed."""
        ok = required is None or (got >= required if at_least else got <= required)
        if not ok:
            self.missed.append(figure)
        row = {"figure": figure, "got": got, "required": required, "aim": aim, "ok": ok, "beside": beside}
        self.rows.append(row)
        if job is not None:
            self.jobs[figure] = job
        wanted = "" if required is None else f"{'>=' if at_least else '<='} {required:<5} {'ok' if ok else 'MISSED'}"
        print(f"{figure:<56} {got:8.3f} {wanted:<15} {beside}", flush=True)

    def close(self, to: Path | None) -> int:
        """Print the verdict, and write the rows to a file if one is named; returns what the program exits with."""
        if to is not None:
            to.write_text(json.dumps(self.rows, indent=1))
        print("\n" + ("MISSED: " + ", ".join(self.missed) if self.missed else "every requirement holds"))
        return 1 if self.missed else 0
