"""The simple recurrent network as one compiled call a sequence, against the reference loop."""

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
from layouts import LAYOUTS

from thereafter import compiled, nn
from thereafter.cells.options import ElmanOptions, choices_of
from thereafter.kernels.cpu import plan

pytestmark = pytest.mark.skipif(not compiled.available(), reason="numba is not here")

KINDS = choices_of(ElmanOptions, "nonlinearity")
SIZES = [(13, 5, 3, 37), (1, 4, 5, 130), (20, 3, 70, 64), (7, 3, 2, 16), (2, 3, 3, 5)]  # batch, steps, input, hidden
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4}
Size = tuple[int, int, int, int]


@pytest.fixture(autouse=True)
def small_teams(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(plan, "_WORTH_A_TEAM", 0)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def elman_and_input(size: Size, dtype: torch.dtype = torch.float32, **options: Any) -> tuple[nn.RNN, torch.Tensor]:
    torch.manual_seed(3)
    batch, steps, inputs, hidden = size
    layer = nn.RNN(inputs, hidden, batch_first=True, dtype=dtype, **options)
    return layer, torch.randn(batch, steps, inputs, dtype=dtype, requires_grad=True)


def results(layer: nn.RNN, x: torch.Tensor, lengths: torch.Tensor | None = None, **walk: Any) -> list[torch.Tensor]:
    """Outputs, last state, and the gradients of input, first state and weights."""
    first = torch.linspace(-1, 1, len(x) * layer.hidden_size, dtype=x.dtype).view(1, len(x), -1).requires_grad_()
    y, h = layer(x, first, lengths=lengths)
    loss = (y * torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)).sum() + (h * h).sum()
    return [y.detach(), h.detach(), *torch.autograd.grad(loss, [x, first, *layer.parameters()], **walk)]


def assert_close(got: list[torch.Tensor], expected: list[torch.Tensor], dtype: torch.dtype, *where: object) -> None:
    for one, want in zip(got, expected, strict=True):
        scale = max(1.0, float(want.abs().max()))
        assert float((one - want).abs().max()) <= TOLERANCE[dtype] * scale, where


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("ragged", [False, True], ids=["whole", "lengths"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_elman_team_equals_the_reference(
    kind: str, ragged: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the work is shared: by rows or by units, the input's product inside the steps or before them."""
    for size in SIZES:
        layer, x = elman_and_input(size, dtype, nonlinearity=kind, kernel="reference")
        lengths = torch.arange(size[0]) % (size[1] + 1) if ragged else None
        expected = results(layer, x, lengths)
        layer.kernel = "cpu"
        for by_rows, inside in itertools.product([True, False], [True, False]):
            monkeypatch.setattr(plan, "_FEWEST_ROWS", 1 if inside else 10**9)
            monkeypatch.setattr(plan, "_FEWEST_EACH", 0 if by_rows else 10**9)
            assert_close(results(layer, x, lengths), expected, dtype, size, by_rows, inside)
            with torch.no_grad():  # without a way back
                first = torch.linspace(-1, 1, size[0] * size[3], dtype=dtype).view(1, size[0], -1)
                assert_close(list(layer(x, first, lengths=lengths)), expected[:2], dtype, size, by_rows, inside)


@pytest.mark.parametrize("ragged", [False, True], ids=["whole", "lengths"])
def test_an_elman_team_of_any_size_gives_the_same_bits(ragged: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "_FEWEST_EACH", 0)
    layer, x = elman_and_input((19, 7, 6, 40), kernel="cpu")
    lengths = torch.arange(19) * 5 % 8 if ragged else None
    for inside in (True, False):
        monkeypatch.setattr(plan, "_FEWEST_ROWS", 1 if inside else 10**9)
        made = []
        for threads in (1, 2, 3, 4, 2):
            torch.set_num_threads(threads)
            made.append(results(layer, x, lengths))
        for other in made[1:]:
            # weights' gradients are torch's products, which may be summed in another order
            assert all(torch.equal(one, two) for one, two in zip(made[0][:4], other, strict=False))
            assert all(torch.equal(one, two) for one, two in zip(made[0][6:], other[6:], strict=True))
            assert_close(other, made[0], torch.float32)
        assert all(torch.equal(one, two) for one, two in zip(made[1], made[4], strict=True))


def test_an_elman_team_gives_the_same_at_every_run_and_from_several_threads_at_once() -> None:
    layer, x = elman_and_input((13, 20, 8, 48), kernel="cpu")
    expected = results(layer, x)
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: results(layer, x), range(16)))
    for result in made:
        assert all(torch.equal(got, want) for got, want in zip(result, expected, strict=True))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_elman_team_takes_views_of_every_kind(layout: str) -> None:
    lay = LAYOUTS[layout]
    layer, x = elman_and_input((5, 4, 6, 21), kernel="cpu")
    view = lay(x.detach()).requires_grad_()
    plain = view.detach().clone(memory_format=torch.contiguous_format).requires_grad_()
    incoming = lay(torch.randn(5, 4, 21))
    for weight in layer.parameters():
        weight.data = lay(weight.data) if layout != "expanded" else weight.data
    lengths = lay(torch.tensor([4, 4, 2, 1, 3]))
    asked = list(layer.parameters())
    got = torch.autograd.grad(layer(view, lengths=lengths)[0], [view, *asked], incoming)
    want = torch.autograd.grad(layer(plain, lengths=lengths.clone())[0], [plain, *asked], incoming.clone())
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_an_elman_graph_that_is_kept_can_be_walked_again() -> None:
    layer, x = elman_and_input((16, 90, 3, 64), kernel="cpu")  # large enough for arrays to be taken again
    y, _ = layer(x)
    wanted = [x, *layer.parameters()]
    first = torch.autograd.grad(y.sum(), wanted, retain_graph=True)
    layer(x)[0].sum().backward()
    again = torch.autograd.grad(y.sum(), wanted)
    for one, two in zip(first, again, strict=True):
        assert torch.equal(one, two)


def test_elman_outputs_may_be_changed_in_place() -> None:
    layer, x = elman_and_input((4, 6, 3, 20), kernel="cpu")
    y, h = layer(x)
    expected = torch.autograd.grad(y.sum() + h.sum(), [x, *layer.parameters()])
    y, h = layer(x)
    y, h = y.mul_(1.0), h.mul_(1.0)
    with torch.no_grad():
        y.data.zero_()
        h.data.zero_()
    for one, two in zip(torch.autograd.grad(y.sum() + h.sum(), [x, *layer.parameters()]), expected, strict=True):
        assert torch.equal(one, two)


def test_a_nan_comes_out_of_every_nonlinearity_and_of_its_row_alone() -> None:
    for kind in KINDS:
        layer, x = elman_and_input((3, 4, 3, 37), kernel="cpu", nonlinearity=kind)
        with torch.no_grad():
            x[1, 2, 0] = float("nan")
            y, _ = layer(x)
        assert torch.isnan(y[1, 2:]).all(), kind
        assert not torch.isnan(y[[0, 2]]).any(), kind
        assert not torch.isnan(y[1, :2]).any(), kind


@pytest.mark.slow
def test_an_elman_team_with_shorter_vectors_gives_the_same(tmp_path: Path) -> None:
    """As on processors with vectors of four numbers, in a process of its own: sizes are settled when it is compiled."""
    code = """
import platform, numba, torch
platform.machine = lambda: "aarch64"
from thereafter import nn
from thereafter.kernels.cpu import plan
plan._WORTH_A_TEAM = 0
torch.manual_seed(0)
layer = nn.RNN(5, 22, batch_first=True)
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
