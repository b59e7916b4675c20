"""The launches of `code/drawing.py`: the next token of every row, drawn on the GPU.

Shapes: B rows, V words, N steps.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from thereafter.kernels.gpu.launch import Argument, Constants, launch

MOST_WORDS = 1 << 15
"""A row's words are all in the registers of one block."""
_KINDS = dict.fromkeys(("temperature", "top_p", "min_p", "penalty"), "fp64")


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
    arguments: dict[str, Argument] = {
        "logp": logp_BV, "u": places.u_NB, "place": places.place_B, "drawn": places.drawn_N2B, "token": places.token_B,
        "seen": places.seen_BV, "forbidden": places.forbidden_V, "temperature": cuts.temperature, "top_p": cuts.top_p,
        "min_p": cuts.min_p, "penalty": cuts.penalty, "top_k": top_k, "words": words, "rows": rows,
    }  # fmt: skip
    filled = 1 << max(words - 1, 1).bit_length()
    constants: Constants = {
        "GREEDY": cuts.temperature == 0,
        "TOP_K": top_k > 0,
        "TOP_P": cuts.top_p < 1,
        "MIN_P": cuts.min_p > 0,
        "PENALTY": places.seen_BV is not None,
        "FORBIDDEN": places.forbidden_V is not None,
        "WORDS": filled,
    }
    warps = min(32, max(4, filled // 1024))
    launch("drawing", "draw_row", arguments, constants, warps=warps, blocks=rows, kinds=_KINDS)
