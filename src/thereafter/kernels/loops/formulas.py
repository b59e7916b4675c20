"""What each cell makes of the products of a step: the formulas of streams, along the units of one row.

A formula names what it reads and writes: first its gates, which are products and may be worked on in place, then the
arrays of the stream. `old` and `new` may be one array; `out` is where h goes.

tanh and the logistic function are written so that the compiler can use the processor's vector units. In float32 tanh is
the quotient of two polynomials, x (a1 + a3 x^2 + ... + a13 x^12) / (b0 + b2 x^2 + ... + b6 x^6), for |x| up to 7.9,
where the function is 1 in float32: no branch, no table, error below 3e-7. (The coefficients are the minimax fit that
Eigen uses.) In float64 it is the library's own. A NaN stays a NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from thereafter.base.compiled import jit
from thereafter.kernels.arrays import Floats
from thereafter.kernels.loops.lstm import cell_formula
from thereafter.kernels.loops.vectors import Lanes, Number, gates_of, sigmoid, tanh

_LEAK, _SIX = 0.01, 6.0


class StepFormula(NamedTuple):
    """The names of its gates, the names of its arrays, and what it does."""

    gates: tuple[str, ...]
    arrays: tuple[str, ...]
    write: Callable[[Lanes], None]
    sources: int = 1

    @property
    def gates_of_a_source(self) -> int:
        """Gates that one product makes."""
        return len(self.gates) // self.sources


def _lstm(v: Lanes, peephole: bool, coupled: bool) -> None:
    o, new = cell_formula(v, peephole, coupled)
    v["out"] = o * tanh(new)


def _gru_after(v: Lanes, old: bool) -> None:
    """The gates of the input, then those of the state: the reset gate multiplies the last of them."""
    r, z = gates_of([v["r"] + v["u_r"], v["z"] + v["u_z"]], [])
    _mix(v, z, tanh(v["n"] + r * v["u_n"]), old)


def _gru_gates(v: Lanes) -> None:
    """The gates of a GRU that resets its state before the candidate's product."""
    r, z = gates_of([v["r"], v["z"]], [])
    v["reset_h"], v["update"] = r * v["h"], z


def _gru_before(v: Lanes, old: bool) -> None:
    _mix(v, v["update"], tanh(v["n"]), old)


def _mix(v: Lanes, z: Number, n: Number, old: bool) -> None:
    h = v["h"]
    v["out"] = n + z * (h - n) if old else h + z * (n - h)


def _elman(v: Lanes, activate: Callable[[Number], Number]) -> None:
    v["out"] = activate(v["z"])


def _leaky(x: Number) -> Number:
    return x.at_least(0.0) + _LEAK * x.at_most(0.0)


def _min_gru(v: Lanes) -> None:
    h = v["h"]
    v["out"] = h + sigmoid(v["z"]) * (v["n"] - h)


def _diagonal(v: Lanes) -> None:
    v["out"] = v["decay"] * v["h"] + v["scale"] * v["z"]


def _copied(v: Lanes, gates: tuple[str, ...]) -> None:
    for gate in gates:
        v[f"to_{gate}"] = v[gate]


def _copies(*gates: str) -> StepFormula:
    """The products as they are."""
    return StepFormula(gates, tuple(f"to_{gate}" for gate in gates), partial(_copied, gates=gates))


_PEEPHOLES = {False: ("peephole_i", "peephole_f", "peephole_o"), True: ("peephole_i", "peephole_o")}
ACTIVATIONS: dict[str, Callable[[Number], Number]] = {
    "tanh": tanh,
    "relu": lambda x: x.at_least(0.0),
    "leaky_relu": _leaky,
    "relu6": lambda x: x.at_least(0.0).at_most(_SIX),
    "sigmoid": sigmoid,
    "identity": lambda x: x,
}
FORMULAS: dict[str, StepFormula] = {
    **{
        f"lstm{' peephole' if peephole else ''}{' coupled' if coupled else ''}": StepFormula(
            ("i", "g", "o") if coupled else ("i", "f", "g", "o"),
            ("old", "new", "out", *(_PEEPHOLES[coupled] if peephole else ())),
            partial(_lstm, peephole=peephole, coupled=coupled),
        )
        for peephole in (False, True)
        for coupled in (False, True)
    },
    **{
        f"gru after {update}": StepFormula(
            ("r", "z", "n", "u_r", "u_z", "u_n"), ("h", "out"), partial(_gru_after, old=update == "old"), 2
        )
        for update in ("old", "new")
    },
    "gru gates": StepFormula(("r", "z"), ("h", "reset_h", "update"), _gru_gates),
    **{
        f"gru before {update}": StepFormula(("n",), ("update", "h", "out"), partial(_gru_before, old=update == "old"))
        for update in ("old", "new")
    },
    **{
        f"elman {name}": StepFormula(("z",), ("out",), partial(_elman, activate=activate))
        for name, activate in ACTIVATIONS.items()
    },
    "min gru": StepFormula(("z", "n"), ("h", "out"), _min_gru),
    "diagonal": StepFormula(("z",), ("h", "decay", "scale", "out"), _diagonal),
    "copies 1": _copies("a"),
    "copies 3": _copies("a", "b", "c"),
}


# No assumption that numbers are finite: a NaN must come out as one, so that training can see it.
FAST: dict[str, Any] = {
    "fastmath": {"contract", "nsz", "arcp", "reassoc"},
    "error_model": "numpy",  # Python's looks at every divisor and keeps the loops from being vectorised
}

_LIMIT = np.float32(7.90531110763549805)
_A1, _A3 = np.float32(4.89352455891786e-03), np.float32(6.37261928875436e-04)
_A5, _A7 = np.float32(1.48572235717979e-05), np.float32(5.12229709037114e-08)
_A9, _A11 = np.float32(-8.60467152213735e-11), np.float32(2.00018790482477e-13)
_A13 = np.float32(-2.76076847742355e-16)
_B0, _B2 = np.float32(4.89352518554385e-03), np.float32(2.26843463243900e-03)
_B4, _B6 = np.float32(1.18534705686654e-04), np.float32(1.19825839466702e-06)
_HALF = np.float32(0.5)


@jit(**FAST, inline="always")
def _tanh32(x: np.float32) -> np.float32:
    x = _LIMIT if x > _LIMIT else x
    x = -_LIMIT if x < -_LIMIT else x
    y = x * x
    top = _A1 + y * (_A3 + y * (_A5 + y * (_A7 + y * (_A9 + y * (_A11 + y * _A13)))))
    return x * top / (_B0 + y * (_B2 + y * (_B4 + y * _B6)))


@jit(**FAST)
def tanh_row(x: Floats, exact: bool) -> None:
    """tanh of a row, in place."""
    if exact:
        for j in range(len(x)):
            x[j] = math.tanh(x[j])
    else:
        for j in range(len(x)):
            x[j] = _tanh32(x[j])


@jit(**FAST)
def sigmoid_row(x: Floats, exact: bool) -> None:
    """1 / (1 + exp(-x)) = (1 + tanh(x / 2)) / 2 of a row, in place."""
    if exact:
        for j in range(len(x)):
            x[j] = 0.5 * math.tanh(0.5 * x[j]) + 0.5
    else:
        for j in range(len(x)):
            x[j] = _HALF * _tanh32(_HALF * x[j]) + _HALF
