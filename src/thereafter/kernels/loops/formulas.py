"""What each cell makes of the products of a step: the formulas of streams, along the units of one row.

A formula names what it reads and writes: first its gates, which are products and may be worked on in place, then the
arrays of the stream. `old` and `new` may be one array; `out` is where h goes.

Linear cells, h_t = a_t h_{t-1} + b_t, go through a whole sequence here, [T, B, H]: on a CPU one pass over memory is
faster than the parallel form.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

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


@jit(**FAST)
def linear_forward(a: Floats, b: Floats, h: Floats) -> None:
    """Fill h[1:] from h[0]."""
    for t in range(a.shape[0]):
        for row in range(a.shape[1]):
            a_row, b_row, old, new = a[t, row], b[t, row], h[t, row], h[t + 1, row]
            for j in range(len(new)):
                new[j] = a_row[j] * old[j] + b_row[j]


@jit(**FAST)
def linear_backward(a: Floats, h: Floats, dy: Floats, da: Floats, db: Floats, dh: Floats) -> None:
    """da, db [T, B, H] and dh [B, H], the gradient of the initial state, which starts as 0."""
    for t in range(a.shape[0] - 1, -1, -1):
        for row in range(a.shape[1]):
            a_row, old, d, back = a[t, row], h[t, row], dh[row], dy[t, row]
            da_row, db_row = da[t, row], db[t, row]
            for j in range(len(d)):
                db_row[j] = d[j] + back[j]
            for j in range(len(d)):
                da_row[j] = db_row[j] * old[j]
            for j in range(len(d)):
                d[j] = db_row[j] * a_row[j]
