"""The programs of one generated token: a step of an LSTM language model for one row or for many, its head
(`gpu/code/one_row.py`), and the draw (`gpu/code/drawing.py`).

Who steps a model or draws from it asks `lacks(device)` first: None where these programs run.

Shapes: B rows, W numbers of the chain, V words, H units, G = 4 H, K = the padded inputs and states of a layer; N steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from thereafter.kernels.gpu import lacks
from thereafter.kernels.gpu.launch import Argument, Constants, launch

__all__ = [
    "MOST_WORDS",
    "TILE",
    "Places",
    "RowHeadProgram",
    "VectorTile",
    "begin_rows",
    "draw_rows",
    "lacks",
    "lstm_row",
    "lstm_rows",
    "segment_size",
]

PADDING = 16
"""Segments of the chain and rows of matrices are filled up to a multiple of so many numbers, for loads of 16 bytes."""
_MODULE = "one_row"
_COLUMNS = 1024
_UNITS = 512
_MOST_BLOCKS = 4096
MOST_WORDS = 1 << 15
"""A row's words are all in the registers of one block that draws."""
_WIDE = dict.fromkeys(("temperature", "top_p", "min_p", "penalty"), "fp64")


@dataclass(frozen=True)
class VectorTile:
    """What a block of a matrix-vector product reads at once: so many units (with four gates each) or words, so many
    columns."""

    units: int = 2
    words: int = 8
    columns: int = 1024
    warps: int = 4


TILE = VectorTile()


def segment_size(size: int) -> int:
    """So many numbers as a segment, filled up."""
    return -(-size // PADDING) * PADDING


def begin_rows(
    token_B: Tensor, table_RX: Tensor, chain_BW: Tensor, before_BW: Tensor, restart: int, start: int
) -> None:
    """x = E[token] into the chain; the states into `before`, or 0 after a line end."""
    rows, width = chain_BW.shape
    launch(
        _MODULE,
        "begin_rows",
        {
            "token": token_B, "table": table_RX, "chain": chain_BW, "before": before_BW, "restart": restart,
            "start": start, "width": width, "inputs": table_RX.shape[1],
        },
        {"COLUMNS": _COLUMNS},
        warps=4,
        blocks=rows * -(-width // _COLUMNS),
        aligned=(("width", PADDING), ("inputs", PADDING)),
    )  # fmt: skip


def lstm_row(
    token_1: Tensor,
    x_X: Tensor,
    h_H: Tensor,
    weight_GK: Tensor,
    bias_G: Tensor,
    cell_H: Tensor,
    out_H: Tensor,
    restart: int,
    tile: VectorTile = TILE,
) -> None:
    """h and c of one row, from x and the state before; `x_X` and `h_H` are padded segments."""
    units = cell_H.numel()
    inputs, states = x_X.numel(), h_H.numel()
    launch(
        _MODULE,
        "lstm_row",
        {
            "token": token_1, "x": x_X, "h": h_H, "weight": weight_GK, "bias": bias_G, "cell": cell_H, "out": out_H,
            "restart": restart, "units": units, "inputs": inputs, "states": states,
        },
        {"UNITS": tile.units, "COLUMNS": tile.columns},
        warps=tile.warps,
        blocks=-(-units // tile.units),
        aligned=(("inputs", PADDING), ("states", PADDING)),
    )  # fmt: skip


def lstm_rows(token_B: Tensor, z_BG: Tensor, bias_G: Tensor, cell_BH: Tensor, out_BH: Tensor, restart: int) -> None:
    """h and c of every row from the products z = [W | U] [x; h]."""
    rows, units = cell_BH.shape
    launch(
        _MODULE,
        "lstm_rows",
        {
            "token": token_B, "z": z_BG, "bias": bias_G, "cell": cell_BH, "out": out_BH, "restart": restart,
            "units": units, "out_row": out_BH.stride(0),
        },
        {"UNITS": _UNITS},
        warps=4,
        blocks=rows * -(-units // _UNITS),
    )  # fmt: skip


class RowHeadProgram:
    """log p of all words for one row: logits with partial sums of the softmax, then their norm."""

    def __init__(self, matrix_VH: Tensor, bias_V: Tensor, tile: VectorTile = TILE) -> None:
        """`matrix_VH`: rows filled up with zeros; `bias_V`: float32."""
        while len(matrix_VH) > _MOST_BLOCKS * tile.words:  # every block of the second program reads all their sums
            tile = replace(tile, words=2 * tile.words, columns=max(tile.columns // 2, 64))
        self._matrix_VH, self._bias_V, self._tile = matrix_VH, bias_V, tile
        self._blocks = -(-len(matrix_VH) // tile.words)
        self._most_P, self._total_P = bias_V.new_zeros(self._blocks), bias_V.new_zeros(self._blocks)

    def __call__(self, h_H: Tensor, logp_V: Tensor) -> None:
        """Writes log p, float32."""
        words, states = self._matrix_VH.shape
        partial = {"most": self._most_P, "total": self._total_P}
        launch(
            _MODULE,
            "head_row",
            {"h": h_H, "matrix": self._matrix_VH, "bias": self._bias_V, "logits": logp_V, **partial, "words": words,
             "states": states},
            {"WORDS": self._tile.words, "COLUMNS": self._tile.columns},
            warps=self._tile.warps,
            blocks=self._blocks,
                aligned=(("states", PADDING),),
        )  # fmt: skip
        launch(
            _MODULE,
            "normalise_row",
            {"logits": logp_V, **partial, "words": words, "blocks": self._blocks},
            {"WORDS": _COLUMNS, "BLOCKS": 1 << (self._blocks - 1).bit_length()},
            warps=4,
            blocks=-(-words // _COLUMNS),
        )


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


def draw_rows(
    logp_BV: Tensor,
    places: Places,
    temperature: float,
    top_k: int | None,
    top_p: float,
    min_p: float,
    repetition_penalty: float,
) -> None:
    """One token of every row, drawn as `decoding.sampling.Warping` says."""
    rows, words = logp_BV.shape
    top_k = 0 if top_k is None or top_k >= words else top_k
    arguments: dict[str, Argument] = {
        "logp": logp_BV, "u": places.u_NB, "place": places.place_B, "drawn": places.drawn_N2B, "token": places.token_B,
        "seen": places.seen_BV, "forbidden": places.forbidden_V, "temperature": temperature, "top_p": top_p,
        "min_p": min_p, "penalty": repetition_penalty, "top_k": top_k, "words": words, "rows": rows,
    }  # fmt: skip
    filled = 1 << max(words - 1, 1).bit_length()
    constants: Constants = {
        "GREEDY": temperature == 0,
        "TOP_K": top_k > 0,
        "TOP_P": top_p < 1,
        "MIN_P": min_p > 0,
        "PENALTY": places.seen_BV is not None,
        "FORBIDDEN": places.forbidden_V is not None,
        "WORDS": filled,
    }
    warps = min(32, max(4, filled // 1024))
    launch("drawing", "draw_row", arguments, constants, warps=warps, blocks=rows, kinds=_WIDE)
