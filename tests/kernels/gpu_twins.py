"""The readable twins of the programs of `kernels/gpu/code`, in plain torch on any device: the same passes over the same
arrays, a step at a time.

They round where the programs round (states, kept gates, gradients of gates) and add in float32. Everything around the
programs (layouts, gradients of weights, states, lengths) runs through them against the plain loop.

PlainCopies     weights and batches in the programs' order: code/copying.py
Twin            wide, narrow, layer_norm and reset_before
ScanTwin        linear: the same segments, tiles and pieces
CrfTwin         crf: row by row, step by step, with the same filling and shifts; names are the program's
Noting          notes what the programs would be launched with; `parameters`: what they take
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from thereafter.kernels.chain import Chain
from thereafter.kernels.gpu import launching
from thereafter.kernels.gpu.copying import CopyPrograms, FilledUnits, Places, filled
from thereafter.kernels.gpu.crf import ChainGradients, ChainWalk, CrfPrograms, gradients_of, padded_tags
from thereafter.kernels.gpu.geometry import Geometry
from thereafter.kernels.gpu.launch import Argument, Constants
from thereafter.kernels.gpu.launching import BackwardArrays, ForwardArrays, Hold, Programs
from thereafter.kernels.gpu.linear import ScanPrograms, ScanTile

LIVE, RESET = 1, 2
_SLOPE = 0.01
_INF = math.inf

Four = tuple[Tensor, Tensor, Tensor, Tensor]


class PlainCopies(CopyPrograms):
    """By torch's own operators, on any device."""

    def slices(self, weight: Tensor, how: FilledUnits, columns: int, own: int, kind: torch.dtype) -> Tensor:
        return in_slices(in_blocks(weight.to(kind), how.places, how.units, how.to, columns), own)

    def turned(self, weight: Tensor, how: FilledUnits, kind: torch.dtype) -> Tensor:
        return turned(in_blocks(weight.to(kind), how.places, how.units, how.to, how.to))

    def gates(self, blocks: Tensor, how: FilledUnits, columns: int, kind: torch.dtype) -> Tensor:
        return from_blocks(blocks.view(len(how.places), how.to, -1), how.places, how.units, columns).to(kind)

    def rows(self, array_TBI: Tensor, rows: int, columns: int, kind: torch.dtype) -> Tensor:
        return filled(array_TBI.to(kind), rows, columns)

    def first(self, state_BH: Tensor, into_PK: Tensor) -> None:
        into_PK.copy_(filled(state_BH, *into_PK.shape))

    def sliced_columns(self, array_TBG: Tensor, how: FilledUnits, rows: int, own: int) -> Tensor:
        steps, batch, _ = array_TBG.shape
        gates = array_TBG.reshape(steps, batch, -1, how.units)
        blocks = array_TBG.new_zeros(steps, rows, 4, how.to)
        for place, gate in enumerate(how.places):
            if gate is not None:
                blocks[:, :batch, place, : how.units] = gates[:, :, gate]
        return blocks.view(steps, rows, 4, how.to // own, own).transpose(2, 3).contiguous()

    def gate_columns(self, blocks_TP4K: Tensor, how: FilledUnits, rows: int) -> Tensor:
        return blocks_TP4K[:, :rows, list(how.order), : how.units].flatten(2)


def in_blocks(weight: Tensor, places: Places, units: int, to: int, columns: int) -> Tensor:
    """A cell's matrix [G H, I] as [4, K, J]; empty blocks, rows and columns are 0."""
    gates = weight.reshape(-1, units, weight.shape[1])
    blocks = weight.new_zeros(len(places), to, columns)
    for place, gate in enumerate(places):
        if gate is not None:
            blocks[place, :units, : weight.shape[1]] = gates[gate]
    return blocks


def from_blocks(blocks: Tensor, places: Places, units: int, columns: int) -> Tensor:
    """The way back, [4, K, J] to [G H, I]."""
    return torch.cat([blocks[place, :units, :columns] for place in FilledUnits(units, units, places).order])


def in_slices(blocks: Tensor, own: int) -> Tensor:
    """[4, K, J] as [4 K, J], slice by slice."""
    places, units, columns = blocks.shape
    return blocks.view(places, units // own, own, columns).transpose(0, 1).reshape(places * units, columns)


def turned(blocks: Tensor) -> Tensor:
    """[4, K, K] as the transposed matrix [K, 4 K]."""
    return blocks.flatten(0, 1).t().contiguous()


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


class Twin(Programs):
    """See `launching.Programs`."""

    copies = PlainCopies()

    def forward(self, form: str, over: Geometry, arrays: ForwardArrays) -> None:
        if arrays.norms is not None or arrays.resets is not None:
            (before_forward if arrays.norms is None else norm_forward)(form, over, arrays)
            return
        memory = has_memory(form)
        weights_KG = _weights(arrays.weights, over)
        c, h = arrays.cells[0].clone(), arrays.states[0].float()
        save = len(arrays.cells) > 1
        for t in range(len(arrays.states) - 1):
            product = (arrays.states[t].float() @ weights_KG).view(over.rows, 4, over.units)
            a0, a1, a2, a3 = (_by_gates(arrays.projected[t], over) + product).unbind(1)
            live = _bit(arrays.marks, t, LIVE)
            kept, new_c, new_h = advance(form, (a0, a1, a2, a3), c, _rows(arrays.peepholes))
            c = _settle(c, new_c, _share(arrays.hold_c, t), live)
            h = _settle(h, new_h, _share(arrays.hold_h, t), live) if memory else c
            if arrays.outputs is not None and live is not None:
                arrays.outputs[t] = torch.where(live, h, 0.0)
            c, h = _restart(c, arrays.marks, t + 1), _restart(h, arrays.marks, t + 1)
            arrays.states[t + 1] = h
            if save:
                _store(torch.stack(kept, 1), arrays.projected[t], over)
                arrays.cells[t + 1] = c
        arrays.last_c.copy_(c)

    def backward(self, form: str, over: Geometry, arrays: BackwardArrays) -> None:
        if arrays.norms is not None or over.backward.family == "before":
            (before_backward if arrays.norms is None else norm_backward)(form, over, arrays)
            return
        memory = has_memory(form)
        zeros = torch.zeros_like(arrays.d_first_c)
        dc = zeros if arrays.d_last_c is None else arrays.d_last_c
        direct = zeros if arrays.d_last_h is None or not memory else arrays.d_last_h
        peepholes = _rows(arrays.peepholes)
        arrays.d_biases.zero_()
        if arrays.d_peepholes is not None:
            arrays.d_peepholes.zero_()
        for t in reversed(range(len(arrays.d_outputs))):
            dh = direct + arrays.d_gates[t + 1].flatten(1).float() @ arrays.turned.float().t()
            dh, dc = _restart(dh, arrays.marks, t + 1), _restart(dc, arrays.marks, t + 1)
            dy, live = arrays.d_outputs[t].float(), _bit(arrays.marks, t, LIVE)
            dh = dh + (dy if live is None else torch.where(live, dy, 0.0))
            if not memory:
                dc, dh = dc + dh, zeros
            before = arrays.cells[t]
            k0, k1, k2, k3 = _by_gates(arrays.kept[t], over).unbind(1)
            new_c = k1 * before + k0 * k2
            dc, dc_old = _unsettle(dc, _share(arrays.hold_c, t), live)
            dh, direct = _unsettle(dh, _share(arrays.hold_h, t), live)
            d, dc = retreat(form, dh, dc, (k0, k1, k2, k3), before, new_c, peepholes)
            dc = dc + dc_old
            arrays.d_gates[t] = torch.stack(d, 1).view_as(arrays.d_gates[t])
            arrays.d_biases.add_(torch.stack(d))
            if arrays.d_peepholes is not None:
                arrays.d_peepholes.add_(torch.stack([d[0] * before, d[1] * before, d[3] * new_c]))
        arrays.d_first_c.copy_(_restart(dc, arrays.marks, 0))
        arrays.d_first_h.copy_(_restart(direct, arrays.marks, 0))


def norm_forward(form: str, over: Geometry, arrays: ForwardArrays) -> None:
    weights_KG = _weights(arrays.weights, over)
    gains_4K, gain_c, shift_c = arrays.norms[:4], arrays.norms[4], arrays.norms[5]
    c, h = arrays.cells[0].clone(), arrays.states[0].float()
    for t in range(len(arrays.states) - 1):
        raw_P4K = (arrays.states[t].float() @ weights_KG).view(over.rows, 4, -1)
        total, squares = raw_P4K.sum((1, 2)), raw_P4K.square().sum((1, 2))
        mean, gate_scale = _moments(total, squares, arrays.one_gate, arrays.eps)
        hats_P4K = (raw_P4K - mean[:, None, None]) * gate_scale[:, None, None]
        a0, a1, a2, a3 = (_by_gates(arrays.projected[t], over) + gains_4K * hats_P4K).unbind(1)
        kept, new_c, _ = advance(form, (a0, a1, a2, a3), c, _rows(arrays.peepholes))
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


def norm_backward(form: str, over: Geometry, arrays: BackwardArrays) -> None:
    gains_4K, gain_c, shift_c = arrays.norms[:4], arrays.norms[4], arrays.norms[5]
    p0, p1, p3 = _rows(arrays.peepholes)
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
        coupled = form == "coupled"
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


def before_forward(form: str, over: Geometry, arrays: ForwardArrays) -> None:
    u_r, u_z, u_n = (weight_KK.float().t() for weight_KK in arrays.weights.view(3, over.units, -1))
    h = arrays.cells[0].clone()
    for t in range(len(arrays.resets)):
        x_r, x_z, x_n = arrays.projected[t].float().chunk(3, 1)
        shown = arrays.states[t].float()
        r, z = torch.sigmoid(x_r + shown @ u_r), torch.sigmoid(x_z + shown @ u_z)
        arrays.resets[t] = r * h
        n = torch.tanh(x_n + arrays.resets[t].float() @ u_n)
        made = z * h + (1 - z) * n if form == "gru_old" else (1 - z) * h + z * n
        share, live = _share(arrays.hold_c, t), _bit(arrays.marks, t, LIVE)
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


def before_backward(form: str, over: Geometry, arrays: BackwardArrays) -> None:
    u_r, u_z, u_n = (weight_KK.float().t() for weight_KK in arrays.turned.view(over.units, 3, -1).unbind(1))
    direct = torch.zeros_like(arrays.d_first_c) if arrays.d_last_c is None else arrays.d_last_c
    arrays.d_biases.zero_()
    for t in reversed(range(len(arrays.d_outputs))):
        r, z, n = arrays.kept[t].float().chunk(3, 1)
        h, dy, live = arrays.cells[t], arrays.d_outputs[t].float(), _bit(arrays.marks, t, LIVE)
        dh = _restart(direct + arrays.d_gates[t + 1, :, 0].float() @ u_r, arrays.marks, t + 1)
        dh = dh + (dy if live is None else torch.where(live, dy, 0.0))
        dh, direct = _unsettle(dh, _share(arrays.hold_c, t), live)
        old = z if form == "gru_old" else 1 - z
        sign = 1 if form == "gru_old" else -1
        dz = sign * dh * (h - n) * z * (1 - z)
        dn = dh * (1 - old) * (1 - n * n)
        arrays.d_gates[t, :, 1], arrays.d_gates[t, :, 2] = dz, dn
        d_reset = arrays.d_gates[t, :, 2].float() @ u_n
        dr = d_reset * h * r * (1 - r)
        arrays.d_gates[t, :, 0] = dr
        direct = direct + dh * old + d_reset * r + arrays.d_gates[t, :, 1].float() @ u_z
        arrays.d_biases.add_(torch.stack([dr, dz, dn]))
    arrays.d_first_c.copy_(_restart(direct, arrays.marks, 0))


def _moments(total_P: Tensor, squares_P: Tensor, share: float, eps: float) -> tuple[Tensor, Tensor]:
    """Mean and 1 / sd from sums over 1 / share numbers."""
    mean_P = total_P * share
    return mean_P, torch.rsqrt((squares_P * share - mean_P * mean_P).clamp(min=0) + eps)


def _through_norm(e: Tensor, hat: Tensor, scale_P: Tensor, share: float) -> Tensor:
    """(e - mean(e) - hat mean(e hat)) / sd: the gradient of what was normalised."""
    mean, along = share * e.sum(1, keepdim=True), share * (e * hat).sum(1, keepdim=True)
    return scale_P[:, None] * (e - mean - hat * along)


def has_memory(form: str) -> bool:
    return form in ("lstm", "coupled")


def advance(form: str, a: Four, c: Tensor, peepholes: tuple[Tensor, ...]) -> tuple[Four, Tensor, Tensor]:
    """What is kept of a step, c' and h'; `formulas.advance` in words of torch."""
    p0, p1, p3 = peepholes
    if has_memory(form):
        i = torch.sigmoid(a[0] + p0 * c)
        f = 1 - i if form == "coupled" else torch.sigmoid(a[1] + p1 * c)
        g = torch.tanh(a[2])
        c = f * c + i * g
        o = torch.sigmoid(a[3] + p3 * c)
        return (i, f, g, o), c, o * torch.tanh(c)
    if form.startswith("gru"):
        r, z = torch.sigmoid(a[0]), torch.sigmoid(a[1])
        n = torch.tanh(a[2] + r * a[3])
        c = z * c + (1 - z) * n if form == "gru_old" else (1 - z) * c + z * n
        return (r, z, n, a[3]), c, c
    y = _ACTIVATIONS[form](a[0])
    return (y, y, y, y), y, y


def retreat(
    form: str, dh: Tensor, dc: Tensor, k: Four, c: Tensor, new_c: Tensor, peepholes: tuple[Tensor, ...]
) -> tuple[Four, Tensor]:
    """Gradients of the four blocks and of c; `formulas.retreat` in words of torch."""
    k0, k1, k2, k3 = k
    p0, p1, p3 = peepholes
    none = torch.zeros_like(dc)
    if has_memory(form):
        shown = torch.tanh(new_c)
        d3 = dh * shown * k3 * (1 - k3)
        dc = dc + dh * k3 * (1 - shown * shown) + d3 * p3
        coupled = form == "coupled"
        d0 = dc * (k2 - c if coupled else k2) * k0 * (1 - k0)
        d1 = none if coupled else dc * c * k1 * (1 - k1)
        return (d0, d1, dc * k0 * (1 - k2 * k2), d3), dc * k1 + d0 * p0 + d1 * p1
    dc = dc + dh
    if form.startswith("gru"):
        old = k1 if form == "gru_old" else 1 - k1
        sign = 1 if form == "gru_old" else -1
        d1 = sign * dc * (c - k2) * k1 * (1 - k1)
        d2 = dc * (1 - old) * (1 - k2 * k2)
        return (d2 * k3 * k0 * (1 - k0), d1, d2, d2 * k0), dc * old
    return (dc * _SLOPES[form](k0), none, none, none), none


def _by_gates(slices: Tensor, over: Geometry) -> Tensor:
    """One step [P, S, 4, own] as [P, 4, K], in float32."""
    return slices.view(over.rows, -1, 4, over.forward.own).transpose(1, 2).flatten(2).float()


def _store(gates_P4K: Tensor, slices: Tensor, over: Geometry) -> None:
    """The way back, into the array."""
    own = over.forward.own
    slices.view(over.rows, -1, 4, own).copy_(gates_P4K.view(over.rows, 4, -1, own).transpose(1, 2))


def _weights(slices: Tensor, over: Geometry) -> Tensor:
    """[S, 4, own, K] as [K, 4 K], gate by gate."""
    return slices.float().view(-1, 4, over.forward.own, over.units).transpose(0, 1).reshape(-1, over.units).t()


def _rows(peepholes: Tensor | None) -> tuple[Tensor, ...]:
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


TWIN = Twin()


class ScanTwin(ScanPrograms):
    """The programs' algorithm in torch, on any device: the same segments, tiles and pieces, in float32 or better."""

    def __init__(self, tile: ScanTile) -> None:
        self._tile = tile

    def forward(self, a_BTH: Tensor, b_BTH: Tensor, h_BH: Tensor, kind: torch.dtype) -> Tensor:
        a, b, h = (_wide(array) for array in (a_BTH, b_BTH, h_BH))
        return self._by_segments(a, b, h).to(kind)

    def backward(
        self, a_BTH: Tensor, h_BTH: Tensor, h_BH: Tensor, dy_BTH: Tensor, dlast_BH: Tensor, b_type: torch.dtype
    ) -> tuple[Tensor, Tensor, Tensor]:
        a, h, first, dy, dlast = (_wide(array) for array in (a_BTH, h_BTH, h_BH, dy_BTH, dlast_BH))
        d_BTH = self._by_segments(a.flip(1), (a * dy).flip(1), dlast).flip(1)
        g_BTH = dy + torch.cat([d_BTH[:, 1:], dlast.unsqueeze(1)], 1)
        before_BTH = torch.cat([first.unsqueeze(1), h[:, :-1]], 1)
        return (g_BTH * before_BTH).to(a_BTH.dtype), g_BTH.to(b_type), d_BTH[:, 0].to(h_BH.dtype)

    def _by_segments(self, a_BTH: Tensor, b_BTH: Tensor, h_BH: Tensor) -> Tensor:
        parts = _cut(a_BTH, b_BTH, self._tile.span)
        starts = [h_BH]
        for a, b in parts[:-1]:  # what a segment does to a state: a product, and where it leads from 0
            starts.append(a.prod(1) * starts[-1] + self._by_tiles(a, b, torch.zeros_like(h_BH))[:, -1])
        return torch.cat([self._by_tiles(a, b, start) for (a, b), start in zip(parts, starts, strict=True)], 1)

    def _by_tiles(self, a_BTH: Tensor, b_BTH: Tensor, state_BH: Tensor) -> Tensor:
        tile, states = self._tile, []
        for a, b in _cut(a_BTH, b_BTH, tile.steps):
            rows, steps, units = a.shape
            rest, pieces = (rows, tile.steps - steps, units), (rows, tile.chunks, tile.length, units)
            a_BPSH = torch.cat([a, a.new_ones(rest)], 1).view(pieces)  # steps that leave the state as it is
            b_BPSH = torch.cat([b, b.new_zeros(rest)], 1).view(pieces)
            end_BPH = torch.zeros_like(a_BPSH[:, :, 0])
            for s in range(tile.length):
                end_BPH = a_BPSH[:, :, s] * end_BPH + b_BPSH[:, :, s]
            kept_BPH, before = a_BPSH.prod(2), []
            for piece in range(tile.chunks):
                before.append(state_BH)
                state_BH = kept_BPH[:, piece] * state_BH + end_BPH[:, piece]
            h_BPH, made = torch.stack(before, 1), []
            for s in range(tile.length):
                h_BPH = a_BPSH[:, :, s] * h_BPH + b_BPSH[:, :, s]
                made.append(h_BPH)
            states.append(torch.stack(made, 2).flatten(1, 2)[:, :steps])
        return torch.cat(states, 1)


def _cut(a_BTH: Tensor, b_BTH: Tensor, steps: int) -> list[tuple[Tensor, Tensor]]:
    return [(a_BTH[:, t : t + steps], b_BTH[:, t : t + steps]) for t in range(0, a_BTH.shape[1], steps)]


def _wide(array: Tensor) -> Tensor:
    return array.to(torch.promote_types(array.dtype, torch.float32))


class CrfTwin(CrfPrograms):
    """It computes in float32, and in float64 where the emissions are."""

    def __init__(self) -> None:
        pass

    def forward(self, chain: Chain, keep: bool) -> ChainWalk:
        e_BTK = chain.emissions_BTK
        kind = _wide_type(e_BTK.dtype)
        # what nobody writes is NaN: nobody may read it
        reach_BTK = e_BTK.new_full(e_BTK.shape, math.nan, dtype=kind)
        shift_BT = e_BTK.new_full(e_BTK.shape[:2], math.nan, dtype=kind)
        values_B = e_BTK.new_zeros(len(e_BTK), dtype=kind)
        for row in range(len(e_BTK)):
            n, weight = _row_length(chain, row)
            if n > 0:
                total = _walk(chain, row, n, reach_BTK[row], shift_BT[row])
                if chain.tags_BT is not None:
                    total = total - _score(chain, row, n, chain.tags_BT[row])
                values_B[row] = total.to(kind) * weight
        return ChainWalk(values_B, reach_BTK, shift_BT) if keep else ChainWalk(values_B, None, None)

    def backward(self, chain: Chain, walk: ChainWalk, grad_B: Tensor, kind: torch.dtype) -> ChainGradients:
        e_BTK = chain.emissions_BTK
        filled = padded_tags(e_BTK.shape[2])
        d_BTK = e_BTK.new_zeros(e_BTK.shape, dtype=kind)
        partials_BPK = e_BTK.new_zeros((len(e_BTK), filled + 2, filled), dtype=_wide_type(e_BTK.dtype))
        for row in range(len(e_BTK)):
            n, weight = _row_length(chain, row)
            if n > 0:
                _walk_back(chain, walk, row, n, grad_B[row] * weight, d_BTK[row], partials_BPK[row])
        return gradients_of(d_BTK, partials_BPK)

    def path(self, chain: Chain) -> Tensor:
        e_BTK = chain.emissions_BTK
        path_BT = e_BTK.new_zeros(e_BTK.shape[:2], dtype=torch.int64)
        for row, n in enumerate(chain.lengths_B.clamp(0, e_BTK.shape[1]).tolist()):
            if n > 0:
                path_BT[row, :n] = _best(chain, row, n)
        return path_BT


def _walk(chain: Chain, row: int, n: int, reach_TK: Tensor, shift_T: Tensor) -> Tensor:
    """log Z of a row in float64; fills reach and shift up to its end."""
    e_TK, size = chain.emissions_BTK[row], chain.emissions_BTK.shape[2]
    step_KK = _filled(chain.transition_KK, -_INF)
    total = e_TK.new_zeros((), dtype=torch.float64)
    alpha_K = torch.zeros_like(step_KK[0])
    for t in range(n):
        if t == 0:
            reach_K = _filled(chain.start_K, -_INF)
        else:
            sum_KK = alpha_K[:, None] + step_KK
            most_K = _finite(sum_KK.max(0).values)
            reach_K = (sum_KK - most_K[None, :]).exp().sum(0).log() + most_K
        sum_K = reach_K + _filled(e_TK[t], 0.0)
        shift = _finite(sum_K.max())
        alpha_K = sum_K - shift
        total = total + shift.double()
        reach_TK[t], shift_T[t] = reach_K[:size], shift
    last_K = alpha_K + _filled(chain.end_K, -_INF)
    most = _finite(last_K.max())
    return total + ((last_K - most).exp().sum().log() + most).double()


def _score(chain: Chain, row: int, n: int, tags_T: Tensor) -> Tensor:
    tags = tags_T[:n].tolist()
    score = chain.emissions_BTK.new_zeros((), dtype=torch.float64)
    if not all(0 <= tag < len(chain.start_K) for tag in tags):
        return score + math.nan
    for t, tag in enumerate(tags):
        before = chain.start_K[tag] if t == 0 else chain.transition_KK[tags[t - 1], tag]
        score = score + chain.emissions_BTK[row, t, tag].double() + before.double()
    return score + chain.end_K[tags[-1]].double()


def _walk_back(
    chain: Chain, walk: ChainWalk, row: int, n: int, scale: Tensor, d_TK: Tensor, partials_PK: Tensor
) -> None:
    """Fills the gradients of a row."""
    if walk.reach_BTK is None or walk.shift_BT is None:
        raise ValueError("the forward pass kept nothing")
    e_TK, reach_TK, shift_T = chain.emissions_BTK[row], walk.reach_BTK[row], walk.shift_BT[row]
    size, filled = e_TK.shape[1], partials_PK.shape[1]
    step_KK, tag_TK = _filled(chain.transition_KK, -_INF), _one_hot(chain, row, n, filled)

    def alpha(t: int) -> Tensor:
        return _filled(reach_TK[t], -_INF) + _filled(e_TK[t], 0.0) - shift_T[t]

    last_K = alpha(n - 1) + _filled(chain.end_K, -_INF)
    power_K = (last_K - _finite(last_K.max())).exp()
    q_K = torch.where(power_K.sum() == 0, 0.0, power_K / power_K.sum())
    partials_PK[filled + 1] = scale * (q_K - tag_TK[n - 1])
    pairs_KK = torch.zeros_like(step_KK)
    for t in range(n - 1, 0, -1):
        d_TK[t] = (scale * (q_K - tag_TK[t]))[:size]
        reach_K = _filled(reach_TK[t], -_INF)
        away_K = torch.where(reach_K == -_INF, _INF, reach_K)
        pair_KK = (alpha(t - 1)[:, None] + step_KK - away_K[None, :]).exp() * q_K[None, :]
        q_K = pair_KK.sum(1)
        pairs_KK += pair_KK
        pairs_KK -= tag_TK[t - 1][:, None] * tag_TK[t][None, :]
    d_TK[0] = (scale * (q_K - tag_TK[0]))[:size]
    partials_PK[filled] = scale * (q_K - tag_TK[0])
    partials_PK[:filled] = scale * pairs_KK


def _best(chain: Chain, row: int, n: int) -> Tensor:
    e_TK, size = chain.emissions_BTK[row], chain.emissions_BTK.shape[2]
    step_KK = _filled(chain.transition_KK, -_INF)
    best_K = _filled(chain.start_K, -_INF) + _filled(e_TK[0], 0.0)
    came_from = []
    for t in range(1, n):
        best_K, from_K = (best_K[:, None] + step_KK).max(0)
        best_K = best_K + _filled(e_TK[t], 0.0)
        came_from.append(from_K.clamp(max=size - 1))
    path = [(best_K + _filled(chain.end_K, -_INF)).argmax().clamp(max=size - 1)]
    for from_K in reversed(came_from):
        path.append(from_K[path[-1]])
    return torch.stack(path[::-1])


def _row_length(chain: Chain, row: int) -> tuple[int, float]:
    """Steps of a row, never more than there are, and its weight."""
    weight = 1.0 if chain.counted_B is None else float(chain.counted_B[row])
    n = min(max(int(chain.lengths_B[row]), 0), chain.emissions_BTK.shape[1])
    return (n if weight != 0 else 0), weight


def _one_hot(chain: Chain, row: int, n: int, filled: int) -> Tensor:
    """The tags of a row as numbers 0 and 1, [n, K]; all 0 where there are none."""
    kind = _wide_type(chain.emissions_BTK.dtype)
    if chain.tags_BT is None:
        return chain.emissions_BTK.new_zeros((n, filled), dtype=kind)
    return (torch.arange(filled) == chain.tags_BT[row, :n, None]).to(kind)


def _filled(array: Tensor, value: float) -> Tensor:
    """Every dimension filled up to the programs' K, in the type that they compute in."""
    more = padded_tags(array.shape[-1]) - array.shape[-1]
    return torch.nn.functional.pad(_wide(array), (0, more) * array.dim(), value=value)


def _finite(x: Tensor) -> Tensor:
    return torch.where(x.abs() == _INF, 0.0, x)


def _wide_type(kind: torch.dtype) -> torch.dtype:
    return torch.promote_types(kind, torch.float32)


class Noting(Twin):
    """What the programs would be launched with is noted by name: arguments and constants. The twin computes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.launched: dict[str, tuple[list[str], set[str]]] = {}
        monkeypatch.setattr(launching, "launch", self._note)

    def _note(
        self, module: str, function: str, arguments: dict[str, Argument], constants: Constants, **about: int
    ) -> None:
        assert about["blocks"] > 0
        assert about["together"]
        self.launched[f"{module}.{function}"] = list(arguments), set(constants)

    def forward(self, form: str, over: Geometry, arrays: ForwardArrays) -> None:
        launching.PROGRAMS.forward(form, over, arrays)
        super().forward(form, over, arrays)

    def backward(self, form: str, over: Geometry, arrays: BackwardArrays) -> None:
        launching.PROGRAMS.backward(form, over, arrays)
        super().backward(form, over, arrays)


CODE = Path(launching.__file__).parent / "code"


def takes(module: str, function: str, launched: tuple[list[str], set[str]]) -> bool:
    """Whether a program takes what it would be launched with; a constant may stand for an argument that is absent."""
    arguments, constants = parameters(module, function)
    passed, fixed = launched
    return passed == [name for name in arguments if name not in fixed] and fixed - {*arguments} == constants


def parameters(module: str, function: str) -> tuple[list[str], set[str]]:
    """A program's parameters that are arguments, in their order, and those that are constants: by reading its text."""
    tree = ast.parse((CODE / f"{module}.py").read_text(encoding="utf-8"))
    program = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function)
    constants = {a.arg for a in program.args.args if a.annotation and "constexpr" in ast.unparse(a.annotation)}
    return [a.arg for a in program.args.args if a.arg not in constants], constants
