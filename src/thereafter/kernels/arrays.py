"""Types in compiled loops, and the arrays of each compiled task by name.

A task is handed to threads as addresses alone. Each class below is the one declaration of what a task takes: the CPU
kernel fills it with tensors by name, `loops.team.arrays_of` makes the same names arrays again inside compiled code. The
number beside a field is how many axes the array has; `WHOLE` marks whole numbers, all others are floats.

Machine code is kept by the files that name `thereafter.base.compiled`, this one among them: where a class changes, it
is compiled anew.

Shapes: T steps, B rows, I inputs, H units, G gate units (4 H, 3 H coupled), K = I + H.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Generic, NamedTuple, TypeAlias, TypeVar

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


class LstmForward(NamedTuple, Generic[A]):
    """The arrays of an LSTM's forward pass; `loops.lstm.forward_rows` explains them."""

    gates: Annotated[A, 3]
    c: Annotated[A, 3]
    xh: Annotated[A, 3]
    z: Annotated[A, 3]
    x: Annotated[A, 3]
    y: Annotated[A, 3]
    weight: Annotated[A, 2]
    packed: Annotated[A, 1]
    spares: Annotated[A, 2]
    peephole: Annotated[A, 2]
    lengths: Annotated[A, 1, WHOLE]


class LstmBackward(NamedTuple, Generic[A]):
    """The arrays of an LSTM's backward pass; `loops.lstm.backward_rows` explains them."""

    gates: Annotated[A, 3]
    c: Annotated[A, 3]
    dy: Annotated[A, 3]
    dh: Annotated[A, 2]
    dc: Annotated[A, 2]
    dz: Annotated[A, 3]
    dx: Annotated[A, 3]
    d_bias: Annotated[A, 2]
    d_peephole: Annotated[A, 3]
    weight: Annotated[A, 2]
    weight_x: Annotated[A, 2]
    packed: Annotated[A, 1]
    packed_x: Annotated[A, 1]
    spares: Annotated[A, 2]
    peephole: Annotated[A, 2]
    lengths: Annotated[A, 1, WHOLE]


class LstmNormForward(NamedTuple, Generic[A]):
    """The arrays of a layer-norm LSTM's forward pass; `loops.lstm_norm` explains them."""

    gates: Annotated[A, 3]
    c: Annotated[A, 3]
    m: Annotated[A, 3]
    y: Annotated[A, 3]
    hat_x: Annotated[A, 3]
    hat: Annotated[A, 3]
    hat_c: Annotated[A, 3]
    scales: Annotated[A, 3]
    norms: Annotated[A, 2]
    norm_c: Annotated[A, 2]
    weight: Annotated[A, 2]
    packed: Annotated[A, 1]
    spares: Annotated[A, 2]
    rooms: Annotated[A, 2]
    peephole: Annotated[A, 2]
    lengths: Annotated[A, 1, WHOLE]


class LstmNormBackward(NamedTuple, Generic[A]):
    """The arrays of a layer-norm LSTM's backward pass; `loops.lstm_norm` explains them."""

    gates: Annotated[A, 3]
    c: Annotated[A, 3]
    dy: Annotated[A, 3]
    dh: Annotated[A, 2]
    dc: Annotated[A, 2]
    dx: Annotated[A, 3]
    du: Annotated[A, 3]
    hat_x: Annotated[A, 3]
    hat: Annotated[A, 3]
    hat_c: Annotated[A, 3]
    scales: Annotated[A, 3]
    norms: Annotated[A, 2]
    norm_c: Annotated[A, 2]
    weight: Annotated[A, 2]
    packed: Annotated[A, 1]
    spares: Annotated[A, 2]
    rooms: Annotated[A, 2]
    sums: Annotated[A, 2]
    peephole: Annotated[A, 2]
    lengths: Annotated[A, 1, WHOLE]


class ElmanForward(NamedTuple, Generic[A]):
    """The arrays of a simple recurrent network's forward pass; `loops.elman.forward_rows` explains them."""

    y: Annotated[A, 3]
    states: Annotated[A, 3]
    kept: Annotated[A, 3]
    x: Annotated[A, 3]
    bias: Annotated[A, 1]
    weight: Annotated[A, 2]
    weight_x: Annotated[A, 2]
    packed: Annotated[A, 1]
    packed_x: Annotated[A, 1]
    spares: Annotated[A, 2]
    kind: Annotated[A, 1, WHOLE]
    lengths: Annotated[A, 1, WHOLE]


class ElmanBackward(NamedTuple, Generic[A]):
    """The arrays of a simple recurrent network's backward pass; `loops.elman.backward_rows` explains them."""

    kept: Annotated[A, 3]
    end: Annotated[A, 2]
    dy: Annotated[A, 3]
    dh: Annotated[A, 2]
    dz: Annotated[A, 3]
    dx: Annotated[A, 3]
    now: Annotated[A, 3]
    d_bias: Annotated[A, 2]
    weight: Annotated[A, 2]
    weight_x: Annotated[A, 2]
    packed: Annotated[A, 1]
    packed_x: Annotated[A, 1]
    spares: Annotated[A, 2]
    kind: Annotated[A, 1, WHOLE]
    lengths: Annotated[A, 1, WHOLE]


class GruForward(NamedTuple, Generic[A]):
    """The arrays of a GRU's forward pass; `loops.gru` explains them."""

    gates: Annotated[A, 3]
    h: Annotated[A, 3]
    y: Annotated[A, 3]
    reset: Annotated[A, 3]
    bias_n: Annotated[A, 1]
    keep: Annotated[A, 1]
    weight: Annotated[A, 2]
    weight_n: Annotated[A, 2]
    packed: Annotated[A, 1]
    packed_n: Annotated[A, 1]
    spares: Annotated[A, 2]
    lengths: Annotated[A, 1, WHOLE]


class GruBackward(NamedTuple, Generic[A]):
    """The arrays of a GRU's backward pass; `loops.gru` explains them."""

    gates: Annotated[A, 3]
    h: Annotated[A, 3]
    dy: Annotated[A, 3]
    dh: Annotated[A, 2]
    dz: Annotated[A, 3]
    d_reset: Annotated[A, 2]
    d_bias: Annotated[A, 2]
    keep: Annotated[A, 1]
    weight: Annotated[A, 2]
    weight_n: Annotated[A, 2]
    packed: Annotated[A, 1]
    packed_n: Annotated[A, 1]
    spares: Annotated[A, 2]
    lengths: Annotated[A, 1, WHOLE]


class ProjectedForward(NamedTuple, Generic[A]):
    """The arrays of a projected LSTM's forward pass; `loops.lstm_projected.forward_rows` explains them."""

    gates: Annotated[A, 3]
    c: Annotated[A, 3]
    h: Annotated[A, 3]
    now: Annotated[A, 3]
    m: Annotated[A, 3]
    y: Annotated[A, 3]
    weight: Annotated[A, 2]
    weight_r: Annotated[A, 2]
    packed: Annotated[A, 1]
    packed_r: Annotated[A, 1]
    spares: Annotated[A, 2]
    peephole: Annotated[A, 2]
    lengths: Annotated[A, 1, WHOLE]


class ProjectedBackward(NamedTuple, Generic[A]):
    """The arrays of a projected LSTM's backward pass; `loops.lstm_projected.backward_rows` explains them."""

    gates: Annotated[A, 3]
    c: Annotated[A, 3]
    dy: Annotated[A, 3]
    dp: Annotated[A, 3]
    dm: Annotated[A, 3]
    dh: Annotated[A, 2]
    dc: Annotated[A, 2]
    dz: Annotated[A, 3]
    now: Annotated[A, 2]
    none: Annotated[A, 2]
    d_bias: Annotated[A, 2]
    d_peephole: Annotated[A, 3]
    weight: Annotated[A, 2]
    weight_r: Annotated[A, 2]
    packed: Annotated[A, 1]
    packed_r: Annotated[A, 1]
    spares: Annotated[A, 2]
    peephole: Annotated[A, 2]
    lengths: Annotated[A, 1, WHOLE]
