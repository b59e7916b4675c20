"""The programs compiled without a GPU, by whichever Triton is installed, and carried to a machine that has a GPU.

    python tests/kernels/gpu_carry.py plan FOLDER                        # note what the checks of this folder ask for
    python tests/kernels/gpu_carry.py compile FOLDER --to CARRIED        # compile what is noted, as far as not done
    python tests/kernels/gpu_carry.py list CARRIED                       # how many programs, by which Triton
    python tests/kernels/gpu_carry.py judge 89 --processors 142          # registers, shared memory, blocks that fit
    THEREAFTER_GPU_PROGRAMS=CARRIED python tests/kernels/parity.py cuda  # on the GPU: these programs, and no others

`plan` and `judge` run the checks on tensors without numbers (torch's fake tensors), so sizes cost nothing. What a check
launches is noted and not run. A program that a check misses on the GPU is noted in CARRIED: `compile` takes that folder
as well. `judge` compiles the programs of real sizes for a kind of GPU that is not here.
"""

# ruff: noqa: E402  (the checks lie in three folders)

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

HERE = Path(__file__).parent
ELSEWHERE = [str(HERE), str(HERE.parent / "decoding"), str(HERE.parents[1] / "benchmarks")]
sys.path[:0] = ELSEWHERE

import gpu_crf_check
import gpu_driver_check
import gpu_generation_check
import gpu_linear_check
import gpu_norm_check
import gpu_programs
import gpu_row_sums_check
import parity

import recurrent_gpu

del sys.path[: len(ELSEWHERE)]  # benchmarks/tasks.py would hide the tests in tests/tasks

from thereafter.cells import CELLS
from thereafter.decoding.graph_generation import GraphSampler
from thereafter.decoding.sampling import Warping, generators
from thereafter.errors import ThereafterError
from thereafter.kernels import gpu, running
from thereafter.kernels.gpu import CAPABILITIES, Gpu, launch
from thereafter.kernels.gpu.compiling import (
    NOTED,
    VERSION_FILE,
    Carried,
    CompiledPrograms,
    Triton,
    Wanted,
    note_wanted,
    read_facts,
)
from thereafter.kernels.gpu.row_sums import add_rows_on_gpu
from thereafter.models.graph_step import GraphStep

PROCESSORS = {80: 108, 86: 82, 89: 142, 90: 132, 100: 148, 120: 170}
"""Multiprocessors of an A100, RTX 3090, L40, H200, B200 and RTX 5090."""
SHARED_OF_ALL = {80: 164, 86: 100, 89: 100, 90: 228, 100: 228, 120: 100}
"""Kilobytes of shared memory of a multiprocessor; each block takes 1 of them for the system."""
REGISTERS = 1 << 16
NARROW = (torch.bfloat16, torch.float16)


class StandIn:
    """A program that is not loaded: it notes what would be launched, and on how many blocks at once."""

    blocks: dict[Wanted, int]

    def __init__(self, wanted: Wanted, device: int) -> None:
        self._wanted = wanted
        StandIn.blocks.setdefault(wanted, 0)

    def launch(self, blocks: int, arguments: object, *, together: bool, stream: int) -> None:
        if together:
            StandIn.blocks[self._wanted] = max(StandIn.blocks[self._wanted], blocks)


class OnCpu(TorchFunctionMode):
    """Whatever is asked of a GPU is asked of the CPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*map(_on_cpu, args), **{name: _on_cpu(value) for name, value in (kwargs or {}).items()})


def _on_cpu(value: object) -> object:
    is_gpu = (isinstance(value, str) and value == "cuda") or (isinstance(value, torch.device) and value.type == "cuda")
    return torch.device("cpu") if is_gpu else value


class NoNumbers:
    """Stands in for a generator of random numbers: tensors without numbers need none."""

    def __init__(self, device: object = None) -> None:
        pass

    def manual_seed(self, seed: int) -> None:
        return None


def _address(array: torch.Tensor) -> int:
    """Of a tensor without numbers: as far from a multiple of 16 as it would be."""
    return 4096 + array.storage_offset() * array.element_size()


@contextmanager
def stand_ins(capability: int, processors: int, *, numbers: bool = False) -> Iterator[None]:
    """Inside the block a GPU seems to be there: launches are noted in `StandIn.blocks`.

    `numbers`: tensors have numbers, and lie on the CPU.
    """
    card = SimpleNamespace(multi_processor_count=processors, major=capability // 10, minor=capability % 10)
    about = CAPABILITIES[capability]
    for cached in (launch._program, launch.capability, launch.processors, gpu.untried, gpu._caution):
        cached.cache_clear()
    replaced: list[Any] = [patch.object(launch, "Loaded", StandIn)]
    replaced += [patch.object(launch, "binary", lambda wanted: wanted)]
    replaced += [
        patch.object(torch.cuda, "get_device_properties", lambda device=0: card),
        patch.object(torch.cuda, "get_device_capability", lambda device=0: (card.major, card.minor)),
        patch.object(torch.cuda, "get_device_name", lambda device=0: "a stand-in"),
        patch.object(torch.cuda, "current_stream", lambda device=0: SimpleNamespace(cuda_stream=0)),
        patch.object(torch.cuda, "synchronize", lambda device=0: None),
        patch.object(Gpu, "refuses", lambda self, job: gpu.cannot_take(job, processors, about)),
        patch.object(gpu, "_caution", lambda device: None),
    ]
    if not numbers:
        replaced += [patch.object(torch.Tensor, "data_ptr", _address), patch.object(torch, "Generator", NoNumbers)]
    modes: list[Any] = [] if numbers else [FakeTensorMode(allow_non_fake_inputs=True), OnCpu()]
    entered = [*replaced, *modes]
    for each in entered:
        each.__enter__()
    try:
        yield
    finally:
        for each in reversed(entered):
            each.__exit__(None, None, None)


def plan_sizes() -> None:
    """`gpu_programs.py`: cells at real sizes."""
    kernel = gpu.GPU
    for case in gpu_programs.all_cases():
        job = gpu_programs.make_job(case, "cpu")
        with torch.autocast("cpu", case.dtype) if case.autocast else nullcontext():
            taken = kernel.refuses(job) is None
        if taken:
            gpu_programs.run(kernel, job, case)


def plan_parity() -> None:
    """`parity.py --kernels gpu --types bfloat16 float16 float32`."""
    kernel = gpu.GPU
    for name, options in parity.cases():
        cell = CELLS.load(name)(4, 5, **options)
        for at in parity.situations(cell):
            for dtype in (*NARROW, torch.float32):
                job = parity.make_job(cell, at, dtype, "cpu")
                if kernel.refuses(parity.ready(job, at)) is None:
                    parity.results(kernel, job, at)


def plan_layer_norm() -> None:
    def launched(job: Any, label: str) -> None:
        gpu_norm_check.everything(job, gpu_norm_check.by_programs)

    silent = {"check": launched, "times": lambda *size: None, "say": lambda line: None}
    with patch.multiple(gpu_norm_check, **silent):
        gpu_norm_check.main()


def plan_linear() -> None:
    def taken(wanted: set[Wanted]) -> None:
        for each in wanted:
            StandIn(each, 0)

    def once(work: Callable[[], object], graph: bool) -> float:
        work()
        return 1.0

    with patch.multiple(gpu_linear_check, compile_all=taken, seconds=once, say=lambda line: None):
        gpu_linear_check.compile_for_checks()
        gpu_linear_check.time_scans()
        gpu_linear_check.time_cells()


def plan_row_sums() -> None:
    ways = ({}, {"short": 1 << 30}, {"short": 0})
    sizes = [size[:3] for size in gpu_row_sums_check.CASES.values()] + [(1843, 3072, 512), (2048, 2048, 400)]
    for tokens, rows, columns in sizes:
        for way in ways:
            index = torch.empty(tokens, dtype=torch.int64)
            add_rows_on_gpu(torch.empty(rows, columns), index, torch.empty(tokens, columns), **way)


def plan_benchmark() -> None:
    for row in recurrent_gpu.rows():
        for options in (row.options, {}) if row.peer == "plain" else (row.options,):
            recurrent_gpu.ours(row._replace(options=options), "ours", "gpu", "cpu").step()


def plan_crf() -> None:
    cases = {*gpu_crf_check.CASES, *gpu_crf_check.SPECIAL, *gpu_crf_check.FEW}
    cases |= {case._replace(counted=True) for case in cases}
    for case in {case._replace(steps=2, rows=2) for case in cases} | {case._replace(steps=1, rows=1) for case in cases}:
        gpu_crf_check.run_all(case)


def plan_generation() -> None:
    """Of models with numbers: a step is checked by what it gives."""
    check = gpu_generation_check

    def chosen(job: Any) -> Any:
        return gpu.GPU if job.cell.linear else running.KERNELS.load("reference")

    with patch.object(running, "choose", chosen):
        for name, options in check.KINDS:
            model = check.drawn(name, options)
            for weights in (None, "bfloat16") if name not in ("window", "average") else (None,):
                for rows in (1, 5):
                    GraphStep(model, rows, weights, programs=True, recorded=False).step(np.zeros(rows, dtype=np.int64))
        both = {"top_k": 9, "top_p": 0.9, "repetition_penalty": 1.2, "temperature": 0.8}
        for name in ("lstm", "awd-lstm", "gru", "mingru", "window"):
            start = check.both(name, "cpu")[0].begin()
            for warping in (*check.WARPINGS, Warping(), Warping(temperature=0.0), Warping(**both)):
                for forbidden in ((), (0,)):
                    about: dict[str, Any] = {"most": 2, "forbidden": forbidden, "recorded": False, "programs": True}
                    GraphSampler(start.model, start.state, generators(0, 2), warping, **about)


def plan_driver() -> None:
    for wanted in (gpu_driver_check.SCALE, gpu_driver_check.MEET, gpu_driver_check.MANY):
        StandIn(wanted, 0)


PLANS: dict[str, tuple[Callable[[], None], bool]] = {
    "driver": (plan_driver, True),
    "sizes": (plan_sizes, False),
    "parity": (plan_parity, False),
    "layer norm": (plan_layer_norm, False),
    "linear": (plan_linear, False),
    "row sums": (plan_row_sums, False),
    "benchmark": (plan_benchmark, False),
    "crf": (plan_crf, True),
    "generation": (plan_generation, True),
}
"""What notes the programs of each check, and whether it needs tensors with numbers."""
JUDGED = ("sizes", "row sums", "linear", "crf", "generation")


def planned(name: str, capability: int, processors: int) -> dict[Wanted, int]:
    """The programs that a check asks for, and the blocks of each that wait for one another."""
    StandIn.blocks = {}
    plan, numbers = PLANS[name]
    with stand_ins(capability, processors, numbers=numbers):
        plan()
    return {replace(wanted, capability=capability): blocks for wanted, blocks in StandIn.blocks.items()}


def note_all(folder: Path, checks: list[str]) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    every: set[Wanted] = set()
    for name in checks:
        began = time.monotonic()
        wanted = set(planned(name, 90, PROCESSORS[90]))
        say(f"{name}: {len(wanted)} programs, {len(wanted - every)} of them new, {time.monotonic() - began:.0f} s")
        every |= wanted
    for each in every:
        note_wanted(folder, each)
    say(f"{len(every)} programs are noted in {folder}")
    return 0


def noted(folder: Path) -> list[Wanted]:
    """The programs that are noted in a folder."""
    wanted = []
    for path in sorted(folder.glob(f"*{NOTED}")):
        facts = json.loads(path.read_text(encoding="utf-8"))
        arguments, constants, aligned = (
            tuple((key, value) for key, value in facts[name]) for name in ("arguments", "constants", "aligned")
        )
        about = (facts["warps"], facts["capability"], aligned)
        wanted.append(Wanted(facts["module"], facts["function"], arguments, constants, *about))
    return wanted


def compile_into(wanted: Wanted, folder: Path) -> str:
    """Why a program cannot be compiled; "" where it was, or is there."""
    try:
        CompiledPrograms(Triton(), lambda: folder).get(wanted)
    except Exception as error:  # Triton raises whatever it likes, and the others are still worth compiling
        return f"{wanted.function} {dict(wanted.constants)}: {type(error).__name__}: {error}"
    return ""


def compile_all(wanted: list[Wanted], folder: Path, jobs: int) -> int:
    """Compile into a folder that can be carried; returns how many could not be."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / VERSION_FILE).write_text(Triton().version(), encoding="utf-8")
    began, faults = time.monotonic(), []
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as processes:
        for done in as_completed([processes.submit(compile_into, each, folder) for each in wanted]):
            if done.result():
                faults.append(done.result())
                say(f"FAILED {faults[-1]}")
    size = sum(path.stat().st_size for path in folder.glob("*.program"))
    say(
        f"Triton {Triton().version()}: {len(wanted) - len(faults)} of {len(wanted)} programs, {size / 1e6:.1f} MB, "
        f"{time.monotonic() - began:.0f} s"
    )
    return len(faults)


def list_carried(folder: Path) -> int:
    """What a folder holds, read from the programs themselves."""
    versions: Counter[str] = Counter()
    for path in folder.glob("*.program"):
        with path.open("rb") as file:
            length = int.from_bytes(file.read(40)[32:], "little")
            versions[json.loads(file.read(length))["triton"]] += 1
    missing = noted(folder)
    say(f"{folder}: {dict(versions)} programs by Triton's version, {len(missing)} were missing")
    say("\n".join(f"missing: {wanted}" for wanted in missing[:10]))
    return int(bool(missing) or set(versions) != {Carried(folder).version()})


def judge(capability: int, processors: int, folder: Path, jobs: int) -> int:
    """Programs for a kind of GPU, by function: registers, local memory, shared memory, blocks that fit at once.

    All whose blocks wait for one another, and one of each other kind.
    """
    blocks: dict[Wanted, int] = {}
    like: set[tuple[str, int]] = set()
    for name in JUDGED:
        for wanted, waiting in planned(name, capability, processors).items():
            kind = (wanted.function, wanted.warps)
            # float16 takes the registers and the memory of bfloat16
            if "*fp16" not in dict(wanted.arguments).values() and (waiting or kind not in like):
                blocks[wanted] = waiting
                like.add(kind)
    failed = compile_all(list(blocks), folder, jobs)
    store = CompiledPrograms(Triton(), lambda: folder)
    rows: dict[str, list[tuple[int, int, int, int, int]]] = defaultdict(list)
    for wanted, needed in blocks.items():
        if not store.path(wanted).exists():
            continue
        made = store.get(wanted)
        facts = read_facts(made.cubin, made.entry)
        fit = processors * at_once(capability, facts.registers, made.warps, made.shared)
        rows[wanted.function].append((facts.registers, facts.spilled, made.shared, needed, fit))
    most = CAPABILITIES[capability].shared
    say(f"capability {capability / 10}, {processors} multiprocessors, {most:,} bytes of shared memory for a block")
    say("| program | compiled | registers | spilling | shared | most blocks that wait | fit |")
    say("| --- | --- | --- | --- | --- | --- | --- |")
    short = 0
    for function, facts_of in sorted(rows.items()):
        registers, _, shared, needed, _ = (max(column) for column in zip(*facts_of, strict=True))
        spilling = sum(spilled > 0 for _, spilled, *_ in facts_of)
        short += sum(number > fit for *_, number, fit in facts_of)
        fit = min((fit for *_, number, fit in facts_of if number == needed), default=0)
        say(f"| {function} | {len(facts_of)} | {registers} | {spilling} | {shared:,} | {needed} | {fit} |")
    say(f"{failed} do not compile, {short} need more blocks at once than fit")
    return int(bool(failed or short))


def at_once(capability: int, registers: int, warps: int, shared: int) -> int:
    """The blocks of one multiprocessor, by its registers and its shared memory."""
    if shared > CAPABILITIES[capability].shared:
        return 0
    of_warp = math.ceil(32 * registers / 256) * 256
    return min(REGISTERS // of_warp // warps, SHARED_OF_ALL[capability] * 1024 // (shared + 1024))


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = options.add_subparsers(dest="verb", required=True)
    for verb in ("plan", "compile", "list"):
        verbs.add_parser(verb).add_argument("folder", type=Path)
    verbs.choices["plan"].add_argument("--checks", nargs="+", choices=list(PLANS), default=list(PLANS))
    verbs.choices["compile"].add_argument("--to", type=Path, required=True)
    verbs.add_parser("judge").add_argument("capability", type=int, choices=list(CAPABILITIES))
    verbs.choices["judge"].add_argument("--to", type=Path, required=True)
    verbs.choices["judge"].add_argument("--processors", type=int)
    for verb in ("compile", "judge"):
        verbs.choices[verb].add_argument("--jobs", type=int, default=2)
    given = options.parse_args()
    try:
        if given.verb == "plan":
            return note_all(given.folder, given.checks)
        if given.verb == "list":
            return list_carried(given.folder)
        if given.verb == "compile":
            return min(1, compile_all(noted(given.folder), given.to, given.jobs))
        processors = given.processors or PROCESSORS[given.capability]
        return judge(given.capability, processors, given.to, given.jobs)
    except ThereafterError as error:
        say(str(error))
        return 2


if __name__ == "__main__":
    sys.exit(main())
