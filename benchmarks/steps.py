"""A layer that steps token by token against ONNX Runtime, and with weights stored in fewer bytes.

    python benchmarks/steps.py [--rounds 9] [--json FILE]

One row, an LSTM as wide as its input. ONNX Runtime's is the fastest of its settings, in a process of its own. Ours and
theirs take turns, with a rest between: threads of the one that just ran wait for more work by spinning. Figures are
medians. Exit code 1 if a requirement is missed, 2 if the oracle is absent.
"""

from __future__ import annotations

import thereafter  # noqa: F401  # isort: skip  # before torch: so its threads wait as they do under a command

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

from ngram import find_oracle
from report import Absent, Report, machine
from thereafter import nn

STORED = {"bfloat16": 1.6, "int8": 2.5}  # how many times the float32 step is required at the larger size
_REST = 0.5  # seconds


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    torch.manual_seed(0)
    print(machine(), end="\n\n")
    report = Report()
    try:
        streaming(report, given.rounds)
    except Absent as absent:
        print(f"not measured: {absent}", file=sys.stderr)
        return 2
    return report.close(given.json)


def streaming(report: Report, rounds: int, sizes: tuple[int, ...] = (256, 512)) -> None:
    """Rows of each size: float32 and int8 against ONNX Runtime, and at the largest size each against float32."""
    for size in sizes:
        layer, x = nn.LSTM(size, size), torch.randn(1, size)
        streams = {"float32": layer.stream(1)} | {name: layer.stream(1, weights=name) for name in STORED}
        times: dict[str, list[float]] = {name: [] for name in ("onnx", *streams)}
        with onnx_process(find_oracle(), size) as theirs:
            for _ in range(rounds):
                time.sleep(_REST)
                for name, stream in streams.items():
                    times[name].append(microseconds_a_step(stream, x))
                time.sleep(_REST)
                times["onnx"].append(theirs())
        us = {name: median(values) for name, values in times.items()}
        beside = f"ours {us['float32']:.0f} us, ONNX Runtime {us['onnx']:.0f}"
        figure = f"streaming step ({size},) against ONNX Runtime"
        report.add(figure, us["onnx"] / us["float32"], 1.0, beside, aim=1.3)
        beside = f"ours {us['int8']:.0f} us, ONNX Runtime in float32 {us['onnx']:.0f}"
        figure = f"streaming step, int8 weights ({size},) against ONNX Runtime"
        report.add(figure, us["onnx"] / us["int8"], None, beside, aim=2.0)
        for name, required in STORED.items():
            required_here = required if size == max(sizes) else None
            beside = f"{us[name]:.0f} us, float32 {us['float32']:.0f}"
            report.add(f"streaming step {size}, {name} weights against float32", us["float32"] / us[name],
                       required_here, beside)  # fmt: skip


def microseconds_a_step(stream: nn.Stream, x: Tensor, steps: int = 500) -> float:
    for _ in range(20):
        stream.step(x)
    began = time.perf_counter()
    for _ in range(steps):
        stream.step(x)
    return 1e6 * (time.perf_counter() - began) / steps


@contextmanager
def onnx_process(python: Path, size: int) -> Iterator[Callable[[], float]]:
    """ONNX Runtime at work in its own environment: a function that gives the microseconds of a step."""
    command = [python, Path(__file__).with_name("onnx_worker.py"), str(size)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        if worker.stdin is None or worker.stdout is None:
            raise Absent("no pipes to the process of ONNX Runtime")
        asked, answers = worker.stdin, worker.stdout

        def go() -> float:
            asked.write("go\n")
            asked.flush()
            answer = answers.readline()
            if not answer:
                raise Absent(f"{python} cannot run ONNX Runtime (is it installed there?); try `make oracles`")
            return float(answer)

        try:
            yield go
        finally:
            asked.close()


if __name__ == "__main__":
    sys.exit(main())
