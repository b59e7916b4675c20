"""The LSTM with a projection as one compiled call a sequence, against the reference loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from thereafter import compiled, nn
from thereafter.kernels.cpu import plan

pytestmark = pytest.mark.skipif(not compiled.available(), reason="numba is not here")

SIZES = [(13, 5, 37, 20), (1, 4, 130, 70), (20, 3, 64, 1), (2, 3, 5, 3)]  # batch, steps, hidden, projected to
OPTIONS: list[dict[str, Any]] = [{}, {"peephole": True, "coupled": True}]
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4}
Results = list[torch.Tensor]


@pytest.fixture(autouse=True)
def projected_teams(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(plan, "_WORTH_A_TEAM", 0)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def projected(size: tuple[int, int, int, int], dtype: torch.dtype, **options: Any) -> tuple[nn.LSTM, torch.Tensor]:
    torch.manual_seed(5)
    batch, steps, hidden, outputs = size
    layer = nn.LSTM(3, hidden, proj_size=outputs, batch_first=True, dtype=dtype, **options)
    for name, weight in layer.named_parameters():
        if name.startswith("peephole"):
            torch.nn.init.normal_(weight)
    return layer, torch.randn(batch, steps, 3, dtype=dtype, requires_grad=True)


def all_results(layer: nn.LSTM, x: torch.Tensor, lengths: torch.Tensor | None = None) -> Results:
    """Outputs, last states, and the gradients of input, first states and weights."""
    outputs, hidden = layer.proj_size, layer.hidden_size
    h = torch.linspace(-1, 1, len(x) * outputs, dtype=x.dtype).view(1, len(x), -1).requires_grad_()
    c = torch.linspace(1, -1, len(x) * hidden, dtype=x.dtype).view(1, len(x), -1).requires_grad_()
    y, (h_last, c_last) = layer(x, (h, c), lengths=lengths)
    loss = (y * torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)).sum() + (h_last * h_last).sum()
    gradients = torch.autograd.grad(loss + c_last.sin().sum(), [x, h, c, *layer.parameters()])
    return [y.detach(), h_last.detach(), c_last.detach(), *gradients]


def assert_near(got: Results, expected: Results, dtype: torch.dtype, *where: object) -> None:
    for one, want in zip(got, expected, strict=True):
        scale = max(1.0, float(want.abs().max()))
        assert float((one - want).abs().max()) <= TOLERANCE[dtype] * scale, where


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("ragged", [False, True], ids=["whole", "lengths"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_projected_team_equals_the_reference(
    options: dict[str, Any], ragged: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    for size in SIZES:
        layer, x = projected(size, dtype, kernel="reference", **options)
        lengths = torch.arange(size[0]) % (size[1] + 1) if ragged else None
        expected = all_results(layer, x, lengths)
        layer.kernel = "cpu"
        for by_rows in (True, False):
            monkeypatch.setattr(plan, "_FEWEST_EACH", 0 if by_rows else 10**9)
            assert_near(all_results(layer, x, lengths), expected, dtype, size, by_rows)
            assert_near(all_results(layer, x, lengths), expected, dtype, size, by_rows, "again")
        layer.kernel = "reference"
        with torch.no_grad():
            plain = layer(x, lengths=lengths)
            layer.kernel = "cpu"
            made = layer(x, lengths=lengths)
        assert_near([made[0], *made[1]], [plain[0], *plain[1]], dtype, size)


def test_a_projected_team_of_any_size_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "_FEWEST_EACH", 0)
    layer, x = projected((19, 6, 40, 18), torch.float32, kernel="cpu")
    for lengths in (None, torch.arange(19) * 5 % 7):
        made = []
        for threads in (1, 2, 3, 4):
            torch.set_num_threads(threads)
            made.append(all_results(layer, x, lengths))
        for other in made[1:]:
            # weights' gradients are torch's products, which may be summed in another order
            assert all(torch.equal(one, two) for one, two in zip(made[0][:3], other, strict=False))
            assert_near(other, made[0], torch.float32)


def test_a_projected_graph_that_is_kept_can_be_walked_again() -> None:
    layer, x = projected((16, 60, 80, 70), torch.float32, kernel="cpu")  # large enough for arrays to be taken again
    y, _ = layer(x)
    wanted = [x, *layer.parameters()]
    first = torch.autograd.grad(y.sum(), wanted, retain_graph=True)
    layer(x)[0].sum().backward()
    for one, two in zip(first, torch.autograd.grad(y.sum(), wanted), strict=True):
        assert torch.equal(one, two)
