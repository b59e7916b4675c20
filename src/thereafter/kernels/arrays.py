"""Types in compiled loops, and the arrays of each compiled task by name.

A task is handed to threads as addresses alone. Each class below is the one declaration of what a task takes: the CPU
kernel fills it with tensors by name, `loops.team.arrays_of` makes the same names arrays again inside compiled code.

The letters beside a field are the axes of the array; `WHOLE` marks whole numbers, all others are floats. By its axes a
formula finds an operand in an array (`loops.vectors.At`). Ahead of its own arrays every task has a `TeamArrays`.

Machine code is kept by the files that name `thereafter.base.compiled`, this one among them: where a class changes, it
is compiled anew.

Axes: T steps, B rows, P parts of the rows, M threads; 1, 2 or 3 rows of a few vectors. The last one: I inputs, H units,
O outputs, G gate units (4 H, 3 H coupled), K = I + H, N plain numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Generic, NamedTuple, TypeAlias, TypeVar, get_type_hints

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from llvmlite.ir import IRBuilder, Type
    from llvmlite.ir import Value as IrValue
    from numba.core.base import BaseContext
    from numba.core.types import Array
    from numba.core.typing.templates import Signature as NumbaSignature

Floats = NDArray[np.floating[Any]]
"""float32 or float64, of any number of axes."""
Float = np.floating[Any]
Whole = NDArray[np.int64]
Lengths = Floats | Whole
"""Whole numbers; the type checker takes all arrays of a record for one type."""
WHOLE = "int64"
FloatType = np.dtype[np.floating[Any]]

# What an intrinsic, a function that writes machine code, works with: it is called with the numba types of its arguments
# and returns a signature with a generator, which writes the code. Neither package has annotations of its own: these
# names say what a value is, and check nothing.
Builder: TypeAlias = "IRBuilder"
IrType: TypeAlias = "Type"
Value: TypeAlias = "IrValue"
Context: TypeAlias = "BaseContext"
ArrayType: TypeAlias = "Array"
Signature: TypeAlias = "NumbaSignature"
Code: TypeAlias = "Callable[[Context, Builder, Signature, Sequence[Value]], Value]"
Intrinsic: TypeAlias = tuple[object, Code]

A = TypeVar("A")
"""A tensor where the arrays are filled in, an array of numpy's where a loop works on them."""


@cache
def axes_of(kind: type[NamedTuple]) -> dict[str, tuple[str, ...]]:
    """The fields of such a class: the letters of each, and `WHOLE` behind those of whole numbers."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: hints[name].__metadata__ for name in kind._fields}


@cache
def field_with(kind: type[NamedTuple], letter: str) -> tuple[int, int]:
    """The place of the first array that has an axis, and which of its axes that is."""
    letters = [axes for axes, *_ in axes_of(kind).values()]
    return next((index, axes.index(letter)) for index, axes in enumerate(letters) if letter in axes)


class TeamArrays(NamedTuple, Generic[A]):
    """The arrays of every task: the matrix of a step's product and where it is packed; a second one, empty where a step
    has no second product; the spare room of each thread; lengths."""

    weight: Annotated[A, "GK"]
    packed: Annotated[A, "N"]
    second: Annotated[A, "GK"]
    packed_second: Annotated[A, "N"]
    spares: Annotated[A, "MN"]
    lengths: Annotated[A, "N", WHOLE]


class LstmForward(NamedTuple, Generic[A]):
    """The arrays of an LSTM's forward pass; `loops.lstm.forward_rows` explains them."""

    gates: Annotated[A, "TBG"]
    c: Annotated[A, "TBH"]
    xh: Annotated[A, "TBK"]
    z: Annotated[A, "TBG"]
    x: Annotated[A, "BTI"]
    y: Annotated[A, "BTH"]
    peephole: Annotated[A, "3H"]


class LstmBackward(NamedTuple, Generic[A]):
    """The arrays of an LSTM's backward pass; `loops.lstm.backward_rows` explains them."""

    gates: Annotated[A, "TBG"]
    c: Annotated[A, "TBH"]
    dy: Annotated[A, "BTH"]
    dh: Annotated[A, "BH"]
    dc: Annotated[A, "BH"]
    dz: Annotated[A, "TBG"]
    dx: Annotated[A, "BTI"]
    d_bias: Annotated[A, "PG"]
    d_peephole: Annotated[A, "P3H"]
    peephole: Annotated[A, "3H"]


class LstmNormForward(NamedTuple, Generic[A]):
    """The arrays of a layer-norm LSTM's forward pass; `loops.lstm_norm` explains them."""

    gates: Annotated[A, "TBG"]
    c: Annotated[A, "TBH"]
    m: Annotated[A, "TBH"]
    y: Annotated[A, "BTH"]
    hat_x: Annotated[A, "TBG"]
    hat: Annotated[A, "TBG"]
    hat_c: Annotated[A, "TBH"]
    scales: Annotated[A, "3TB"]
    norms: Annotated[A, "3G"]
    norm_c: Annotated[A, "2H"]
    no_bias: Annotated[A, "1G"]
    peephole: Annotated[A, "3H"]


class LstmNormBackward(NamedTuple, Generic[A]):
    """The arrays of a layer-norm LSTM's backward pass; `loops.lstm_norm` explains them."""

    gates: Annotated[A, "TBG"]
    c: Annotated[A, "TBH"]
    dy: Annotated[A, "BTH"]
    dh: Annotated[A, "BH"]
    dc: Annotated[A, "BH"]
    dx: Annotated[A, "TBG"]
    du: Annotated[A, "TBG"]
    hat_x: Annotated[A, "TBG"]
    hat: Annotated[A, "TBG"]
    hat_c: Annotated[A, "TBH"]
    scales: Annotated[A, "3TB"]
    norms: Annotated[A, "3G"]
    norm_c: Annotated[A, "2H"]
    dz: Annotated[A, "MG"]
    d: Annotated[A, "MH"]
    shown: Annotated[A, "MH"]
    means: Annotated[A, "MN"]
    d_norms: Annotated[A, "P3G"]
    d_norm_c: Annotated[A, "P2H"]
    d_peephole: Annotated[A, "P3H"]
    peephole: Annotated[A, "3H"]


class ElmanForward(NamedTuple, Generic[A]):
    """The arrays of a simple recurrent network's forward pass; `loops.elman.forward_rows` explains them."""

    y: Annotated[A, "BTH"]
    states: Annotated[A, "TBH"]
    kept: Annotated[A, "BTH"]
    x: Annotated[A, "BTI"]
    bias: Annotated[A, "N"]
    kind: Annotated[A, "N", WHOLE]


class ElmanBackward(NamedTuple, Generic[A]):
    """The arrays of a simple recurrent network's backward pass; `loops.elman.backward_rows` explains them."""

    kept: Annotated[A, "BTH"]
    end: Annotated[A, "BH"]
    dy: Annotated[A, "BTH"]
    dh: Annotated[A, "BH"]
    dz: Annotated[A, "BTH"]
    dx: Annotated[A, "BTI"]
    now: Annotated[A, "TBH"]
    d_bias: Annotated[A, "PH"]
    kind: Annotated[A, "N", WHOLE]


class GruForward(NamedTuple, Generic[A]):
    """The arrays of a GRU's forward pass; `loops.gru` explains them."""

    gates: Annotated[A, "TBG"]
    h: Annotated[A, "TBH"]
    y: Annotated[A, "BTH"]
    reset: Annotated[A, "TBH"]
    bias_n: Annotated[A, "N"]
    keep: Annotated[A, "N"]


class GruBackward(NamedTuple, Generic[A]):
    """The arrays of a GRU's backward pass; `loops.gru` explains them."""

    gates: Annotated[A, "TBG"]
    h: Annotated[A, "TBH"]
    dy: Annotated[A, "BTH"]
    dh: Annotated[A, "BH"]
    dz: Annotated[A, "TBG"]
    d_reset: Annotated[A, "BH"]
    d_bias: Annotated[A, "PG"]
    keep: Annotated[A, "N"]


class ProjectedForward(NamedTuple, Generic[A]):
    """The arrays of a projected LSTM's forward pass; `loops.lstm.projected_forward_rows` explains them."""

    gates: Annotated[A, "TBG"]
    c: Annotated[A, "TBH"]
    h: Annotated[A, "TBO"]
    now: Annotated[A, "TBH"]
    m: Annotated[A, "BTH"]
    y: Annotated[A, "BTO"]
    peephole: Annotated[A, "3H"]


class ProjectedBackward(NamedTuple, Generic[A]):
    """The arrays of a projected LSTM's backward pass; `loops.lstm.projected_backward_rows` explains them."""

    gates: Annotated[A, "TBG"]
    c: Annotated[A, "TBH"]
    dy: Annotated[A, "BTO"]
    dp: Annotated[A, "BTO"]
    dm: Annotated[A, "BTH"]
    dh: Annotated[A, "BO"]
    dc: Annotated[A, "BH"]
    dz: Annotated[A, "TBG"]
    now: Annotated[A, "BO"]
    none: Annotated[A, "BH"]
    d_bias: Annotated[A, "PG"]
    d_peephole: Annotated[A, "P3H"]
    peephole: Annotated[A, "3H"]
