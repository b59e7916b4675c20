"""A trained language model as a plan: plain arrays with names, which every target writes in its own way.

There is a plan for each generation of models. `facts_of` is what a program must know of one to feed it: its state, its
words, how they become text.

Shapes: V words, R = V + 1 rows of the word vectors (`<s>` is the last), E word vector, H features, I inputs of a cell,
S its hidden size, O its outputs, G = S times its gates, W tokens of a window, C context, M n-grams.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from thereafter.base.config import Table
from thereafter.cells import CELLS
from thereafter.cells.base import Cell
from thereafter.cells.options import OptionValue
from thereafter.errors import ExportError
from thereafter.layers.attention import Block
from thereafter.layers.heads import AdaptiveSoftmax, Softmax
from thereafter.layers.inputs import Lane
from thereafter.layers.recurrent import Recurrent
from thereafter.models.any_model import AnyModel
from thereafter.models.feedforward import AverageModel, TransformerModel, WindowModel
from thereafter.models.recurrent import RecurrentModel
from thereafter.ngram.model import NgramModel
from thereafter.text.tokenizers.base import Tokenizer

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


CELLS_KNOWN = ("elman", "lstm", "gru", "mingru", "minlstm", "diagonal")


class Exportable(Protocol):
    """What a plan is made of: a `LanguageModel`, or the `Trained` inside it."""

    @property
    def model(self) -> AnyModel: ...
    @property
    def tokenizer(self) -> Tokenizer: ...
    @property
    def config(self) -> Table: ...


def plan_of(lm: Exportable) -> Plan:
    """The plan of a trained model; ExportError says why there is none."""
    model, kind = lm.model, str(lm.config["model"])
    wording = wording_of(lm)
    if isinstance(model, NgramModel):
        return _ngram(model, kind, wording)
    if not isinstance(model, RecurrentModel | WindowModel | AverageModel | TransformerModel):
        raise ExportError(
            f"a model of kind {kind!r} cannot be exported: it is no single trained network or n-gram; "
            "try exporting the models it is made of"
        )
    common = (kind, wording, array(model.embedding.weight), head_of(model.head))
    if isinstance(model, RecurrentModel):
        return RecurrentPlan(*common, layers_of(model.layers))
    if isinstance(model, WindowModel):
        hidden = (array(model.hidden.weight), array(model.hidden.bias))
        return WindowPlan(*common, model.settings.window, *hidden, model.settings.direct)
    if isinstance(model, AverageModel):
        return AveragePlan(*common, model.settings.window)
    settings = model.settings
    return TransformerPlan(
        *common,
        positions=array(model.positions.table_CH),
        heads=settings.heads,
        context=settings.context,
        pre=settings.norm == "pre",
        blocks=tuple(block_of(block) for block in model.blocks if isinstance(block, Block)),
        norm=norm_of(model.norm) if isinstance(model.norm, nn.LayerNorm) else None,
    )


def wording_of(lm: Exportable) -> WordingPlan:
    """The vocabulary of a model and its tokenizer."""
    own, about = lm.tokenizer, lm.config["text"]
    size = len(own.vocabulary)
    return WordingPlan(
        size=size,
        start=own.start_id,
        restart=lm.model.facts.restart,
        unknown=own.unknown_id,
        line_end=own.line_end_id,
        tokenizer=own.to_json(),
        pieces=tuple(own.bytes_of(token) for token in range(size)),
        forms=tuple(own.vocabulary.forms),
        lower=bool(about["lower"]),
        letters_only=bool(about["letters_only"]),
    )


def layers_of(stack: Recurrent) -> tuple[LayerPlan, ...]:
    """The layers of a stack of cells, dropout left out; ExportError for a cell that is not known here."""
    named = dict(stack.named_parameters())
    layers = []
    for index, lanes in enumerate(stack.layers):
        weight, bias = (named.get(f"highway_{part}_l{index}") for part in ("weight", "bias"))
        layers.append(
            LayerPlan(
                lanes=tuple(_lane(stack, lane, named) for lane in lanes),
                join=stack.connect if index else None,
                gate_weight=None if weight is None else array(weight),
                gate_bias=None if bias is None else array(bias),
            )
        )
    return tuple(layers)


def _lane(stack: Recurrent, lane: Lane, named: Mapping[str, Tensor]) -> LanePlan:
    cell = lane.cell
    if cell.name not in CELLS_KNOWN:
        raise ExportError(
            f"the cell {cell.name!r} has no exported form; expected one of {', '.join(CELLS_KNOWN)}; "
            "try a model with one of these"
        )
    options: dict[str, OptionValue] = dict(vars(cell.options))
    return LanePlan(
        name=lane.name,
        cell=cell.name,
        options={**options, "bias": cell.bias},
        gates=cell.blocks,
        input_size=cell.input_size,
        hidden_size=cell.hidden_size,
        output_size=cell.output_size,
        weights={name: array(weight) for name, weight in stack.lane_weights(lane).items()},
        fields=cell.state_sizes(),
        reverse=lane.reverse,
        initial={
            field: array(named[name])
            for field in cell.state_sizes()
            if (name := f"initial_{field}_{lane.name}") in named
        },
    )


def cell_of(lane: LanePlan) -> Cell:
    """The cell of a lane again, from its name and its options."""
    cell: Cell = CELLS.load(lane.cell)(lane.input_size, lane.hidden_size, **lane.options)
    return cell


def head_of(head: object) -> HeadPlan:
    """A head over words."""
    if isinstance(head, Softmax):
        tied = "weight" not in dict(head.named_parameters())
        return SoftmaxPlan(array(head.matrix[: head.words]), array(head.bias), tied)
    if isinstance(head, AdaptiveSoftmax):
        rank = head.rank_V.detach().cpu().numpy().astype(np.int64)
        down, out = (tuple(map(array, part)) for part in (head.down, head.out))
        return AdaptivePlan(array(head.weight), array(head.bias), down, out, rank)
    raise ExportError(f"the head {type(head).__name__} has no exported form; expected a softmax over words")


def block_of(block: Block) -> BlockPlan:
    """The weights of one Transformer block."""
    attention = block.attention
    return BlockPlan(
        into=linear_of(attention.into),
        out=linear_of(attention.out),
        widen=linear_of(block.widen),
        narrow=linear_of(block.narrow),
        norm_attention=norm_of(block.norm_attention),
        norm_forward=norm_of(block.norm_forward),
        approximate=block.approximate == "tanh",
    )


def linear_of(linear: nn.Linear) -> tuple[Array, Array]:
    """Weight and bias; a bias of zeros where there is none."""
    bias = linear.weight.new_zeros(len(linear.weight)) if linear.bias is None else linear.bias
    return array(linear.weight), array(bias)


def norm_of(norm: nn.LayerNorm) -> tuple[Array, Array]:
    """Gain and shift; ExportError for one whose epsilon no target has."""
    if norm.eps != EPSILON:
        raise ExportError(
            f"the layer norms of this model have an epsilon of {norm.eps:g}; what is exported has {EPSILON:g}; "
            "try an exporter of the library that the checkpoint comes from"
        )
    return array(norm.weight), array(norm.bias)


def _ngram(model: NgramModel, kind: str, wording: WordingPlan) -> NgramPlan:
    tables = model.tables
    first = int(model.start(1).nodes[0])
    return NgramPlan(kind, wording, tables.order, **vars(tables), first=first, uniform=model.uniform)


def array(tensor: Tensor) -> Array:
    """A tensor as float32 in the machine's memory."""
    own: Callable[[], Array] = tensor.detach().float().cpu().contiguous().numpy
    return own()


@dataclass(frozen=True)
class _NetworkPlan:
    """What every network over words has: its word vectors, and the head that gives log p."""

    kind: str
    wording: WordingPlan
    embedding: Array
    head: HeadPlan


@dataclass(frozen=True)
class RecurrentPlan(_NetworkPlan):
    """x = `embedding`[token], through the layers, log p by the head."""

    layers: tuple[LayerPlan, ...]

    def state(self) -> list[StatePart]:
        return [part for layer in self.layers for lane in layer.lanes for part in lane.state()]


@dataclass(frozen=True)
class WindowPlan(_NetworkPlan):
    """f = tanh(`matrix` [x_{t-W+1}; ...; x_t] + `bias`), then the head; with `direct` it sees [f; x...].

    The state is the window of the last W tokens, oldest first, full of `<s>` at first.
    """

    window: int
    matrix: Array
    bias: Array
    direct: bool

    def state(self) -> list[StatePart]:
        return [StatePart("tokens", (self.window,), whole=True, fresh=float(self.wording.start))]


@dataclass(frozen=True)
class AveragePlan(_NetworkPlan):
    """f = the mean of the vectors of the last W tokens read, of fewer at the beginning: -1 stands for none."""

    window: int

    def state(self) -> list[StatePart]:
        return [StatePart("tokens", (self.window,), whole=True, fresh=-1.0)]


@dataclass(frozen=True)
class TransformerPlan(_NetworkPlan):
    """x = sqrt(H) `embedding`[token] + `positions`[position], blocks, the last norm (pre-norm only), the head.

    `pre`: x + f(norm(x)), else norm(x + f(x)). The state: the tokens in sight [B, N], and for each block the keys and
    values [B, K, N, D]. Before a token is read where N = C, the last C // 2 tokens are read again from position 0 into
    a fresh state, the rest is forgotten; so a state never holds more than C tokens.
    """

    positions: Array
    heads: int
    context: int
    pre: bool
    blocks: tuple[BlockPlan, ...]
    norm: tuple[Array, Array] | None

    @property
    def scale(self) -> float:
        """What word vectors are multiplied by."""
        return math.sqrt(self.embedding.shape[1])

    def state(self) -> list[StatePart]:
        size = self.embedding.shape[1] // self.heads
        names = [f"{kind}_{number}" for number in range(len(self.blocks)) for kind in ("keys", "values")]
        return [StatePart("tokens", (0,), whole=True), *(StatePart(name, (self.heads, 0, size)) for name in names)]

    def fixed_state(self) -> list[StatePart]:
        """The state in a fixed size: `count` tokens are in sight, in the first places of all that is C long."""
        kept = (self.heads, self.context, self.embedding.shape[1] // self.heads)
        first = [StatePart("count", (), whole=True), StatePart("seen", (self.context,), whole=True)]
        return [*first, *(StatePart(part.name, kept) for part in self.state()[1:])]


@dataclass(frozen=True)
class NgramPlan:
    """A back-off model as a flat trie; `ngram.tables.Tables` says what its arrays are.

    The state is one node. `first`: the node after `<s>`, with which a text begins: there is no fresh state before it,
    and `start` is never read. `uniform`: unseen words after a context all get exp(backoff) of the longest context that
    has children (add-alpha), with no going on to shorter ones; see `NgramModel._distribution`.
    """

    kind: str
    wording: WordingPlan
    order: int
    word: NDArray[np.int32]
    logp: Array
    suffix: NDArray[np.int32]
    backoff: Array
    first_child: NDArray[np.int32]
    level_starts: NDArray[np.int64]
    first: int
    uniform: bool

    def state(self) -> list[StatePart]:
        return [StatePart("node", (), whole=True, fresh=float(self.first))]


NeuralPlan = RecurrentPlan | WindowPlan | AveragePlan | TransformerPlan
Plan = NeuralPlan | NgramPlan


def arrays_of(part: object) -> Iterator[NDArray[np.generic]]:
    """Every array in a plan or in a part of one; the matrix of a tied head is the embedding's and comes twice."""
    if isinstance(part, np.ndarray):
        yield part
    elif isinstance(part, (list, tuple)):
        for one in part:
            yield from arrays_of(one)
    elif isinstance(part, dict):
        yield from arrays_of(list(part.values()))
    elif hasattr(part, "__dataclass_fields__"):
        yield from arrays_of(list(vars(part).values()))


def facts_of(plan: Plan, state: Sequence[StatePart]) -> dict[str, object]:
    """By name, all of it JSON; `pieces` are the bytes that each token appends, in hexadecimal digits."""
    words = plan.wording
    return {
        "kind": plan.kind,
        "start": words.start,
        "line_end": words.line_end,
        "unknown": words.unknown,
        "line_by_line": words.restart is not None,
        "lower": words.lower,
        "letters_only": words.letters_only,
        "state": [
            {"name": part.name, "shape": part.shape, "fresh": part.fresh, "type": "int64" if part.whole else "float32"}
            for part in state
        ],
        "vocabulary": words.forms,
        "pieces": [piece.hex() for piece in words.pieces],
        "tokenizer": words.tokenizer,
    }
