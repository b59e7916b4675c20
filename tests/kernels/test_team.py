"""The threads of a team against the reference loop, at sizes that fill several tiles and leave some over."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import numpy as np
import pytest
import torch

from thereafter import compiled, nn
from thereafter.kernels.cpu import plan, products

pytestmark = pytest.mark.skipif(not compiled.available(), reason="numba is not here")

SIZES = [(13, 5, 3, 37), (1, 4, 5, 130), (20, 3, 4, 64), (7, 3, 2, 16), (2, 3, 3, 5)]  # batch, steps, input, hidden
OPTIONS: list[dict[str, Any]] = [
    {}, {"peephole": True}, {"coupled": True}, {"peephole": True, "coupled": True}, {"layer_norm": True},
    {"layer_norm": True, "peephole": True, "coupled": True},
]  # fmt: skip
A = TypeVar("A")
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4}
PLANS = list(itertools.product([2, 3], [True, False], [True, False]))
"""How the work is shared: threads, by rows or by units, the input's product inside the steps or before them."""


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
    """However the work is shared: two opposite plans a case, and all eight for every size with every option."""
    layer, x = layer_and_input(size, options, dtype)
    lengths = torch.arange(size[0]) % size[1] + 1 if ragged else None
    layer.kernel = "reference"
    expected = both_ways(layer, x, lengths)
    layer.kernel = "cpu"
    case = SIZES.index(size) + OPTIONS.index(options) + ragged + 2 * list(TOLERANCE).index(dtype)
    for threads, by_rows, inside in (PLANS[case % 4], PLANS[-1 - case % 4]):
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


@pytest.mark.parametrize("options", [{}, {"layer_norm": True}], ids=str)
def test_the_same_at_every_run_and_from_several_threads_at_once(options: dict[str, Any]) -> None:
    layer, x = layer_and_input((17, 20, 8, 48), options | {"kernel": "cpu"}, torch.float32)
    lengths = torch.arange(17) + 4
    expected = both_ways(layer, x, lengths)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: both_ways(layer, x, lengths), range(24)))
    for result in results:
        assert all(torch.equal(got, want) for got, want in zip(result, expected, strict=True))


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("ragged", [False, True], ids=["whole", "lengths"])
@pytest.mark.parametrize("options", [{}, {"peephole": True}, {"layer_norm": True}], ids=str)
def test_one_to_four_threads_give_the_same_bits(options: dict[str, Any], ragged: bool, dtype: torch.dtype) -> None:
    for size in [(33, 6, 13, 37), (16, 5, 24, 20), (9, 6, 8, 48), (5, 4, 3, 16)]:
        layer, x = layer_and_input(size, options | {"kernel": "cpu"}, dtype)
        lengths = torch.arange(size[0]) % size[1] + 1 if ragged else None
        results = []
        for threads in (1, 2, 3, 4):
            torch.set_num_threads(threads)
            results.append(both_ways(layer, x, lengths))
        for threads, result in enumerate(results[1:], 2):
            assert all(torch.equal(one, many) for one, many in zip(results[0], result, strict=True)), (size, threads)


def test_units_or_rows_to_threads_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    for options, ragged in itertools.product(OPTIONS, [False, True]):
        layer, x = layer_and_input((13, 5, 8, 37), options | {"kernel": "cpu"}, torch.float32)
        lengths = torch.arange(13) % 5 + 1 if ragged else None
        results = []
        for rows in (0, 10**9):
            monkeypatch.setattr(plan, "_FEWEST_EACH", rows)
            results.append(both_ways(layer, x, lengths))
        assert all(torch.equal(one, two) for one, two in zip(*results, strict=True)), (options, ragged)


@pytest.mark.parametrize("size", [(1280, 96, 64), (1283, 40, 30), (1120, 256, 256), (700, 24, 8), (100, 8, 8)], ids=str)
def test_a_weight_gradient_has_the_same_bits_on_any_number_of_threads(size: tuple[int, int, int]) -> None:
    rows, width, columns = size
    torch.manual_seed(0)
    dz, x = torch.randn(rows, width), torch.randn(rows, columns)
    made = []
    for threads in (1, 2, 3, 4, 7):
        torch.set_num_threads(threads)
        made.append(products.weight_gradient(dz, x))
    assert all(torch.equal(made[0], other) for other in made[1:])
    torch.testing.assert_close(made[0].double(), dz.double().t() @ x.double(), rtol=1e-4, atol=1e-3)


class Claims(NamedTuple, Generic[A]):
    """How often each row was taken, each number of a counter, and each number of one that is renewed."""

    rows: Annotated[A, 1]
    numbers: Annotated[A, 1]
    steps: Annotated[A, 2]


@pytest.fixture(scope="module")
def claims() -> compiled.CFunction:
    """A task that counts what its threads have claimed."""
    from thereafter.kernels.loops import parts, team
    from thereafter.kernels.loops.tiles import types

    read, claim, claim_below, meet = team.arrays_of(Claims), team.claim, team.claim_below, team.meet
    members, task_at, claim_parts = team.members, team.task_at, parts.claim_parts
    parts_in, rows_of_parts, dtype = parts.parts_in, parts.rows_of_parts, np.dtype(np.float32)
    first_counter, second_counter, is_ragged, switch = team.PANELS, team.PACKED, team.COUPLED, team.switch

    def claims_task(address: int) -> None:
        task = task_at(address)
        arrays = read(task, dtype)
        threads = members(task)
        ragged = switch(task, is_ragged)
        parts = parts_in(len(arrays.rows), ragged)
        begin, after = claim_parts(task, parts, ragged, threads)
        while begin < parts:
            top, end, step = rows_of_parts(len(arrays.rows), begin, after, parts, ragged)
            for row in range(top, end, step):
                arrays.rows[row] += 1
            begin, after = claim_parts(task, parts, ragged, threads)
        number = claim(task, first_counter)
        while number < len(arrays.numbers):
            arrays.numbers[number] += 1
            number = claim(task, first_counter)
        meetings, each = 0, arrays.steps.shape[1]
        for step in range(len(arrays.steps)):
            number = claim_below(task, second_counter, (step + 1) * each)
            while number < (step + 1) * each:
                arrays.steps[step, number - step * each] += 1
                number = claim_below(task, second_counter, (step + 1) * each)
            meetings = meet(task, meetings, threads)

    return compiled.c_function(types.void(types.voidptr), claims_task)


@pytest.mark.parametrize("threads", [1, 2, 3, 4, 7])
def test_everything_is_claimed_once(claims: compiled.CFunction, threads: int) -> None:
    from thereafter.kernels.loops import team

    torch.set_num_threads(threads)
    for rows, ragged in itertools.product((1, 2, 3, 15, 16, 17, 31, 32, 33, 64, 95, 96, 130), (False, True)):
        counted = [torch.zeros(rows), torch.zeros(5000), torch.zeros(20, 7)]
        team.call(claims, counted, [ragged, False])
        assert all(bool((count == 1).all()) for count in counted), (rows, ragged)


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
def test_shorter_vectors_give_the_same(options: dict[str, Any]) -> None:
    """As on processors with vectors of four numbers, in a process of its own: sizes are settled when it is compiled.
    Code of other sizes is kept apart, so that it is compiled at the first run alone."""
    code = f"""
import platform, numba, torch
platform.machine = lambda: "aarch64"
from thereafter import nn
from thereafter.kernels.cpu import plan, products
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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
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
