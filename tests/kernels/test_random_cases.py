"""A few of the jobs that `random_cases.py` draws, and what kernels say about repeats."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from parity import Situation, make_job
from random_cases import draw_case, run_cases

from thereafter.base import compiled
from thereafter.cells import CELLS
from thereafter.kernels.cpu import CPU, plan
from thereafter.kernels.jobs import Job, torch_products
from thereafter.kernels.scan import KERNELS

CASES = 60


needs_numba = pytest.mark.skipif(not compiled.available(), reason="numba is not here")


@needs_numba
@pytest.mark.wide
@pytest.mark.parametrize(("dtype", "many"), [(torch.float32, 31), (torch.float64, 29)], ids=str)
def test_random_jobs_equal_the_reference(dtype: torch.dtype, many: int):
    table, wrong = run_cases(seed=2, first=0, count=CASES, dtypes=[dtype])
    assert not wrong, "\n".join(wrong)
    assert table.splitlines()[-1].startswith(f"{many} cases")


def test_a_case_is_drawn_the_same_again():
    assert str(draw_case(1, 77)) != str(draw_case(1, 78))
    one, two = draw_case(1, 77), draw_case(1, 77)
    assert (one.family, one.seed, one.batch, one.steps) == (two.family, two.seed, two.batch, two.steps)


def job_of(rows: int, name: str = "lstm", **options: int) -> Job:
    return make_job(CELLS.load(name)(4, 5, **options), Situation("plain", batch=rows), torch.float32, "cpu")


@needs_numba
@pytest.mark.parametrize("label", list(KERNELS))
def test_every_kernel_says_when_it_repeats(label: str):
    name = "mingru" if label == "parallel" else "lstm"
    now = torch.get_num_threads()
    answer = KERNELS.load(label).deterministic(job_of(32, name))
    assert now in answer.threads
    assert str(answer).startswith("the same bits on ")


@needs_numba
def test_rows_have_the_same_bits_on_many_threads_and_units_have_not(monkeypatch: pytest.MonkeyPatch):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        monkeypatch.setattr(plan, "strict_products", lambda: True)
        most = plan.most_sharing(32, 0, ragged=False)
        answer = CPU.deterministic(job_of(32))
        assert answer.threads == range(1, most + 1)
        assert str(answer) == f"the same bits on 1 to {most} threads: threads own rows of the batch"
        assert f"32 rows: {answer}" in plan.lines()["same bits"]
        assert CPU.deterministic(job_of(3)).threads == range(2, 3)  # too few to share
        assert "units" in CPU.deterministic(job_of(3)).why
        assert CPU.deterministic(job_of(32, proj_size=2)).threads == answer.threads
        assert CPU.deterministic(job_of(32, "mingru")).threads == range(2, 3)
        monkeypatch.setattr(plan, "strict_products", lambda: False)
        assert CPU.deterministic(job_of(32)).threads == range(2, 3)
        assert "torch's" in CPU.deterministic(job_of(32)).why
    finally:
        torch.set_num_threads(before)


def test_products_of_other_devices_promise_nothing():
    job = job_of(2)
    elsewhere = torch_products(replace(job, x_BTI=job.x_BTI.to("meta")))
    assert str(elsewhere) == (
        "the last bits may differ from run to run: all products are torch's, and those of meta promise nothing"
    )
