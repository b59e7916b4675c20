"""What the programs of all cells ask of a job, and what they are given of it: the cell as a formula over gates, the
situation of every row and step.

Shapes: B rows filled up to P, T steps, H units.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from thereafter.cells.base import Cell
from thereafter.cells.elman import Elman
from thereafter.cells.gru import GRU
from thereafter.cells.lstm import LSTM
from thereafter.kernels.gpu.copying import Places, filled
from thereafter.kernels.gpu.launch import FLOATS
from thereafter.kernels.jobs import Job

ALIGNED = 8
"""Inputs are filled up to a multiple of this: 16 bytes of 16-bit numbers."""
LOW = (torch.bfloat16, torch.float16)
"""What products are taken in."""
_MOST_HALF = 2.0**15
"""Half of the largest number of float16: tanh has been 1 to the last digit since 10, and a gradient of 0 times infinity
would be none."""


class Blocks(NamedTuple):
    """A cell as the programs know it: a formula over blocks of W x + U h + b.

    `form`: as code/formulas.py names it. `of_input`, `of_state`: where the gates of W and b, of U and b' go. There are
    four blocks, some of them empty (weights of 0) where a cell has fewer gates. A GRU that resets after its product
    needs W x and U h of its candidate apart, so these are two blocks; one that resets before it has its three gates.
    """

    form: str
    of_input: Places
    of_state: Places

    @property
    def has_memory(self) -> bool:
        """Whether there is a memory cell beside h."""
        return self.form in ("lstm", "coupled")

    @property
    def resets_before(self) -> bool:
        """Whether the product of the candidate waits for the reset: programs of its own, which meet twice a step."""
        return len(self.of_state) == 3


def blocks_of(cell: Cell) -> Blocks | None:
    """By the exact type: a cell that was made from one of these may compute something else."""
    if type(cell) is LSTM:
        places: Places = (0, None, 1, 2) if cell.options.coupled else (0, 1, 2, 3)
        return Blocks("coupled" if cell.options.coupled else "lstm", places, places)
    if cell.layer_norm:
        return None
    if type(cell) is GRU:
        form = f"gru_{cell.options.update}"
        after = cell.options.reset == "after"
        return Blocks(form, (0, 1, 2, None), (0, 1, None, 2)) if after else Blocks(form, (0, 1, 2), (0, 1, 2))
    if type(cell) is Elman:
        return Blocks(cell.options.nonlinearity, (0, None, None, None), (0, None, None, None))
    return None


def product_type(job: Job) -> torch.dtype:
    """What products of a job are taken in: the input's type, or autocast's."""
    device = job.x_BTI.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else job.x_BTI.dtype


def unfit(job: Job) -> str | None:
    """Why no program can run a job, whatever its cell."""
    if job.record:
        return "the programs do not show their gates"
    other = [array.dtype for array in (job.x_BTI, *job.state, *job.weights.values()) if array.dtype not in FLOATS]
    if other:
        return f"an array is {other[0]}; the programs read float32, bfloat16 and float16"
    if product_type(job) not in LOW:
        return "the programs multiply in bfloat16 and float16; use torch.autocast or layer.to(torch.bfloat16)"
    return None if job.x_BTI.shape[0] and job.x_BTI.shape[1] else "there is nothing to compute"


def last_cell(c: Tensor, low: torch.dtype) -> Tensor:
    """A cell state in the type it is handed on in; an LSTM that counts in c goes beyond what float16 can hold."""
    return c.clamp(-_MOST_HALF, _MOST_HALF).to(low) if low == torch.float16 else c.to(low)


def begun(state_PK: Tensor, marks: Tensor | None) -> Tensor:
    """A state before the first step: 0 in rows that begin anew there."""
    return state_PK if marks is None else torch.where(((marks[0] & 2) != 0).unsqueeze(1), 0.0, state_PK)


def charge(d_BH: Tensor | None, like_PK: Tensor) -> Tensor:
    """The gradient of a last state, in float32."""
    return torch.zeros_like(like_PK) if d_BH is None else filled(d_BH.float(), *like_PK.shape)


def marks(job: Job, rows: int) -> Tensor | None:
    """[T + 1, P]: 1 for a live row, 2 for one whose state is 0 before the step."""
    if job.lengths_B is None and job.reset_BT is None:
        return None
    batch, steps = job.x_BTI.shape[:2]
    made = torch.zeros(steps + 1, rows, dtype=torch.uint8, device=job.x_BTI.device)
    step_T1 = torch.arange(steps, device=made.device).unsqueeze(1)
    made[:-1, :batch] = 1 if job.lengths_B is None else (step_T1 < job.lengths_B.to(made.device)).to(torch.uint8)
    if job.reset_BT is not None:
        made[:-1, :batch] += 2 * job.reset_BT.t().to(torch.uint8)
    return made


def peepholes(job: Job) -> Tensor | None:
    """[3, H] in float32: input, forget, output; a coupled cell has no forget gate."""
    if not (type(job.cell) is LSTM and job.cell.options.peephole):
        return None
    zeros = torch.zeros_like(job.weights["peephole_input"])
    named = [job.weights.get(f"peephole_{gate}", zeros) for gate in ("input", "forget", "output")]
    return torch.stack(named).float()
