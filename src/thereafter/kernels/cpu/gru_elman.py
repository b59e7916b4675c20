"""The GRU and the simple recurrent network on a CPU: a whole sequence in one compiled call, as `cpu.lstm` has it.

The GRU, in both orders of reset and product: the input's product is hoisted out of the steps, weight gradients are
products over all of them at the end. Where reset comes after the product, r u with u = U_n h + b', the gradients of u
and of n's pre-activation differ. They stand beside those of r and z, in the order u, r, z, n: the recurrent weights see
the neighbours u, r, z, the input's r, z, n.

The simple recurrent network: outputs are made in place of the input's part of their pre-activations, batch first; one
copy of them, which nobody else can change, is kept for the backward pass.

Shapes: T steps, B rows, I inputs, H units, G = 3 H, N = T B.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from thereafter.cells.elman import Elman
from thereafter.cells.gru import GRU
from thereafter.cells.options import ElmanOptions, choices_of
from thereafter.kernels.arrays import ElmanBackward, ElmanForward, GruBackward, GruForward
from thereafter.kernels.cpu.plan import input_inside, shares_rows
from thereafter.kernels.cpu.products import (
    ForwardPass,
    LayerWeights,
    TeamCell,
    give_all,
    gradient_in,
    laid_out,
    layer_weights,
    place_for_gradient,
    project_inputs,
    row_parts,
    sum_of_parts,
    take,
    team_scan,
    weight_gradient,
)
from thereafter.kernels.jobs import Job, Unrolled


class TeamGru(TeamCell[LayerWeights]):
    """A GRU that resets `before` the product or after it; z multiplies the `old` state or the candidate."""

    def __init__(self, before: bool, old: bool) -> None:
        self.before = before
        # what z keeps of the old state, keep[0] + keep[1] z: z itself, or 1 - z
        self.keep = (0.0, 1.0) if old else (1.0, -1.0)

    def forward(
        self, x_BTI: Tensor, state: Sequence[Tensor], weights: LayerWeights, lengths: Tensor | None, learning: bool
    ) -> ForwardPass:
        from thereafter.kernels.loops.gru import forward_task

        rows, steps, inputs = x_BTI.shape
        width, units = weights.weight_hh.shape
        self.by_rows = shares_rows(rows, weights.weight_hh.nbytes)
        beside = 0 if self.before else units  # u
        gates = take(x_BTI, steps, rows, beside + width)
        h = take(x_BTI, steps + 1 if learning else 2, rows, units)
        reset = take(x_BTI, steps if learning else 1, rows, units) if self.before else x_BTI.new_empty(0, 0, 0)
        (h[0],) = state
        own = [gates, h, reset]
        x_TBI = laid_out(x_BTI.transpose(0, 1), own)
        bias, bias_n = self._biases(weights, units)
        project_inputs(x_TBI.view(-1, inputs), weights.weight_ih, bias, gates.view(-1, beside + width)[:, beside:])
        weight, weight_n = self._recurrent(weights.weight_hh)
        y = x_BTI.new_empty(rows, steps, units)
        arrays = GruForward(
            gates=gates, h=h, y=y, reset=reset, bias_n=x_BTI.new_zeros(units) if bias_n is None else bias_n,
            keep=x_BTI.new_tensor(self.keep),
        )  # fmt: skip
        second = None if weight_n is None else weight_n.t()
        self.run_team(forward_task, steps * rows * width * units, arrays, lengths, weight, second)
        return ForwardPass(y, (h[steps % len(h)].clone(),), (x_TBI,), own)

    def backward(
        self, saved: Sequence[Tensor], weights: LayerWeights, lengths: Tensor | None, dy: Tensor | None,
        d_state: Sequence[Tensor], wanted: bool,
    ) -> tuple[Tensor | None, LayerWeights]:  # fmt: skip
        from thereafter.kernels.loops.gru import backward_task

        x_TBI, gates, h, reset, *_ = saved
        steps, rows, width = gates.shape
        units = h.shape[2]
        dz, (dh,), d_bias = place_for_gradient(gates), d_state, h.new_zeros(row_parts(rows), width)
        arrays = GruBackward(
            gates=gates, h=h, dy=gradient_in(h.new_empty(rows, steps, units), dy), dh=dh, dz=dz,
            d_reset=torch.empty_like(dh), d_bias=d_bias, keep=h.new_tensor(self.keep),
        )  # fmt: skip
        matrices = self._recurrent(weights.weight_hh)
        self.run_team(backward_task, 3 * steps * rows * units**2, arrays, lengths, *matrices)
        flat_NG, h_NH = dz.view(steps * rows, width), h[:-1].view(steps * rows, units)
        to_z_NG = flat_NG[:, -3 * units :]
        both_NG, new_NH, read_NH = flat_NG[:, : 2 * units], flat_NG[:, 2 * units :], reset.view(-1, units)
        if not self.before:
            both_NG, new_NH, read_NH = flat_NG[:, units : 3 * units], flat_NG[:, :units], h_NH
        d_hh = torch.cat((weight_gradient(both_NG, h_NH), weight_gradient(new_NH, read_NH)))
        d_ih = weight_gradient(to_z_NG, x_TBI.view(steps * rows, -1))
        dx = to_z_NG.mm(weights.weight_ih).view(steps, rows, -1).transpose(0, 1) if wanted else None
        bias = sum_of_parts(d_bias)
        # no second view: autograd may keep each as a gradient, to be worked on in place
        second = bias.clone() if self.before else torch.cat((bias[units : 3 * units], bias[:units]))
        first = bias[-3 * units :] if weights.bias_ih is not None else None
        return dx, LayerWeights(d_ih, d_hh, first, second if weights.bias_hh is not None else None)

    def _biases(self, weights: LayerWeights, units: int) -> tuple[Tensor | None, Tensor | None]:
        """What is added to the input's product [G], and what the reset gate multiplies [H]."""
        if self.before or weights.bias_ih is None or weights.bias_hh is None:
            return weights.bias, None
        hoisted = weights.bias_ih.clone()
        hoisted[: 2 * units] += weights.bias_hh[: 2 * units]
        return hoisted, weights.bias_hh[2 * units :].contiguous()

    def _recurrent(self, weight_hh: Tensor) -> tuple[Tensor, Tensor | None]:
        """The matrices of a step's products: U as n, r, z, and none; or U of r and z, and that of n."""
        units = weight_hh.shape[1]
        if self.before:
            return weight_hh[: 2 * units], weight_hh[2 * units :]
        return torch.cat((weight_hh[2 * units :], weight_hh[: 2 * units])), None


def run_gru(cell: GRU, job: Job) -> Unrolled:
    """All steps of a job."""
    gru = TeamGru(cell.options.reset == "before", cell.options.update == "old")
    return team_scan(gru, job, job.x_BTI, layer_weights(job))


_KINDS = {name: torch.tensor([k], device="cpu") for k, name in enumerate(choices_of(ElmanOptions, "nonlinearity"))}


class TeamElman(TeamCell[LayerWeights]):
    """h_t = f(W x_t + U h_{t-1} + b)."""

    def __init__(self, nonlinearity: str) -> None:
        self.kind = _KINDS[nonlinearity]

    def forward(
        self, x_BTI: Tensor, state: Sequence[Tensor], weights: LayerWeights, lengths: Tensor | None, learning: bool
    ) -> ForwardPass:
        from thereafter.kernels.loops.elman import forward_task

        rows, steps, inputs = x_BTI.shape
        weight_ih, weight_hh, bias = weights.weight_ih, weights.weight_hh, weights.bias
        units = len(weight_hh)
        self.by_rows = shares_rows(rows, weight_hh.nbytes, ragged=lengths is not None)
        self.inside = input_inside(rows, weight_ih.nbytes + weight_hh.nbytes, self.by_rows, inputs)
        y, own = x_BTI.new_empty(rows, steps, units), []
        states, kept = y.new_empty(2, rows, units), y.new_empty(rows, 0, units)
        (states[0],) = state
        if learning:
            kept = take(x_BTI, rows, steps, units)
            (kept[:, 0],) = state
            own.append(kept)
        x_BTI = laid_out(x_BTI, own)
        if not self.inside:
            project_inputs(x_BTI.view(-1, inputs), weight_ih, bias, y.view(-1, units))
        arrays = ElmanForward(
            y=y, states=states, kept=kept, x=x_BTI if self.inside else y.new_empty(0, 0, 0),
            bias=y.new_zeros(units) if bias is None else bias.contiguous(), kind=self.kind,
        )  # fmt: skip
        second = weight_ih if self.inside else None
        self.run_team(forward_task, steps * rows * units**2, arrays, lengths, weight_hh, second)
        last = states[steps % 2]
        return ForwardPass(y, (last.clone(),), (x_BTI, last), own)

    def backward(
        self, saved: Sequence[Tensor], weights: LayerWeights, lengths: Tensor | None, dy: Tensor | None,
        d_state: Sequence[Tensor], wanted: bool,
    ) -> tuple[Tensor | None, LayerWeights]:  # fmt: skip
        from thereafter.kernels.loops.elman import backward_task

        x_BTI, last, kept, *_ = saved
        rows, steps, units = kept.shape
        inputs = x_BTI.shape[2]
        dz = take(kept, rows, steps, units)
        d_bias = last.new_zeros(row_parts(rows, ragged=lengths is not None), units)
        inside = self.inside and wanted
        dx = last.new_empty(rows, steps, inputs if inside else 0)
        arrays = ElmanBackward(
            kept=kept, end=last, dy=gradient_in(dz, dy), dh=d_state[0], dz=dz, dx=dx,
            now=last.new_zeros(2, rows, units), d_bias=d_bias, kind=self.kind,
        )  # fmt: skip
        second = weights.weight_ih if inside else None
        self.run_team(backward_task, steps * rows * units**2, arrays, lengths, weights.weight_hh, second)
        flat = dz.view(-1, units)
        if wanted and not inside:
            dx = flat.mm(weights.weight_ih).view(rows, steps, inputs)
        d_ih, d_hh = weight_gradient(flat, x_BTI.view(-1, inputs)), weight_gradient(flat, kept.view(-1, units))
        give_all(dz)
        return dx if wanted else None, weights.gradients(d_ih, d_hh, d_bias)


def run_elman(cell: Elman, job: Job) -> Unrolled:
    """All steps of a job."""
    return team_scan(TeamElman(cell.options.nonlinearity), job, job.x_BTI, layer_weights(job))
