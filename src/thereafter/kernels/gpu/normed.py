"""The layer-norm LSTM by persistent programs of its own: see code/layer_norm.py.

    forward     z = layernorm(W x) gain + b + b' for all steps at once, by torch;  then step by step gates, c and h
    backward    dz_t and d(U h)_t step by step;  then dU = sum d(U h)_t h_{t-1}';  the way back from dz is torch's

Shapes: T steps, B rows, I inputs, H units, G = H times the gates; P, K: rows and units filled up.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from thereafter.cells.base import EPSILON, HCState
from thereafter.cells.lstm import LSTM
from thereafter.kernels.gpu.four_blocks import FourBlocks
from thereafter.kernels.gpu.geometry import Geometry, norm_geometry
from thereafter.kernels.gpu.launching import Programs
from thereafter.kernels.gpu.passes import CalledPass, PassPlan, plan_of
from thereafter.kernels.gpu.preparing import ALIGNED, peepholes, product_type, too_large, unfit
from thereafter.kernels.jobs import Job, Unrolled
from thereafter.kernels.second import MaybeTensors, is_passed_over, no_gradients
from thereafter.kernels.switches import apply_many

_MOST_EXCHANGED = 2**31
"""Places of row sums: the programs count them in 32 bits."""


def norm_refuses(job: Job, processors: int) -> str | None:
    """Why the programs cannot run a job, whatever the device."""
    cell = job.cell
    if type(cell) is not LSTM or not cell.layer_norm:
        return f"there is no program for the cell {cell!r}"
    if cell.output_size != cell.hidden_size:
        return "there is no program for a projected LSTM with layer norm"
    over = _over(job, processors)
    if over is None:
        return unfit(job) or too_large(job, processors)
    exchanged = 4 * job.x_BTI.shape[1] * over.units // min(over.forward.own, over.backward.own) * over.rows
    if exchanged >= _MOST_EXCHANGED:
        return f"{job.x_BTI.shape[1]} steps are more than the layer-norm programs count; cut the sequence"
    return unfit(job)


def norm_unrolled(job: Job, programs: Programs, processors: int) -> Unrolled:
    """A job by the programs."""
    low, over, state = product_type(job), _over(job, processors), job.state
    if over is None:
        raise AssertionError("a job is asked for before it is run")
    with torch.autocast(job.x_BTI.device.type, enabled=False):
        plan = plan_of(job, low, over, programs)
        states = state.h.to(low), state.c.to(low)
        weights = job.weights["weight_hh"].to(low), _norms(job, plan.blocks), peepholes(job)
        y_BTH, h_BH, c_BH = apply_many(_NormedSequence, plan, _input_side(job, low), *states, *weights)
    return Unrolled(y_BTH, HCState(h_BH, c_BH))


def _over(job: Job, processors: int) -> Geometry | None:
    return norm_geometry(len(job.x_BTI), job.cell.hidden_size, processors, peephole="peephole_input" in job.weights)


def _input_side(job: Job, low: torch.dtype) -> Tensor:
    """z_TBG: W x of all steps, normalised, and both biases, which have the same gradient."""
    weights = job.weights
    inputs = job.x_BTI.shape[2]
    more = -inputs % ALIGNED
    x_TBJ = F.pad(job.x_BTI.to(low).transpose(0, 1), (0, more))
    raw_TBG = F.linear(x_TBJ, F.pad(weights["weight_ih"].to(low), (0, more)))
    biases = [weights[name].float() for name in ("bias_ih", "bias_hh") if name in weights]
    bias = torch.stack(biases).sum(0).to(low) if biases else None
    return F.layer_norm(raw_TBG, raw_TBG.shape[2:], weights["norm_ih"].to(low), bias, EPSILON)


def _norms(job: Job, blocks: FourBlocks) -> Tensor:
    """[6, H] in float32: the gains of the four gates (0 where there is none), gain and shift of c."""
    gains = job.weights["norm_hh"].view(-1, job.cell.hidden_size)
    none = torch.zeros_like(job.weights["norm_c"])
    placed = [none if gate is None else gains[gate] for gate in blocks.of_state]
    return torch.stack([*placed, job.weights["norm_c"], job.weights["shift_c"]]).float()


class _NormedSequence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: CalledPass,
        plan: PassPlan,
        z_TBG: Tensor,
        h_BH: Tensor,
        c_BH: Tensor,
        weight_hh: Tensor,
        norms_6H: Tensor,
        peepholes_3H: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        over, copies, save = plan.over, plan.programs.copies, any(ctx.needs_input_grad)
        rows, units = len(h_BH), weight_hh.shape[1]
        how = plan.of_state(units)
        projected = copies.sliced_columns(z_TBG, how, over.rows, over.forward.own)
        w_hh = copies.slices(weight_hh, how, over.units, over.forward.own, plan.low)
        arrays = plan.forward(projected, w_hh, h_BH, c_BH, peepholes_3H, save=save, norms_6H=norms_6H)
        ctx.set_materialize_grads(False)
        ctx.plan, ctx.rows = plan, rows
        if save:
            own = arrays.cells, arrays.peepholes, arrays.hats, arrays.statistics, arrays.norms
            ctx.save_for_backward(weight_hh, arrays.states, projected, *own)
        return plan.results(arrays, rows, units)

    @staticmethod
    def backward(ctx: CalledPass, *gradients: Tensor | None) -> MaybeTensors:
        if is_passed_over(*gradients):
            return no_gradients(ctx)
        plan, rows = ctx.plan, ctx.rows
        weight_hh, states, *saved = ctx.saved_tensors
        units, copies, low = weight_hh.shape[1], plan.programs.copies, plan.low
        arrays = plan.backward(gradients, weight_hh, *saved)
        _, of_z, of_h, of_c, of_weight, of_norms, of_peephole = ctx.needs_input_grad
        dz = dh = dc = d_hh = dn = dp = None
        if of_z:
            dz = copies.gate_columns(arrays.d_gates, plan.of_state(units), rows)
        if arrays.d_raw is not None and arrays.d_norms is not None:
            if of_h:
                dh = plan.first_gradient(arrays.d_raw[0].flatten(1), weight_hh, arrays.d_first_h, rows).to(low)
            if of_weight:
                all_hh = arrays.d_raw[:-1].flatten(0, 1).flatten(1).t() @ states[:-1].flatten(0, 1)
                d_hh = copies.gates(all_hh, plan.of_state(units), units, low)
            if of_norms:
                dn = arrays.d_norms.sum(1)[:, :units]
        if of_c:
            dc = arrays.d_first_c[:rows, :units].to(low)
        if of_peephole and arrays.d_peepholes is not None:
            dp = arrays.d_peepholes.sum(1)[:, :units]
        return None, dz, dh, dc, d_hh, dn, dp
