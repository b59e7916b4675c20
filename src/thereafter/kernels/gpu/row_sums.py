"""`add_rows` of `kernels/rows.py` on a GPU: one launch (code/row_sums.py), after a sort where the index is long.

Shapes: N rows, R rows of the table, E columns.
"""

from __future__ import annotations

import torch
from torch import Tensor

from thereafter.kernels.gpu.launch import FLOATS, Argument, Constants, launch, multiples_in

SHORT, _FEW = 2048, 10_000
"""Up to so many indices, and so many blocks, every block searches all indices: sorting them takes longer."""
_SEARCH = 1024
_TILES = {"searched": (128, 32, 4), "wide": (64, 64, 4), "thin": (128, 32, 4)}
"""Rows and columns at once, and warps: the fastest on an H200 (`tests/kernels/gpu_row_sums_check.py --sweep`)."""


def takes(table_RE: Tensor, rows_NE: Tensor) -> bool:
    """Whether the program can add these: sums are in float32, and it counts to 2^31."""
    fits = max(table_RE.numel(), rows_NE.numel()) < 2**31
    return fits and table_RE.dtype in FLOATS and rows_NE.dtype in FLOATS and table_RE.is_contiguous()


def add_rows_on_gpu(
    table_RE: Tensor,
    index_N: Tensor,
    rows_NE: Tensor,
    *,
    short: int | None = None,
    tile: tuple[int, int, int] | None = None,
) -> None:
    """table[index_n] += rows_n, in place.

    For measurements: `short`, up to how many indices are searched; `tile`, rows and columns at once, and warps.
    """
    count, size = rows_NE.shape
    if not count or not size:
        return
    rows_NE = rows_NE if rows_NE.stride(1) == 1 else rows_NE.contiguous()
    index_N = index_N.to(torch.int32).contiguous()
    rows, columns, warps = tile or _TILES["searched"]
    order_N, blocks = index_N, count * -(-size // columns)
    is_long = count > SHORT or blocks > _FEW if short is None else count > short
    if is_long:
        index_N, order_N = torch.sort(index_N, stable=True)
        order_N = order_N.to(torch.int32)
        rows, columns, warps = tile or _TILES["wide" if size >= 64 else "thin"]
        blocks = count * -(-size // columns)
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
    aligned = multiples_in({name: value for name, value in arguments.items() if name != "count"})
    launch("row_sums", "add_rows", arguments, constants, warps=warps, blocks=blocks, aligned=aligned)
