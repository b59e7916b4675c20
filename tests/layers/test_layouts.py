"""Whatever lies how in memory, and whatever is asked of it: the layers learn what torch's own learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from breadth import core
from thereafter import nn
from thereafter.base import compiled

# torch says once that it takes another way for projections
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections")

LAYERS: dict[str, tuple[str, dict[str, Any]]] = {
    "lstm": ("LSTM", {}),
    "projected lstm": ("LSTM", {"proj_size": 3}),
    "both directions": ("LSTM", {"num_layers": 2, "bidirectional": True, "proj_size": 2, "batch_first": True}),
    "gru": ("GRU", {"batch_first": True}),
    "rnn": ("RNN", {"nonlinearity": "relu"}),
}


def products(state: Tensor) -> Tensor:
    """A product with what is transposed: its gradient comes back with transposed strides."""
    size = state.shape[-1]
    W = torch.linspace(-1, 1, 3 * size, dtype=state.dtype).view(3, size)
    return (W @ state.mT).square().sum()


QUESTIONS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "products of c": lambda y, h, c: products(c),
    "products of h": lambda y, h, c: products(h),
    "products of the outputs": lambda y, h, c: products(y),
    "sums": lambda y, h, c: y.sum() + h.sum() + 2 * c.sum(),
    "every other unit": lambda y, h, c: y[..., ::2].square().sum() + c[..., 1::2].square().sum(),
    "the last step alone": lambda y, h, c: y[-1].square().sum(),
    "c alone, one row": lambda y, h, c: c[:, 1].square().sum(),
    "outputs and products of c": lambda y, h, c: y.square().sum() + products(c),
}


def gradients(layer: torch.nn.Module, question: str, batch_first: bool) -> dict[str, Tensor]:
    """Of every weight, of a strided input and of an initial state that is one row for all."""
    draw = torch.Generator().manual_seed(3)
    steps, rows, inputs = 6, 4, 5
    base = torch.randn(inputs, rows, 2 * steps, generator=draw, dtype=torch.float64).requires_grad_()
    x = base[:, :, ::2].permute(1, 2, 0) if batch_first else base[:, :, ::2].permute(2, 1, 0)
    shape = [tuple(part.shape) for part in _parts(layer(x.detach())[1])]
    start = [torch.randn(n[0], 1, n[2], generator=draw, dtype=torch.float64).requires_grad_() for n in shape]
    given = tuple(one.expand(n) for one, n in zip(start, shape, strict=True))
    y, state = layer(x, given if len(given) == 2 else given[0])
    parts = _parts(state)
    names = ["input", *(f"initial {k}" for k in range(len(start))), *(name for name, _ in layer.named_parameters())]
    loss = QUESTIONS[question](y, parts[0], parts[-1])
    wanted = torch.autograd.grad(loss, [base, *start, *layer.parameters()], allow_unused=True)
    return {name: torch.zeros(()) if g is None else g for name, g in zip(names, wanted, strict=True)}


def _parts(state: Any) -> tuple[Tensor, ...]:
    return state if isinstance(state, tuple) else (state,)


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("kernel", ["auto", "cpu", "reference", "vendor"])
@pytest.mark.parametrize("name", core(LAYERS, ["lstm", "gru", "rnn"]))
def test_gradients_are_those_of_torch(name: str, kernel: str, question: str) -> None:
    if kernel == "cpu" and not compiled.available():
        pytest.skip("numba is not here")
    kind, options = LAYERS[name]
    torch.manual_seed(1)
    theirs = getattr(torch.nn, kind)(5, 7, dtype=torch.float64, **options)
    ours = getattr(nn, kind)(5, 7, dtype=torch.float64, kernel=kernel, **options)
    ours.load_state_dict(theirs.state_dict())
    batch_first = options.get("batch_first", False)
    expected = gradients(theirs, question, batch_first)
    for label, got in gradients(ours, question, batch_first).items():
        want = expected[label]
        assert got.shape == want.shape
        assert float((got - want).abs().max()) <= 1e-10 * max(1.0, float(want.abs().max())), label
