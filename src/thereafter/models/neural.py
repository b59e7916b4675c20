"""What all neural models share: the SequenceModel contract over numpy, and the loss over tensors.

A reader is the first part of a network and turns what is read into vectors. A kind of model defines `fresh`, the state
that has read nothing, and `encode`, features and state after tokens. `<s>` has the id V: it can be read and never
predicted.

Shapes: B rows, T steps, V words that can be predicted, D numbers a step, E word vector, H features, N = tokens of a
batch in one list.

A text is read and scored in pieces of bounded size, without gradients; for a model that starts afresh at every line its
rows of tokens are cut at their line ends, and lines are scored side by side.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NotRequired, Protocol, Self, TypedDict

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from thereafter.cells.base import Cell
from thereafter.errors import FormatError, OptionError, ShapeError
from thereafter.kernels.step.storing import Narrow
from thereafter.layers.embedding import Embedding
from thereafter.layers.heads import AdaptiveSoftmax, Softmax, WordHead
from thereafter.models.base import Fields, Floats, Ids, ModelFacts, SequenceModel, checked_tokens, rows_at_once
from thereafter.models.look import Look, Observer, Shown, memory_name
from thereafter.models.quiet import NeuralState, RowHead, SharedNetwork, Versions, stacked, versions
from thereafter.models.settings import NeuralSettings

TOKENS_AT_ONCE = 4096
"""How many tokens are read at once, so that memory does not grow with the text."""


def score(
    model: NeuralModel, tokens_BT: Tensor, state: NeuralState, *, scored: bool = True
) -> tuple[NDArray[np.float32], NeuralState]:
    """log p of every token (zeros unless `scored`), and the state after the last."""
    # most prompts are part of a line: cutting them into lines would cost more than reading them
    if model.restart is not None and bool(torch.eq(tokens_BT, model.restart).any()):
        return score_lines(model, tokens_BT, state, model.restart, scored)
    return _score_straight(model, tokens_BT, state, None, scored)


def _score_straight(
    model: NeuralModel, tokens_BT: Tensor, state: NeuralState, mask_BT: Tensor | None, scored: bool
) -> tuple[NDArray[np.float32], NeuralState]:
    """Score tokens without a restart at line ends; those outside the mask are read but not scored."""
    rows, steps = tokens_BT.shape
    logp_BT = torch.zeros(rows, steps, device=model.device)
    size = max(1, TOKENS_AT_ONCE // max(rows, 1))
    for begin in range(0, steps, size):
        piece_BT, part_BT = tokens_BT[:, begin : begin + size], logp_BT[:, begin : begin + size]
        first_BH = model.features_of(state)
        h_BTH, state = model.advance(piece_BT, state)
        if not scored:
            continue
        before_BTH = torch.cat([first_BH.unsqueeze(1), h_BTH[:, :-1]], dim=1)
        if mask_BT is None:
            part_BT.copy_(model.head.log_prob_of(before_BTH.flatten(0, 1), piece_BT.flatten()).view(piece_BT.shape))
        else:
            kept_BT = mask_BT[:, begin : begin + size]
            part_BT[kept_BT] = model.head.log_prob_of(before_BTH[kept_BT], piece_BT[kept_BT])
    return logp_BT.cpu().numpy(), state


def score_lines(
    model: NeuralModel, tokens_BT: Tensor, state: NeuralState, line_end: int, scored: bool
) -> tuple[NDArray[np.float32], NeuralState]:
    """Lines do not see each other: whole lines are scored side by side, only unfinished ones keep a state."""
    tokens = tokens_BT.cpu().numpy()
    logp_BT = np.zeros(tokens.shape, dtype=np.float32)
    parts = cut(tokens, line_end)

    def read(spans: list[Span], before: NeuralState) -> NeuralState:
        rows, mask = padded(tokens, spans, model.vocabulary_size)
        ids, mask_BT = (torch.from_numpy(array).to(model.device) for array in (rows, mask))
        logp_rows, after = _score_straight(model, ids, before, None if mask.all() else mask_BT, scored)
        for span, logp in zip(spans, logp_rows, strict=True):
            logp_BT[span.row, span.begin : span.end] = logp[: span.size]
        return after

    # The rows' beginnings go on from the given state. A row that has no line end is as long as any can be, so that its
    # state at the end of the batch is its own; those of the others are not used.
    begun = model.begin(1)
    states = [read(parts.first, state), begun]
    at_B = np.where(tokens[:, -1] == line_end, len(tokens), np.arange(len(tokens)))
    if scored:
        for group in by_length(parts.lines, TOKENS_AT_ONCE):
            read(group, begun.select(np.zeros(len(group), np.int64)))
    for group in by_length(parts.tails, TOKENS_AT_ONCE, alike=True):
        at_B[[span.row for span in group]] = sum(state.rows for state in states) + np.arange(len(group))
        states.append(read(group, begun.select(np.zeros(len(group), np.int64))))
    return logp_BT, model.stack(states).select(at_B)


def past_line_ends(model: NeuralModel, tokens_B1: Tensor, state: NeuralState) -> tuple[Tensor, NeuralState]:
    """Rows that read a line end forget everything and read `<s>` in its place."""
    ended_B1 = torch.eq(tokens_B1, -1 if model.restart is None else model.restart)
    if not bool(ended_B1.any()):
        return tokens_B1, state
    rows = torch.arange(len(tokens_B1), device=tokens_B1.device)
    both = model.stack([replace(state, features_BH=None), model.fresh(1)])
    chosen = both.select(torch.where(ended_B1[:, 0], len(rows), rows))
    return tokens_B1.masked_fill(ended_B1, model.vocabulary_size), chosen


def recorded(model: NeuralModel, tokens_1T: Tensor, state: NeuralState) -> Fields:
    """The model's arrays after each token of one row; reading a line end starts again with `<s>`."""
    ends: list[int] = []
    if model.restart is not None:
        ends = torch.eq(tokens_1T[0], model.restart).nonzero().flatten().tolist()
    pieces: list[Shown] = []
    for begin, end in zip([0, *ends], [*ends, tokens_1T.shape[1]], strict=True):
        piece_1T, before = tokens_1T[:, begin:end].clone(), state
        if begin in ends[:1] or begin > 0:
            piece_1T[:, :1], before = model.vocabulary_size, model.fresh(1)
        if end > begin:
            look = model.look(piece_1T, before, attention=True)
            units: Shown = {name: (("step", "unit"), array_1TS[0]) for name, array_1TS in look.arrays.items()}
            pieces.append(units | look.extras)
    arrays: Fields = {}
    for name, (axes, _) in pieces[0].items() if pieces else ():
        arrays[name] = (axes, _join([piece[name][1].cpu().numpy() for piece in pieces]))
    return arrays


def _join(parts: list[NDArray[np.number]]) -> NDArray[np.number]:
    """Pieces of a record one after the other, the narrower ones filled up with 0."""
    widths = [max(sizes) for sizes in zip(*(part.shape[1:] for part in parts), strict=True)]
    whole = np.zeros((sum(map(len, parts)), *widths), dtype=parts[0].dtype)
    at = 0
    for part in parts:
        whole[(slice(at, at + len(part)), *map(slice, part.shape[1:]))] = part
        at += len(part)
    return whole


@dataclass(frozen=True)
class Span:
    """Tokens `begin` to below `end` of a row."""

    row: int
    begin: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.begin


@dataclass(frozen=True)
class Cut:
    """Rows in parts: `first`, one per row, up to its first line end; then whole `lines`; `tails` that have no end."""

    first: list[Span]
    lines: list[Span]
    tails: list[Span]


def cut(tokens_BT: Ids, line_end: int) -> Cut:
    """The spans of every row; a line keeps its end.

    >>> parts = cut(np.array([[5, 0, 6, 7, 0, 8]]), line_end=0)
    >>> [(span.begin, span.end) for span in parts.first + parts.lines + parts.tails]
    [(0, 2), (2, 5), (5, 6)]
    """
    parts = Cut([], [], [])
    steps = tokens_BT.shape[1]
    for row, tokens in enumerate(tokens_BT):
        ends = (np.flatnonzero(tokens == line_end) + 1).tolist()
        borders = [0, *ends] if ends and ends[-1] == steps else [0, *ends, steps]
        spans = [Span(row, begin, end) for begin, end in pairwise(borders)]
        parts.first.append(spans[0])
        finished = len(ends)
        parts.lines.extend(spans[1:finished] if finished else [])
        parts.tails.extend(spans[max(1, finished) :])
    return parts


def by_length(spans: list[Span], most: int, *, alike: bool = False) -> Iterator[list[Span]]:
    """Groups of spans of about one length (`alike`: exactly one), none of more than `most` tokens with its padding."""
    group: list[Span] = []
    for span in sorted(spans, key=lambda span: span.size, reverse=True):
        # the first is the longest
        if group and ((len(group) + 1) * group[0].size > most or (alike and span.size != group[0].size)):
            yield group
            group = []
        group.append(span)
    if group:
        yield group


def padded(tokens_BT: Ids, spans: list[Span], filler: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Spans as rows of one array, filled up on the right, and where they are."""
    steps = max(span.size for span in spans)
    sizes = np.array([span.size for span in spans])
    mask = np.arange(steps) < sizes[:, None]
    rows = np.full((len(spans), steps), filler, dtype=np.int64)
    for row, span in zip(rows, spans, strict=True):
        row[: span.size] = tokens_BT[span.row, span.begin : span.end]
    return rows, mask


def features_before(model: NeuralModel, tokens_BT: Tensor, state: NeuralState) -> tuple[Tensor, NeuralState]:
    """The features that each token was predicted from, [B, T, H], and the state after the last."""
    if model.restart is None or not tokens_BT.numel():
        first_B1H = model.features_of(state).unsqueeze(1)
        if not tokens_BT.numel():
            return first_B1H[:, :0], state
        h_BTH, after = model.advance(tokens_BT, state)
        return torch.cat([first_B1H, h_BTH[:, :-1]], dim=1), after
    rows = [_over_lines(model, row_T, state.select(np.array([b]))) for b, row_T in enumerate(tokens_BT)]
    return torch.cat([before for before, _ in rows]), model.stack([after for _, after in rows])


def _over_lines(model: NeuralModel, tokens_T: Tensor, state: NeuralState) -> tuple[Tensor, NeuralState]:
    """One row, line by line: after a line end the state begins anew."""
    ends = (torch.eq(tokens_T, -1 if model.restart is None else model.restart).nonzero().flatten() + 1).tolist()
    parts: list[Tensor] = []
    for begin, end in zip([0, *ends], [*ends, len(tokens_T)], strict=True):
        if begin:
            state = model.begin(1)
        if end == begin:
            continue
        parts.append(model.features_of(state).unsqueeze(1))
        # the line end itself is scored and not read
        stop = end - 1 if end in ends else end
        if stop > begin:
            h_1TH, state = model.advance(tokens_T[None, begin:stop], state)
            parts.append(h_1TH[:, : end - begin - 1])
    return torch.cat(parts, dim=1), state


class TextFacts(TypedDict):
    """What every neural model needs to know about its text, beside its settings."""

    vocabulary_size: int
    context: str
    line_end: int | None
    counts: NotRequired[Sequence[int] | None]


class NeuralModel(SharedNetwork, SequenceModel[NeuralState]):
    """Reader, body and head: tokens become vectors, `encode` makes features f_BTH of them, the head probabilities.

    For training: `loss`, or `features` and `head.nll`; `fresh` and `detach` for the carried state. In `line` context
    these read straight on: batches of training are lines already. The other methods take and give numpy, run in
    evaluation mode without gradients, and return to the start state after every line end in `line` context.
    """

    embedding: Embedding
    head: WordHead
    narrow: Narrow | None = None
    """The format in which its matrices are stored for single steps: see `stored`."""
    trained: float = 0.0
    """The share of its training that is completed, which the loop sets before every step."""
    forgotten: int = 0
    """How often it dropped what was derived from its weights: copies still in use are out of date then."""

    def __init__(
        self,
        settings: NeuralSettings,
        *,
        vocabulary_size: int,
        context: str,
        line_end: int | None,
        counts: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        if context not in ("line", "stream"):
            raise OptionError(f"context is {context!r}; expected 'line' or 'stream'")
        self.settings = settings
        self.vocabulary_size = vocabulary_size
        self.context = context
        self.line_end = line_end
        self.restart = line_end if context == "line" else None
        """The token after which the state begins anew, if there is one."""
        self._counts = counts
        self._begun: tuple[Versions, NeuralState] | None = None
        self._row_head = RowHead()

    # ---- what each kind of model defines

    @abstractmethod
    def fresh(self, batch: int) -> NeuralState:
        """The state of rows that have read nothing, not even `<s>`."""

    @abstractmethod
    def encode(
        self, tokens_BT: Tensor, state: NeuralState, observer: Observer | None = None
    ) -> tuple[Tensor, Tensor | None, NeuralState]:
        """Features before the last dropout, the word vectors' matrix for a tied head (or None), the new state.

        The observer is shown the word vectors, and the layers if there are any: see `look.Observer`.
        """

    def _dropped(self, h_BTH: Tensor) -> Tensor:
        """The dropout between the features and the head."""
        return h_BTH

    def stack(self, states: Sequence[NeuralState]) -> NeuralState:
        """The rows of several states one below the other."""
        return stacked(states)

    # ---- for instruments, of every kind

    fields: tuple[str, ...] = ()
    """The states its layers carry from token to token, such as h and c; none if it does not recur."""

    @property
    def cells(self) -> Mapping[str, Cell]:
        """The cells of its recurrent layers by the names of the layers; none if it does not recur."""
        return {}

    @property
    def recurrent_weights(self) -> Mapping[str, Tensor]:
        """The matrix by which each recurrent layer reads its last state, its input matrix where it has none."""
        return {}

    @property
    def most_at_once(self) -> int | None:
        """The maximum number of tokens it can see at once; None if unbounded."""
        return None

    def carried(self, state: NeuralState) -> dict[str, Tensor]:
        """The states of its recurrent layers in a state, [B, size] each, by their names in a trace: "l0.h"."""
        memory = state.memory
        return {f"{name}.{field}": memory[memory_name(name, field)] for name in self.cells for field in self.fields}

    def look(
        self,
        tokens_BT: Tensor,
        state: NeuralState,
        *,
        nodes: bool = False,
        attention: bool = False,
        reset_BT: Tensor | None = None,
    ) -> Look:
        """What it computes from the tokens, layer by layer; the arguments are those of `look.Observer`.

        Dropout and gradients are not switched off: call it inside `quietly` for that.
        """
        if reset_BT is not None and not self.fields:
            raise OptionError(f"{type(self).__name__} carries no state from token to token; try it without reset_BT")
        observer = Observer(nodes=nodes, attention=attention, reset_BT=reset_BT)
        f_BTH, _, after = self.encode(tokens_BT, state, observer)
        return observer.look(f_BTH, after)

    # ---- for training, over tensors

    def features(self, tokens_BT: Tensor, state: NeuralState) -> tuple[Tensor, NeuralState]:
        """What the head sees after each token, [B, T, H], and the state; with gradients, and dropout while training."""
        h_BTH, _, state = self.encode(tokens_BT, state)
        return self._dropped(h_BTH), state

    def loss(
        self, inputs_BT: Tensor, targets_BT: Tensor, state: NeuralState, mask_BT: Tensor | None = None
    ) -> tuple[Tensor, Tensor, NeuralState]:
        """The sum of -log p of the targets, what regularisation adds to the mean, and the state (not detached).

        Where the mask is false a position counts for nothing. With h the last layer's output and f what is left of it
        after dropout, activation regularisation and its temporal kind add (Merity, McCann and Socher 2017)

            alpha mean(f^2) + beta mean((h_{t+1} - h_t)^2)

        so that `sum / tokens + extra` is what training minimises.
        """
        h_BTH, table, state = self.encode(inputs_BT, state)
        f_BTH = self._dropped(h_BTH)
        f_NH, targets_N = f_BTH.flatten(0, 1), targets_BT.flatten()
        if mask_BT is not None:
            kept_N = mask_BT.flatten().nonzero().squeeze(1)
            f_NH, targets_N = f_NH.index_select(0, kept_N), targets_N.index_select(0, kept_N)
        nats = self.head.total(f_NH, targets_N, table)
        return nats, self._extra(f_NH, h_BTH, mask_BT), state

    def _extra(self, f_NH: Tensor, h_BTH: Tensor, mask_BT: Tensor | None) -> Tensor:
        alpha, beta = self.settings.activation_penalties
        extra = f_NH.new_zeros((), dtype=torch.float32)
        if alpha and f_NH.numel():
            extra = extra + alpha * f_NH.float().square().mean()
        if beta:
            moved_BTH = h_BTH[:, 1:] - h_BTH[:, :-1]
            moved = moved_BTH.flatten() if mask_BT is None else moved_BTH[mask_BT[:, 1:] & mask_BT[:, :-1]]
            if moved.numel():
                extra = extra + beta * moved.float().square().mean()
        return extra

    def detach(self, state: NeuralState) -> NeuralState:
        """The state with no past to send gradients to, for truncated backpropagation."""
        return state.detach()

    # ---- the contract, over numpy

    @property
    def facts(self) -> ModelFacts:
        return ModelFacts(
            vocabulary_size=self.vocabulary_size,
            parameters=self.parameters_count(),
            restart=self.restart,
            features=self.head.features,
            differentiable=True,
        )

    def start(self, batch: int) -> NeuralState:
        with self.quietly():
            return self.begin(batch)

    def predict(self, state: NeuralState) -> Floats:
        with self.quietly():
            return self._predict(state)

    def step(self, token_B: Ids, state: NeuralState) -> tuple[Floats, NeuralState]:
        with self.quietly():
            tokens_B1 = self.checked(np.asarray(token_B).reshape(-1, 1))
            if self.restart is not None:
                tokens_B1, state = past_line_ends(self, tokens_B1, state)
            _, state = self.advance(tokens_B1, state)
            return self._predict(state), state

    def read(self, tokens_BT: Ids, state: NeuralState) -> NeuralState:
        """As the contract says; without the head it takes half the time."""
        with self.quietly():
            return score(self, self.checked(tokens_BT), state, scored=False)[1]

    def log_probs(self, tokens_BT: Ids, state: NeuralState) -> tuple[Floats, NeuralState]:
        with self.quietly():
            return score(self, self.checked(tokens_BT), state)

    def observe(self, tokens_BT: Ids, state: NeuralState) -> tuple[Floats, Floats, NeuralState]:
        with self.quietly():
            ids_BT = self.checked(tokens_BT)
            before_BTH, after = features_before(self, ids_BT, state)
            logp_N = self.head.log_prob_of(before_BTH.flatten(0, 1), ids_BT.flatten())
            return logp_N.view(ids_BT.shape).float().cpu().numpy(), before_BTH.float().cpu().numpy(), after

    def predictions(self, tokens_T: Ids, state: NeuralState) -> Iterator[Floats]:
        size = rows_at_once(self.vocabulary_size)
        for begin in range(0, len(tokens_T), size):
            with self.quietly():
                ids_1P = self.checked(np.asarray(tokens_T)[None, begin : begin + size])
                before_1PH, state = features_before(self, ids_1P, state)
                logp_PV = self.head.log_prob(before_1PH[0]).float().cpu().numpy()
            yield logp_PV

    def last_features(self, state: NeuralState) -> Floats:
        return self.features_of(state).detach().float().cpu().numpy()

    def record(self, tokens_T: Ids, state: NeuralState) -> Fields:
        """Per step: log p of the observed token, and the arrays of this kind of model after reading it."""
        with self.quietly():
            tokens_1T = self.checked(np.asarray(tokens_T).reshape(1, -1))
            logp_1T, _ = score(self, tokens_1T, state)
            return {"log_prob": (("step",), logp_1T[0])} | recorded(self, tokens_1T, state)

    def input_embedding(self) -> Floats:
        """The word vectors, [V, E]; `<s>` is not among them."""
        return self.embedding.weight.detach()[: self.vocabulary_size].float().cpu().numpy().copy()

    @property
    def reader(self) -> Reader:
        """The part that turns tokens into vectors."""
        return self.embedding

    @property
    def device(self) -> torch.device:
        return self.reader.device

    # ---- implementation

    def _make_embedding(self, size: int) -> Embedding:
        """Word vectors with the initialisation and dropout of the settings."""
        settings = self.settings
        init = 0.1 if settings.init is None else settings.init
        return Embedding(self.vocabulary_size, size, drop=settings.dropout_embed, init=init)

    def _make_head(self, width: int, tied: bool) -> WordHead:
        """The head of the settings, over features of that width."""
        if self.settings.head == "adaptive":
            counts = None if self._counts is None else torch.as_tensor(list(self._counts))
            return AdaptiveSoftmax(width, self.vocabulary_size, self.settings.cutoffs, counts)
        head = Softmax(width, self.vocabulary_size, tied=self.embedding if tied else None)
        if self.settings.init is not None and not tied:
            nn.init.uniform_(head.matrix, -self.settings.init, self.settings.init)
        return head

    def begin(self, batch: int) -> NeuralState:
        """`start` inside `quietly`. Every text begins alike, so it is computed once per set of weights."""
        weights = versions(self.parameters())
        begun = self._begun  # read once: another thread may put its own there, which is as good
        if begun is None or begun[0] != weights:
            first_11 = torch.full((1, 1), self.vocabulary_size, dtype=torch.int64, device=self.device)
            begun = self._begun = (weights, self.advance(first_11, self.fresh(1))[1])
        state = begun[1]
        return state if batch == 1 else state.select(np.zeros(batch, dtype=np.int64))

    def train(self, mode: bool = True) -> Self:
        """As torch's; what was derived from the weights is dropped, since they may be about to change."""
        self.forget()
        return super().train(mode)

    def forget(self) -> None:
        """Drop what was derived from the weights."""
        self._begun, self._row_head = None, RowHead(self.narrow)
        self.forgotten += 1
        self.kept.clear()

    def advance(self, tokens_BT: Tensor, state: NeuralState) -> tuple[Tensor, NeuralState]:
        """Features after each token, and the state with the last of them."""
        h_BTH, _, state = self.encode(tokens_BT, state)
        return h_BTH, replace(state, features_BH=h_BTH[:, -1].clone())  # a view would hold all steps

    def _predict(self, state: NeuralState) -> Floats:
        logp_BV = self._row_head.log_prob(self.head, self.features_of(state)).float().cpu().numpy()
        if np.isnan(logp_BV[:, 0]).any():  # one score that is not finite makes its whole row nan
            raise FormatError(
                "the model predicts nan instead of probabilities: its weights are damaged, or so large that they "
                "overflow; expected those of a training that succeeded; try training again"
            )
        return logp_BV

    def features_of(self, state: NeuralState) -> Tensor:
        """The features of the next prediction, [B, H]."""
        if state.features_BH is None:
            raise OptionError("the state has read nothing, not even <s>; try model.start(batch)")
        return state.features_BH

    def checked(self, tokens_BT: Ids) -> Tensor:
        tokens = checked_tokens(tokens_BT, self.vocabulary_size)
        return torch.from_numpy(tokens.astype(np.int64)).to(self.device)


class Reader(Protocol):
    """Inputs to vectors [B, T, E]: word vectors of ids (`layers.embedding.Embedding`), a linear map of numbers."""

    @property
    def size(self) -> int:
        """E."""

    @property
    def device(self) -> torch.device:
        """The device on which inputs must be."""

    def lookup(self, inputs: Tensor) -> tuple[Tensor, Tensor | None]:
        """The vectors, and the matrix a head may share (`Head.nll`), if there is one."""


class Numbers(nn.Module):
    """x_t = W u_t + b: numbers as vectors.

    `numbers`: D of them at each step, [B, T, D]; None for one, with no axis of its own, [B, T].

    >>> Numbers(None, 4)(torch.zeros(2, 3)).shape, Numbers(5, 4)(torch.zeros(2, 3, 5)).shape
    (torch.Size([2, 3, 4]), torch.Size([2, 3, 4]))
    """

    def __init__(self, numbers: int | None, size: int) -> None:
        super().__init__()
        if size < 1 or (numbers is not None and numbers < 1):
            raise OptionError(f"numbers is {numbers} and size is {size}; expected 1 or more")
        self.numbers = numbers
        bound = 1 / math.sqrt(numbers or 1)
        self.weight = nn.Parameter(torch.empty(size, numbers or 1).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(size))

    @property
    def size(self) -> int:
        return len(self.weight)

    @property
    def device(self) -> torch.device:
        return self.weight.device

    def forward(self, numbers_BT: Tensor) -> Tensor:
        axes = 2 if self.numbers is None else 3
        if numbers_BT.dim() != axes or (self.numbers is not None and numbers_BT.shape[-1] != self.numbers):
            wanted = "[B, T]" if self.numbers is None else f"[B, T, {self.numbers}]"
            raise ShapeError(f"the numbers are {tuple(numbers_BT.shape)}; expected {wanted}")
        return F.linear(numbers_BT.unsqueeze(-1) if self.numbers is None else numbers_BT, self.weight, self.bias)

    def lookup(self, inputs: Tensor) -> tuple[Tensor, None]:
        """The vectors; there is no matrix to share."""
        return self.forward(inputs), None

    def extra_repr(self) -> str:
        return f"{self.numbers}, {self.size}"
