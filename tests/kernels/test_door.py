"""Kernels have one door: what is outside of them imports no cell's kernel, stepper or layout by its own name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import thereafter
from thereafter.cells import CELLS
from thereafter.cells.lstm import LSTM
from thereafter.kernels.scan import make_stepper
from thereafter.kernels.step.stepper import FAST_STEPPERS, AnyStepper, Slot

SOURCE = Path(thereafter.__file__).parent
OPEN = {"scan", "switches", "step.stepper", "onnx_rules", "onnx_table", "step.storing"}
"""The door, torch's own switches with oneDNN's products of some rows, the contract of a stepper, the
kernels in ONNX, and the forms that matrices are stored in: none of them is a cell's own."""
OPEN |= {"rows", "chain", "one_token"}
"""Rows added by an index, chains of tags; and the second door, to the programs of one generated
token: what is behind each on a GPU is chosen there."""


def test_only_the_door_is_imported_from_outside():
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        if SOURCE / "kernels" in path.parents:
            continue
        for name in re.findall(r"(?:from|import) thereafter\.kernels\.([\w.]+)", path.read_text(encoding="utf-8")):
            if name not in OPEN:
                wrong.append(f"{path.relative_to(SOURCE)} imports kernels.{name}")
    assert not wrong, wrong


def test_kernels_know_cells_by_their_exact_type():
    sources = [path.read_text(encoding="utf-8") for path in sorted((SOURCE / "kernels").rglob("*.py"))]
    assert not re.findall(r"isinstance\((?:self\.|job\.)?cell\b[^)]*\)", "\n".join(sources))


@pytest.mark.parametrize("name", list(CELLS))
def test_a_cell_made_from_another_has_no_stepper_of_its_kind(name: str):
    """It may compute something else: it is stepped by its own rule."""
    kind = CELLS.load(name)
    mine = type("Mine", (kind,), {"name": "mine"})
    weights = {label: torch.zeros(shape) for label, shape in kind(3, 4).shapes().items()}
    for cell, fast in ((kind(3, 4), kind in FAST_STEPPERS), (mine(3, 4), False)):
        stepper = make_stepper(cell, weights, 1, Slot(torch.zeros(1, 4), 0, 4), {}, {})
        assert (type(stepper) is not AnyStepper) == fast


def test_options_without_a_fast_stepper_go_through_the_cell():
    cell = LSTM(3, 4, proj_size=2)
    weights = {label: torch.zeros(shape) for label, shape in cell.shapes().items()}
    assert type(make_stepper(cell, weights, 1, Slot(torch.zeros(1, 2), 0, 2), {}, {})) is AnyStepper
