"""The scripts that check the kernel `gpu` on a GPU, as far as a machine without one can: they judge as they should."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import gpu_carry
import gpu_faults
import gpu_programs
import pytest
import torch
from conditions import NARROW, Draw, error_of, fair_draw, from_kinks, representable
from gpu_programs import Case, Outcome
from gpu_trials import TRIALS, Place
from parity import TOLERANCES, Situation, differences, make_job, pieces, plain, ready, results
from tally import Tally, share_of
from watchdog import STATUS

from refusals import assert_refused
from thereafter.cells import CELLS
from thereafter.kernels import gpu
from thereafter.kernels.jobs import Job
from thereafter.kernels.plain import REFERENCE
from thereafter.kernels.scan import KERNELS

HERE = Path(__file__).parent


def test_what_a_check_would_launch_is_noted_without_a_gpu(tmp_path: Path):
    assert gpu_carry.note_all(tmp_path, ["row sums", "driver"]) == 0
    wanted = gpu_carry.noted(tmp_path)
    assert {each.function for each in wanted} == {"add_rows", "scale", "meet", "many"}
    assert {each.capability for each in wanted} == {90}
    ways = {(dict(each.constants)["SORTED"], each.warps) for each in wanted if each.function == "add_rows"}
    assert ways == {(True, 4), (False, 4)}
    assert torch.Tensor.data_ptr(torch.zeros(1)) != 4096, "the stand-ins are gone"


def test_a_cell_is_laid_over_a_gpu_that_is_not_here(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        gpu_programs, "all_cases", lambda: [Case("lstm", {}, (64, 3, 256)), Case("lstm", {}, (64, 3, 1150))]
    )
    hopper, ada = (gpu_carry.planned("sizes", capability, 132) for capability in (90, 89))
    waiting = [
        {(wanted.function, dict(wanted.constants)["CHUNK"] > 0): blocks for wanted, blocks in plan.items() if blocks}
        for plan in (hopper, ada)
    ]
    assert set(waiting[0]) == {("forward", False), ("forward", True), ("backward", False), ("backward", True)}
    assert set(waiting[1]) == {("forward", False), ("backward", False)}
    assert all(blocks <= 132 for blocks in (*waiting[0].values(), *waiting[1].values()))


def test_blocks_of_a_multiprocessor_by_registers_and_shared_memory():
    assert gpu_carry.at_once(90, 255, 8, 16384) == 1
    assert gpu_carry.at_once(90, 128, 4, 16384) == 4
    assert gpu_carry.at_once(90, 32, 4, 100 << 10) == 2
    assert gpu_carry.at_once(89, 32, 4, 100 << 10) == 0


@pytest.fixture(scope="module")
def bench() -> Any:
    """The rows of `benchmarks/recurrent_gpu.py`."""
    folder = str(HERE.parents[1] / "benchmarks")
    sys.path.insert(0, folder)
    try:
        module: ModuleType = importlib.import_module("gpu_rows")
        turns: ModuleType = importlib.import_module("gpu_turns")
    finally:
        sys.path.remove(folder)
    module.alternating, module.Side, module.as_graph = turns.alternating, turns.Side, turns.as_graph
    return module


def test_both_narrow_types_hold_the_numbers():
    numbers = representable(torch.randn(10_000, dtype=torch.float64) * torch.logspace(-8, 2, 10_000), torch.float16)
    for dtype in NARROW:
        assert torch.equal(numbers.to(dtype).double(), numbers)
    assert float((representable(numbers, torch.float32) - numbers).abs().max()) == 0


def test_an_error_is_a_share_of_the_largest_entry_or_of_the_norm():
    truth = torch.tensor([3.0, -4.0], dtype=torch.float64)
    value = truth + torch.tensor([0.0, 0.1], dtype=torch.float64)
    assert error_of(value, truth, torch.bfloat16) == pytest.approx(0.1 / 4)
    assert error_of(value, truth, torch.bfloat16, by_norm=True) == pytest.approx(0.1 / 5)
    small = 1e-3 * truth
    assert error_of(small + 0.01, small, torch.bfloat16) == pytest.approx(0.1)  # of the floor
    assert error_of(small + 0.01, small, torch.float32) == pytest.approx(0.01)


def test_what_is_beyond_the_tolerance_is_named_and_a_nan_is():
    truth = {"output": torch.ones(2, dtype=torch.float64), "gradient of x": torch.ones(2, dtype=torch.float64)}
    fair = {name: (array * 1.01).bfloat16() for name, array in truth.items()}
    allowed = TOLERANCES[torch.bfloat16]
    largest, wrong = differences(fair, truth, torch.bfloat16, allowed)
    assert not wrong
    assert 0.2 < largest < 0.4
    broken = fair | {"output": torch.full((2,), torch.nan, dtype=torch.bfloat16)}
    assert differences(broken, truth, torch.bfloat16, allowed) == (
        float("inf"),
        ["output: off by nan where 3.0e-02 is allowed"],
    )
    assert "float32" in differences(truth, fair, torch.float32, 1.0)[1][0]


def test_a_draw_stays_clear_of_kinks_and_is_steady():
    at = Situation("plain")
    cell = CELLS.load("elman")(4, 5, nonlinearity="relu")

    def make(attempt: int) -> Job:
        return plain(make_job(cell, at, torch.bfloat16, "cpu", attempt))

    drawn = fair_draw(
        make,
        lambda job: ready(job, at),
        lambda job: results(REFERENCE, job, at),
        torch.bfloat16,
        TOLERANCES[torch.bfloat16],
    )
    assert from_kinks(ready(drawn.job, at)) >= 0.01
    assert from_kinks(ready(make_job(CELLS.load("lstm")(4, 5), at, torch.float64, "cpu"), at)) == float("inf")
    shaky = Draw(0, drawn.job, {}, moves=0.04)
    assert shaky.allowed(torch.bfloat16, 3e-2) == pytest.approx(0.08)
    assert shaky.allowed(torch.float16, 6e-3) == pytest.approx(0.08 / 8)
    assert shaky.allowed(torch.float32, 1e-4) == 1e-4


def test_narrow_types_are_for_the_kernel_gpu_on_a_gpu():
    wanted = list(TOLERANCES)
    on_gpu, on_cpu = pieces("cuda", wanted, ()), pieces("cpu", wanted, ())
    assert {piece[4] for piece in on_gpu if piece[2] == NARROW} == {("gpu",)}
    assert not [piece for piece in on_cpu if piece[2] == NARROW]
    assert len(on_gpu) == 2 * len(on_cpu)


def test_shares_are_equal_and_leave_nothing_out():
    things = list(range(11))
    shares = [share_of(things, f"{number}/4") for number in (1, 2, 3, 4)]
    assert sorted(number for share in shares for number in share) == things
    assert {len(share) for share in shares} == {2, 3}
    with assert_refused(SystemExit, "--share", "5/4", "1/4", "4/4"):
        share_of(things, "5/4")


def test_a_tally_adds_up_and_quotes_refusals():
    total = Tally()
    for error in (0.2, 0.7):
        one = Tally(largest={("gpu", torch.bfloat16): error}, wrong=["a"])
        one.ran["gpu"] += 1
        one.refused["gpu", "no steps"] += 2
        total.add(one)
    shown = total.lines(["gpu"], "gpu")
    assert total.wrong == ["a", "a"]
    assert "ran     2, refused     4" in shown[0]
    assert "bfloat16 0.70" in shown[0]
    assert shown[1] == "gpu refused     4: no steps"


def test_a_case_is_judged_by_what_is_allowed():
    case = Case("lstm", {"peephole": True}, (64, 70, 1150))
    assert str(case) == "lstm peephole (64, 70, 1150) bfloat16"
    good = Outcome(case, ours={"output": 0.002, "gradient of x": 0.012}, other="vendor", launches=20)
    good.theirs = {"output": 0.003, "gradient of x": 0.009}
    assert good.worst == "gradient of x"
    assert not good.wrong  # 1.5 times the other way's
    assert str(good).startswith("ok ")
    bad = Outcome(case, ours={"output": float("nan")}, launches=20, other_bits=3)
    assert bad.wrong == ["output off by nan where 1.0e-02 is allowed", "3 of 20 launches gave other bits"]
    relu = Outcome(Case("elman", {"nonlinearity": "relu"}, (3, 6, 5)))
    assert (relu.allowed("gradient of x"), relu.allowed("output")) == (0.1, 0.01)
    refused = Outcome(case, refusal="too large")
    shown = "\n".join(gpu_programs.summary([good, bad, refused]))
    assert "lstm peephole                       2        1      1" in shown
    assert "refused    1: too large" in shown


def test_every_cell_is_tried_at_every_size():
    cases = gpu_programs.all_cases()
    assert len(set(map(str, cases))) == len(cases)
    plain_cases = [case for case in cases if case.dtype == torch.bfloat16 and not case.ragged and not case.autocast]
    assert len(plain_cases) == len(gpu_programs.VARIANTS) * len(gpu_programs.SIZES)
    for case in cases:
        assert case.make().hidden_size == case.size[2]


@pytest.mark.usefixtures("bfloat16")
def test_a_case_runs_and_repeats_on_the_plain_loop():
    outcome = gpu_programs.check(Case("gru", {"reset": "before"}, (3, 6, 5)), REFERENCE, "cpu", 2)
    assert not outcome.wrong
    assert {"output", "state h", "gradient of x", "gradient of initial h", "gradient of bias_hh"} <= set(outcome.ours)
    assert KERNELS.load("vendor").name != outcome.other == "reference"


@pytest.mark.usefixtures("bfloat16")
def test_a_trial_that_does_not_end_is_killed_and_says_so():
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with assert_refused(gpu_faults.TrialFailed, "0.2"):
        gpu_faults.sentence(process, 0.2)
    assert process.returncode
    assert TRIALS["without gradients"](Place("cpu", "reference")) == "the same bits as with gradients"


def test_a_process_that_waits_for_ever_ends_itself():
    code = "import time\nfrom watchdog import watched\nwith watched('a case', 0.2):\n    time.sleep(60)"
    done = subprocess.run([sys.executable, "-c", code], cwd=HERE, capture_output=True, text=True)
    assert done.returncode == STATUS
    assert done.stderr.startswith("a case: no end after 0.2 s")


def test_what_is_required_of_a_row_is_judged(bench: Any):
    most, times, least = bench.Limit("ms", 1.0), bench.Limit("plain", 1.05), bench.Limit("peer", 1.5)
    assert (most.met(1.0, 0.1), most.met(1.01, 9.0)) == (True, False)
    assert (times.met(1.05, 1.0), times.met(1.06, 1.0)) == (True, False)
    assert (least.met(1.0, 1.5), least.met(1.0, 1.49)) == (True, False)
    assert [str(limit) for limit in (most, times, least)] == ["<= 1.0 ms", "<= 1.05 x plain", ">= 1.5 x"]


def test_the_table_of_the_benchmark_says_what_is_missed(bench: Any):
    rows = bench.rows()
    assert len(rows) == len(bench.rows(small=True)) == 26
    assert [row.limit.value for row in rows[:5]] == [1.0, 1.0, 2.7, 5.6, 2.0]
    gru = next(row for row in rows if row.cell == "GRU reset after")
    fast = bench.Measured(
        gru, {"ours": 1.0, "bfloat16 1150": 4.0, "float16 1152": 1.6}, {"ours": 2.0, "float16 1152": 5.0}
    )
    slow = bench.Measured(gru, {"ours": 1.0, "bfloat16 1150": 1.2}, {})
    refused = bench.Measured(gru, {}, {}, "failed: no GPU")
    elman = bench.Measured(rows[-1], {"ours": 1.0, "bfloat16 256": 1.2}, {})
    assert [one.met for one in (fast, slow, refused, elman)] == [True, False, False, None]
    lines = bench.table([fast, slow, refused, elman]).splitlines()
    assert lines[2] == (
        "| GRU reset after | (64, 70, 1150) | 1.000 | cudnn float16 1152 | 1.600 | 1.60 | 2.000 | 5.000 | 2.50 "
        "| >= 1.5 x | met |"
    )
    assert len({line.count("|") for line in lines[:6]}) == 1
    assert lines[-1] == "2 of 4 rows missed"
    assert "failed: no GPU" in str(refused)


def test_sides_take_turns(bench: Any):
    calls: list[str] = []
    steps = {name: (lambda name=name: calls.append(name)) for name in ("a", "b")}
    assert set(bench.alternating(steps, 3, "cpu")) == {"a", "b"}
    side = bench.Side("a", lambda: (torch.zeros(1),))
    assert bench.as_graph(side) is side.step


def _is_number(value: ast.expr) -> bool:
    """Of one float or several."""
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    return bool(parts) and all(isinstance(part, ast.Constant) and isinstance(part.value, float) for part in parts)


def test_no_loop_of_a_program_turns_a_number_into_an_array():
    """Triton compiles a name that a loop carries with one type: the wide backward pass with peepholes once had two,
    which only compiling it shows."""
    offenders = []
    for path in sorted((Path(gpu.__file__).parent / "code").glob("*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(function, ast.FunctionDef):
                continue
            for loop in ast.walk(function):
                if not (isinstance(loop, ast.For) and ast.unparse(loop.iter).startswith("range(")):
                    continue
                inside = list(ast.walk(loop))
                stored = {part.id for part in inside if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
                offenders += [
                    f"{path.name}:{assigned.lineno} {ast.unparse(assigned)}"
                    for assigned in ast.walk(function)
                    if isinstance(assigned, ast.Assign) and assigned not in inside and assigned.lineno < loop.lineno
                    if _is_number(assigned.value) and ast.unparse(assigned.targets[0]) in stored
                ]
    assert not offenders
