"""Backpropagation through time by hand against autograd, whole and truncated, and what each keeps in memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from thereafter import nn
from thereafter.cells.elman import ACTIVATIONS
from thereafter.layers.bptt import DERIVATIVES, Gradients, bptt, saved_for_backward

NAMES = ("x", "h0", "W", "U", "b")


def problem(batch: int = 3, steps: int = 11, inputs: int = 4, hidden: int = 5) -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(1)
    shapes = {
        "x": (batch, steps, inputs),
        "h0": (batch, hidden),
        "W": (hidden, inputs),
        "U": (hidden, hidden),
        "b": (hidden,),
    }
    return {k: torch.randn(shape, generator=draw, dtype=torch.float64).requires_grad_() for k, shape in shapes.items()}


def loop(given: dict[str, Tensor], nonlinearity: str, truncation: int | None) -> Tensor:
    """The unrolled network as anyone would write it, its state detached at the borders of the pieces."""
    h, states = given["h0"], []
    for t in range(given["x"].shape[1]):
        if truncation and t and t % truncation == 0:
            h = h.detach()
        h = ACTIVATIONS[nonlinearity](given["x"][:, t] @ given["W"].T + h @ given["U"].T + given["b"])
        states.append(h)
    return torch.stack(states, 1)


def by_hand(given: dict[str, Tensor], dh: Any, **options: Any) -> Gradients:
    return bptt(*(given[name].detach() for name in NAMES), dh, **options)


@pytest.mark.parametrize("nonlinearity", list(ACTIVATIONS))
@pytest.mark.parametrize("truncation", [None, 1, 4, 11, 50])
def test_by_hand_equals_autograd(nonlinearity: str, truncation: int | None):
    given = problem()
    target = torch.randn(3, 11, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    states = loop(given, nonlinearity, truncation)
    loss = 0.5 * (states - target).square().sum()
    expected = torch.autograd.grad(loss, [given[name] for name in NAMES])

    def of_piece(h: Tensor, start: int) -> Tensor:
        return h - target[:, start : start + h.shape[1]]

    for dh in (of_piece, (states - target).detach()):
        found = by_hand(given, dh, truncation=truncation, nonlinearity=nonlinearity)
        for name, truth in zip(NAMES, expected, strict=True):
            torch.testing.assert_close(getattr(found, name), truth, rtol=1e-11, atol=1e-11)
        torch.testing.assert_close(found.last, states[:, -1].detach())
    assert set(DERIVATIVES) == set(ACTIVATIONS)


def test_by_hand_equals_the_layer():
    """The same numbers out of `thereafter.nn.RNN` and its kernels."""
    given = problem()
    module = nn.RNN(4, 5, bias="one", batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        for name, weight in (("weight_ih_l0", "W"), ("weight_hh_l0", "U"), ("bias_ih_l0", "b")):
            getattr(module, name).copy_(given[weight])
    y, _ = module(given["x"], given["h0"].unsqueeze(0))
    y.square().sum().backward()
    found = by_hand(given, 2 * y.detach())
    for gradient, truth in (
        (found.W, module.weight_ih_l0.grad),
        (found.U, module.weight_hh_l0.grad),
        (found.b, module.bias_ih_l0.grad),
        (found.x, given["x"].grad),
        (found.h0, given["h0"].grad),
    ):
        torch.testing.assert_close(gradient, truth, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(("truncation", "megabytes"), [(None, 131.072), (35, 4.58752)])
def test_article_stored_hidden_states(truncation: int | None, megabytes: float):
    """T=1000, B=64, d=512, float32: counted on the tensors that were kept."""
    x, h0 = torch.zeros(64, 1000, 1), torch.zeros(64, 512)
    W, U, b = torch.zeros(512, 1), torch.zeros(512, 512), torch.zeros(512)
    seen: list[int] = []

    def watching(h: Tensor, start: int) -> Tensor:
        seen.append(h.untyped_storage().nbytes())
        return torch.zeros(()).expand_as(h)

    found = bptt(x, h0, W, U, b, watching, truncation=truncation)
    assert found.stored_bytes == max(seen)
    assert found.stored_bytes / 1e6 == pytest.approx(megabytes, abs=1e-9)
    assert len(seen) == (1 if truncation is None else 29)


def test_what_autograd_keeps_grows_with_the_steps_and_stops_at_the_truncation():
    """Measured on autograd's own saved tensors: the loop keeps each hidden state once, and its piece of the input."""

    def kept(steps: int, truncation: int | None) -> int:
        given = problem(batch=2, steps=steps, hidden=8)
        x = given["x"].detach()
        most, h = 0, given["h0"].detach()
        for start in range(0, steps, truncation or steps):
            with saved_for_backward() as saved:
                for t in range(start, min(start + (truncation or steps), steps)):
                    h = torch.tanh(x[:, t] @ given["W"].T + h @ given["U"].T + given["b"])
            most = max(most, saved.bytes)
            h = h.detach()
        return most

    state = 2 * 8 * 8  # bytes of one hidden state
    assert kept(10, None) == 10 * state
    assert kept(40, None) == 40 * state
    assert kept(40, 10) == kept(400, 10) == 10 * state
    given = problem(batch=2, steps=40, hidden=8)
    assert by_hand(given, given["x"].new_zeros(2, 40, 8), truncation=10).stored_bytes == 10 * state
    assert by_hand(given, given["x"].new_zeros(2, 40, 8)).stored_bytes == 40 * state


def test_no_steps_no_gradient():
    given = problem(steps=0)
    found = by_hand(given, torch.zeros(3, 0, 5, dtype=torch.float64))
    assert found.stored_bytes == 0
    assert bool((found.U == 0).all())
    assert torch.equal(found.last, given["h0"])
