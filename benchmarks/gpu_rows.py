"""The rows of `recurrent_gpu.py`: cells and sizes, what is required of each, and the table they make."""

from __future__ import annotations

import platform
import time
from dataclasses import dataclass
from typing import NamedTuple

import torch

from thereafter.kernels.gpu.compiling import compiler_version, lacks_triton


class Size(NamedTuple):
    """Rows, steps, units."""

    rows: int
    steps: int
    units: int

    def __str__(self) -> str:
        return f"({self.rows}, {self.steps}, {self.units})"


class Limit(NamedTuple):
    """What is required of our time as a graph: at most so many `ms` or so many times `plain`, or at least so many
    times as fast as the `peer`."""

    kind: str
    value: float

    def __str__(self) -> str:
        return {"ms": "<= {} ms", "plain": "<= {} x plain", "peer": ">= {} x"}[self.kind].format(self.value)

    def met(self, ours: float, peer: float) -> bool:
        """Whether these milliseconds are enough."""
        if self.kind == "ms":
            return ours <= self.value
        return ours <= self.value * peer if self.kind == "plain" else peer >= self.value * ours


class Row(NamedTuple):
    """`peer`: cudnn, plain (our own LSTM without options) or loop (the kernel `reference`)."""

    cell: str
    kind: str
    options: dict[str, object]
    size: Size
    peer: str
    limit: Limit | None

    @property
    def name(self) -> str:
        return f"{self.cell} {self.size}"


SIZES = [Size(64, 70, 1150), Size(128, 128, 512), Size(64, 256, 1024), Size(16, 1024, 768), Size(64, 512, 256)]
LOOP_SIZES = [Size(64, 70, 1150), Size(128, 128, 512), Size(64, 64, 256)]
"""Few steps: a loop over many makes a graph of many thousand kernels."""
_MOST_MS = dict(zip(SIZES, (1.00, 1.00, 2.70, 5.6, 2.0), strict=True))


def rows(*, small: bool = False) -> list[Row]:
    """All of them; `small`: as many, each of a size that a CPU does at once."""
    made = [Row("LSTM", "LSTM", {}, size, "cudnn", Limit("ms", _MOST_MS[size])) for size in SIZES]
    made += [Row("peephole LSTM", "LSTM", {"peephole": True}, size, "plain", Limit("plain", 1.05)) for size in SIZES]
    made += [Row("GRU reset after", "GRU", {}, size, "cudnn", Limit("peer", 1.5)) for size in SIZES]
    made += [Row("GRU reset before", "GRU", {"reset": "before"}, size, "loop", Limit("peer", 8)) for size in LOOP_SIZES]
    made += [Row("layer-norm LSTM", "LSTM", {"layer_norm": True}, size, "loop", Limit("peer", 8))
             for size in LOOP_SIZES]  # fmt: skip
    made += [Row("Elman tanh", "RNN", {}, size, "cudnn", None) for size in SIZES]
    return [row._replace(size=Size(2, 3, 8 + number % 2)) for number, row in enumerate(made)] if small else made


@dataclass(frozen=True)
class Measured:
    """Median milliseconds of each side of a row, as graphs and eager; `ours` is one of them. `fault`: why it does not
    count."""

    row: Row
    graphs: dict[str, float]
    eager: dict[str, float]
    fault: str = ""

    @property
    def met(self) -> bool | None:
        """Whether what is required holds; None where nothing is."""
        if self.fault:
            return False
        return None if self.row.limit is None else self.row.limit.met(self.graphs["ours"], self.best(self.graphs)[1])

    def best(self, times: dict[str, float]) -> tuple[str, float]:
        """The fastest of the others."""
        return min(((label, ms) for label, ms in times.items() if label != "ours"), key=lambda side: side[1])

    @property
    def cells(self) -> tuple[str, ...]:
        """What the table shows of it."""
        required = "" if self.row.limit is None else str(self.row.limit)
        mark = {True: "met", False: "MISSED", None: ""}[self.met]
        if not self.graphs:
            return (self.row.cell, str(self.row.size), "", self.fault, *[""] * 5, required, mark)
        label, peer = self.best(self.graphs)
        named = f"{self.row.peer} {label}" if self.row.peer == "cudnn" else label
        eager = ("", "", "")
        if self.eager:
            other, slow = self.best(self.eager)
            eager = (f"{self.eager['ours']:.3f}", f"{slow:.3f}", f"{slow / self.eager['ours']:.2f}")
            if other != label:
                named += f", eager {other}"
        ratio = f"{peer / self.graphs['ours']:.2f}"
        mark += f" ({self.fault})" if self.fault else ""
        return (self.row.cell, str(self.row.size), f"{self.graphs['ours']:.3f}", named, f"{peer:.3f}", ratio,
                *eager, required, mark)  # fmt: skip

    def __str__(self) -> str:
        sides = ", ".join(f"{label} {ms:.3f}" for label, ms in self.graphs.items())
        eager = ", ".join(f"{label} {ms:.3f}" for label, ms in self.eager.items())
        times = f"graphs: {sides}; eager: {eager}" if self.graphs else self.fault
        return f"{self.row.name:<32} {self.cells[-2]:<15} {self.cells[-1]:<7} {times}"


_HEAD = ("cell", "rows, steps, units", "ours, ms", "the other side", "its ms", "ratio",
         "ours eager", "its eager", "ratio", "required", "")  # fmt: skip


def table(measured: list[Measured]) -> str:
    """All rows in Markdown. A ratio is how many times as fast ours is."""
    lines = [_HEAD, tuple("---" for _ in _HEAD), *(one.cells for one in measured)]
    missed = sum(one.met is False for one in measured)
    end = f"{missed} of {len(measured)} rows missed" if missed else "every requirement holds"
    return "\n".join([*("| " + " | ".join(cells) + " |" for cells in lines), "", end])


def facts(command: str, device: str) -> str:
    """What the figures depend on, in a line."""
    triton = compiler_version() if lacks_triton() is None else "none"
    name = torch.cuda.get_device_name() if device == "cuda" else f"{platform.machine()}, no GPU"
    return (
        f"{time.strftime('%Y-%m-%d %H:%M')}, {name}, torch {torch.__version__}, "
        f"cuDNN {torch.backends.cudnn.version()}, Triton {triton}, Python {platform.python_version()}: `{command}`"
    )
