"""What is launched is what the programs take: names, orders, sizes; without Triton, by reading their source."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch
from torch import Tensor

from thereafter.kernels import gpu
from thereafter.kernels.gpu import copying
from thereafter.kernels.gpu.compiling import Constant
from thereafter.kernels.gpu.geometry import SHARED_BYTES, geometry, shared_bytes
from thereafter.kernels.gpu.launching import argument_names
from thereafter.kernels.gpu.layout import FilledUnits

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


@pytest.mark.parametrize("function", ["copy_gates", "turn_gates", "copy_rows"])
def test_copies_pass_what_their_programs_take(function: str, monkeypatch: pytest.MonkeyPatch):
    """The numbers of every copy, by name, in the program's order; the program itself is not run."""
    taken, constants = parameters("copying", function)
    launched: dict[str, tuple[list[str], list[str]]] = {}

    def noted(name: str, source: Tensor, target: Tensor, numbers: dict[str, int], given: dict[str, Constant], n: int):
        launched[name] = ["source", "target", *numbers], list(given)
        assert n > 0

    monkeypatch.setattr(copying, "_copy", noted)
    copies, how = copying.CopyPrograms(), FilledUnits(5, 128, (0, 1, None, 2))
    copies.slices(torch.ones(15, 4), how, 8, 16, torch.bfloat16)
    copies.turned(torch.ones(15, 5), how, torch.bfloat16)
    copies.gates(torch.ones(512, 8), how, 4, torch.float32)
    copies.rows(torch.ones(3, 2, 5), 16, 8, torch.bfloat16)
    assert launched[function] == (taken, constants)
