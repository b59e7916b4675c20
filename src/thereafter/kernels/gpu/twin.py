"""The readable twin of the wide and narrow programs: the same passes over the same arrays, a step at a time.

It rounds where they round (states, kept gates, gradients of gates) and adds in float32. Everything around the programs
(layouts, gradients of weights, states, lengths) runs through it on any device, against the plain loop.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from thereafter.kernels.gpu.geometry import Geometry
from thereafter.kernels.gpu.launching import BackwardArrays, Formula, ForwardArrays, Hold
from thereafter.kernels.gpu.layout import Copies, PlainCopies

LIVE, RESET = 1, 2
_SLOPE = 0.01

Four = tuple[Tensor, Tensor, Tensor, Tensor]

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "leaky_relu": lambda x: torch.where(x > 0, x, _SLOPE * x),
    "relu6": lambda x: x.clamp(0, 6),
    "sigmoid": torch.sigmoid,
    "identity": lambda x: x,
}
_SLOPES: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": lambda y: 1 - y * y,
    "relu": lambda y: (y > 0).to(y.dtype),
    "leaky_relu": lambda y: torch.where(y > 0, 1.0, _SLOPE),
    "relu6": lambda y: ((y > 0) & (y < 6)).to(y.dtype),
    "sigmoid": lambda y: y * (1 - y),
    "identity": torch.ones_like,
}


class Twin:
    """See `launching.Launcher`."""

    copies: Copies = PlainCopies()

    def forward(self, formula: Formula, over: Geometry, arrays: ForwardArrays) -> None:
        memory = has_memory(formula)
        weights_KG = _weights(arrays.weights, over)
        c, h = arrays.cells[0].clone(), arrays.states[0].float()
        save = len(arrays.cells) > 1
        for t in range(len(arrays.states) - 1):
            product = (arrays.states[t].float() @ weights_KG).view(over.rows, 4, over.units)
            a0, a1, a2, a3 = (_blocks(arrays.projected[t], over).float() + product).unbind(1)
            kept, new_c, new_h = advance(formula, (a0, a1, a2, a3), c, _rows(arrays.peepholes))
            c = _settle(c, new_c, _share(arrays.hold_c, t), _mark(arrays.marks, t))
            h = _settle(h, new_h, _share(arrays.hold_h, t), _mark(arrays.marks, t)) if memory else c
            if arrays.outputs is not None and arrays.marks is not None:
                arrays.outputs[t] = torch.where(_mark_bit(arrays.marks[t], LIVE), h, 0.0)
            c, h = _restart(c, _mark(arrays.marks, t + 1)), _restart(h, _mark(arrays.marks, t + 1))
            arrays.states[t + 1] = h
            if save:
                _store(torch.stack(kept, 1), arrays.projected[t], over)
                arrays.cells[t + 1] = c
        arrays.last_c.copy_(c)

    def backward(self, formula: Formula, over: Geometry, arrays: BackwardArrays) -> None:
        memory = has_memory(formula)
        zeros = torch.zeros_like(arrays.d_first_c)
        dc = zeros if arrays.d_last_c is None else arrays.d_last_c
        direct = zeros if arrays.d_last_h is None or not memory else arrays.d_last_h
        peepholes = _rows(arrays.peepholes)
        arrays.d_biases.zero_()
        if arrays.d_peepholes is not None:
            arrays.d_peepholes.zero_()
        for t in reversed(range(len(arrays.d_outputs))):
            dh = direct + arrays.d_gates[t + 1].flatten(1).float() @ arrays.turned.float().t()
            dh, dc = _restart(dh, _mark(arrays.marks, t + 1)), _restart(dc, _mark(arrays.marks, t + 1))
            dy, mark = arrays.d_outputs[t].float(), _mark(arrays.marks, t)
            dh = dh + (dy if mark is None else torch.where(_mark_bit(mark, LIVE), dy, 0.0))
            if not memory:
                dc, dh = dc + dh, zeros
            before = arrays.cells[t]
            k0, k1, k2, k3 = _blocks(arrays.kept[t], over).float().unbind(1)
            new_c = k1 * before + k0 * k2
            dc, dc_old = _unsettle(dc, _share(arrays.hold_c, t), mark)
            dh, direct = _unsettle(dh, _share(arrays.hold_h, t), mark)
            d, dc = retreat(formula, dh, dc, (k0, k1, k2, k3), before, new_c, peepholes)
            dc = dc + dc_old
            arrays.d_gates[t] = torch.stack(d, 1).view_as(arrays.d_gates[t])
            arrays.d_biases.add_(torch.stack(d))
            if arrays.d_peepholes is not None:
                arrays.d_peepholes.add_(torch.stack([d[0] * before, d[1] * before, d[3] * new_c]))
        arrays.d_first_c.copy_(_restart(dc, _mark(arrays.marks, 0)))
        arrays.d_first_h.copy_(_restart(direct, _mark(arrays.marks, 0)))


def has_memory(formula: Formula) -> bool:
    return formula.form in ("lstm", "coupled")


def advance(formula: Formula, a: Four, c: Tensor, peepholes: tuple[Tensor, ...]) -> tuple[Four, Tensor, Tensor]:
    """What is kept of a step, c' and h'; `formulas.advance` in words of torch."""
    p0, p1, p3 = peepholes
    if has_memory(formula):
        i = torch.sigmoid(a[0] + p0 * c)
        f = 1 - i if formula.form == "coupled" else torch.sigmoid(a[1] + p1 * c)
        g = torch.tanh(a[2])
        c = f * c + i * g
        o = torch.sigmoid(a[3] + p3 * c)
        return (i, f, g, o), c, o * torch.tanh(c)
    if formula.form.startswith("gru"):
        r, z = torch.sigmoid(a[0]), torch.sigmoid(a[1])
        n = torch.tanh(a[2] + r * a[3])
        c = z * c + (1 - z) * n if formula.form == "gru_old" else (1 - z) * c + z * n
        return (r, z, n, a[3]), c, c
    y = _ACTIVATIONS[formula.form](a[0])
    return (y, y, y, y), y, y


def retreat(
    formula: Formula, dh: Tensor, dc: Tensor, k: Four, c: Tensor, new_c: Tensor, peepholes: tuple[Tensor, ...]
) -> tuple[Four, Tensor]:
    """Gradients of the four blocks and of c; `formulas.retreat` in words of torch."""
    k0, k1, k2, k3 = k
    p0, p1, p3 = peepholes
    none = torch.zeros_like(dc)
    if has_memory(formula):
        shown = torch.tanh(new_c)
        d3 = dh * shown * k3 * (1 - k3)
        dc = dc + dh * k3 * (1 - shown * shown) + d3 * p3
        coupled = formula.form == "coupled"
        d0 = dc * (k2 - c if coupled else k2) * k0 * (1 - k0)
        d1 = none if coupled else dc * c * k1 * (1 - k1)
        return (d0, d1, dc * k0 * (1 - k2 * k2), d3), dc * k1 + d0 * p0 + d1 * p1
    dc = dc + dh
    if formula.form.startswith("gru"):
        old = k1 if formula.form == "gru_old" else 1 - k1
        sign = 1 if formula.form == "gru_old" else -1
        d1 = sign * dc * (c - k2) * k1 * (1 - k1)
        d2 = dc * (1 - old) * (1 - k2 * k2)
        return (d2 * k3 * k0 * (1 - k0), d1, d2, d2 * k0), dc * old
    return (dc * _SLOPES[formula.form](k0), none, none, none), none


def _slices(array: Tensor, over: Geometry) -> Tensor:
    """One step of W x, or of what was kept of it: [P, S, 4, own]."""
    return array.view(over.rows, -1, 4, over.forward.own)


def _blocks(step: Tensor, over: Geometry) -> Tensor:
    """The same by gates: [P, 4, K]."""
    return _slices(step, over).transpose(1, 2).flatten(2)


def _store(blocks_P4K: Tensor, step: Tensor, over: Geometry) -> None:
    """The way back, into the array."""
    own = over.forward.own
    _slices(step, over).copy_(blocks_P4K.reshape(over.rows, 4, -1, own).transpose(1, 2))


def _weights(slices: Tensor, over: Geometry) -> Tensor:
    """[S, 4, own, K] as [K, 4 K], gate by gate."""
    return slices.float().view(-1, 4, over.forward.own, over.units).transpose(0, 1).reshape(-1, over.units).t()


def _rows(peepholes: Tensor | None) -> tuple[Tensor, ...]:
    return (torch.zeros(()),) * 3 if peepholes is None else peepholes.unbind(0)


def _mark(marks: Tensor | None, t: int) -> Tensor | None:
    return None if marks is None else marks[t]


def _mark_bit(mark_P: Tensor, bit: int) -> Tensor:
    return ((mark_P & bit) != 0).unsqueeze(1)


def _share(hold: Hold, t: int) -> Tensor | float | None:
    return hold[t].float() if isinstance(hold, Tensor) else hold


def _settle(old: Tensor, new: Tensor, share: Tensor | float | None, mark: Tensor | None) -> Tensor:
    if share is not None:
        new = share * old + (1 - share) * new
    return new if mark is None else torch.where(_mark_bit(mark, LIVE), new, old)


def _unsettle(d: Tensor, share: Tensor | float | None, mark: Tensor | None) -> tuple[Tensor, Tensor]:
    none = torch.zeros_like(d)
    d_old = none if share is None else share * d
    d_new = d - d_old
    if mark is not None:
        live = _mark_bit(mark, LIVE)
        d_old, d_new = torch.where(live, d_old, d), torch.where(live, d_new, none)
    return d_new, d_old


def _restart(x: Tensor, mark: Tensor | None) -> Tensor:
    return x if mark is None else torch.where(_mark_bit(mark, RESET), 0.0, x)


TWIN = Twin()
