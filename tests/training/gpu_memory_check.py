"""The memory of a real GPU: `batch="auto"` finds what fits, a full GPU is one sentence, and the run goes on.

    PYTHONPATH=src:tests/kernels python -W ignore tests/training/gpu_memory_check.py [GIB]

It needs torch, numpy, a GPU, and the corpora ptb and ud-english-ewt. The process takes GIB of the GPU's memory at most
(4 unless named), so that batches stay small and steps short.

1. Tagging ud-english-ewt and an LSTM on ptb with batch="auto": the number, how long the search took, the largest memory
   of the training with it, which must stay within the limit; the same seed with the number written down has the same
   losses.
2. A batch that is far too large: one sentence; its run begins again with more memory.
3. Memory that is gone in the middle of a training: the newest snapshot is saved, and the resumed run ends as one that
   was never stopped.

One line a check; exit status 1 where something is wrong.
"""

from __future__ import annotations

import faulthandler
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import thereafter
from thereafter.errors import DeviceMemoryError
from thereafter.training import fit

_GIB = 2**30
SMALL: dict[str, Any] = {"device": "cuda", "seed": 1, "log_every": 1}
LSTM: dict[str, Any] = {"model": "lstm", "hidden": 256, "layers": 1, "steps": 35, "tokens": "word", "rate": 0.002}


class Wrong(Exception):
    """What is not as it should be."""


def require(holds: bool, what: str) -> None:
    if not holds:
        raise Wrong(what)


def losses(model: Any) -> list[float]:
    """The loss of every step."""
    return [line["loss"] for line in model.log if line["event"] == "step"]


def timed_search(train: Callable[[], Any]) -> tuple[Any, float, int]:
    """What `train()` returns, the seconds of the search in it, and the largest memory after the search."""
    own, seconds = fit.find_batch, [0.0]
    own_reset, peaks = torch.cuda.reset_peak_memory_stats, [0]

    def find(*given: Any, **named: Any) -> int:
        began = time.perf_counter()
        rows = own(*given, **named)
        seconds[0] = time.perf_counter() - began
        own_reset()
        peaks.clear()
        return rows

    def reset(*given: Any) -> None:  # every recording counts anew
        peaks.append(torch.cuda.max_memory_reserved())
        own_reset(*given)

    fit.find_batch, torch.cuda.reset_peak_memory_stats = find, reset
    try:
        model = train()
    finally:
        fit.find_batch, torch.cuda.reset_peak_memory_stats = own, own_reset
    return model, seconds[0], max(torch.cuda.max_memory_reserved(), *peaks)


def check_auto(title: str, train: Callable[[object], Any], limit: float) -> str:
    """Part 1."""
    model, seconds, most = timed_search(lambda: train("auto"))
    rows = model.config["training"]["batch"]
    require(isinstance(rows, int) and rows > 0, f"batch is {rows!r}")
    require(most <= limit, f"{most / _GIB:.2f} GiB were taken")
    notes = [note for line in model.log for note in line.get("notes", []) if note.startswith("batch ")]
    require(bool(notes), "no note on the batch")
    first, again = losses(model), losses(train(rows))
    require(first == again, f"losses {first[:3]} with auto, {again[:3]} with {rows}")
    return f"batch {rows:,} after {seconds:.1f} s, {most / _GIB:.2f} GiB reserved at most, {len(first)} steps alike"


def tag(batch: object) -> Any:
    return thereafter.train("ud-english-ewt", task="tag", batch=batch, epochs=1, precision="bfloat16", **SMALL)


def ptb(batch: object, **more: Any) -> Any:
    options: dict[str, Any] = {**SMALL, **LSTM, "tokens_budget": 1_500_000, "validate_every": 1000, **more}
    return thereafter.train("ptb", batch=batch, **options)


def check_too_large(folder: Path) -> str:
    """Part 2."""
    run = folder / "large"
    try:
        ptb(13_000, out=run, precision="float32", steps=70, hidden=1024, tokens_budget=2_000_000)
    except DeviceMemoryError as error:
        sentence = str(error)
    else:
        raise Wrong("it fits; try less memory")
    require("\n" not in sentence and "Traceback" not in sentence, sentence)
    require(sentence.startswith("the GPU is out of memory: it has "), sentence)
    require(sentence.endswith(f"begins again with: thereafter train --resume {run}"), sentence)
    torch.cuda.set_per_process_memory_fraction(1.0)
    steps = thereafter.resume(run).log[-1]["steps"]
    return f"{sentence.partition('; try')[0]}; with all of the memory it took {steps} steps"


def check_in_the_middle(folder: Path) -> str:
    """Part 3."""
    options: dict[str, Any] = {"graphs": False, "checkpoint_every": 5, "tokens_budget": 64 * 35 * 40}
    whole = ptb(64, **options)
    ballast: list[torch.Tensor] = []

    def fill(training: Any, report: Any) -> None:
        if report.step == 22 and not ballast:
            torch.cuda.empty_cache()
            size = 2**30
            while size > 2**16:
                try:
                    ballast.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
                except torch.cuda.OutOfMemoryError:
                    size //= 2

    run = folder / "middle"
    try:
        with thereafter.watching(after_step=fill):
            ptb(64, out=run, **options)
    except DeviceMemoryError as error:
        sentence = str(error)
    else:
        raise Wrong("it went on without memory")
    finally:
        ballast.clear()
    require("goes on with: thereafter train --resume" in sentence, sentence)
    require((run / "state.safetensors").exists() or any(run.glob("*state*")), f"no checkpoint in {run}")
    again = thereafter.resume(run)
    pairs = zip(whole.model.parameters(), again.model.parameters(), strict=True)
    worst = max(float((a - b).abs().max()) for a, b in pairs)
    require(worst < 1e-5, f"weights differ by {worst:.1e}")
    return f"{sentence[sentence.index('nothing is lost') :].partition(' with: ')[0]}; weights differ by {worst:.1e}"


def main() -> None:
    faulthandler.dump_traceback_later(280, exit=True)
    limit = float(sys.argv[1] if len(sys.argv) > 1 else 4) * _GIB
    total = torch.cuda.get_device_properties(0).total_memory

    def limited(check: Callable[[], str]) -> str:
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(limit / total)
        return check()

    failed = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        checks: dict[str, Callable[[], str]] = {
            "auto, tagging ewt": lambda: check_auto("tag", tag, limit),
            "auto, lstm on ptb": lambda: check_auto("ptb", ptb, limit),
            "a batch too large": lambda: check_too_large(folder),
            "full in the middle": lambda: check_in_the_middle(folder),
        }
        for title, check in checks.items():
            began = time.perf_counter()
            try:
                result = limited(check)
            except Exception as error:
                failed.append(title)
                place = traceback.extract_tb(error.__traceback__)[-1]
                result = f"FAILED {type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
            print(f"{title:20} {time.perf_counter() - began:6.1f} s  {result}", flush=True)  # noqa: T201
    print(json.dumps({"failed": failed}) if failed else "all passed")  # noqa: T201
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
