"""Training speed of the tasks on a GPU, and the share of the time in which the GPU works.

    python benchmarks/tasks_gpu.py
    PYTHONPATH=another/checkout/src python benchmarks/tasks_gpu.py

The second command measures another version of the package by the same program, for a before and after in one sitting;
`--any-order` measures without the fixed order of sums (`training/numerics.py`), for what that costs.
A row is a recipe of the project, with options over it. It is trained for some seconds; the rate is that of the second
half, when whatever is recorded or compiled is there, without validations. Then some steps run under torch's profiler:
the share is the time in which at least one kernel ran, per step, over the time of a step without the profiler.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
import time
from collections import Counter
from pathlib import Path

import torch

import thereafter
from thereafter.training import numerics
from thereafter.training.recipes import read_recipe

RECIPES = Path(__file__).parent.parent / "recipes"
_PROFILED = 40  # steps
_NEVER = 10**9

Row = tuple[str, dict[str, object]]
ROWS: dict[str, Row] = {
    "ud-english-ewt, letters, softmax": ("ewt-tagger", {}),
    "ud-english-ewt, letters, CRF": ("ewt-tagger", {"tag.crf": True}),
    "multi30k, GRU with additive attention": ("multi30k-attention", {}),
    "multi30k, Transformer": ("multi30k-transformer", {}),
    "sst2": ("sst2-classifier", {}),
}


class Watch:
    """Stops a training when it was measured."""

    def __init__(self, seconds: float, profiled: int) -> None:
        self.seconds, self.profiled = seconds, profiled
        self.began: float | None = None
        self.half: tuple[float, int, int] | None = None
        self.last: tuple[float, int, int] | None = None
        self.rate = self.step = 0.0
        self.profiler: torch.profiler.profile | None = None
        self.until = 0

    def before_step(self, training: thereafter.training.watching.Training) -> None:
        at = training.at
        now = time.perf_counter()
        if self.began is None:
            self.began = now
        used = now - self.began
        if self.half is None and used >= self.seconds / 2:
            torch.cuda.synchronize()
            self.half = (time.perf_counter(), at.step, at.seen)
        elif self.half is not None and self.last is None and used >= self.seconds:
            torch.cuda.synchronize()
            self.last = (time.perf_counter(), at.step, at.seen)
            span, steps = self.last[0] - self.half[0], self.last[1] - self.half[1]
            self.rate, self.step = (self.last[2] - self.half[2]) / span, span / max(1, steps)
            if not self.profiled:
                raise KeyboardInterrupt
            self.profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
            self.profiler.__enter__()
            self.until = at.step + self.profiled
        elif self.profiler is not None and at.step >= self.until:
            torch.cuda.synchronize()
            self.profiler.__exit__(None, None, None)
            raise KeyboardInterrupt

    def busy(self) -> tuple[float, list[tuple[str, float]]]:
        """Seconds a step in which the GPU worked; the kernels that took most, in seconds a step."""
        if self.profiler is None:
            return 0.0, []
        spans, names = [], Counter[str]()
        for event in self.profiler.events() or ():
            if "cuda" in str(event.device_type).lower():
                spans.append((event.time_range.start, event.time_range.end))
                names[event.name] += event.time_range.end - event.time_range.start
        total, end = 0.0, -1.0
        for first, last in sorted(spans):
            total += max(0.0, last - max(first, end))
            end = max(end, last)
        scale = 1e-6 / self.profiled
        return total * scale, [(name, us * scale) for name, us in names.most_common(12)]


def measure(name: str, seconds: float, profiled: int) -> dict[str, object]:
    """The figures of a row."""
    recipe_name, options = ROWS[name]
    recipe = read_recipe(RECIPES / f"{recipe_name}.toml")
    watch = Watch(seconds, profiled)
    given = recipe.options | options | {"training.validate_every": _NEVER, "training.epochs": 10_000.0}
    try:
        with thereafter.watching(before_step=watch.before_step):
            thereafter.train(recipe.source, task=recipe.task, valid=recipe.valid, **given)  # type: ignore[call-overload]
    except KeyboardInterrupt:
        pass
    busy, kernels = watch.busy()
    return {
        "row": name,
        "targets_per_second": round(watch.rate),
        "ms_per_step": round(1e3 * watch.step, 3),
        "busy_ms": round(1e3 * busy, 3),
        "busy_share": round(busy / watch.step, 3) if watch.step else 0.0,
        "kernels": [(kernel[:90], round(1e6 * spent, 1)) for kernel, spent in kernels],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0, help="of training, a row; a tagger records for 10")
    parser.add_argument("--only", default="", help="rows whose name has this regular expression")
    parser.add_argument("--profiled", type=int, default=_PROFILED, help="steps under the profiler; 0: none")
    parser.add_argument("--kernels", action="store_true", help="print the kernels that took most")
    parser.add_argument("--any-order", action="store_true", help="sums in any order: trainings of one seed may differ")
    given = parser.parse_args()
    if given.any_order:
        numerics.same_bits = lambda device: contextlib.nullcontext()  # type: ignore[assignment]
    if not torch.cuda.is_available():
        sys.exit("there is no GPU here; this measures one")
    for name in ROWS:
        if re.search(given.only, name):
            figures = measure(name, given.seconds, given.profiled)
            kernels = figures.pop("kernels")
            print(json.dumps(figures), flush=True)
            if given.kernels:
                for kernel in kernels:  # type: ignore[attr-defined]
                    print(f"    {kernel[1]:9.1f} us  {kernel[0]}", flush=True)


if __name__ == "__main__":
    main()
