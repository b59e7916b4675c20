"""The fused scan of linear cells: its twin against the plain loop, and what is launched against the programs' text."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from gpu_linear_check import LINEAR, SITUATIONS, FusedScan
from gpu_twins import ScanTwin, parameters
from launches import noted_launches
from parity import Situation, make_job, plain, results
from torch import Tensor

from thereafter.cells import CELLS
from thereafter.cells.base import Cell
from thereafter.kernels.gpu.linear import SCAN_PROGRAMS, ScanTile, choose_tile, linear_refuses, run_linear_on_gpu
from thereafter.kernels.jobs import Job, Unrolled
from thereafter.kernels.plain import REFERENCE, linear_scan

TILES = [
    ScanTile(chunks=4, length=2, columns=16, vector=1, span=1 << 20),  # tiles
    ScanTile(chunks=2, length=3, columns=16, vector=1, span=12),  # segments of two tiles
    ScanTile(chunks=16, length=8, columns=16, vector=1, span=128),  # one tile, longer than most rows
]


def cell_of(name: str) -> Cell:
    cell: Cell = CELLS.load(name)(4, 5)
    return cell


def job_of(name: str, dtype: torch.dtype = torch.float32, **changed: object) -> Job:
    job = make_job(cell_of(name), Situation("plain"), dtype, "cpu")
    return replace(job, **changed)  # type: ignore[arg-type]


def assert_same(got: dict[str, Tensor], expected: dict[str, Tensor], dtype: torch.dtype, allowed: float) -> None:
    assert got.keys() == expected.keys()
    for name, truth in expected.items():
        assert got[name].dtype == dtype, name
        scale = max(1.0, float(truth.detach().abs().max()))
        torch.testing.assert_close(got[name].double(), truth, atol=allowed * scale, rtol=0.0, msg=name)


def drawn(rows: int, steps: int, units: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    torch.manual_seed(steps)
    shapes = [(rows, steps, units), (rows, steps, units), (rows, units)]
    a, b, h = (torch.randn(shape, dtype=torch.float64) for shape in shapes)
    return [array.to(dtype).requires_grad_() for array in (a.sigmoid(), b, h)]


@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize("name", LINEAR)
def test_all_results_are_those_of_the_plain_loop(name: str, tile: ScanTile) -> None:
    for at in SITUATIONS:
        job = make_job(cell_of(name), at, torch.float64, "cpu")
        expected = results(REFERENCE, plain(job), at, lay_out=False)
        assert_same(results(FusedScan(ScanTwin(tile)), job, at), expected, torch.float64, 1e-10)


@pytest.mark.parametrize("name", LINEAR)
def test_float32_stays_float32(name: str) -> None:
    at = Situation("odd", batch=5, steps=37)
    job = make_job(cell_of(name), at, torch.float32, "cpu")
    expected = results(REFERENCE, plain(job), at, lay_out=False)
    assert_same(results(FusedScan(ScanTwin(TILES[1])), job, at), expected, torch.float32, 1e-5)


@pytest.mark.parametrize("steps", [1, 2, 23, 24, 25, 100])
def test_the_twin_is_the_associative_scan(steps: int) -> None:
    a, b, h = drawn(2, steps, 3)
    expected = linear_scan(a, b, h)
    dy, dlast = torch.randn_like(expected), torch.randn_like(h)
    gradients = torch.autograd.grad((expected, expected[:, -1]), (a, b, h), (dy, dlast))
    for tile in TILES:
        twin = ScanTwin(tile)
        torch.testing.assert_close(twin.forward(a, b, h, a.dtype), expected)
        for got, truth in zip(twin.backward(a, expected, h, dy, dlast, b.dtype), gradients, strict=True):
            torch.testing.assert_close(got, truth)


def test_types_are_those_that_torch_promotes_to() -> None:
    """As under autocast: coefficients in bfloat16, the state in float32."""
    a, b, h = drawn(2, 9, 3)
    low = torch.bfloat16
    twin = ScanTwin(TILES[0])
    states = twin.forward(a.to(low), b.to(low), h.float(), torch.float32)
    assert states.dtype == torch.float32
    da, db, dh = twin.backward(a.to(low), states, h.float(), states, states[:, -1], low)
    assert (da.dtype, db.dtype, dh.dtype) == (low, low, torch.float32)


@pytest.mark.parametrize("name", LINEAR)
def test_under_autocast_it_gives_what_the_plain_loop_gives(name: str) -> None:
    job = job_of(name)
    with torch.autocast("cpu", torch.bfloat16):
        got, expected = run_linear_on_gpu(job, ScanTwin(TILES[0])), REFERENCE.run(job)
    assert got.y_BTO.dtype == expected.y_BTO.dtype
    torch.testing.assert_close(got.y_BTO, expected.y_BTO, atol=0.03, rtol=0.03)


@pytest.mark.parametrize("name", LINEAR)
def test_there_are_second_derivatives(name: str) -> None:
    job = job_of(name, torch.float64)

    def penalty(made: Unrolled) -> list[Tensor]:
        (dx,) = torch.autograd.grad(made.y_BTO.square().sum(), job.x_BTI, create_graph=True)
        return list(torch.autograd.grad(dx.square().sum(), list(job.weights.values())))

    got = penalty(run_linear_on_gpu(job, ScanTwin(TILES[0])))
    for one, truth in zip(got, penalty(REFERENCE.run(job)), strict=True):
        torch.testing.assert_close(one, truth)


def test_an_output_changed_in_place_is_noticed() -> None:
    """What is handed out is what the backward pass reads."""
    job = job_of("mingru")
    made = run_linear_on_gpu(job, ScanTwin(TILES[0]))
    made.state.h.mul_(2)  # a copy, which may be changed
    made.y_BTO.sum().backward(retain_graph=True)
    made.y_BTO.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        made.y_BTO.sum().backward()


def test_what_is_refused_is_refused_in_words() -> None:
    assert linear_refuses(job_of("mingru")) is None
    assert linear_refuses(job_of("diagonal", torch.bfloat16)) is None
    assert "float64" in str(linear_refuses(job_of("mingru", torch.float64)))
    assert "zoneout" in str(linear_refuses(job_of("mingru", hold={"h": 0.1})))
    assert "recorded" in str(linear_refuses(job_of("mingru", record=True)))
    assert "not linear" in str(linear_refuses(job_of("lstm")))
    assert "nothing to do" in str(linear_refuses(job_of("mingru", x_BTI=torch.zeros(3, 0, 4))))
    long = torch.zeros(1, 1, 4).expand(1, 1 << 30, 4)
    assert "counts to" in str(linear_refuses(job_of("mingru", x_BTI=long)))


@pytest.mark.parametrize("steps", [70, 4096])
def test_what_is_launched_is_what_the_programs_take(steps: int) -> None:
    a, b, h = drawn(2, steps, 6, torch.bfloat16)
    with noted_launches() as launched:
        states = SCAN_PROGRAMS.forward(a, b, h, a.dtype)
        gradients = SCAN_PROGRAMS.backward(a, states, h, states, h, b.dtype)
    assert [one.shape for one in gradients] == [a.shape, b.shape, h.shape]
    assert len(launched) == 2 * (2 if steps > 1000 else 1)  # long rows of few units are cut in time
    for launch in launched:
        wanted = launch.wanted
        arguments, constants = parameters("linear", wanted.function)
        assert [name for name, _ in wanted.arguments] == arguments
        assert {name for name, _ in wanted.constants} == constants
        assert len(launch.arguments) == len(arguments)
        for (name, kind), given in zip(wanted.arguments, launch.arguments, strict=True):
            assert isinstance(given, Tensor) <= kind.startswith("*"), name
            assert isinstance(given, Tensor) or given == 0 or not kind.startswith("*"), name
        for name, divisor in wanted.aligned:
            assert int(launch.by_name[name]) % divisor == 0
    assert dict(launched[0].wanted.arguments)["a"] == "*bf16"


def test_arrays_that_lie_otherwise_are_copied_and_those_that_do_not_are_not() -> None:
    a, b, h = drawn(2, 8, 6, torch.float32)
    odd = torch.randn(2 * 8 * 6 + 1)[1:].view(2, 8, 6)
    with noted_launches() as launched:
        SCAN_PROGRAMS.forward(a[:, :1, :1].expand(2, 8, 6), b, h[:1].expand(2, 6), h.dtype)
        SCAN_PROGRAMS.forward(torch.ones(6).expand(2, 8, 6), b, h, h.dtype)
        SCAN_PROGRAMS.forward(odd, b, h, h.dtype)
    given = launched[0].by_name
    assert given["a"].stride() == (48, 6, 1)  # type: ignore[union-attr]
    assert given["b"] is b
    assert given["first_row"] == 0
    given = launched[1].by_name
    assert (given["a_row"], given["a_step"]) == (0, 0)  # one row of numbers for all steps
    assert all(one.data_ptr() % 16 == 0 for one in launched[2].arguments if isinstance(one, Tensor))


@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize("paired", [True, False])
def test_every_shape_has_a_tile(itemsize: int, paired: bool) -> None:
    for rows in (1, 16, 128):
        for steps in (1, 7, 70, 784, 100_000):
            for units in (1, 6, 128, 1150, 4096):
                tile = choose_tile(rows, steps, units, itemsize, paired, 132)
                powers = (tile.chunks, tile.columns, tile.warps)
                assert all(number & (number - 1) == 0 and number for number in powers), tile
                assert tile.chunks >= 2
                assert tile.warps <= 8
                assert tile.columns * itemsize >= 32
                assert tile.span % tile.steps == 0
                segments = -(-steps // tile.span)
                assert segments == 1 or rows * -(-units // tile.columns) * segments <= 132


def test_the_shapes_of_the_benchmark_fill_the_gpu() -> None:
    for rows, steps, units in ((64, 512, 256), (16, 4096, 128), (128, 784, 256), (32, 70, 1150)):
        tile = choose_tile(rows, steps, units, 2, True, 132)
        assert rows * -(-units // tile.columns) * -(-steps // tile.span) >= 120
