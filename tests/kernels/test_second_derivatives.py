"""Derivatives of derivatives, from every kernel: against finite differences, and against the plain loop."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from parity import cases
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from thereafter import nn
from thereafter.base import compiled
from thereafter.cells import CELLS
from thereafter.cells.base import Cell
from thereafter.kernels.jobs import Job, Kernel
from thereafter.kernels.scan import KERNELS

# torch says once that it takes another way for projections, and that a graph holds on to what holds on to it
pytestmark = [
    pytest.mark.filterwarnings("ignore:LSTM with projections"),
    pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True"),
]

ROWS, STEPS = 2, 3


def runs(label: str) -> list[tuple[str, dict[str, Any]]]:
    """The cells and options that a kernel takes."""
    kernel: Kernel = KERNELS.load(label)
    return [(name, options) for name, options in cases() if kernel.refuses(make(name, options)[0]) is None]


def make(name: str, options: dict[str, Any], lengths: Tensor | None = None) -> tuple[Job, tuple[Tensor, ...]]:
    """A small job in float64, and all that it can be differentiated by."""
    torch.manual_seed(3)
    cell: Cell = CELLS.load(name)(2, 4, **options)

    def leaf(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=torch.float64).requires_grad_()

    x, state = leaf(ROWS, STEPS, 2), [leaf(ROWS, size) for size in cell.state_sizes().values()]
    weights = {weight: leaf(*shape) for weight, shape in cell.shapes().items()}
    return Job(cell, x, cell.state_type(*state), weights, lengths), (x, *state, *weights.values())


def assert_differentiable_twice(label: str, name: str, options: dict[str, Any], lengths: Tensor | None) -> None:
    job, leaves = make(name, options, lengths)
    kernel: Kernel = KERNELS.load(label)

    def run(*given: Tensor) -> tuple[Tensor, ...]:
        x, fields = given[0], len(job.state)
        state = type(job.state)(*given[1 : 1 + fields])
        weights = dict(zip(job.weights, given[1 + fields :], strict=True))
        made = kernel.run(Job(job.cell, x, state, weights, lengths))
        return made.y_BTO, *made.state

    assert torch.autograd.gradgradcheck(run, leaves, fast_mode=True, atol=1e-4)


CPU_CASES = runs("cpu") if compiled.available() else []
by_number = pytest.mark.parametrize(
    "number",
    [
        pytest.param(k, id=f"{name}-{options}", marks=() if k == 0 else pytest.mark.wide)
        for k, (name, options) in enumerate(CPU_CASES)
    ],
)
"""The first cell as it is. Others, and options, are seconds of compiling each, and wide."""


@by_number
def test_the_compiled_kernel_has_second_derivatives(number: int):
    name, options = CPU_CASES[number]
    assert_differentiable_twice("cpu", name, options, torch.tensor([1, STEPS]) if number % 2 else None)


@pytest.mark.parametrize(
    ("label", "name"),
    [("vendor", "lstm"), ("vendor", "gru"), ("vendor", "elman"), ("operator", "lstm"), ("operator", "mingru"),
     ("parallel", "minlstm"), ("parallel", "diagonal")],
)  # fmt: skip
def test_other_kernels_have_second_derivatives(label: str, name: str):
    assert_differentiable_twice(label, name, {}, torch.tensor([STEPS, 1]))


KINDS = ["LSTM", "GRU", "RNN", "MinLSTM"]


def layer_of(kind: str, kernel: str, **options: Any) -> Any:
    torch.manual_seed(5)
    return getattr(nn, kind)(4, 4, batch_first=True, dtype=torch.float64, kernel=kernel, **options)


def rows(*shape: int) -> Tensor:
    return torch.randn(shape or (3, 5, 4), dtype=torch.float64, generator=torch.Generator().manual_seed(7))


def penalised(layer: Any) -> list[Tensor]:
    """One step with a penalty on the gradient of the input, whose second layer has the weights of the first."""
    x, lengths = rows().requires_grad_(), torch.tensor([5, 2, 4])
    y, state = layer(layer(x, lengths=lengths)[0], lengths=lengths)
    loss = y.square().mean() + sum(part.sum() for part in (state if isinstance(state, tuple) else (state,)))
    (slope,) = torch.autograd.grad(loss, x, create_graph=True)
    (loss + (slope.norm(2, dim=-1) - 1).square().mean()).backward()
    return [x.grad, *(weight.grad for weight in layer.parameters())]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kernel", ["auto", "operator"])
def test_a_gradient_penalty_trains_as_in_the_plain_loop(kind: str, kernel: str):
    options = {"num_layers": 2, "bidirectional": False}
    for got, expected in zip(
        penalised(layer_of(kind, kernel, **options)), penalised(layer_of(kind, "reference", **options)), strict=True
    ):
        torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-11)


def test_each_of_input_state_and_weights_may_be_the_only_one():
    for kind in KINDS:
        answers = []
        for kernel in ("auto", "reference"):
            layer, x = layer_of(kind, kernel), rows()
            for weight in layer.parameters():
                weight.requires_grad_(False)
            start = rows(1, 3, 4).requires_grad_()
            state = (start, start.detach()) if kind == "LSTM" else start
            y, _ = layer(x, state)
            (first,) = torch.autograd.grad(y.sin().sum(), start, create_graph=True)
            answers.append(torch.autograd.grad(first.square().sum(), start)[0])
            layer.weight_hh_l0.requires_grad_(True) if kind != "MinLSTM" else layer.weight_ih_l0.requires_grad_(True)
            (weight,) = (weight for weight in layer.parameters() if weight.requires_grad)
            (first,) = torch.autograd.grad(layer(x)[0].sin().sum(), weight, create_graph=True)
            answers.append(torch.autograd.grad(first.square().sum(), weight)[0])
        for got, expected in zip(answers[:2], answers[2:], strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-11)


def test_graphs_are_walked_in_any_order():
    """Plain, recorded, plain again; one output used twice; a third derivative."""
    answers = []
    for kernel in ("auto", "reference"):
        layer, x = layer_of("LSTM", kernel), rows().requires_grad_()
        y, (h, _) = layer(x)
        loss = (y * y.sin()).sum() + (h.exp() * y[:, -1]).sum()
        (plain,) = torch.autograd.grad(loss, x, retain_graph=True)
        (first,) = torch.autograd.grad(loss, x, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), x, create_graph=True)
        (third,) = torch.autograd.grad(second.sum(), x, retain_graph=True)
        (again,) = torch.autograd.grad(loss, x)
        assert torch.equal(plain, again)
        torch.testing.assert_close(plain, first.detach(), rtol=1e-9, atol=1e-11)
        answers.append([plain, first, second, third])
    for got, expected in zip(*answers, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-8, atol=1e-10)


def test_outputs_and_inputs_may_be_changed_in_place():
    layer, x = layer_of("LSTM", "auto"), rows().requires_grad_()
    y, (h, c) = layer(x)
    for part in (y, h, c):
        part.mul_(2.0)
    (got,) = torch.autograd.grad(y.sum() + h.sum() + c.sum(), x, create_graph=True)
    y, (h, c) = layer(x)
    (expected,) = torch.autograd.grad(2 * (y.sum() + h.sum() + c.sum()), x, create_graph=True)
    torch.testing.assert_close(got, expected)
    assert got.requires_grad

    x = rows()
    loss = layer(x)[0].sum()
    x.zero_()  # gone; a recorded pass would need it
    if compiled.available():
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            torch.autograd.grad(loss, list(layer.parameters()), create_graph=True)


def test_checkpoints_have_second_derivatives():
    answers = []
    for kernel, within in (("auto", True), ("reference", False)):
        layer, x = layer_of("GRU", kernel), rows().requires_grad_()
        y = checkpoint(lambda given, run=layer: run(given)[0], x, use_reentrant=False) if within else layer(x)[0]
        (first,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
        answers.append(torch.autograd.grad(first.square().sum(), x)[0])
    torch.testing.assert_close(*answers, rtol=1e-9, atol=1e-11)


def test_an_ordinary_backward_pass_runs_no_plain_loop(monkeypatch: pytest.MonkeyPatch):
    def never(*_: object) -> None:
        raise AssertionError("the plain loop was run")

    layer, x = layer_of("LSTM", "cpu" if compiled.available() else "vendor"), rows().requires_grad_()
    monkeypatch.setattr("thereafter.kernels.plain.Reference.run", never)
    y, _ = layer(x)
    y.sum().backward()
    with torch.no_grad():
        assert layer(x)[0].grad_fn is None


@pytest.mark.wide
def test_layers_compute_on_the_processor_whatever_the_default_device():
    """In a process of its own: the default is set before the kernels are imported."""
    script = (
        "import torch; torch.set_default_device('meta'); from thereafter import nn; "
        "made = [kind(3, 4).to_empty(device='cpu') for kind in (nn.LSTM, nn.GRU, nn.RNN)]; "
        "[p.data.zero_() for one in made for p in one.parameters()]; "
        "x = torch.ones(5, 6, 3, device='cpu', requires_grad=True); "
        "print([tuple(one(x)[0].shape) for one in made])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.count("(5, 6, 4)") == 3


def test_second_derivatives_on_a_device_without_autocast():
    layer = nn.GRU(3, 4, device="meta")
    x = torch.zeros(5, 6, 3, device="meta", requires_grad=True)
    (dx,) = torch.autograd.grad(layer(x)[0].sum(), x, create_graph=True)
    (again,) = torch.autograd.grad(dx.square().sum(), x)
    assert again.shape == x.shape
