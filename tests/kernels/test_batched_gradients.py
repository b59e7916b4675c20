"""Many gradients at once (`is_grads_batched=True`, `jacobian(vectorize=True)`): those of one backward pass after the
other, from every kernel."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from test_gpu_crf import TWIN
from test_second_derivatives import CPU_CASES, STEPS, by_number, make
from torch import Tensor

from breadth import core
from thereafter import nn
from thereafter.kernels.chain import Chain
from thereafter.kernels.jobs import Kernel
from thereafter.kernels.scan import KERNELS

OTHERS = [("vendor", "lstm"), ("vendor", "gru"), ("vendor", "elman"), ("operator", "lstm"), ("operator", "mingru"),
          ("parallel", "minlstm"), ("parallel", "diagonal")]  # fmt: skip

# torch says that an operator has no rule of its own for many at once, and that it takes another way for projections
pytestmark = [
    pytest.mark.filterwarnings("ignore:There is a performance drop"),
    pytest.mark.filterwarnings("ignore:LSTM with projections"),
]


def assert_the_same_as_one_by_one(results: tuple[Tensor, ...], leaves: tuple[Tensor, ...]) -> None:
    """Five random gradients of all results."""
    made = torch.Generator().manual_seed(1)
    many = [torch.randn(5, *part.shape, generator=made, dtype=part.dtype) for part in results]
    options: dict[str, Any] = {"retain_graph": True, "allow_unused": True}
    at_once = torch.autograd.grad(results, leaves, many, is_grads_batched=True, **options)
    one_by_one = [torch.autograd.grad(results, leaves, [part[at] for part in many], **options) for at in range(5)]
    for got, *expected in zip(at_once, *one_by_one, strict=True):
        assert (got is None) == (expected[0] is None)
        if got is not None:
            torch.testing.assert_close(got, torch.stack(expected), rtol=1e-10, atol=1e-12)


def assert_a_job_gives_them(label: str, name: str, options: dict[str, Any], lengths: Tensor | None) -> None:
    kernel: Kernel = KERNELS.load(label)
    job, leaves = make(name, options, lengths)
    unrolled = kernel.run(job)
    assert_the_same_as_one_by_one((unrolled.y_BTO, *unrolled.state), leaves)


@by_number
def test_the_compiled_kernel_gives_many_gradients_at_once(number: int) -> None:
    name, options = CPU_CASES[number]
    assert_a_job_gives_them("cpu", name, options, torch.tensor([1, STEPS]) if number % 2 else None)


@pytest.mark.parametrize(("label", "name"), OTHERS)
def test_other_kernels_give_many_gradients_at_once(label: str, name: str) -> None:
    assert_a_job_gives_them(label, name, {}, torch.tensor([STEPS, 1]))


@pytest.mark.parametrize("kind", core(["LSTM", "GRU", "RNN", "MinGRU", "MinLSTM"], ["LSTM", "MinGRU"]))
def test_a_jacobian_is_the_same_by_rows_and_at_once(kind: str) -> None:
    torch.manual_seed(2)
    layer = getattr(nn, kind)(3, 4, num_layers=2, bidirectional=True, batch_first=True, dtype=torch.float64)
    x = torch.randn(2, 5, 3, dtype=torch.float64)

    def last(x: Tensor) -> Tensor:
        y: Tensor = layer(x)[0]
        return y[:, -1]

    by_rows, at_once = (torch.autograd.functional.jacobian(last, x, vectorize=vectorize) for vectorize in (False, True))
    torch.testing.assert_close(at_once, by_rows)


def test_a_chain_gives_many_gradients_at_once() -> None:
    torch.manual_seed(4)
    leaves = tuple(torch.randn(shape, dtype=torch.float64).requires_grad_() for shape in ((2, 4, 3), 3, (3, 3), 3))
    values_B = TWIN.values(Chain(*leaves, torch.tensor([4, 2]), torch.randint(0, 3, (2, 4))))
    assert_the_same_as_one_by_one((values_B,), leaves)
