"""Whole sequences on a team of threads, each kind of layer against the reference loop: at sizes that fill several tiles
and leave some over, however the work is shared."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import numpy as np
import pytest
import torch
from layouts import LAYOUTS

from breadth import core
from thereafter import nn
from thereafter.base import compiled
from thereafter.cells.options import ElmanOptions, choices_of
from thereafter.kernels.cpu import plan, products

pytestmark = pytest.mark.skipif(not compiled.available(), reason="numba is not here")

A = TypeVar("A")
Size = tuple[int, int, int, int]
Results = dict[str, torch.Tensor]
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-10}
TYPES = pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.float64, marks=pytest.mark.wide)], ids=str)
"""The loops are the same for both types, and are compiled anew for the other one."""
SIZES: list[Size] = [(13, 5, 3, 37), (1, 4, 5, 130), (20, 3, 70, 64), (7, 3, 2, 16), (2, 3, 3, 5)]
"""Rows of the batch, steps, input, hidden."""
PLANS = list(itertools.product([2, 3], [True, False], [True, False]))
"""How the work is shared: threads, by rows or by units, the input's product inside the steps or before them."""


@dataclass(frozen=True)
class Kind:
    """A layer with loops of its own. `theirs`: the gradients that are torch's products, whose sums may have another
    order on other numbers of threads; rows are shared then, whatever their number."""

    layer: type[nn.LSTM | nn.GRU | nn.RNN]
    options: list[dict[str, Any]]
    proj_sizes: tuple[int, ...] = ()
    theirs: tuple[str, ...] = ()


KINDS = {
    "lstm": Kind(
        nn.LSTM,
        [
            {},
            {"peephole": True},
            {"coupled": True},
            {"peephole": True, "coupled": True},
            {"layer_norm": True},
            {"layer_norm": True, "peephole": True, "coupled": True},
            {"bias": False},
        ],
    ),
    "projected": Kind(
        nn.LSTM, [{}, {"peephole": True, "coupled": True}], (20, 70, 1, 9, 3), ("x", "h", "c", "weight", "bias", "peep")
    ),
    "gru": Kind(
        nn.GRU,
        [{"reset": r, "update": u} for r in ("after", "before") for u in ("old", "new")]
        + [{"reset": r, "bias": False} for r in ("after", "before")],
    ),
    "elman": Kind(
        nn.RNN,
        [{"nonlinearity": name} for name in choices_of(ElmanOptions, "nonlinearity")] + [{"bias": False}],
        theirs=("weight",),
    ),
}


CORE: dict[str, list[dict[str, Any]]] = {
    "lstm": [{}, {"peephole": True, "coupled": True}],
    "gru": [
        {"reset": "after"},
        {"reset": "before"},
        {"reset": "after", "update": "old"},
        {"reset": "before", "update": "new"},
    ],
}
"""What `make test` runs: each of the others, all of Elman's among them, is up to 20 seconds of compiling, and wide."""


def _is_core(name: str, options: dict[str, Any]) -> bool:
    return options in CORE.get(name, [])


CASES = [(name, options) for name, kind in KINDS.items() for options in kind.options]
every_case = pytest.mark.parametrize(
    ("name", "options"),
    core(CASES, [case for case in CASES if _is_core(*case)]),
    ids=[f"{name}-{options}" for name, options in CASES],
)
FEW = [("lstm", {}), ("lstm", {"layer_norm": True}), ("projected", {}), ("gru", {"reset": "after"}),
       ("gru", {"reset": "before"}), ("elman", {})]  # fmt: skip
every_kind = pytest.mark.parametrize(
    ("name", "options"),
    core(FEW, [case for case in FEW if _is_core(*case)]),
    ids=[f"{name}-{options}" for name, options in FEW],
)
either_length = pytest.mark.parametrize("ragged", [False, True], ids=["whole", "lengths"])


@pytest.fixture(autouse=True)
def always_a_team(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(plan, "WORTH_A_TEAM", 0)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@dataclass
class Work:
    """A layer, its input and its first state, all with gradients."""

    layer: Any
    x: torch.Tensor
    first: list[torch.Tensor]

    @property
    def leaves(self) -> dict[str, torch.Tensor]:
        names = ("h", "c")[: len(self.first)]
        return {"x": self.x, **dict(zip(names, self.first, strict=True)), **dict(self.layer.named_parameters())}

    def run(self, lengths: torch.Tensor | None = None) -> tuple[torch.Tensor, ...]:
        """Outputs and last states."""
        y, last = self.layer(self.x, tuple(self.first) if len(self.first) > 1 else self.first[0], lengths=lengths)
        return (y, *(last if isinstance(last, tuple) else (last,)))

    def results(self, lengths: torch.Tensor | None = None) -> Results:
        """What it makes, and the gradients of all that it is given."""
        made = self.run(lengths)
        weights = [torch.linspace(-1, 1, part.numel(), dtype=part.dtype).view_as(part) for part in made]
        terms = [part * (weight + part.sin()) for part, weight in zip(made, weights, strict=True)]
        gradients = torch.autograd.grad(sum(term.sum() for term in terms), list(self.leaves.values()))
        found = {f"made {k}": part.detach() for k, part in enumerate(made)}
        return found | {f"gradient {name}": slope for name, slope in zip(self.leaves, gradients, strict=True)}


def work(name: str, size: Size, options: dict[str, Any], dtype: torch.dtype = torch.float32, **more: Any) -> Work:
    torch.manual_seed(1)
    batch, steps, inputs, hidden = size
    if name == "projected":
        sizes = KINDS[name].proj_sizes
        more["proj_size"] = sizes[SIZES.index(size)] if size in SIZES else hidden // 2
    layer = KINDS[name].layer(inputs, hidden, batch_first=True, dtype=dtype, **options, **more)
    for parameter, weight in layer.named_parameters():
        if parameter.startswith(("peephole", "shift")):
            torch.nn.init.normal_(weight)
    states = [more.get("proj_size", hidden), hidden][: 2 if KINDS[name].layer is nn.LSTM else 1]
    first = [torch.randn(1, batch, size, dtype=dtype, requires_grad=True) for size in states]
    return Work(layer, torch.randn(batch, steps, inputs, dtype=dtype, requires_grad=True), first)


def assert_close(got: Results, expected: Results, dtype: torch.dtype, *where: object) -> None:
    for name, one in got.items():
        scale = max(1.0, float(expected[name].abs().max()))
        assert float((one - expected[name]).abs().max()) <= TOLERANCE[dtype] * scale, (name, *where)


@TYPES
@either_length
@every_case
def test_a_team_equals_the_reference(
    name: str, options: dict[str, Any], ragged: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the work is shared: two opposite plans a size, other ones for every size and option."""
    for number, size in enumerate(SIZES):
        at = work(name, size, options, dtype, kernel="reference")
        lengths = torch.arange(size[0]) % (size[1] + 1) if ragged else None
        expected = at.results(lengths)
        at.layer.kernel = "cpu"
        case = number + KINDS[name].options.index(options) + ragged + 2 * list(TOLERANCE).index(dtype)
        for threads, by_rows, inside in (PLANS[case % 4], PLANS[-1 - case % 4]):
            torch.set_num_threads(threads)
            monkeypatch.setattr(plan, "FEWEST_ROWS", 1 if inside else 10**9)
            monkeypatch.setattr(plan, "FEWEST_EACH", 0 if by_rows else 10**9)
            where = (size, threads, by_rows, inside)
            assert_close(at.results(lengths), expected, dtype, *where)
            with torch.no_grad():  # without a way back
                made = {f"made {k}": part for k, part in enumerate(at.run(lengths))}
            assert_close(made, expected, dtype, *where, "no gradients")


@TYPES
@either_length
@every_kind
def test_any_number_of_threads_gives_the_same_bits(
    name: str, options: dict[str, Any], ragged: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = KINDS[name].theirs
    if theirs:
        monkeypatch.setattr(plan, "FEWEST_EACH", 0)
    for size, inside in itertools.product([(33, 6, 13, 37), (16, 5, 24, 20), (9, 6, 8, 48), (5, 4, 3, 16)], [0, 10**9]):
        monkeypatch.setattr(plan, "FEWEST_ROWS", inside)
        at = work(name, size, options, dtype, kernel="cpu")
        lengths = torch.arange(size[0]) * 5 % (size[1] + 1) if ragged else None
        results = []
        for threads in (1, 2, 3, 4, 2):
            torch.set_num_threads(threads)
            results.append(at.results(lengths))
        for threads, result in enumerate(results[1:4], 2):
            ours = [part for part in result if not part.removeprefix("gradient ").startswith(theirs or ("no such",))]
            differing = [part for part in ours if not torch.equal(results[0][part], result[part])]
            assert not differing, (size, threads, differing)
            assert_close(result, results[0], torch.float32)
        assert all(torch.equal(results[1][part], results[4][part]) for part in results[1]), size


@every_kind
def test_the_same_at_every_run_and_from_several_threads_at_once(name: str, options: dict[str, Any]) -> None:
    at = work(name, (17, 20, 8, 48), options, kernel="cpu")
    lengths = torch.arange(17) + 4
    expected = at.results(lengths)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: at.results(lengths), range(16)))
    assert all(torch.equal(result[part], expected[part]) for result in results for part in expected)


@every_case
def test_a_graph_that_is_kept_can_be_walked_again(name: str, options: dict[str, Any]) -> None:
    for size in ((5, 4, 3, 20), (16, 90, 3, 64)):  # large enough for arrays to be taken again
        at = work(name, size, options, kernel="cpu")
        y, wanted = at.run()[0], list(at.leaves.values())
        first = torch.autograd.grad(y.sum(), wanted, retain_graph=True)
        at.run()[0].sum().backward()
        again = torch.autograd.grad(y.sum(), wanted)
        assert all(torch.equal(one, two) for one, two in zip(first, again, strict=True)), size


@every_kind
def test_what_it_was_given_and_what_it_made_stay_apart(name: str, options: dict[str, Any]) -> None:
    """Outputs changed in place leave the way back alone; a NaN in one row stays in it, unread rows do not matter."""
    at = work(name, (6, 5, 3, 37), options, kernel="cpu")
    made, wanted = at.run(), list(at.leaves.values())
    incoming = [torch.randn_like(part) for part in made]
    plain = torch.autograd.grad(made, wanted, incoming)
    made = at.run()
    with torch.no_grad():
        for part in made:
            part.zero_()
    got = torch.autograd.grad(made, wanted, incoming)
    assert all(torch.equal(one, other) for one, other in zip(got, plain, strict=True))
    lengths = torch.tensor([5, 1, 3, 2, 4, 2])
    clean = at.run(lengths)
    with torch.no_grad():
        for row, length in enumerate(lengths.tolist()):
            at.x[row, length:] = float("nan")
    assert all(torch.equal(one, two) for one, two in zip(clean, at.run(lengths), strict=True))
    with torch.no_grad():
        at.x.nan_to_num_()
        at.x[1, 2, 0] = float("nan")
    spread = at.run()[0]
    assert torch.isnan(spread[1, 2:]).all()
    assert not torch.isnan(spread[1, :2]).any()
    assert not torch.isnan(spread[[0, 2, 3, 4, 5]]).any()


@pytest.mark.wide
def test_a_nan_comes_out_of_every_nonlinearity() -> None:
    for options in KINDS["elman"].options:
        at = work("elman", (3, 4, 3, 37), options, kernel="cpu")
        with torch.no_grad():
            at.x[1, 2, 0] = float("nan")
            y = at.run()[0]
        assert torch.isnan(y[1, 2:]).all(), options
        assert not torch.isnan(y[[0, 2]]).any(), options


PLAIN = [case for case in FEW if "layer_norm" not in case[1]]


@pytest.mark.parametrize(("name", "options"), core(PLAIN, [case for case in PLAIN if _is_core(*case)]))
def test_gradients_do_not_share_memory(name: str, options: dict[str, Any]) -> None:
    at = work(name, (5, 4, 3, 20), options, kernel="cpu")
    at.run()[0].sum().backward()
    places = [weight.grad.untyped_storage().data_ptr() for weight in at.layer.parameters() if weight.grad is not None]
    assert len(set(places)) == len(list(at.layer.parameters()))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_it_takes_views_of_every_kind(layout: str) -> None:
    """A layer whose weights' gradients are torch's products."""
    lay = LAYOUTS[layout]
    at = work("elman", (5, 4, 6, 21), {}, kernel="cpu")
    view = lay(at.x.detach()).requires_grad_()
    plain = view.detach().clone(memory_format=torch.contiguous_format).requires_grad_()
    incoming = lay(torch.randn(5, 4, 21))
    for weight in at.layer.parameters():
        weight.data = lay(weight.data) if layout != "expanded" else weight.data
    lengths = lay(torch.tensor([4, 4, 2, 1, 3]))
    asked = list(at.layer.parameters())
    got = torch.autograd.grad(at.layer(view, lengths=lengths)[0], [view, *asked], incoming)
    want = torch.autograd.grad(at.layer(plain, lengths=lengths.clone())[0], [plain, *asked], incoming.clone())
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("options", core(KINDS["lstm"].options, CORE["lstm"][:1]), ids=str)
def test_units_or_rows_to_threads_give_the_same_bits(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for ragged in (False, True):
        at = work("lstm", (13, 5, 8, 37), options, kernel="cpu")
        lengths = torch.arange(13) % 5 + 1 if ragged else None
        results = []
        for rows in (0, 10**9):
            monkeypatch.setattr(plan, "FEWEST_EACH", rows)
            results.append(at.results(lengths))
        assert all(torch.equal(results[0][part], results[1][part]) for part in results[0]), ragged


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

    rows: Annotated[A, "B"]
    numbers: Annotated[A, "N"]
    steps: Annotated[A, "TN"]


@pytest.fixture(scope="module")
def claims() -> compiled.CFunction:
    """A task that counts what its threads have claimed."""
    from thereafter.kernels.loops import team
    from thereafter.kernels.loops.tiles import types

    read, claim, claim_below, meet = team.arrays_of(Claims), team.claim, team.claim_below, team.meet
    members, task_at, claim_parts = team.members, team.task_at, team.claim_parts
    parts_in, rows_of_parts, dtype = team.parts_in, team.rows_of_parts, np.dtype(np.float32)
    first_counter, second_counter, is_ragged = team.PANELS, team.PACKED, team.COUPLED

    def claims_task(address: int) -> None:
        task = task_at(address)
        arrays = read(task, dtype)
        threads = members(task)
        ragged = task[is_ragged] != 0
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


SHORTER = """
import platform, numba, torch
platform.machine = lambda: "aarch64"
from thereafter import nn
from thereafter.kernels.cpu import plan
plan.WORTH_A_TEAM = 0
torch.manual_seed(0)
layer = nn.{layer}
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


@pytest.mark.parametrize(
    "layer",
    [
        pytest.param("LSTM(5, 22, batch_first=True)", marks=pytest.mark.wide),
        pytest.param("LSTM(5, 22, batch_first=True, layer_norm=True, peephole=True)", marks=pytest.mark.slow),
        pytest.param("RNN(5, 22, batch_first=True)", marks=pytest.mark.slow),
    ],
)
def test_shorter_vectors_give_the_same(layer: str) -> None:
    """As on processors with vectors of four numbers, in a process of its own: sizes are settled when it is compiled.
    Code of other sizes is kept apart, so that it is compiled at the first run alone. `make test` compiles the products
    for other vectors (`test_plan.py`)."""
    code = SHORTER.format(layer=layer)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["16"], done.stderr


def test_what_was_scored_does_not_stand_in_the_way_of_training() -> None:
    """Arrays of inference mode must not come back in a training step of the same size."""
    at = work("lstm", (32, 64, 64, 64), {}, kernel="cpu")
    with torch.inference_mode():
        scored = at.run()[0]
    trained = at.run()[0]
    trained.sum().backward()
    assert torch.equal(scored, trained.detach())


def test_lengths_may_be_any_view() -> None:
    at = work("lstm", (3, 5, 3, 20), {}, kernel="cpu")
    every_other = torch.tensor([5, 1, 4, 1, 2, 1])[::2]
    assert torch.equal(at.run(every_other)[0], at.run(torch.tensor([5, 4, 2]))[0])
    assert torch.equal(at.run(torch.tensor(3).expand(3))[0], at.run(torch.tensor([3, 3, 3]))[0])
