"""The simple recurrent network between its matrix products: rows of a step, forward and backward.

Arrays are whole sequences, batch first: B rows, T steps, H units. The derivative of each nonlinearity is computed from
its output. Every loop works on the units `first` to `last` of a row, so that several threads can share one.
"""

from __future__ import annotations

from collections.abc import Callable

from thereafter.compiled import jit
from thereafter.kernels.arrays import Floats, Whole
from thereafter.kernels.loops.lstm import copy_row
from thereafter.kernels.loops.vectors import Lanes, Number, row_loop, sigmoid, tanh

TANH, RELU, LEAKY, RELU6, SIGMOID, IDENTITY = range(6)
_SLOPE = 0.01  # of the leaky relu below 0


def _output(x: Number, kind: int) -> Number:
    """The nonlinearity of a pre-activation."""
    if kind == TANH:
        return tanh(x)
    if kind == SIGMOID:
        return sigmoid(x)
    if kind == IDENTITY:
        return x
    above = x.at_least(0.0)
    if kind == LEAKY:
        return above + _SLOPE * x.at_most(0.0)
    return above.at_most(6.0) if kind == RELU6 else above


def _gradient(d: Number, out: Number, kind: int) -> Number:
    """The gradient of a pre-activation from that of the output, d."""
    if kind == TANH:
        return d * (1.0 - out * out)
    if kind == SIGMOID:
        return d * out * (1.0 - out)
    if kind == IDENTITY:
        return d
    none = d.lanes.constant(0.0)
    inner = _where_above(out, 0.0, d, _SLOPE * d if kind == LEAKY else none)
    return inner if kind != RELU6 else _where_above(6.0 - out, 0.0, inner, none)


def _where_above(x: Number, limit: float, there: Number, elsewhere: Number) -> Number:
    builder = x.lanes.builder
    above = builder.fcmp_ordered(">", x.value, x.lanes.constant(limit).value)
    return Number(x.lanes, builder.select(above, there.value, elsewhere.value))


def _forward_loop(kind: int) -> Callable[..., None]:
    def formula(v: Lanes) -> None:
        h = _output(v["y"], kind)
        v["y"], v["state"], v["kept"] = h, h, h

    return row_loop(formula, "y", "state", "kept")


def _backward_loop(kind: int) -> Callable[..., None]:
    def formula(v: Lanes) -> None:
        d = _gradient(v["dh"] + v["dy"], v["out"], kind)
        v["dz"], v["now"], v["sum"] = d, d, v["sum"] + d
        v["dh"] = v.constant(0.0)  # the product of the step before is added to it

    return row_loop(formula, "out", "dy", "dh", "dz", "now", "sum")


def _clear(v: Lanes) -> None:
    v["row"] = v.constant(0.0)


_tanh, _relu, _leaky, _relu6, _sigmoid, _identity = (_forward_loop(kind) for kind in range(6))
_tanh_back, _relu_back, _leaky_back, _relu6_back, _sigmoid_back, _identity_back = (_backward_loop(k) for k in range(6))
_zero = row_loop(_clear, "row")


@jit()
def clear(row: Floats, first: int, last: int) -> None:
    """A part of a row to 0."""
    _zero(row, last - first, (row.ctypes.data + first * row.itemsize,))


@jit()
def elman_forward(
    t: int, y: Floats, states: Floats, kept: Floats, kind: int, lengths: Whole, first: int, last: int
) -> None:
    """Turn the pre-activations of step t, `y[:, t]`, into outputs.

    They are also written to `states[t + 1]` [2, B, H], used in a circle, and, where it has so many steps, to
    `kept[:, t + 1]`. In finished rows (t >= lengths) the state stays and the others are 0.
    """
    old, new, size = states[t % 2], states[(t + 1) % 2], y.itemsize
    for b in range(len(y)):
        row, state = y[b, t].ctypes.data + first * size, new[b].ctypes.data + first * size
        copy = kept[b, t + 1].ctypes.data + first * size if t + 1 < kept.shape[1] else state
        if len(lengths) and t >= lengths[b]:
            _zero(y, last - first, (row,))
            if copy != state:
                _zero(y, last - first, (copy,))
            if t == lengths[b]:  # from then on both have it
                copy_row(old[b], new[b], first, last)
        else:
            _activate(y, kind, last - first, (row, state, copy))


@jit()
def _activate(like: Floats, kind: int, count: int, places: tuple[int, int, int]) -> None:
    if kind == TANH:
        _tanh(like, count, places)
    elif kind == RELU:
        _relu(like, count, places)
    elif kind == LEAKY:
        _leaky(like, count, places)
    elif kind == RELU6:
        _relu6(like, count, places)
    elif kind == SIGMOID:
        _sigmoid(like, count, places)
    else:
        _identity(like, count, places)


@jit()
def elman_backward(
    t: int, kept: Floats, end_BH: Floats, dy: Floats, dh: Floats, dz: Floats, now: Floats, d_bias: Floats, kind: int,
    lengths: Whole, first: int, last: int,
) -> None:  # fmt: skip
    """The gradient of step t's pre-activations: `dz[:, t]`, and once more, close together, `now[t]` [2, B, H], used in
    a circle.

    The gradient of the step's output is `dh` [B, H] and `dy[:, t]` together; `dh` is 0 afterwards. Finished rows get
    dz = 0 and keep their dh. `d_bias` [H] is added to. `dz` may be `dy` itself.
    """
    size = dz.itemsize
    offset = first * size
    for b in range(len(dh)):
        row = dz[b, t].ctypes.data + offset
        if len(lengths) and t >= lengths[b]:
            _zero(dz, last - first, (row,))
        else:
            out = kept[b, t + 1].ctypes.data if t + 1 < kept.shape[1] else end_BH[b].ctypes.data
            places = (
                out + offset, dy[b, t].ctypes.data + offset, dh[b].ctypes.data + offset, row,
                now[t % 2, b].ctypes.data + offset, d_bias.ctypes.data + offset,
            )  # fmt: skip
            _activate_back(dz, kind, last - first, places)


@jit()
def _activate_back(like: Floats, kind: int, count: int, places: tuple[int, ...]) -> None:
    if kind == TANH:
        _tanh_back(like, count, places)
    elif kind == RELU:
        _relu_back(like, count, places)
    elif kind == LEAKY:
        _leaky_back(like, count, places)
    elif kind == RELU6:
        _relu6_back(like, count, places)
    elif kind == SIGMOID:
        _sigmoid_back(like, count, places)
    else:
        _identity_back(like, count, places)
