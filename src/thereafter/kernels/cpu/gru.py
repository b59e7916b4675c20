"""The GRU on a CPU, in both orders of reset and product; built like `cpu.lstm`.

Shapes: T steps, B rows, H units, G = 3 H.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from thereafter.cells.gru import GRU
from thereafter.kernels.cpu.products import as_array, recurrent_matrix, row_ends, workable
from thereafter.kernels.functions import apply_one
from thereafter.kernels.jobs import Job
from thereafter.kernels.second import no_gradients, recording


class _GruAfter(torch.autograd.Function):
    """n = tanh(z_n + r (U_n h + b')): the bias b' of the recurrent product cannot be hoisted into z."""

    @staticmethod
    def forward(
        ctx: Any, z_TBG: Tensor, h_BH: Tensor, weight_hh: Tensor, bias_G: Tensor, lengths: Tensor | None, old: bool
    ) -> Tensor:
        from thereafter.kernels.loops.gru import gru_after_forward

        steps, rows, _ = z_TBG.shape
        units = h_BH.shape[1]
        learning = any(ctx.needs_input_grad)
        kept = steps if learning else 1
        gates = z_TBG  # in place of z, as in `cpu.lstm`
        candidate = z_TBG.new_empty(kept, rows, units)
        product = z_TBG.new_empty(rows, 3 * units)
        h = z_TBG.new_empty(steps + 1, rows, units)
        h[0] = h_BH
        matrix = recurrent_matrix(weight_hh, rows, steps)
        product_n, gates_n, candidate_n, h_n = (a.numpy() for a in (product, gates, candidate, h))
        bias_n = as_array(bias_G, product)
        ends = row_ends(lengths)
        exact = z_TBG.dtype == torch.float64
        for t, h_t in enumerate(h.unbind(0)[:-1]):
            torch.mm(h_t, matrix, out=product)
            gru_after_forward(t, t if learning else 0, product_n, bias_n, gates_n, candidate_n, h_n, old, ends, exact)
        if learning:
            ctx.save_for_backward(gates, candidate, h, weight_hh, lengths)
            ctx.old = old
        return h[1:]

    @staticmethod
    def backward(ctx: Any, dy_TBH: Tensor) -> tuple[Tensor | None, ...]:
        if recording():
            return no_gradients(ctx)
        from thereafter.kernels.loops.gru import gru_after_backward

        gates, candidate, h, weight_hh, lengths = ctx.saved_tensors
        steps, rows, width = gates.shape
        dz, du = torch.empty_like(gates), torch.empty_like(gates)
        dh = workable(dy_TBH[steps - 1])
        gates_n, candidate_n, h_n, dh_n, dz_n, du_n = (a.numpy() for a in (gates, candidate, h, dh, dz, du))
        ends = row_ends(lengths)
        du_steps, dy_steps = du.unbind(0), dy_TBH.unbind(0)
        for t in range(steps - 1, -1, -1):
            gru_after_backward(t, gates_n, candidate_n, h_n, dh_n, dz_n, du_n, ctx.old, ends)
            dh.addmm_(du_steps[t], weight_hh)
            if t:
                dh += dy_steps[t - 1]
        flat = du.view(steps * rows, width)
        d_hh = flat.t().mm(h[:-1].reshape(steps * rows, -1))
        return dz, dh, d_hh, flat.sum(0), None, None


class _GruBefore(torch.autograd.Function):
    """n = tanh(z_n + U_n (r h)): two products a step, the second after the gates; all biases are in z."""

    @staticmethod
    def forward(ctx: Any, z_TBG: Tensor, h_BH: Tensor, weight_hh: Tensor, lengths: Tensor | None, old: bool) -> Tensor:
        from thereafter.kernels.loops.gru import gru_before_gates, gru_before_mix

        steps, rows, _ = z_TBG.shape
        units = h_BH.shape[1]
        learning = any(ctx.needs_input_grad)
        kept = steps if learning else 1
        gates = z_TBG  # in place of z
        reset_h = z_TBG.new_empty(kept, rows, units)
        h = z_TBG.new_empty(steps + 1, rows, units)
        h[0] = h_BH
        first = recurrent_matrix(weight_hh[: 2 * units], rows, steps)
        second = recurrent_matrix(weight_hh[2 * units :], rows, steps)
        gates_n, reset_h_n, h_n = (a.numpy() for a in (gates, reset_h, h))
        both_steps, new_steps = gates[:, :, : 2 * units].unbind(0), gates[:, :, 2 * units :].unbind(0)
        ends = row_ends(lengths)
        exact = z_TBG.dtype == torch.float64
        for t, h_t in enumerate(h.unbind(0)[:-1]):
            keep = t if learning else 0
            both_steps[t].addmm_(h_t, first)
            gru_before_gates(t, keep, gates_n, h_n, reset_h_n, exact)
            new_steps[t].addmm_(reset_h[keep], second)
            gru_before_mix(t, gates_n, h_n, old, ends, exact)
        if learning:
            ctx.save_for_backward(gates, reset_h, h, weight_hh, lengths)
            ctx.old = old
        return h[1:]

    @staticmethod
    def backward(ctx: Any, dy_TBH: Tensor) -> tuple[Tensor | None, ...]:
        if recording():
            return no_gradients(ctx)
        from thereafter.kernels.loops.gru import gru_before_reset, gru_before_unmix

        gates, reset_h, h, weight_hh, lengths = ctx.saved_tensors
        steps, rows, width = gates.shape
        units = width // 3
        dz = torch.empty_like(gates)
        d_reset_h = torch.empty_like(h[0])
        dh = workable(dy_TBH[steps - 1])
        first, second = weight_hh[: 2 * units], weight_hh[2 * units :]
        gates_n, h_n, dh_n, dz_n, d_reset_h_n = (a.numpy() for a in (gates, h, dh, dz, d_reset_h))
        ends = row_ends(lengths)
        dy_steps = dy_TBH.unbind(0)
        both_steps, new_steps = dz[:, :, : 2 * units].unbind(0), dz[:, :, 2 * units :].unbind(0)
        for t in range(steps - 1, -1, -1):
            gru_before_unmix(t, gates_n, h_n, dh_n, dz_n, ctx.old, ends)
            torch.mm(new_steps[t], second, out=d_reset_h)
            gru_before_reset(t, gates_n, h_n, dh_n, d_reset_h_n, dz_n, ends)
            dh.addmm_(both_steps[t], first)
            if t:
                dh += dy_steps[t - 1]
        flat = dz.view(steps * rows, width)
        d_first = flat[:, : 2 * units].t().mm(h[:-1].reshape(steps * rows, -1))
        d_second = flat[:, 2 * units :].t().mm(reset_h.view(steps * rows, -1))
        return dz, dh, torch.cat([d_first, d_second]), None, None


def run_gru(cell: GRU, job: Job, z_TBG: Tensor) -> tuple[Tensor, tuple[Tensor]]:
    """h of every step [T, B, H], and the last."""
    weights = job.weights
    old = cell.options.update == "old"
    if cell.options.reset == "before":
        h_TBH = apply_one(_GruBefore, z_TBG, job.state.h, weights["weight_hh"], job.lengths_B, old)
    else:
        bias = weights["bias_hh"] if "bias_hh" in weights else z_TBG.new_zeros(z_TBG.shape[2])
        h_TBH = apply_one(_GruAfter, z_TBG, job.state.h, weights["weight_hh"], bias, job.lengths_B, old)
    return h_TBH, (h_TBH[-1],)
