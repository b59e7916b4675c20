"""Weights in fewer bytes: `float16`, or `int8` with one scale for each row of a matrix.

    s_r = max_c |W_rc| / 127        Q_rc = round(W_rc / s_r)        W'_rc = s_r Q_rc        |W'_rc - W_rc| <= s_r / 2

W is [R rows, C columns] (further axes count as columns), Q is int8, s is float32 and stands beside Q in the file under
the name of W with `::scale` behind it (symmetric quantisation, one scale for each output: Jacob et al. 2018). Vectors
and small matrices are stored as float16, of which a number is off by at most one part in 2,048, or by 3e-8 where that
is more; where float16 cannot hold them they stay as they are. `config.toml` names the form (`[weights] dtype`); what is
read back is float32.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import FormatError, OptionError, nearest

DTYPES = ("float32", "float16", "int8")
SCALE = "::scale"
LEAST, LEAST_COLUMNS = 512, 8
"""The fewest numbers, and numbers in a row, of a matrix that is stored as int8: below them scales cost too much."""
_STEPS = 127
_HALF = float(np.finfo(np.float16).max)
_LARGEST = float(np.finfo(np.float32).max) / 128

Arrays = Mapping[str, NDArray[np.generic]]
TABLE = "weights"
"""What a configuration calls the form that its weights are stored in; without it they are stored as they are."""


def check_dtype(dtype: str) -> None:
    """Refuse a form that weights are not stored in."""
    if dtype not in DTYPES:
        raise OptionError(f"dtype is {dtype!r}; expected one of {', '.join(DTYPES)}; {nearest(str(dtype), [*DTYPES])}")


def narrowed(arrays: Arrays, dtype: str) -> dict[str, NDArray[np.generic]]:
    """The weights as they are stored in a form; those that are not float32 stay as they are."""
    check_dtype(dtype)
    stored: dict[str, NDArray[np.generic]] = {}
    for name, array in arrays.items():
        if dtype == "float32" or array.dtype != np.float32:
            stored[name] = array
            continue
        if not np.isfinite(array).all():
            raise OptionError(
                f"the weights {name!r} are not all finite, and {dtype} cannot hold them; expected numbers; try "
                "dtype='float32'"
            )
        if dtype == "int8" and array.ndim > 1 and array.size >= LEAST and array[0].size >= LEAST_COLUMNS:
            stored[name], stored[name + SCALE] = quantised(array.astype(np.float32, copy=False))
        else:
            stored[name] = array.astype(np.float16) if np.abs(array).max(initial=0) <= _HALF else array
    return stored


def describe_loss(before: float, after: float, dtype: str, size: int) -> str:
    """What a form costs on a text, in bits per byte, and what it weighs, in bytes."""
    return (
        f"weights as {dtype}, {size:,} bytes: {after:.4f} bits per byte, {before:.4f} before they were rounded "
        f"({100 * (after / before - 1):+.2f} %)"
    )


def quantised(weight: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """A matrix [R, ...] as int8 of its shape and the scale of each row, [R]; a row of zeros has the scale 0."""
    rows_RC = weight.reshape(len(weight), -1)
    scale_R = np.abs(rows_RC).max(axis=1) / np.float32(_STEPS)
    steps_RC = np.round(rows_RC / np.where(scale_R > 0, scale_R, 1)[:, None])
    return np.clip(steps_RC, -_STEPS, _STEPS).astype(np.int8).reshape(weight.shape), scale_R.astype(np.float32)


def widened(arrays: Arrays) -> dict[str, NDArray[np.generic]]:
    """What `narrowed` stored, as float32; FormatError for scales that no `narrowed` has written."""
    wide: dict[str, NDArray[np.generic]] = {}
    for name, array in arrays.items():
        if name.endswith(SCALE):
            owner = arrays.get(name.removesuffix(SCALE))
            if owner is None or owner.dtype != np.int8:
                raise FormatError(
                    f"the scales {name!r} belong to no int8 weights; expected some beside them; try saving again"
                )
        elif array.dtype == np.int8:
            scale_R = _scale_of(name, array, arrays)
            wide[name] = array.astype(np.float32) * scale_R.reshape(-1, *(1,) * (array.ndim - 1))
        else:
            wide[name] = array.astype(np.float32) if array.dtype == np.float16 else array
    return wide


def _scale_of(name: str, array: NDArray[np.generic], arrays: Arrays) -> NDArray[np.float32]:
    scale = arrays.get(name + SCALE)
    if scale is None or array.ndim < 2:
        raise FormatError(f"the int8 weights {name!r} have no scales; expected one for each row; try saving again")
    if scale.dtype != np.float32 or scale.shape != array.shape[:1]:
        raise FormatError(
            f"the scales of {name!r} are {scale.shape} of {scale.dtype}; expected {array.shape[:1]} of float32; try "
            "saving again"
        )
    scale_R = scale.astype(np.float32, copy=False)
    if not ((scale_R >= 0) & (scale_R <= _LARGEST)).all():  # NaN is neither
        raise FormatError(f"the scales of {name!r} are not all numbers from 0 to {_LARGEST:.1e}; try saving again")
    return scale_R
