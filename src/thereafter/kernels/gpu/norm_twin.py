"""The readable twin of code/layer_norm.py: the same passes over the same arrays, a step at a time.

It rounds where the programs round (states, kept gates, normalised U h, gradients of gates and of U h) and adds in
float32.
"""

from __future__ import annotations

import torch
from torch import Tensor

from thereafter.kernels.gpu.geometry import Geometry
from thereafter.kernels.gpu.launching import Formula, Hold
from thereafter.kernels.gpu.layout import Copies, PlainCopies
from thereafter.kernels.gpu.normed import NormBackwardArrays, NormForwardArrays
from thereafter.kernels.gpu.twin import advance

LIVE, RESET = 1, 2


class NormTwin:
    """See `normed.NormLauncher`."""

    copies: Copies = PlainCopies()

    def norm_forward(self, formula: Formula, over: Geometry, arrays: NormForwardArrays) -> None:
        own = over.forward.own
        weights_KG = arrays.weights.float().view(-1, 4, own, over.units).transpose(0, 1).reshape(-1, over.units).t()
        gains_4K, gain_c, shift_c = arrays.norms[:4], arrays.norms[4], arrays.norms[5]
        c, h = arrays.cells[0].clone(), arrays.states[0].float()
        for t in range(len(arrays.states) - 1):
            raw_P4K = (arrays.states[t].float() @ weights_KG).view(over.rows, 4, -1)
            total, squares = raw_P4K.sum((1, 2)), raw_P4K.square().sum((1, 2))
            mean, gate_scale = _moments(total, squares, arrays.one_gate, arrays.eps)
            hats_P4K = (raw_P4K - mean[:, None, None]) * gate_scale[:, None, None]
            a0, a1, a2, a3 = (_by_gates(arrays.projected[t], over) + gains_4K * hats_P4K).unbind(1)
            kept, new_c, _ = advance(formula, (a0, a1, a2, a3), c, _peepholes(arrays.peepholes))
            mean, scale = _moments(new_c.sum(1), new_c.square().sum(1), arrays.one_unit, arrays.eps)
            shown = torch.tanh((new_c - mean[:, None]) * scale[:, None] * gain_c + shift_c)
            live = _bit(arrays.marks, t, LIVE)
            c = _settle(c, new_c, _share(arrays.hold_c, t), live)
            h = _settle(h, kept[3] * shown, _share(arrays.hold_h, t), live)
            if arrays.outputs is not None and live is not None:
                arrays.outputs[t] = torch.where(live, h, 0.0)
            c, h = _restart(c, arrays.marks, t + 1), _restart(h, arrays.marks, t + 1)
            arrays.states[t + 1] = h
            if arrays.hats is not None and arrays.statistics is not None:
                _store(torch.stack(kept, 1), arrays.projected[t], over)
                _store(hats_P4K, arrays.hats[t], over)
                arrays.statistics[t] = torch.stack([mean, scale, gate_scale])
                arrays.cells[t + 1] = c
        arrays.last_c.copy_(c)

    def norm_backward(self, formula: Formula, over: Geometry, arrays: NormBackwardArrays) -> None:
        gains_4K, gain_c, shift_c = arrays.norms[:4], arrays.norms[4], arrays.norms[5]
        p0, p1, p3 = _peepholes(arrays.peepholes)
        zeros = torch.zeros_like(arrays.d_first_c)
        dc = zeros if arrays.d_last_c is None else arrays.d_last_c
        direct = zeros if arrays.d_last_h is None else arrays.d_last_h
        arrays.d_norms.zero_()
        if arrays.d_peepholes is not None:
            arrays.d_peepholes.zero_()
        for t in reversed(range(len(arrays.d_outputs))):
            live, before = _bit(arrays.marks, t, LIVE), arrays.cells[t]
            dh = direct + arrays.d_raw[t + 1].flatten(1).float() @ arrays.turned.float().t()
            dh, dc = _restart(dh, arrays.marks, t + 1), _restart(dc, arrays.marks, t + 1)
            dy = arrays.d_outputs[t].float()
            dh = dh + (dy if live is None else torch.where(live, dy, 0.0))
            dc, dc_old = _unsettle(dc, _share(arrays.hold_c, t), live)
            dh, direct = _unsettle(dh, _share(arrays.hold_h, t), live)
            i, f, g, o = _by_gates(arrays.kept[t], over).unbind(1)
            hats_P4K = _by_gates(arrays.hats[t], over)
            mean, scale, gate_scale = arrays.statistics[t]
            new_c = f * before + i * g
            hat_c = (new_c - mean[:, None]) * scale[:, None]
            shown = torch.tanh(hat_c * gain_c + shift_c)
            d_shown = dh * o * (1 - shown * shown)
            d3 = dh * shown * o * (1 - o)
            dc = dc + d3 * p3 + _through_norm(d_shown * gain_c, hat_c, scale, arrays.one_unit)
            coupled = formula.form == "coupled"
            d0 = dc * (g - before if coupled else g) * i * (1 - i)
            d1 = zeros if coupled else dc * before * f * (1 - f)
            d_P4K = torch.stack([d0, d1, dc * i * (1 - g * g), d3], 1)
            d_raw = _through_norm((d_P4K * gains_4K).flatten(1), hats_P4K.flatten(1), gate_scale, arrays.one_gate)
            arrays.d_gates[t] = d_P4K
            arrays.d_raw[t] = d_raw.view_as(d_P4K)
            arrays.d_norms[:4].add_((d_P4K * hats_P4K).transpose(0, 1))
            arrays.d_norms[4:].add_(torch.stack([d_shown * hat_c, d_shown]))
            if arrays.d_peepholes is not None:
                arrays.d_peepholes.add_(torch.stack([d0 * before, d1 * before, d3 * new_c]))
            dc = dc * f + d0 * p0 + d1 * p1 + dc_old
        arrays.d_first_c.copy_(_restart(dc, arrays.marks, 0))
        arrays.d_first_h.copy_(_restart(direct, arrays.marks, 0))


def _moments(total_P: Tensor, squares_P: Tensor, share: float, eps: float) -> tuple[Tensor, Tensor]:
    """Mean and 1 / sd from sums over 1 / share numbers."""
    mean_P = total_P * share
    return mean_P, torch.rsqrt((squares_P * share - mean_P * mean_P).clamp(min=0) + eps)


def _through_norm(e: Tensor, hat: Tensor, scale_P: Tensor, share: float) -> Tensor:
    """(e - mean(e) - hat mean(e hat)) / sd: the gradient of what was normalised."""
    mean, along = share * e.sum(1, keepdim=True), share * (e * hat).sum(1, keepdim=True)
    return scale_P[:, None] * (e - mean - hat * along)


def _by_gates(slices: Tensor, over: Geometry) -> Tensor:
    """One step [P, S, 4, own] as [P, 4, K], in float32."""
    return slices.view(over.rows, -1, 4, over.forward.own).transpose(1, 2).flatten(2).float()


def _store(gates_P4K: Tensor, slices: Tensor, over: Geometry) -> None:
    """The way back, into the array."""
    own = over.forward.own
    slices.view(over.rows, -1, 4, own).copy_(gates_P4K.view(over.rows, 4, -1, own).transpose(1, 2))


def _peepholes(peepholes: Tensor | None) -> tuple[Tensor, ...]:
    return (torch.zeros(()),) * 3 if peepholes is None else peepholes.unbind(0)


def _share(hold: Hold, t: int) -> Tensor | float | None:
    return hold[t].float() if isinstance(hold, Tensor) else hold


def _bit(marks: Tensor | None, t: int, bit: int) -> Tensor | None:
    return None if marks is None else ((marks[t] & bit) != 0).unsqueeze(1)


def _restart(x: Tensor, marks: Tensor | None, t: int) -> Tensor:
    begins = _bit(marks, t, RESET)
    return x if begins is None else torch.where(begins, 0.0, x)


def _settle(old: Tensor, new: Tensor, share: Tensor | float | None, live: Tensor | None) -> Tensor:
    if share is not None:
        new = share * old + (1 - share) * new
    return new if live is None else torch.where(live, new, old)


def _unsettle(d: Tensor, share: Tensor | float | None, live: Tensor | None) -> tuple[Tensor, Tensor]:
    none = torch.zeros_like(d)
    d_old = none if share is None else share * d
    d_new = d - d_old
    if live is not None:
        d_old, d_new = torch.where(live, d_old, d), torch.where(live, d_new, none)
    return d_new, d_old


NORM_TWIN = NormTwin()
