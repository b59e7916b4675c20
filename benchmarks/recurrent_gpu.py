"""Recurrent layers on a GPU: the kernel `gpu` against cuDNN at its best, and against the plain loop as a CUDA graph.

    PYTHONPATH=src python benchmarks/recurrent_gpu.py [--only REGEX] [--write FILE] [--profile] [--graphs]

numpy, torch and Triton are enough. Forward + backward in bfloat16 with gradients of the input and of all weights, input
size = units, time first for both sides, so that neither copies. Medians of runs that take turns, each as a CUDA graph
and eager (begun kernel by kernel). cuDNN's time is the best of bfloat16 and float16, of the size as it is and filled
up to a multiple of 8 and of 64. What is required is required of the graphs. `--profile`: the times of single kernels
of the first row. `--alone`: milliseconds of our side, a row each. `--dry`: small sizes on a CPU, to try the script.
Exit code 1 if something is missed.
"""

from __future__ import annotations

import argparse
import faulthandler
import re
import sys
import time
import traceback
from pathlib import Path

import torch

from gpu_rows import Measured, Row, facts, rows, table
from gpu_turns import Side, Step, alternating, as_graph, profiled
from thereafter import nn
from thereafter.errors import ThereafterError

_AGREE = 0.03  # the norm of the difference between both sides' outputs, as a share of one's: bfloat16 is off by 0.005
_NARROW = (torch.bfloat16, torch.float16)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="", metavar="REGEX", help="rows whose name has it, such as 'GRU.*512'")
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--graphs", action="store_true", help="nothing eager")
    options.add_argument("--alone", action="store_true", help="our side alone, as graphs: to compare two compilers")
    options.add_argument("--write", type=Path, metavar="FILE", help="the table in Markdown")
    options.add_argument("--profile", action="store_true", help="kernel times of the first row, and nothing else")
    options.add_argument("--kernel", default="gpu")
    options.add_argument("--patience", type=float, default=90.0, help="seconds a row, after which all ends")
    options.add_argument("--dry", action="store_true", help="small sizes on a CPU, to try the script")
    given = options.parse_args()
    if not given.dry and not torch.cuda.is_available():
        print("no GPU here")
        return 2
    device = "cpu" if given.dry else "cuda"
    chosen = [row for row in rows(small=given.dry) if re.search(given.only, row.name)]
    if not chosen:
        print(f"no row has {given.only!r} in its name; there are:", *(row.name for row in rows()), sep="\n  ")
        return 2
    print(heading := facts(" ".join(["python benchmarks/recurrent_gpu.py", *sys.argv[1:]]), device), flush=True)
    faulthandler.dump_traceback_later(given.patience, exit=True)  # blocks that wait for each other could wait for ever
    if given.profile:
        print(chosen[0].name, profiled(ours(chosen[0], "ours", given.kernel, device)), sep="\n")
        return 0
    if given.alone:
        for row in chosen:
            faulthandler.dump_traceback_later(given.patience, exit=True)
            times = alternating({"ours": as_graph(ours(row, "ours", given.kernel, device))}, given.rounds, device)
            print(f"{row.name:<32} {times['ours']:.4f}", flush=True)
        return 0
    began = time.monotonic()
    measured = []
    for row in chosen:
        faulthandler.dump_traceback_later(given.patience, exit=True)
        measured.append(measure(row, given.kernel, device, given.rounds, eager=not given.graphs))
        print(measured[-1], flush=True)
    page = f"{heading}\n\n{table(measured)}\n"
    print(f"\n{page}\n{time.monotonic() - began:.0f} s")
    if given.write is not None:
        given.write.write_text(page, encoding="utf-8")
    return 0 if all(one.met is not False for one in measured) else 1


def measure(row: Row, kernel: str, device: str, rounds: int, *, eager: bool) -> Measured:
    """One row: all its sides in turns."""
    torch.manual_seed(0)
    try:
        sides = [ours(row, "ours", kernel, device), *peers(row, kernel, device)]
        far = apart(sides[0], sides[1]) if row.peer != "plain" else 0.0
        graphs = alternating(playable(sides), rounds, device)
        # the plain loop takes the host a tenth of a second and more
        few = 3 if row.peer == "loop" else rounds
        plain = alternating({side.label: side.step for side in sides}, few, device) if eager else {}
    except (ThereafterError, RuntimeError) as error:
        traceback.print_exc()
        return Measured(row, {}, {}, f"failed: {type(error).__name__}: {error}".splitlines()[0])
    finally:
        if device == "cuda":
            torch.cuda.empty_cache()
    return Measured(row, graphs, plain, "" if far < _AGREE else f"the sides' outputs differ by {far:.3f}")


def playable(sides: list[Side]) -> dict[str, Step]:
    """The sides as graphs; one of the others that no graph can take is left out, and named."""
    played = {}
    for side in sides:
        try:
            played[side.label] = as_graph(side)
        except RuntimeError as error:
            if len(sides) == 2 or side.label == "ours":
                raise
            print(f"{side.label} cannot be played from a graph: {str(error).splitlines()[0]}", flush=True)
    return played


def ours(row: Row, label: str, kernel: str, device: str) -> Side:
    """Our layer of a row, by a kernel."""
    made = getattr(nn, row.kind)(row.size.units, row.size.units, kernel=kernel, **row.options, **narrow(device))
    return side_of(label, made, row, device)


def peers(row: Row, kernel: str, device: str) -> list[Side]:
    """What a row is compared with; the first computes the same as ours, with the same weights."""
    if row.peer == "loop":
        return [ours(row, "loop", "reference", device)]
    if row.peer == "plain":
        return [ours(row._replace(options={}), "plain", kernel, device)]
    sides = []
    for units in dict.fromkeys((row.size.units, *(-(-row.size.units // n) * n for n in (8, 64)))):
        for dtype in _NARROW:
            theirs = getattr(torch.nn, row.kind)(units, units, **row.options, device=device, dtype=dtype)
            label = f"{str(dtype).removeprefix('torch.')} {units}"
            sides.append(side_of(label, theirs, row._replace(size=row.size._replace(units=units)), device, dtype))
    return sides


def narrow(device: str) -> dict[str, object]:
    return {"device": device, "dtype": torch.bfloat16}


def side_of(label: str, layer: torch.nn.Module, row: Row, device: str, dtype: torch.dtype = torch.bfloat16) -> Side:
    """Forward and backward of a layer over random numbers, which are the same for all sides of a size."""
    draw = torch.Generator(device).manual_seed(1)
    shape = (row.size.steps, row.size.rows, row.size.units)
    x_TBI, dy_TBO = (torch.randn(shape, generator=draw, device=device).to(dtype) for _ in range(2))
    with torch.no_grad():
        for name, weight in sorted(layer.named_parameters()):
            drawn = torch.rand(weight.shape, generator=draw, device=device) - 0.5
            # small gains: with large ones a step doubles every rounding, and after a hundred nothing can be compared
            weight.copy_(0.25 + 0.25 * drawn if name.startswith("norm") else 2 * row.size.units**-0.5 * drawn)
    leaves = (x_TBI.requires_grad_(), *layer.parameters())

    def step() -> tuple[torch.Tensor, ...]:
        y_TBO = layer(x_TBI)[0]
        return (y_TBO, *torch.autograd.grad(y_TBO, leaves, dy_TBO))

    return Side(label, step)


def apart(one: Side, other: Side) -> float:
    """How far the outputs of two sides are apart, by norm."""
    first, second = (side.step()[0].detach().float() for side in (one, other))
    return float((first - second).norm() / second.norm())


if __name__ == "__main__":
    sys.exit(main())
