"""Every figure that thereafter is held to on a processor, in one table: measured, required, aim, ratio, ok or MISSED.

    python benchmarks/processor_table.py --busy                  # `make bench`: all of it, about ten minutes
    python benchmarks/processor_table.py --quick --only lstm,gru
    python benchmarks/processor_table.py --busy --write          # and into README.md and diary/ of this folder

The parts, each measured by the benchmark of its own: lstm, gru, elman (against the faster setting of torch, four sizes
and their mean), norm (the layer-norm LSTM against a loop over steps), streaming (one step against ONNX Runtime), ngram
(scoring ids against KenLM), training (a language model against a torch loop), busy (what every cell keeps of its quiet
speed beside an endless loop on one core: `busy.py` says why on one).

Peers take turns, so that a figure comes from the same seconds on both sides. A part that cannot run here (an oracle or
a corpus is missing) is named, and the others go on. A figure that is missed is followed by a profile of what was timed.
Exit code 0: every requirement holds; 1: one is missed; 2: a part did not run.
"""

from __future__ import annotations

import thereafter  # noqa: F401  # isort: skip  # before torch: so its threads wait as they do under a command

import argparse
import json
import os
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

import busy
import ngram
import recurrent
import steps
import training
from profiled import profiled
from recorded import Run, aligned, write
from report import Absent, Report
from thereafter.errors import ThereafterError

SEED = 0


@dataclass(frozen=True)
class Scale:
    """How long and how large: rounds of a figure, seconds of a turn beside the loop, sizes (B, T, inputs, hidden)."""

    rounds: int = 7
    busy_rounds: int = 5
    busy_seconds: float = 0.3
    training_rounds: int = 7
    training_steps: int = 6
    sizes: recurrent.Sizes = recurrent.SIZES
    busy_sizes: recurrent.Sizes = busy.SIZES
    streaming: tuple[int, ...] = (256, 512)
    hidden: tuple[int, ...] = (200, 650)
    cells: tuple[str, ...] = tuple(busy.CELLS)
    profile_seconds: float = 1.0
    loops: int = 1


FULL = Scale()
QUICK = Scale(rounds=3, busy_rounds=2, busy_seconds=0.15, training_rounds=3, training_steps=3)
_TOY = ((2, 3, 4, 80),)
TINY = Scale(1, 1, 0.01, 1, 1, _TOY, _TOY, (8,), (8,), ("LSTM, projected", "Elman"), 0.0)


def main() -> int:
    given = arguments()
    scale = TINY if given.tiny else QUICK if given.quick else FULL
    scale = Scale(**vars(scale) | {"loops": given.loops})
    warnings.filterwarnings("ignore")
    torch.manual_seed(SEED)
    torch.set_num_threads(torch.get_num_threads())  # said aloud, so that the product library does not choose fewer
    run = Run.here(" ".join(["python benchmarks/processor_table.py", *sys.argv[1:]]), SEED)
    print(run.machine, run.facts, sep="\n", end="\n\n", flush=True)
    report, absent = Report(), dict[str, str]()
    began = time.perf_counter()
    try:
        for part in given.only:
            measure(part, report, scale, absent)
    except KeyboardInterrupt:
        absent["the rest"] = "stopped"
    print(f"\n{run.machine}\n{run.facts}\n{time.perf_counter() - began:.0f} s\n\n{aligned(report.rows)}\n")
    profiles = {
        figure: profiled(report.jobs[figure], scale.profile_seconds)
        for figure in report.missed
        if figure in report.jobs
    }
    for figure, text in profiles.items():
        print(f"MISSED: {figure}\n{text}\n")
    for part, why in absent.items():
        print(f"*** NOT MEASURED: {part}: {why} ***")
    if given.json is not None:
        whole = {"machine": run.machine, "facts": run.facts, "figures": report.rows, "profiles": profiles}
        given.json.write_text(json.dumps(whole | {"absent": absent}, indent=1) + "\n", encoding="utf-8")
    if given.write is not None and "the rest" not in absent:
        write(given.write, run, report.rows, profiles, absent)
    return max(report.close(None), 2 if absent else 0)


def arguments() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--busy", action="store_true", help="the rows beside an endless loop, too")
    options.add_argument("--only", type=parts, metavar="PART,...", help=f"of {','.join(PARTS)}")
    options.add_argument("--quick", action="store_true", help="fewer rounds: under three minutes")
    options.add_argument(
        "--tiny", action="store_true", help="sizes of a toy, to see that it runs: its figures mean nothing"
    )
    options.add_argument("--loops", type=int, default=1, metavar="N", help="cores that are loaded beside; 1")
    options.add_argument("--json", type=Path, metavar="FILE", help="write every figure there")
    options.add_argument(
        "--write",
        type=Path,
        nargs="?",
        const=Path(__file__).parent,
        metavar="FOLDER",
        help="put the figures into README.md and diary/ there; benchmarks/",
    )
    given = options.parse_args()
    given.only = given.only or [part for part in PARTS if given.busy or part != "busy"]
    if given.busy and "busy" not in given.only:
        given.only.append("busy")
    return given


def parts(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in PARTS]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown) or 'nothing'}; expected some of {', '.join(PARTS)}")
    return names


def measure(part: str, report: Report, scale: Scale, absent: dict[str, str]) -> None:
    """One part: its rows get its name and the time. What keeps it from running is noted, so that the others go on."""
    before = len(report.rows)
    try:
        PARTS[part](report, scale)
    except (Absent, ThereafterError) as why:
        absent[part] = str(why)
    except Exception as error:  # ten minutes of others' figures are not lost with it
        traceback.print_exc()
        absent[part] = f"{type(error).__name__}: {error}"
    for row in report.rows[before:]:
        row |= {"part": part, "time": time.strftime("%Y-%m-%d %H:%M")}


@cache
def rate(rounds: int) -> float:
    """GFLOP/s of a large matrix product, measured once."""
    return recurrent.matrix_rate(rounds)


def against_torch(kind: str) -> Callable[[Report, Scale], None]:
    def rows(report: Report, scale: Scale) -> None:
        recurrent.against_torch(report, kind, scale.rounds, rate(scale.rounds), scale.sizes)

    return rows


def norm(report: Report, scale: Scale) -> None:
    recurrent.layer_norm(report, scale.rounds, scale.sizes)


def streaming(report: Report, scale: Scale) -> None:
    steps.streaming(report, scale.rounds, scale.streaming)


def scoring(report: Report, scale: Scale) -> None:
    data, oracle = ngram.find_data(ptb_alone=True), ngram.find_oracle()
    lm = ngram.five_gram(data / "ptb" / "ptb.train.txt")
    with tempfile.TemporaryDirectory(prefix="thereafter-bench-") as folder:
        rounds = max(ngram.LEAST_ROUNDS, scale.rounds)
        rate, _ = ngram.speeds(lm, Path(folder), data / "ptb" / "ptb.test.txt", oracle, rounds)
    beside = f"M tokens/s: ours {rate['ids']:.2f} ({rate['one core']:.2f} on one core), KenLM {rate['kenlm']:.2f}"
    report.add("scoring n-grams from ids against KenLM", rate["ids"] / rate["kenlm"], 1.5, beside)


def end_to_end(report: Report, scale: Scale) -> None:
    os.environ["THEREAFTER_DATA"] = str(ngram.find_data(ptb_alone=True))
    text = training.penn_treebank()
    for hidden in scale.hidden:
        training.against_torch(report, hidden, text, scale.training_rounds, scale.training_steps)


def beside_loop(report: Report, scale: Scale) -> None:
    cells = {name: busy.CELLS[name] for name in scale.cells}
    busy.beside_loop(report, cells, scale.busy_sizes, scale.busy_rounds, scale.busy_seconds, scale.loops)


PARTS: dict[str, Callable[[Report, Scale], None]] = {
    "lstm": against_torch("LSTM"),
    "gru": against_torch("GRU"),
    "elman": against_torch("RNN"),
    "norm": norm,
    "streaming": streaming,
    "ngram": scoring,
    "training": end_to_end,
    "busy": beside_loop,
}

if __name__ == "__main__":
    sys.exit(main())
