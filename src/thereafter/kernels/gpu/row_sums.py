"""`kernels/row_sums.py` on a GPU: one launch (code/row_sums.py), after a sort where the index is long.

Shapes: N rows, R rows of the table, E columns.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from thereafter.kernels.gpu.launch import Argument, Constants, launch

SHORT = 2048
"""Up to so many indices every block searches all of them, which takes less time than to sort them."""
_ROWS, _COLUMNS, _SEARCH, _WARPS = 64, 32, 1024, 4
_TYPES = (torch.float32, torch.bfloat16, torch.float16)


def takes(table_RE: Tensor, rows_NE: Tensor) -> bool:
    """Whether the program can add these: sums are in float32, and it counts to 2^31."""
    fits = max(table_RE.numel(), rows_NE.numel()) < 2**31
    return fits and table_RE.dtype in _TYPES and rows_NE.dtype in _TYPES and table_RE.is_contiguous()


def add_rows_on_gpu(
    table_RE: Tensor, index_N: Tensor, rows_NE: Tensor, *, short: int = SHORT, tile: tuple[int, int, int] | None = None
) -> None:
    """table[index_n] += rows_n, in place. `tile`: rows and columns at once, and warps, for measurements."""
    count, size = rows_NE.shape
    if not count or not size:
        return
    rows_NE = rows_NE if rows_NE.stride(1) == 1 else rows_NE.contiguous()
    index_N = index_N.to(torch.int32).contiguous()
    order_N, is_long = index_N, count > short
    if is_long:
        index_N, order_N = torch.sort(index_N, stable=True)
        order_N = order_N.to(torch.int32)
    rows, columns, warps = tile or (_ROWS, _COLUMNS, _WARPS)
    arguments: dict[str, Argument] = {
        "table": table_RE,
        "index": index_N,
        "order": order_N,
        "rows": rows_NE,
        "count": count,
        "size": size,
        "row_stride": rows_NE.stride(0),
    }
    constants: Constants = {"SORTED": is_long, "ROWS": rows, "COLUMNS": columns, "SEARCH": _SEARCH}
    # where a row begins, as far as the compiler may know it
    begins = {name: value.data_ptr() for name, value in arguments.items() if isinstance(value, Tensor)}
    begins |= {"size": size, "row_stride": rows_NE.stride(0)}
    aligned = tuple([(key, part) for key, value in begins.items() if value > 0 and (part := math.gcd(16, value)) > 1])
    blocks = count * -(-size // columns)
    launch("row_sums", "add_rows", arguments, constants, warps=warps, blocks=blocks, together=False, aligned=aligned)
