"""The launches of `code/drawing.py`: the next token of every row, drawn on the GPU.

Shapes: B rows, V words, N steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from thereafter.kernels.gpu.compiling import Wanted
from thereafter.kernels.gpu.driver import Loaded
from thereafter.kernels.gpu.launch import CODE, capability, loaded

MOST_WORDS = 1 << 15
"""A row's words are all in the registers of one block."""
POINTERS = (
    ("logp", "*fp32"), ("u", "*fp64"), ("place", "*i32"), ("drawn", "*fp64"), ("token", "*i32"), ("seen", "*u8"),
    ("forbidden", "*u8"),
)  # fmt: skip
NUMBERS = (
    ("temperature", "fp64"), ("top_p", "fp64"), ("min_p", "fp64"), ("penalty", "fp64"), ("top_k", "i32"),
    ("words", "i32"), ("rows", "i32"),
)  # fmt: skip


@dataclass(frozen=True)
class Cuts:
    """How distributions are reshaped before a draw, as `decoding.warping.Warping` says."""

    temperature: float
    top_k: int | None
    top_p: float
    min_p: float
    penalty: float


@dataclass(frozen=True)
class Places:
    """Where the program reads and writes, besides log p: uniform numbers [N, B], the place of each row among them [B],
    what is drawn [N, 2, B], the tokens [B]; where they are used, the words seen [B, V] and those forbidden [V]."""

    u_NB: Tensor
    place_B: Tensor
    drawn_N2B: Tensor
    token_B: Tensor
    seen_BV: Tensor | None = None
    forbidden_V: Tensor | None = None


def draw_rows(logp_BV: Tensor, places: Places, cuts: Cuts) -> None:
    """One token of every row."""
    rows, words = logp_BV.shape
    top_k = 0 if cuts.top_k is None or cuts.top_k >= words else cuts.top_k
    flags = (
        cuts.temperature == 0,
        top_k > 0,
        cuts.top_p < 1,
        cuts.min_p > 0,
        places.seen_BV is not None,
        places.forbidden_V is not None,
    )
    unused = places.token_B.view(torch.uint8)  # stands where a program reads nothing
    arguments: list[Tensor | int | float] = [
        logp_BV, places.u_NB, places.place_B, places.drawn_N2B, places.token_B,
        unused if places.seen_BV is None else places.seen_BV,
        unused if places.forbidden_V is None else places.forbidden_V,
        cuts.temperature, cuts.top_p, cuts.min_p, cuts.penalty, top_k, words, rows,
    ]  # fmt: skip
    start(flags, words, rows, arguments)


def start(flags: tuple[bool, ...], words: int, rows: int, arguments: list[Tensor | int | float]) -> None:
    """Put a launch into the stream of now."""
    logp = arguments[0]
    if isinstance(logp, Tensor):
        program = _program(flags, 1 << max(words - 1, 1).bit_length(), logp.get_device())
        stream = int(torch.cuda.current_stream(logp.device).cuda_stream)
        program.launch(rows, arguments, together=False, stream=stream)


@lru_cache(maxsize=256)
def _program(flags: tuple[bool, ...], places: int, device: int) -> Loaded:
    names = ("GREEDY", "TOP_K", "TOP_P", "MIN_P", "PENALTY", "FORBIDDEN")
    constants = (*zip(names, flags, strict=True), ("WORDS", places))
    warps = min(32, max(4, places // 1024))
    module = f"{CODE}.drawing"
    return loaded(Wanted(module, "draw_row", (*POINTERS, *NUMBERS), constants, warps, capability(device)), device)
