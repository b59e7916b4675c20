"""Reading and scoring a text with a neural model: in pieces of bounded size, line by line where lines are independent.

Everything here runs inside the model's own methods, without gradients, on what `Network` says of it. For models that
start afresh at every line, rows of tokens are cut at their line ends. Shapes: B rows, T steps, H features.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from thereafter.layers.heads import WordHead
from thereafter.models.base import Fields, Ids
from thereafter.models.look import Look, Observer, Shown
from thereafter.models.quiet import Quietly
from thereafter.models.state import NeuralState

TOKENS_AT_ONCE = 4096
"""How many tokens are read at once, so that memory does not grow with the text."""


class Network(Protocol):
    """Tokens to features, and a head over words. `<s>` has the id `vocabulary_size`."""

    vocabulary_size: int
    restart: int | None
    """The token after which the state begins anew, where there is one."""

    @property
    def head(self) -> WordHead:
        """Features to the distribution of the next word."""

    @property
    def device(self) -> torch.device:
        """Where it computes."""

    def fresh(self, batch: int) -> NeuralState:
        """The state of rows that have read nothing, not even `<s>`."""

    def begin(self, batch: int) -> NeuralState:
        """The state of rows that have read `<s>` and nothing else."""

    def encode(
        self, tokens_BT: Tensor, state: NeuralState, observer: Observer | None = None
    ) -> tuple[Tensor, Tensor | None, NeuralState]:
        """Features before the last dropout, the word vectors' matrix for a tied head (or None), the new state."""

    def look(self, tokens_BT: Tensor, state: NeuralState, *, attention: bool = False) -> Look:
        """What it does with the tokens, layer by layer."""

    def advance(self, tokens_BT: Tensor, state: NeuralState) -> tuple[Tensor, NeuralState]:
        """Features after each token, and the state with the last of them."""

    def known(self, state: NeuralState) -> Tensor:
        """The features the next prediction is made of."""

    def stack(self, states: Sequence[NeuralState]) -> NeuralState:
        """The rows of several states one below the other."""

    def checked(self, tokens_BT: Ids) -> Tensor:
        """Tokens as a tensor on its device."""

    def quietly(self) -> Quietly:
        """A block without gradients and without dropout."""


def score(
    model: Network, tokens_BT: Tensor, state: NeuralState, *, scored: bool = True
) -> tuple[NDArray[np.float32], NeuralState]:
    """log p of every token (zeros unless `scored`), and the state after the last."""
    # most prompts are part of a line: cutting them into lines would cost more than reading them
    if model.restart is not None and bool(torch.eq(tokens_BT, model.restart).any()):
        return score_lines(model, tokens_BT, state, model.restart, scored)
    return _score_straight(model, tokens_BT, state, None, scored)


def _score_straight(
    model: Network, tokens_BT: Tensor, state: NeuralState, mask_BT: Tensor | None, scored: bool
) -> tuple[NDArray[np.float32], NeuralState]:
    """Tokens read straight on; what lies outside the mask is read and not scored."""
    rows, steps = tokens_BT.shape
    logp_BT = torch.zeros(rows, steps, device=model.device)
    size = max(1, TOKENS_AT_ONCE // max(rows, 1))
    for begin in range(0, steps, size):
        piece_BT, part_BT = tokens_BT[:, begin : begin + size], logp_BT[:, begin : begin + size]
        first_BH = model.known(state)
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
    model: Network, tokens_BT: Tensor, state: NeuralState, line_end: int, scored: bool
) -> tuple[NDArray[np.float32], NeuralState]:
    """Lines do not see each other: whole lines are scored side by side, only unfinished ones keep a state."""
    tokens = tokens_BT.cpu().numpy()
    logp_BT = np.zeros(tokens.shape, dtype=np.float32)
    parts = cut(tokens, line_end)

    def read(spans: list[Span], before: NeuralState) -> NeuralState:
        rows, mask = padded(tokens, spans, model.vocabulary_size)
        ids, known = (torch.from_numpy(array).to(model.device) for array in (rows, mask))
        logp_rows, after = _score_straight(model, ids, before, None if mask.all() else known, scored)
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


def past_line_ends(model: Network, tokens_B1: Tensor, state: NeuralState) -> tuple[Tensor, NeuralState]:
    """Rows that read a line end forget everything and read `<s>` in its place."""
    ended_B1 = torch.eq(tokens_B1, -1 if model.restart is None else model.restart)
    if not bool(ended_B1.any()):
        return tokens_B1, state
    rows = torch.arange(len(tokens_B1), device=tokens_B1.device)
    both = model.stack([replace(state, features_BH=None), model.fresh(1)])
    chosen = both.select(torch.where(ended_B1[:, 0], len(rows), rows))
    return tokens_B1.masked_fill(ended_B1, model.vocabulary_size), chosen


def recorded(model: Network, tokens_1T: Tensor, state: NeuralState) -> Fields:
    """What the model shows of itself after each token of one row; reading a line end is starting again with `<s>`."""
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
            pieces.append(units | look.shown)
    shown: Fields = {}
    for name, (axes, _) in pieces[0].items() if pieces else ():
        shown[name] = (axes, _join([piece[name][1].cpu().numpy() for piece in pieces]))
    return shown


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
    """Rows in parts: `first`, one a row, up to its first line end; then whole `lines`; `tails` that have no end."""

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


def features_before(model: Network, tokens_BT: Tensor, state: NeuralState) -> tuple[Tensor, NeuralState]:
    """The features that each token was predicted from, [B, T, H], and the state after the last."""
    if model.restart is None or not tokens_BT.numel():
        first_B1H = model.known(state).unsqueeze(1)
        if not tokens_BT.numel():
            return first_B1H[:, :0], state
        h_BTH, after = model.advance(tokens_BT, state)
        return torch.cat([first_B1H, h_BTH[:, :-1]], dim=1), after
    rows = [_over_lines(model, row_T, state.select(np.array([b]))) for b, row_T in enumerate(tokens_BT)]
    return torch.cat([before for before, _ in rows]), model.stack([after for _, after in rows])


def _over_lines(model: Network, tokens_T: Tensor, state: NeuralState) -> tuple[Tensor, NeuralState]:
    """One row, line by line: after a line end the state begins anew."""
    ends = (torch.eq(tokens_T, -1 if model.restart is None else model.restart).nonzero().flatten() + 1).tolist()
    parts: list[Tensor] = []
    for begin, end in zip([0, *ends], [*ends, len(tokens_T)], strict=True):
        if begin:
            state = model.begin(1)
        if end == begin:
            continue
        parts.append(model.known(state).unsqueeze(1))
        # the line end itself is scored and not read
        stop = end - 1 if end in ends else end
        if stop > begin:
            h_1TH, state = model.advance(tokens_T[None, begin:stop], state)
            parts.append(h_1TH[:, : end - begin - 1])
    return torch.cat(parts, dim=1), state
