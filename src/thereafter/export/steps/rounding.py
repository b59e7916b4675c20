"""Matrices in 16 or 8 bits: whole numbers with a scale for each row, or for each 32 numbers of a row.

    q = round(w / s),   s = max |w| of the row, or of its part, / 32767 (or 127)

At 16 bits with a scale for 32 numbers this is several times nearer to a trained network than float16 is, whose steps
are a share of each number and not of the largest; a browser has an array of its own for it. (Jacob et al. 2018,
Quantization and training of neural networks for efficient integer-arithmetic-only inference, with one scale a matrix.)

Shapes: R rows, C columns, N parts of a row (1, or C / 32 rounded up).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from thereafter.export.parts import Array
from thereafter.export.steps.program import Program

PART = 32
"""How many numbers of a row share a scale in 16 bits."""


@dataclass(frozen=True)
class Rounded:
    """A matrix `numbers` [R, C] of int16 or int8, times `scale` [R, N]."""

    numbers: NDArray[np.signedinteger]
    scale: Array

    def values(self) -> Array:
        """The matrix it stands for."""
        return self.numbers.astype(np.float32) * spread(self.scale, self.numbers.shape[1])


def rounded(matrix: Array, bits: int) -> Rounded:
    """The nearest matrix of 8 bits with a scale for each row, or of 16 with one for each 32 numbers.

    >>> rounded(np.array([[0.5, -1.0]], dtype=np.float32), 8).numbers.tolist()
    [[64, -127]]
    """
    columns = matrix.shape[1]
    begins = [0] if bits == 8 else list(range(0, columns, PART))
    most = 127 if bits == 8 else 32767
    largest = np.maximum.reduceat(np.abs(matrix), begins, axis=1).astype(np.float64)
    scale = np.where(largest == 0.0, 1.0, largest / most).astype(np.float32)
    numbers = np.clip(np.rint(matrix / spread(scale, columns)), -most, most)
    return Rounded(numbers.astype(np.int8 if bits == 8 else np.int16), scale)


def spread(scale: Array, columns: int) -> Array:
    """The scale of each number, [R, C] or [R, 1], from those of its parts."""
    return scale if scale.shape[1] == 1 else np.repeat(scale, PART, axis=1)[:, :columns]


def as_stored(program: Program, bits: int) -> Program:
    """The program with every matrix as it comes back from so many bits; 32 changes nothing."""
    if bits == 32:
        return program
    return replace(
        program, matrices={name: rounded(matrix, bits).values() for name, matrix in program.matrices.items()}
    )
