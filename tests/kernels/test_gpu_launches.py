"""What is launched is what the programs take: names, orders, sizes; without Triton, by reading their source."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from thereafter.kernels import gpu
from thereafter.kernels.gpu.geometry import SHARED_BYTES, geometry, shared_bytes
from thereafter.kernels.gpu.launching import argument_names

CODE = Path(gpu.__file__).parent / "code"
SIZES = [(64, 1150), (40, 1150), (128, 512), (64, 1024), (16, 768), (64, 256), (20, 650), (5, 48), (3, 5), (200, 256)]


def parameters(module: str, function: str) -> tuple[list[str], list[str]]:
    """A program's parameters that are arguments, and those that are constants."""
    tree = ast.parse((CODE / f"{module}.py").read_text())
    program = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function)
    constants = [a.arg for a in program.args.args if a.annotation and "constexpr" in ast.unparse(a.annotation)]
    return [a.arg for a in program.args.args if a.arg not in constants], constants


@pytest.mark.parametrize("family", ["wide", "narrow"])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_arguments_stand_in_the_order_of_the_program(family: str, direction: str):
    taken, _ = parameters(family, f"{family}_{direction}")
    assert tuple(taken) == argument_names(family, direction)


@pytest.mark.parametrize("busy", [False, True], ids=["plain", "busy"])
@pytest.mark.parametrize(("rows", "units"), SIZES)
def test_every_shape_fits_the_gpu(rows: int, units: int, busy: bool):
    over = geometry(rows, units, 132, busy=busy)
    assert over is not None
    assert over.rows >= rows
    assert over.units >= units
    for tiling, back in ((over.forward, False), (over.backward, True)):
        assert over.blocks(tiling) <= 132
        assert over.rows % tiling.rows == 0
        columns = (4 if back else 1) * over.units
        if tiling.family == "narrow":
            assert columns % (64 * tiling.warps) == 0
        if tiling.family == "wide":
            assert over.units % tiling.chunk == 0
            assert over.units % (4 * tiling.own) == 0
            assert shared_bytes(tiling, over.units, back=back) <= SHARED_BYTES
            assert tiling.in_registers <= over.units // tiling.chunk


def test_what_does_not_fit_has_no_shape():
    assert geometry(512, 1024, 132) is None
    assert geometry(64, 4096, 132) is None
    assert geometry(64, 1150, 16) is None
