"""tanh and the logistic function over rows, written so that the compiler can use the processor's vector units.

In float32 tanh is the quotient of two polynomials, x (a1 + a3 x^2 + ... + a13 x^12) / (b0 + b2 x^2 + ... + b6 x^6),
for |x| up to 7.9, where the function is 1 in float32: no branch, no table, error below 3e-7. (The coefficients are the
minimax fit that Eigen uses.) In float64 it is the library's own. A NaN stays a NaN.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from thereafter.compiled import jit
from thereafter.kernels.arrays import Floats

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
