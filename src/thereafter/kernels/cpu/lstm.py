"""The LSTM on a CPU: its whole sequence in one compiled call, weight gradients in one product at the end.

Inputs and outputs before them lie side by side, [x_t, h_{t-1}], so that a step is one product with [W, U]. Where that
matrix is too large to stay in the caches of the cores (and W is not the smaller part by far), or there are too few rows
to make reading it worth while, the input's part is hoisted out of the steps: one product over all of them.

The LSTM whose output is projected, h = W_hr m, and the layer-norm LSTM are built alike. The norm of the input's product
is part of the scan: a row of it is in the cache there, and all of them are megabytes.

Shapes: T steps, B rows, I inputs, H units, O outputs, G = 4 H (3 H coupled).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from thereafter.cells.lstm import LSTM
from thereafter.kernels.arrays import (
    LstmBackward,
    LstmForward,
    LstmNormBackward,
    LstmNormForward,
    ProjectedBackward,
    ProjectedForward,
)
from thereafter.kernels.cpu.plan import input_inside, shares_rows
from thereafter.kernels.cpu.products import (
    ForwardPass,
    LayerWeights,
    TeamCell,
    W,
    give_all,
    gradient_in,
    laid_out,
    layer_weights,
    place_for_gradient,
    project,
    project_inputs,
    row_parts,
    sum_of_parts,
    take,
    team_scan,
    weight_gradient,
)
from thereafter.kernels.jobs import Job, Unrolled


class _AnyLstm(TeamCell[W]):
    """What LSTMs have in common: two states, gates that may be coupled, peepholes [3, H]."""

    states = 2

    def __init__(self, coupled: bool) -> None:
        self.coupled = coupled

    @staticmethod
    def peepholes(peephole_3H: Tensor | None, like: Tensor) -> Tensor:
        """As a task takes them: empty where there are none."""
        return like.new_empty(0, 0) if peephole_3H is None else peephole_3H.contiguous()

    @staticmethod
    def peephole_sums(peephole_3H: Tensor | None, parts: int, like: Tensor) -> Tensor:
        """Room for their gradients, part by part."""
        shape = (0, 0) if peephole_3H is None else peephole_3H.shape
        return like.new_zeros(parts, *shape)


class PlainLstm(_AnyLstm[LayerWeights]):
    """An LSTM without norms and projection."""

    def forward(
        self, x_BTI: Tensor, state: Sequence[Tensor], weights: LayerWeights, lengths: Tensor | None, learning: bool
    ) -> ForwardPass:
        from thereafter.kernels.loops.lstm import forward_task

        rows, steps, inputs = x_BTI.shape
        weight_ih, weight_hh, bias = weights.weight_ih, weights.weight_hh, weights.bias
        width, units = weight_hh.shape
        self.by_rows = by_rows = shares_rows(rows, weight_hh.nbytes, ragged=lengths is not None)
        self.inside = input_inside(rows, width * (inputs + units) * x_BTI.element_size(), by_rows, inputs)
        read = inputs if self.inside else 0
        # without a backward pass a step's gates and cells are given up for the next one's
        gates = take(x_BTI, steps if learning else 1, rows, width)
        c = take(x_BTI, steps + 1 if learning else 2, rows, units)
        xh = take(x_BTI, steps + 1 if learning or self.inside else 2, rows, read + units)
        y = x_BTI.new_empty(rows, steps, units)
        xh[0, :, read:], c[0] = state
        own = [gates, c, xh]
        x_TBI, beside_h, saved = x_BTI.transpose(0, 1), x_BTI.new_empty(0, 0, 0), x_BTI.new_empty(0)
        if self.inside:
            if by_rows:
                beside_h = x_BTI.contiguous()  # laid beside h step by step
            else:
                xh[:-1, :, :inputs] = x_TBI
            weight = torch.cat((weight_ih, weight_hh), 1)
            z = (x_BTI.new_zeros(width) if bias is None else bias.contiguous()).view(1, 1, width)
        else:
            saved = laid_out(x_TBI, own)
            z = gates
            if not learning:
                z = take(x_BTI, steps, rows, width)
                own.append(z)
            project_inputs(saved.view(-1, inputs), weight_ih, bias, z.view(-1, width))
            weight = weight_hh
        peephole = self.peepholes(weights.peephole, gates)
        arrays = LstmForward(gates=gates, c=c, xh=xh, z=z, x=beside_h, y=y, peephole=peephole)
        self.run_team(forward_task, steps * rows * width * units, arrays, lengths, weight)
        last = xh[steps % len(xh), :, read:].clone(), c[steps % len(c)].clone()
        return ForwardPass(y, last, (saved,), own)

    def backward(
        self, saved: Sequence[Tensor], weights: LayerWeights, lengths: Tensor | None, dy: Tensor | None,
        d_state: Sequence[Tensor], wanted: bool,
    ) -> tuple[Tensor | None, LayerWeights]:  # fmt: skip
        from thereafter.kernels.loops.lstm import backward_task

        x_TBI, gates, c, xh, *_ = saved
        steps, rows, width = gates.shape
        units, inputs = c.shape[2], weights.weight_ih.shape[1]
        dz = place_for_gradient(gates)
        parts = row_parts(rows, ragged=lengths is not None)
        d_bias, d_peephole = c.new_zeros(parts, width), self.peephole_sums(weights.peephole, parts, c)
        inside = self.inside and wanted
        dx = c.new_empty(rows, steps, inputs if inside else 0)
        arrays = LstmBackward(
            gates=gates, c=c, dy=gradient_in(c.new_empty(rows, steps, units), dy), dh=d_state[0], dc=d_state[1], dz=dz,
            dx=dx, d_bias=d_bias, d_peephole=d_peephole, peephole=self.peepholes(weights.peephole, gates),
        )  # fmt: skip
        second = weights.weight_ih if inside else None
        self.run_team(backward_task, steps * rows * width * units, arrays, lengths, weights.weight_hh, second)
        flat = dz.view(steps * rows, width)
        if wanted and not inside:
            dx = flat.mm(weights.weight_ih).view(steps, rows, inputs).transpose(0, 1)
        if self.inside:
            both = weight_gradient(flat, xh[:-1].view(steps * rows, -1))  # dz is read once for both
            d_ih, d_hh = both[:, :inputs].contiguous(), both[:, inputs:].contiguous()
        else:
            d_ih = weight_gradient(flat, x_TBI.view(-1, inputs))
            d_hh = weight_gradient(flat, xh[:-1].view(-1, units))
        peepholes = sum_of_parts(d_peephole) if weights.peephole is not None else None
        return dx if wanted else None, weights.gradients(d_ih, d_hh, d_bias)._replace(peephole=peepholes)


class _ProjectedWeights(NamedTuple):
    weight_hh: Tensor
    weight_hr: Tensor
    peephole: Tensor | None


class ProjectedLstm(_AnyLstm[_ProjectedWeights]):
    """An LSTM whose output is projected, from z [T, B, G], both biases in it."""

    rows_axis = 1
    weights_type = _ProjectedWeights

    def forward(
        self, z_TBG: Tensor, state: Sequence[Tensor], weights: _ProjectedWeights, lengths: Tensor | None,
        learning: bool,
    ) -> ForwardPass:  # fmt: skip
        from thereafter.kernels.loops.lstm import projected_forward_task

        steps, rows, _ = z_TBG.shape
        outputs, units = weights.weight_hr.shape
        matrix_bytes = weights.weight_hh.nbytes + weights.weight_hr.nbytes
        self.by_rows = shares_rows(rows, matrix_bytes, ragged=lengths is not None)
        c = take(z_TBG, steps + 1 if learning else 2, rows, units)
        h = take(z_TBG, steps + 1 if learning else 2, rows, outputs)
        m, y = take(z_TBG, rows, steps, units), z_TBG.new_empty(rows, steps, outputs)
        h[0], c[0] = state
        # The gates take the place of z, which nobody else holds: no second array of that size, and no copy a step.
        arrays = ProjectedForward(
            gates=z_TBG, c=c, h=h, now=c.new_zeros(2, rows, units), m=m, y=y,
            peephole=self.peepholes(weights.peephole, z_TBG),
        )  # fmt: skip
        matrices = weights.weight_hh, weights.weight_hr
        self.run_team(projected_forward_task, z_TBG.numel() * units, arrays, lengths, *matrices)
        return ForwardPass(y, (h[steps % len(h)].clone(), c[steps % len(c)].clone()), (z_TBG,), (c, h, m))

    def backward(
        self, saved: Sequence[Tensor], weights: _ProjectedWeights, lengths: Tensor | None, dy: Tensor | None,
        d_state: Sequence[Tensor], wanted: bool,
    ) -> tuple[Tensor | None, _ProjectedWeights]:  # fmt: skip
        from thereafter.kernels.loops.lstm import projected_backward_task

        gates, c, h, m = saved
        rows, steps, units = m.shape
        width, outputs = gates.shape[2], len(weights.weight_hr)
        dm, dp = take(m, rows, steps, units), take(m, rows, steps, outputs)
        dz = place_for_gradient(gates)  # what is given away was never the workspace's
        # the biases' gradients come from dz, through the product that made z
        parts = row_parts(rows, ragged=lengths is not None)
        d_peephole = self.peephole_sums(weights.peephole, parts, c)
        arrays = ProjectedBackward(
            gates=gates, c=c, dy=gradient_in(dp, dy), dp=dp, dm=dm, dh=d_state[0], dc=d_state[1], dz=dz,
            now=c.new_zeros(rows, outputs), none=c.new_zeros(rows, units), d_bias=c.new_zeros(parts, width),
            d_peephole=d_peephole, peephole=self.peepholes(weights.peephole, gates),
        )  # fmt: skip
        matrices = weights.weight_hr, weights.weight_hh
        self.run_team(projected_backward_task, steps * rows * width * units, arrays, lengths, *matrices)
        d_hh = weight_gradient(dz.view(-1, width), h[:-1].view(-1, outputs))
        d_hr = weight_gradient(dp.view(-1, outputs), m.view(-1, units))
        give_all(dm, dp)
        return dz, _ProjectedWeights(d_hh, d_hr, sum_of_parts(d_peephole) if weights.peephole is not None else None)


class _NormWeights(NamedTuple):
    """`norms` [3, G]: the gains of W x and of U h, and the bias; `norm_c` [2, H]: gain and shift of c."""

    weight_ih: Tensor
    weight_hh: Tensor
    norms: Tensor
    norm_c: Tensor
    peephole: Tensor | None


class NormLstm(_AnyLstm[_NormWeights]):
    """A layer-norm LSTM."""

    sorts = False
    weights_type = _NormWeights

    def forward(
        self, x_BTI: Tensor, state: Sequence[Tensor], weights: _NormWeights, lengths: Tensor | None, learning: bool
    ) -> ForwardPass:
        from thereafter.kernels.loops.lstm_norm import forward_task

        rows, steps, inputs = x_BTI.shape
        width, units = weights.weight_hh.shape
        self.by_rows = shares_rows(rows, weights.weight_hh.nbytes, ragged=False)
        x_TBI = x_BTI.transpose(0, 1).contiguous()
        gates, hat_x, hat = (take(x_BTI, steps, rows, width) for _ in range(3))
        c, h = (take(x_BTI, steps + 1, rows, units) for _ in range(2))
        hat_c, scales = take(x_BTI, steps, rows, units), x_BTI.new_empty(3, steps, rows)
        y = x_BTI.new_empty(rows, steps, units)
        h[0], c[0] = state
        torch.mm(x_TBI.view(-1, inputs), weights.weight_ih.t(), out=hat_x.view(-1, width))
        arrays = LstmNormForward(
            gates=gates, c=c, m=h, y=y, hat_x=hat_x, hat=hat, hat_c=hat_c, scales=scales,
            norms=weights.norms.contiguous(), norm_c=weights.norm_c.contiguous(), no_bias=gates.new_zeros(1, width),
            peephole=self.peepholes(weights.peephole, gates),
        )  # fmt: skip
        self.run_team(forward_task, steps * rows * width * units, arrays, lengths, weights.weight_hh)
        return ForwardPass(y, (h[steps].clone(), c[steps].clone()), (x_TBI, scales), (gates, c, h, hat_x, hat, hat_c))

    def backward(
        self, saved: Sequence[Tensor], weights: _NormWeights, lengths: Tensor | None, dy: Tensor | None,
        d_state: Sequence[Tensor], wanted: bool,
    ) -> tuple[Tensor | None, _NormWeights]:  # fmt: skip
        from thereafter.kernels.loops.lstm_norm import backward_task

        x_TBI, scales, gates, c, h, hat_x, hat, hat_c = saved
        steps, rows, width = gates.shape
        units, inputs = c.shape[2], x_TBI.shape[2]
        dx, du = place_for_gradient(hat_x), place_for_gradient(hat)
        parts, threads = row_parts(rows, ragged=False), torch.get_num_threads()
        d_norms, d_norm_c = c.new_zeros(parts, 3, width), c.new_zeros(parts, 2, units)
        d_peephole = self.peephole_sums(weights.peephole, parts, c)
        arrays = LstmNormBackward(
            gates=gates, c=c, dy=gradient_in(c.new_empty(rows, steps, units), dy), dh=d_state[0], dc=d_state[1], dx=dx,
            du=du, hat_x=hat_x, hat=hat, hat_c=hat_c, scales=scales, norms=weights.norms.contiguous(),
            norm_c=weights.norm_c.contiguous(), dz=c.new_empty(threads, width), d=c.new_empty(threads, units),
            shown=c.new_empty(threads, units), means=c.new_empty(threads, _MEANS), d_norms=d_norms, d_norm_c=d_norm_c,
            d_peephole=d_peephole, peephole=self.peepholes(weights.peephole, gates),
        )  # fmt: skip
        self.run_team(backward_task, steps * rows * width * units, arrays, lengths, weights.weight_hh)
        flat = dx.view(-1, width)
        d_input = flat.mm(weights.weight_ih).view(steps, rows, inputs).transpose(0, 1) if wanted else None
        d_ih = weight_gradient(flat, x_TBI.view(-1, inputs))
        d_hh = weight_gradient(du.view(-1, width), h[:-1].view(-1, units))
        peepholes = sum_of_parts(d_peephole) if weights.peephole is not None else None
        return d_input, _NormWeights(d_ih, d_hh, sum_of_parts(d_norms), sum_of_parts(d_norm_c), peepholes)


_MEANS = 16
"""Numbers a thread needs for means of rows, six of them used: on a line of memory of its own."""


def run_lstm(cell: LSTM, job: Job) -> Unrolled:
    """All steps of a job, with layer norm or a projection or neither."""
    weights, layer, coupled, peephole = job.weights, layer_weights(job), cell.options.coupled, _peepholes(cell, job)
    if cell.output_size != cell.hidden_size:
        projected = _ProjectedWeights(layer.weight_hh, weights["weight_hr"], peephole)
        return team_scan(ProjectedLstm(coupled), job, project(job), projected)
    if not cell.layer_norm:
        return team_scan(PlainLstm(coupled), job, job.x_BTI, layer._replace(peephole=peephole))
    no_bias = torch.zeros_like(weights["norm_ih"])
    bias = weights.get("bias_ih", no_bias) + weights.get("bias_hh", no_bias)
    norms = torch.stack((weights["norm_ih"], weights["norm_hh"], bias))
    norm_c = torch.stack((weights["norm_c"], weights["shift_c"]))
    normed = _NormWeights(layer.weight_ih, layer.weight_hh, norms, norm_c, peephole)
    return team_scan(NormLstm(coupled), job, job.x_BTI, normed)


def _peepholes(cell: LSTM, job: Job) -> Tensor | None:
    """Those of input, forget and output gate, [3, H]."""
    if not cell.options.peephole:
        return None
    rows = [job.weights[f"peephole_{gate}"] for gate in ("input", "forget", "output") if gate in cell.blocks]
    if cell.options.coupled:
        rows.insert(1, torch.zeros_like(rows[0]))
    return torch.stack(rows)
