"""What `auto` takes; that it is the fastest is for `benchmarks/kernels.py` to show."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from thereafter import nn
from thereafter.base.compiled import available
from thereafter.kernels import running

needs_numba = pytest.mark.skipif(not available(), reason="the compiled kernel is not there")
FEW = [
    ("LSTM", {}, (4, 1), True, "reference"),
    ("LSTM", {}, (1, 3), False, "reference"),
    ("LSTM", {}, (4, 2), False, "vendor"),
    ("LSTM", {}, (4, 2), True, "cpu"),
    ("LSTM", {"peephole": True}, (4, 2), False, "cpu"),
    ("LSTM", {"proj_size": 3}, (4, 5), False, "vendor"),
    ("LSTM", {}, (4, 35), False, "cpu"),
    ("GRU", {}, (4, 1), True, "reference"),
    ("GRU", {}, (4, 5), False, "vendor"),
    ("GRU", {"reset": "before"}, (4, 1), True, "reference"),
    ("GRU", {"reset": "before"}, (4, 5), False, "cpu"),
    ("GRU", {}, (4, 35), True, "cpu"),
    ("RNN", {}, (4, 3), False, "reference"),
    ("RNN", {}, (4, 10), False, "vendor"),
    ("RNN", {}, (4, 11), False, "cpu"),
    ("RNN", {}, (4, 4), True, "reference"),
    ("RNN", {}, (4, 5), True, "cpu"),
    ("MinGRU", {}, (4, 1), True, "reference"),
    ("MinGRU", {}, (4, 4), False, "cpu"),
]


@needs_numba
@pytest.mark.parametrize(("kind", "options", "shape", "learning", "expected"), FEW)
def test_few_steps_are_not_worth_laying_weights_out(
    kind: str, options: dict[str, Any], shape: tuple[int, int], learning: bool, expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """... and whatever is taken gives what the plain loop gives."""
    taken = []

    def noted(job: Any) -> Any:
        taken.append(choose(job).name)
        return choose(job)

    choose = running.choose
    monkeypatch.setattr(running, "choose", noted)
    torch.manual_seed(0)
    layer = getattr(nn, kind)(5, 8, batch_first=True, **options)
    x = torch.randn(*shape, 5, requires_grad=learning)
    with torch.set_grad_enabled(learning):
        found = everything(layer, x)
        layer.kernel = "reference"
        torch.testing.assert_close(found, everything(layer, x))
    assert taken == [expected]


def everything(layer: torch.nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    """Outputs, last states and, where they are kept, gradients."""
    y, last = layer(x)
    found = [y, *(last if isinstance(last, tuple) else (last,))]
    if y.requires_grad:
        found += torch.autograd.grad(y.square().sum(), [x, *layer.parameters()])
    return found


@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_in_lower_precision_one_type_comes_out_whatever_the_steps(kind: str) -> None:
    layer = getattr(nn, kind)(5, 8, batch_first=True)
    with torch.autocast("cpu", torch.bfloat16):
        types = {layer(torch.randn(2, steps, 5))[0].dtype for steps in (1, 2, 5, 40)}
    assert len(types) == 1


def test_where_the_inputs_product_belongs() -> None:
    from thereafter.kernels.cpu.plan import input_inside

    small, large = 1 << 18, 1 << 24
    assert input_inside(32, small, True, 256)  # [W, U] fits the caches
    assert not input_inside(8, small, True, 4)  # too few rows
    assert not input_inside(32, large, True, 16)
    assert input_inside(128, large, False, 64)  # W is little beside the pre-activations
    assert not input_inside(20, large, False, 400)


@needs_numba
def test_rows_of_their_own_length_are_not_packed_for_a_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    choose = running.choose
    monkeypatch.setattr(running, "choose", lambda job: taken.append(choose(job).name) or choose(job))
    with torch.no_grad():
        nn.GRU(5, 8, batch_first=True)(torch.randn(3, 4, 5), lengths=torch.tensor([4, 1, 2]))
    assert taken == ["cpu"]
