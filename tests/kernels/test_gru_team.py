"""The GRU's whole sequences against the reference loop, at sizes that fill several tiles and leave some over."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from thereafter import compiled, nn
from thereafter.kernels.cpu import plan

pytestmark = pytest.mark.skipif(not compiled.available(), reason="numba is not here")

Size = tuple[int, int, int, int]
SIZES: list[Size] = [(13, 5, 3, 37), (1, 4, 5, 130), (20, 3, 4, 64), (2, 3, 3, 5)]  # batch, steps, input, hidden
OPTIONS: list[dict[str, Any]] = [{"reset": r, "update": u} for r in ("after", "before") for u in ("old", "new")]
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4}


@pytest.fixture(autouse=True)
def always_a_team(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(plan, "_WORTH_A_TEAM", 0)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def made(size: Size, dtype: torch.dtype, **options: Any) -> tuple[nn.GRU, torch.Tensor, torch.Tensor]:
    """A layer, its input and its first state."""
    torch.manual_seed(1)
    batch, steps, inputs, hidden = size
    layer = nn.GRU(inputs, hidden, batch_first=True, dtype=dtype, **options)
    x = torch.randn(batch, steps, inputs, dtype=dtype, requires_grad=True)
    return layer, x, torch.randn(1, batch, hidden, dtype=dtype, requires_grad=True)


def both_ways(
    layer: nn.GRU, x: torch.Tensor, h0: torch.Tensor, lengths: torch.Tensor | None = None, **walk: Any
) -> list[torch.Tensor]:
    """Outputs, last state, and the gradients of input, first state and all weights."""
    y, h = layer(x, h0, lengths=lengths)
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
    loss = (y * weights).sum() + (h * h).sum()
    return [y.detach(), h.detach(), *torch.autograd.grad(loss, [x, h0, *layer.parameters()], **walk)]


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("ragged", [False, True], ids=["whole", "lengths"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_gru_team_equals_the_reference(
    size: Size, options: dict[str, Any], ragged: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By rows and by units, with biases and without, with a way back and without."""
    for bias in (True, False):
        layer, x, h0 = made(size, dtype, bias=bias, **options)
        lengths = torch.arange(size[0]) % size[1] + 1 if ragged else None
        layer.kernel = "reference"
        expected = both_ways(layer, x, h0, lengths)
        layer.kernel = "cpu"
        for threads, by_rows in itertools.product([2, 3] if bias else [2], [True, False]):
            torch.set_num_threads(threads)
            monkeypatch.setattr(plan, "_FEWEST_EACH", 0 if by_rows else 10**9)
            got = both_ways(layer, x, h0, lengths)
            with torch.no_grad():
                got += layer(x, h0, lengths=lengths)
            for one, want in zip(got, expected + expected[:2], strict=True):
                scale = max(1.0, float(want.abs().max()))
                assert float((one - want).abs().max()) <= TOLERANCE[dtype] * scale, (bias, threads, by_rows)


@pytest.mark.parametrize("options", OPTIONS[::2], ids=str)
@pytest.mark.parametrize("ragged", [False, True], ids=["whole", "lengths"])
def test_gru_rows_are_the_same_on_any_number_of_threads(options: dict[str, Any], ragged: bool) -> None:
    """To the bit, and at every run."""
    layer, x, h0 = made((17, 6, 8, 48), torch.float32, kernel="cpu", **options)
    lengths = torch.arange(17) % 6 + 1 if ragged else None
    results = []
    for threads in (1, 2, 3, 4, 2):
        torch.set_num_threads(threads)
        results.append(both_ways(layer, x, h0, lengths))
    for result in results[1:]:
        assert all(torch.equal(one, other) for one, other in zip(result, results[0], strict=True))


@pytest.mark.parametrize("options", OPTIONS[::2], ids=str)
def test_a_gru_of_many_threads_of_python_at_once(options: dict[str, Any]) -> None:
    layer, x, h0 = made((13, 20, 8, 48), torch.float32, kernel="cpu", **options)
    expected = both_ways(layer, x, h0)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: both_ways(layer, x, h0), range(12)))
    for result in results:
        assert all(torch.equal(got, want) for got, want in zip(result, expected, strict=True))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_gru_graph_that_is_kept_can_be_walked_again(options: dict[str, Any]) -> None:
    layer, x, h0 = made((5, 4, 3, 20), torch.float32, kernel="cpu", **options)
    y, _ = layer(x, h0)
    wanted = [x, h0, *layer.parameters()]
    first = torch.autograd.grad(y.sum(), wanted, retain_graph=True)
    again = torch.autograd.grad(y.sum(), wanted)
    assert all(torch.equal(one, two) for one, two in zip(first, again, strict=True))


@pytest.mark.parametrize("options", OPTIONS[::2], ids=str)
def test_what_a_gru_was_given_and_what_it_made_stay_apart(options: dict[str, Any]) -> None:
    """Outputs changed in place leave the way back alone; a NaN in one row stays in it, unread rows do not matter."""
    layer, x, h0 = made((6, 5, 3, 37), torch.float32, kernel="cpu", **options)
    plain = both_ways(layer, x, h0)
    y, h = layer(x, h0)
    weights = torch.linspace(-1, 1, y.numel()).view_as(y)
    incoming = [weights.clone(), 2 * h.detach()]
    wanted = [x, h0, *layer.parameters()]
    with torch.no_grad():
        y.zero_()
        h.zero_()
    got = torch.autograd.grad([y, h], wanted, incoming)
    assert all(torch.equal(one, other) for one, other in zip(got, plain[2:], strict=True))
    lengths = torch.tensor([5, 1, 3, 2, 4, 2])
    clean = both_ways(layer, x, h0, lengths)
    with torch.no_grad():
        for b, length in enumerate(lengths.tolist()):
            x[b, length:] = float("nan")
    spoilt = both_ways(layer, x, h0, lengths)
    assert torch.equal(clean[0], spoilt[0])
    assert torch.equal(clean[1], spoilt[1])
    with torch.no_grad():
        x.nan_to_num_()
        x[1, 2, 0] = float("nan")
    spread = layer(x, h0)[0]
    assert torch.isnan(spread[1, 2:]).all()
    assert not torch.isnan(spread[1, :2]).any()
    assert not torch.isnan(spread[[0, 2, 3, 4, 5]]).any()


@pytest.mark.parametrize("options", OPTIONS[::2], ids=str)
def test_gradients_of_a_gru_do_not_share_memory(options: dict[str, Any]) -> None:
    layer, x, h0 = made((5, 4, 3, 20), torch.float32, kernel="cpu", **options)
    layer(x, h0)[0].sum().backward()
    places = [weight.grad.untyped_storage().data_ptr() for weight in layer.parameters() if weight.grad is not None]
    assert len(set(places)) == len(list(layer.parameters()))
