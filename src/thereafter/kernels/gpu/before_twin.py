"""The readable twin of code/reset_before.py: the same passes over the same arrays, a step at a time.

It rounds where the programs round (states, r h, kept gates, gradients of gates) and adds in float32.
"""

from __future__ import annotations

import torch
from torch import Tensor

from thereafter.kernels.gpu.before import BeforeBackwardArrays, BeforeFormula, BeforeForwardArrays, BeforeGeometry
from thereafter.kernels.gpu.launching import Hold

LIVE, RESET = 1, 2


class BeforeTwin:
    """See `before.BeforeLauncher`."""

    def before_forward(self, formula: BeforeFormula, over: BeforeGeometry, arrays: BeforeForwardArrays) -> None:
        u_r, u_z, u_n = (weight_KK.float().t() for weight_KK in arrays.weights)
        h = arrays.cells[0].clone()
        for t in range(len(arrays.resets)):
            x_r, x_z, x_n = arrays.projected[t].float().chunk(3, 1)
            shown = arrays.states[t].float()
            r, z = torch.sigmoid(x_r + shown @ u_r), torch.sigmoid(x_z + shown @ u_z)
            arrays.resets[t] = r * h
            n = torch.tanh(x_n + arrays.resets[t].float() @ u_n)
            made = z * h + (1 - z) * n if formula.update == "old" else (1 - z) * h + z * n
            share, live = _share(arrays.hold_h, t), _bit(arrays.marks, t, LIVE)
            if share is not None:
                made = share * h + (1 - share) * made
            h = made if live is None else torch.where(live, made, h)
            if arrays.outputs is not None and live is not None:
                arrays.outputs[t] = torch.where(live, h, 0.0)
            h = _restart(h, arrays.marks, t + 1)
            arrays.states[t + 1] = h
            if len(arrays.cells) > 1:
                arrays.projected[t] = torch.cat([r, z, n], 1)
                arrays.cells[t + 1] = h

    def before_backward(self, formula: BeforeFormula, over: BeforeGeometry, arrays: BeforeBackwardArrays) -> None:
        u_r, u_z, u_n = (arrays.turned[:, gate].float().t() for gate in range(3))
        direct = torch.zeros_like(arrays.d_first_h) if arrays.d_last_h is None else arrays.d_last_h
        arrays.d_biases.zero_()
        for t in reversed(range(len(arrays.d_outputs))):
            r, z, n = arrays.kept[t].float().chunk(3, 1)
            h, dy, live = arrays.cells[t], arrays.d_outputs[t].float(), _bit(arrays.marks, t, LIVE)
            dh = _restart(direct + arrays.d_gates[t + 1, :, 0].float() @ u_r, arrays.marks, t + 1)
            dh = dh + (dy if live is None else torch.where(live, dy, 0.0))
            dh, direct = _unsettle(dh, _share(arrays.hold_h, t), live)
            old = z if formula.update == "old" else 1 - z
            sign = 1 if formula.update == "old" else -1
            dz = sign * dh * (h - n) * z * (1 - z)
            dn = dh * (1 - old) * (1 - n * n)
            arrays.d_gates[t, :, 1], arrays.d_gates[t, :, 2] = dz, dn
            d_reset = arrays.d_gates[t, :, 2].float() @ u_n
            dr = d_reset * h * r * (1 - r)
            arrays.d_gates[t, :, 0] = dr
            direct = direct + dh * old + d_reset * r + arrays.d_gates[t, :, 1].float() @ u_z
            arrays.d_biases.add_(torch.stack([dr, dz, dn]))
        arrays.d_first_h.copy_(_restart(direct, arrays.marks, 0))


def _bit(marks: Tensor | None, t: int, bit: int) -> Tensor | None:
    """Of every row at a step, as a column."""
    return None if marks is None else ((marks[t] & bit) != 0).unsqueeze(1)


def _share(hold: Hold, t: int) -> Tensor | float | None:
    return hold[t].float() if isinstance(hold, Tensor) else hold


def _restart(x: Tensor, marks: Tensor | None, t: int) -> Tensor:
    """0 in rows that begin anew before a step."""
    begins = _bit(marks, t, RESET)
    return x if begins is None else torch.where(begins, 0.0, x)


def _unsettle(d: Tensor, share: Tensor | float | None, live: Tensor | None) -> tuple[Tensor, Tensor]:
    """The gradient of a state after a step, shared by what the formula made and by the old state."""
    d_old = torch.zeros_like(d) if share is None else share * d
    if live is not None:
        d_old = torch.where(live, d_old, d)
    return d - d_old, d_old


BEFORE_TWIN = BeforeTwin()
