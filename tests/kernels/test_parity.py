"""The contract of kernels, over all that is registered: a new cell or kernel is tested before anyone writes a test."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from conditions import WIDE
from parity import PAIRS, SITUATIONS, Situation, cases, compare, make_job, ready, situations

from refusals import assert_refused
from thereafter.base import compiled
from thereafter.cells import CELLS
from thereafter.errors import OptionError, UnknownNameError
from thereafter.kernels.cpu import CPU
from thereafter.kernels.scan import KERNELS, choose, unroll

CASES = list(cases())

# torch says once that it takes another way for projections; its own layers say so too
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections")


@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.float64, marks=pytest.mark.wide)], ids=str)
@pytest.mark.parametrize(("name", "options"), CASES, ids=[f"{n}-{o}" for n, o in CASES])
def test_every_kernel_equals_the_reference(name: str, options: dict[str, Any], dtype: torch.dtype):
    tally = compare(name, options, [dtype], "cpu")
    assert not tally.wrong, "\n".join(tally.wrong)
    left_alone = options.get("layer_norm") and (name != "lstm" or "proj_size" in options)  # the reference loop's
    ours = CELLS.load(name).__module__.startswith("thereafter.")  # a cell of another package has the reference loop
    if compiled.available() and ours and not left_alone and name != "conv_lstm":  # so is torch's convolution
        assert tally.ran["cpu"] > 10, "the fast kernel refuses what it should run"
        made = [
            (at, [make_job(CELLS.load(name)(4, 5, **options), at, one, "cpu") for one in WIDE]) for at in SITUATIONS
        ]
        said = [(at.name, {CPU.refuses(ready(job, at)) for job in jobs}) for at, jobs in made]
        assert not [where for where, reasons in said if len(reasons) > 1], (
            "it refuses in one type what it runs in another"
        )


def test_every_kernel_runs_something():
    cell = CELLS.load("mingru")(4, 5)
    assert cell.linear
    assert compare("mingru", {}, [torch.float64], "cpu").ran["parallel"] == sum(not at.hold for at in situations(cell))
    assert compare("lstm", {}, [torch.float64], "cpu", ["vendor"]).ran["vendor"] > 4
    assert set(PAIRS) <= set(CELLS)


@pytest.mark.parametrize("label", list(KERNELS))
def test_an_explicit_kernel_runs_or_raises_and_says_why(label: str):
    kernel = KERNELS.load(label)
    assert kernel.name == label
    assert kernel.status()
    for name in CELLS:
        for at in (Situation("plain"), Situation("hold", hold="mask"), Situation("record", record=True)):
            job = make_job(CELLS.load(name)(4, 5), at, torch.float64, "cpu")
            reason = kernel.refuses(ready(job, at))
            run = {"hold": job.hold, "record": job.record, "kernel": label}
            if reason is None:
                assert unroll(job.cell, job.x_BTI, job.state, job.weights, **run).y_BTO.shape == (3, 6, 5)
            else:
                with assert_refused(OptionError, "kernel='auto'"):
                    unroll(job.cell, job.x_BTI, job.state, job.weights, **run)


def test_auto_takes_the_fast_one_and_a_typo_is_caught():
    job = make_job(CELLS.load("lstm")(4, 5, peephole=True), Situation("plain"), torch.float32, "cpu")
    if compiled.available():
        assert choose(job).name == "cpu"
    with assert_refused(UnknownNameError, "reference"):
        unroll(job.cell, job.x_BTI, job.state, job.weights, kernel="referense")


@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize("name", list(CELLS))
def test_auto_on_half_precision_finds_a_way(name: str):
    job = make_job(CELLS.load(name)(4, 5), Situation("plain"), torch.bfloat16, "cpu")
    done = unroll(job.cell, job.x_BTI, job.state, job.weights)
    assert done.y_BTO.dtype == torch.bfloat16
    done.y_BTO.sum().backward()
    assert job.x_BTI.grad is not None
    assert bool(job.x_BTI.grad.isfinite().all())
