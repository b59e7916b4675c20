"""The threads of a team against the reference loop, at sizes that fill several tiles and leave some over."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from thereafter import compiled, nn
from thereafter.kernels.cpu import plan

pytestmark = pytest.mark.skipif(not compiled.available(), reason="numba is not here")

SIZES = [(13, 5, 3, 37), (1, 4, 5, 130), (20, 3, 4, 64), (7, 3, 2, 16), (2, 3, 3, 5)]  # batch, steps, input, hidden
OPTIONS: list[dict[str, Any]] = [
    {}, {"peephole": True}, {"coupled": True}, {"peephole": True, "coupled": True}, {"layer_norm": True},
    {"layer_norm": True, "peephole": True, "coupled": True},
]  # fmt: skip
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4}


@pytest.fixture(autouse=True)
def always_a_team(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(plan, "_WORTH_A_TEAM", 0)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def both_ways(layer: nn.LSTM, x: torch.Tensor, lengths: torch.Tensor | None, **walk: Any) -> list[torch.Tensor]:
    y, (h, c) = layer(x, lengths=lengths)
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
    loss = (y * weights).sum() + (h * h).sum() + c.sin().sum()
    grads = torch.autograd.grad(loss, [x, *layer.parameters()], **walk)
    return [y.detach(), h.detach(), c.detach(), *grads]


def layer_and_input(size: tuple[int, int, int, int], options: dict[str, Any], dtype: torch.dtype) -> tuple[Any, Any]:
    torch.manual_seed(1)
    batch, steps, inputs, hidden = size
    layer = nn.LSTM(inputs, hidden, batch_first=True, dtype=dtype, **options)
    for name, weight in layer.named_parameters():
        if name.startswith(("peephole", "shift")):
            torch.nn.init.normal_(weight)
    return layer, torch.randn(batch, steps, inputs, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("ragged", [False, True], ids=["whole", "lengths"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_team_equals_the_reference(
    size: tuple[int, int, int, int],
    options: dict[str, Any],
    ragged: bool,
    dtype: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However the work is shared: by rows or by units, the input's product inside the steps or before them."""
    layer, x = layer_and_input(size, options, dtype)
    lengths = torch.arange(size[0]) % size[1] + 1 if ragged else None
    layer.kernel = "reference"
    expected = both_ways(layer, x, lengths)
    layer.kernel = "cpu"
    for threads, by_rows, inside in itertools.product([2, 3], [True, False], [True, False]):
        torch.set_num_threads(threads)
        monkeypatch.setattr(plan, "_FEWEST_ROWS", 1 if inside else 10**9)
        monkeypatch.setattr(plan, "_FEWEST_EACH", 0 if by_rows else 10**9)
        for got, want in zip(both_ways(layer, x, lengths), expected, strict=True):
            scale = max(1.0, float(want.abs().max()))
            assert float((got - want).abs().max()) <= TOLERANCE[dtype] * scale, (threads, by_rows, inside)
        with torch.no_grad():  # without a way back
            y, (h, c) = layer(x, lengths=lengths)
        for got, want in zip((y, h, c), expected, strict=False):
            torch.testing.assert_close(got, want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_graph_that_is_kept_can_be_walked_again(options: dict[str, Any]) -> None:
    layer, x = layer_and_input((5, 4, 3, 20), options | {"kernel": "cpu"}, torch.float32)
    y, _ = layer(x)
    wanted = [x, *layer.parameters()]
    first = torch.autograd.grad(y.sum(), wanted, retain_graph=True)
    again = torch.autograd.grad(y.sum(), wanted)
    for one, two in zip(first, again, strict=True):
        assert torch.equal(one, two)


def test_the_same_at_every_run_and_from_several_threads_at_once() -> None:
    layer, x = layer_and_input((13, 20, 8, 48), {"kernel": "cpu"}, torch.float32)
    expected = both_ways(layer, x, None)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: both_ways(layer, x, None), range(24)))
    for result in results:
        assert all(torch.equal(got, want) for got, want in zip(result, expected, strict=True))


def test_one_thread_gives_nearly_the_same_as_two() -> None:
    layer, x = layer_and_input((9, 6, 8, 48), {"kernel": "cpu"}, torch.float32)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        two = both_ways(layer, x, None)
        torch.set_num_threads(1)
        one = both_ways(layer, x, None)
    finally:
        torch.set_num_threads(before)
    for a, b in zip(one, two, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_a_nan_comes_out_as_one() -> None:
    layer, x = layer_and_input((3, 4, 3, 37), {"kernel": "cpu"}, torch.float32)
    with torch.no_grad():
        x[1, 2, 0] = float("nan")
    y, _ = layer(x)
    assert torch.isnan(y[1, 2:]).all()
    assert not torch.isnan(y[0]).any()
    assert not torch.isnan(y[1, :2]).any()


@pytest.mark.parametrize(
    "options", [{}, pytest.param({"layer_norm": True, "peephole": True}, marks=pytest.mark.slow)], ids=str
)
def test_shorter_vectors_give_the_same(options: dict[str, Any], tmp_path: Path) -> None:
    """As on processors with vectors of four numbers, in a process of its own: sizes are settled when it is compiled."""
    code = f"""
import platform, numba, torch
platform.machine = lambda: "aarch64"
from thereafter import nn
from thereafter.kernels.cpu import plan
plan._WORTH_A_TEAM = 0
torch.manual_seed(0)
layer = nn.LSTM(5, 22, batch_first=True, **{options})
x = torch.randn(7, 4, 5, requires_grad=True)
results = []
for kernel in ("reference", "cpu"):
    layer.kernel = kernel
    y = layer(x)[0]
    results.append([y, *torch.autograd.grad(y.square().sum(), [x, *layer.parameters()])])
for want, got in zip(*results):
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
from thereafter.kernels.loops.tiles import VECTOR_BYTES
print(VECTOR_BYTES)
"""
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.stdout.split() == ["16"], done.stderr


def test_what_was_scored_does_not_stand_in_the_way_of_training() -> None:
    """Arrays of inference mode must not come back in a training step of the same size."""
    layer, x = layer_and_input((32, 64, 64, 64), {"kernel": "cpu"}, torch.float32)
    with torch.inference_mode():
        scored = layer(x)[0]
    trained = layer(x)[0]
    trained.sum().backward()
    assert torch.equal(scored, trained.detach())


def test_lengths_may_be_any_view() -> None:
    layer, x = layer_and_input((3, 5, 3, 20), {"kernel": "cpu"}, torch.float32)
    every_other = torch.tensor([5, 1, 4, 1, 2, 1])[::2]
    assert torch.equal(layer(x, lengths=every_other)[0], layer(x, lengths=torch.tensor([5, 4, 2]))[0])
    assert torch.equal(layer(x, lengths=torch.tensor(3).expand(3))[0], layer(x, lengths=torch.tensor([3, 3, 3]))[0])
