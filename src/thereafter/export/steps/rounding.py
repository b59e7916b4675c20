"""Matrices in 16 or 8 bits: whole numbers with a scale for each row.

    q = round(w / s),   s = max |w| of the row / 32766 (or 127)

At 16 bits this is about six times nearer to the weights of a network than float16 is, whose steps are a share of each
number and not of the largest, and a browser has an array of its own for it. (Jacob et al. 2018, Quantization and
training of neural networks for efficient integer-arithmetic-only inference; there one scale serves a whole matrix.)

Shapes: R rows, C columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from thereafter.export.parts import Array
from thereafter.export.steps.program import Program


@dataclass(frozen=True)
class Rounded:
    """A matrix `numbers` [R, C] of int16 or int8, times `scale` [R]."""

    numbers: NDArray[np.signedinteger]
    scale: Array

    def values(self) -> Array:
        """The matrix it stands for."""
        return self.numbers.astype(np.float32) * self.scale[:, None]


def rounded(matrix: Array, bits: int) -> Rounded:
    """The nearest matrix of so many bits, 8 or 16.

    >>> rounded(np.array([[0.5, -1.0]], dtype=np.float32), 8).numbers.tolist()
    [[64, -127]]
    """
    kind = np.int8 if bits == 8 else np.int16
    most = 127 if bits == 8 else 127 * 258  # so that what was rounded to 8 bits before is exact in 16
    scale = np.abs(matrix).max(1, initial=0.0).astype(np.float64) / most
    scale[scale == 0.0] = 1.0
    scale32 = scale.astype(np.float32)
    numbers = np.clip(np.rint(matrix / scale32[:, None]), -most, most).astype(kind)
    return Rounded(numbers, scale32)


def as_stored(program: Program, bits: int) -> Program:
    """The program with every matrix as it comes back from so many bits; 32 changes nothing."""
    if bits == 32:
        return program
    return replace(
        program, matrices={name: rounded(matrix, bits).values() for name, matrix in program.matrices.items()}
    )
