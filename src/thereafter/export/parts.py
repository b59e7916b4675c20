"""The parts of a plan: a trained model as plain float32 arrays, without torch and without classes of the model.

Shapes: V words, R = V + 1 rows of the word vectors (`<s>` is the last), E word vector, H features, I inputs of a cell,
S its hidden size, O its outputs, G = S times its gates, W tokens of a window, C context, M n-grams.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thereafter.base.config import Table
from thereafter.cells.options import OptionValue

Array = NDArray[np.float32]


@dataclass(frozen=True)
class WordingPlan:
    """The words of a model, and how they become text.

    `size` is V. A sequence begins with the fresh state and the token `start` (= V), which is read and never predicted.
    `restart`: the token that stands for a line end where every line starts afresh: whoever reads it forgets everything
    and reads `start` in its place; None where a text is read straight on. `pieces`: the bytes that each token appends.
    `forms`: its spelling in the vocabulary. `tokenizer`: the whole tokenizer as JSON, "name" being one of TOKENIZERS.
    `lower`, `letters_only`: how a text is normalised before it is encoded.
    """

    size: int
    start: int
    restart: int | None
    unknown: int | None
    line_end: int | None
    tokenizer: Table
    pieces: tuple[bytes, ...]
    forms: tuple[str, ...]
    lower: bool
    letters_only: bool

    @property
    def tokens(self) -> str:
        """The name of the tokenizer."""
        return str(self.tokenizer["name"])


@dataclass(frozen=True)
class StatePart:
    """One array of the state: [B, *shape], where a size of 0 grows with the text. `fresh` is what fills it at first."""

    name: str
    shape: tuple[int, ...]
    whole: bool = False
    """Whether it holds whole numbers (int64), not float32."""
    fresh: float = 0.0


@dataclass(frozen=True)
class LanePlan:
    """One recurrent cell.

    `cell`: its name in `cells.CELLS`; `options`: all of its options; `gates`: the row blocks of its weights, in order;
    `weights`: by the names and in the shapes of `Cell.shapes`, such as weight_ih [G, I], weight_hh [G, O], bias_ih [G].
    The classes in `cells/` say what is computed. `fields`: the sizes of its state fields, {"h": O, "c": S}. `initial`:
    the state before the first step where it was learned, else empty and 0.
    """

    name: str
    cell: str
    options: Mapping[str, OptionValue]
    gates: tuple[str, ...]
    input_size: int
    hidden_size: int
    output_size: int
    weights: Mapping[str, Array]
    fields: Mapping[str, int]
    reverse: bool
    initial: Mapping[str, Array]

    def decay_and_scale(self) -> tuple[Array, Array]:
        """a and the factor of W x in a diagonal cell's h_t = a h_{t-1} + factor W x, worked out in 64 bits."""
        rate = np.exp(self.weights["log_rate"].astype(np.float64))
        return np.exp(-rate).astype(np.float32), np.sqrt(-np.expm1(-2 * rate)).astype(np.float32)

    def state(self) -> list[StatePart]:
        """Its state, under the names h_l0, c_l0, ..."""
        return [StatePart(f"{field}_{self.name}", (size,)) for field, size in self.fields.items()]


@dataclass(frozen=True)
class LayerPlan:
    """A layer of a stack: one cell, or one for each direction, whose outputs stand side by side.

    `join`: None, "residual" (y + x) or "highway" (t y + (1 - t) x, t = sigmoid(`gate_weight` x + `gate_bias`)).
    """

    lanes: tuple[LanePlan, ...]
    join: str | None
    gate_weight: Array | None
    gate_bias: Array | None

    @property
    def lane(self) -> LanePlan:
        """The cell of a layer in one direction."""
        return self.lanes[0]

    @property
    def output_size(self) -> int:
        return sum(lane.output_size for lane in self.lanes)


@dataclass(frozen=True)
class SoftmaxPlan:
    """log p = log softmax(W f + b): `matrix` [V, H], `bias` [V]. `tied`: the matrix is the first V word vectors."""

    matrix: Array
    bias: Array
    tied: bool


@dataclass(frozen=True)
class AdaptivePlan:
    """The adaptive softmax: p(w) = p_head(w) in the short list, p_head(cluster i) p_i(w) for the others.

    `matrix` [S + K, H], `bias` [S + K]: the short list of S words and the K clusters. `down[i]` [H_i, H], `out[i]`
    [words of cluster i, H_i]: p_i = softmax(out_i down_i f). These are p of ranks, one after the other; the word w has
    the rank `rank[w]`, [V].
    """

    matrix: Array
    bias: Array
    down: tuple[Array, ...]
    out: tuple[Array, ...]
    rank: NDArray[np.int64]


HeadPlan = SoftmaxPlan | AdaptivePlan


@dataclass(frozen=True)
class BlockPlan:
    """A Transformer block; each linear map is (weight [out, in], bias [out]), each norm (gain [H], shift [H]).

    `into` gives queries, keys and values side by side, [3 H, H], each of them head by head. `widen`, gelu,
    `narrow` are the feed-forward layer; `approximate`: gelu by tanh, as GPT-2 has it, and not by erf.
    """

    into: tuple[Array, Array]
    out: tuple[Array, Array]
    widen: tuple[Array, Array]
    narrow: tuple[Array, Array]
    norm_attention: tuple[Array, Array]
    norm_forward: tuple[Array, Array]
    approximate: bool = False


EPSILON = 1e-5
"""That of every layer norm."""
