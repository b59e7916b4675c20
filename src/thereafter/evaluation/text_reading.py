"""A text as one model read it: what each token cost, what was predicted before it, and the units that they make up.

Costs (nats, the nats of the spelling, the place in the text) are read by the walk that scores a text
(`scores.score_pieces`), so that the sums are those of the score. Predictions (rank, entropy, the likeliest tokens) are
read on request: each is a pass over the vocabulary, of which a score needs one number.

An *item* is a line of a text, a row of a table or a record of JSON. Lines of a *document* continue each other; items,
such as the sentences of an experiment, do not. They are read

    item        each from a fresh state, as if it were the whole text
    N           each from a fresh state, after the N items before it, which are read and not counted
    document    the state is carried from one to the next

Shapes: T tokens, U units, P predictions at once, V words that can be predicted, K likeliest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.base.tabular import Row
from thereafter.decoding.sampling import largest
from thereafter.errors import EmptyCorpusError, OptionError
from thereafter.evaluation.conditions import WordCounts
from thereafter.evaluation.scores import ScoredPiece, Walk, score_items, score_pieces, spelling_of
from thereafter.evaluation.text_units import LINE_END, TextUnits, align_units, cut_units, words_alone
from thereafter.models.any_model import AnyModel
from thereafter.models.base import NOT_NORMALISED, Logs
from thereafter.text.reading import Places, byte_ends, code_points, is_space, lines_of
from thereafter.text.sources import Source
from thereafter.text.tokenizers.base import UNKNOWN, Ids, MeasuredText, Spelling, Tokenizer, join_ids


@dataclass(frozen=True)
class TextReading:
    """A text as one model read it.

    `model` and `text` are names. `predicted` is None unless requested. `notes`: what differs from a reading
    by one plain model, and what to be careful about. `written`: the text before it was brought into the
    form of a pre-tokenised corpus, whose words are then the units; "" where nothing was changed. `before`: how many
    items were read before each; None for a document. `rows`: those of the table that the text is a column of, one per
    line. `counts`: the words of the training text, if requested.
    """

    model: str
    text: str
    tokenizer: Tokenizer
    context: str
    costs: TokenCosts
    predicted: TokenPredictions | None = None
    notes: tuple[str, ...] = ()
    written: str = ""
    before: int | None = None
    rows: Sequence[Row] = ()
    counts: WordCounts | None = None

    @property
    def are_items(self) -> bool:
        """Whether lines are items: they were read as items, or are rows of a table."""
        return self.before is not None or bool(self.rows)

    @property
    def normalised(self) -> bool:
        """Whether the scores are probabilities."""
        return NOT_NORMALISED not in self.notes

    @property
    def nats(self) -> float:
        """The sum of -log p over all tokens: that of the score."""
        return float(self.costs.nats_T.sum())

    @property
    def spelling_nats(self) -> float:
        return float(self.costs.spelling_T.sum())

    @cached_property
    def places_T(self) -> Places:
        return self.costs.places()

    @property
    def as_written(self) -> str:
        """The text as it was written."""
        return self.written or self.costs.text

    @property
    def has_sentence_a_line(self) -> bool:
        """Whether the model begins every line afresh, and the text has its form: then a sentence is a line."""
        return "line" in self.context and not self.written

    def units(self, by: str) -> TextUnits:
        """The words as they were written, or the tokens, sentences and lines as they were read."""
        if by == "token":
            newlines = np.flatnonzero(code_points(self.costs.text) == ord(LINE_END))
            lines_T = 1 + (self.costs.item_T if self.before is not None else np.searchsorted(newlines, self.places_T))
            return TextUnits(self.pieces(), lines_T, np.arange(len(self.costs.ids) + 1))
        units = cut_units(self.costs.text, self.places_T, by, sentence_a_line=self.has_sentence_a_line)
        if by == "word" and self.as_written != self.costs.text:
            return align_units([units, words_alone(self.as_written)], reference=1)[0]
        return units

    def pieces(self) -> list[str]:
        """The text of each token."""
        distinct, which_T = np.unique(self.costs.ids, return_inverse=True)
        texts = [self.tokenizer.piece(number) for number in distinct.tolist()]
        return [texts[number] for number in which_T.tolist()]

    def decisive(self, units: TextUnits) -> Places:
        """The first token of each unit that is not white space alone; the number of tokens where a unit has none."""
        blank_T = is_space(code_points(self.costs.text)[self.places_T])
        steps = np.arange(len(blank_T))
        solid = np.append(np.where(blank_T, len(blank_T), steps), len(blank_T))
        first = units.first_U1[:-1]
        chosen = np.minimum.reduceat(solid, first)
        chosen = np.where(chosen < units.first_U1[1:], chosen, first)
        return np.where(first == units.first_U1[1:], len(blank_T), chosen)


Context = str | int | None
"""As the user writes it; None is the default: items for a column of a table, else a document."""


def items_before(context: Context, *, of_table: bool) -> int | None:
    """How many items are read before each: 0 for `item`; None for `document`, all earlier ones.

    >>> items_before(None, of_table=True), items_before("2", of_table=False), items_before("document", of_table=True)
    (0, 2, None)
    """
    if context is None or context in ("item", "document"):
        return 0 if context == "item" or (context is None and of_table) else None
    if isinstance(context, bool) or not str(context).isdecimal():
        raise OptionError(
            f"context is {context!r}; expected item (each line or row from a fresh state), document (the state is "
            "carried on), or the number of lines that are read before each; try item"
        )
    return int(context)


def describe_context(before: int | None, item: str = "line") -> str:
    """A sentence for the output, with the word that changes it. `item`: what an item is called."""
    if before is None:
        return f"context document: the state is carried from {item} to {item} (--context item: each from a fresh state)"
    if before == 0:
        return f"context item: each {item} is read from a fresh state (--context document: the state is carried on)"
    several = f"{before} {item}s" if before > 1 else item
    return f"context {before}: each {item} is read from a fresh state, after the {several} before it"


def walk_of(text: Source, before: int | None) -> tuple[Iterable[str], Walk]:
    """The pieces of a text and how they are read; of items each is a line with its line end, rewritten by itself."""
    if before is None:
        return text.chunks("scoring"), score_pieces
    return _items(text), partial(score_items, before=before)


def _items(text: Source) -> Iterator[str]:
    for line in lines_of(replace(text, rewriting=None).chunks("scoring"), ends=True):
        item = line if line.endswith("\n") else f"{line}\n"
        yield item if text.rewriting is None else "".join(text.rewriting.rewrite([item]))


Nats = NDArray[np.float64]


@dataclass(frozen=True)
class TokenCosts:
    """The tokens of a text in order.

    `text` is the text as the model read it. `ends_T`: where each token ends, in bytes of UTF-8. `spelling_T`: nats of
    the spelling of unknown forms, 0 for all others. `unknown_T`: which tokens are unknown. `item_T`: the item that each
    belongs to, from 0, where items are read.
    """

    text: str
    ids: Ids
    ends_T: Places
    nats_T: Nats
    spelling_T: Nats
    unknown_T: NDArray[np.bool_]
    item_T: Places

    def places(self) -> Places:
        """The character that locates each token: its last one that is not white space, else its last one, [T]."""
        points = code_points(self.text)
        space = is_space(points)
        seen = np.maximum.accumulate(np.where(space, -1, np.arange(len(points))))
        starts = np.concatenate(([0], self.ends_T[:-1]))
        if self.text.isascii():
            last, first = self.ends_T - 1, starts
        else:
            ends = byte_ends(points)
            last, first = (np.searchsorted(ends, bytes_T, side="right") for bytes_T in (self.ends_T - 1, starts))
        return np.where(seen[last] >= first, seen[last], last)

    def marks(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which tokens have a letter or digit, and which have neither nor are white space: punctuation, [T] each."""
        points = code_points(self.text)
        distinct, which = np.unique(points, return_inverse=True)
        letters = np.array([chr(point).isalnum() for point in distinct.tolist()], dtype=bool)[which]
        ends = byte_ends(points)
        last = np.searchsorted(ends, self.ends_T - 1, side="right")
        first = np.searchsorted(ends, np.concatenate(([0], self.ends_T[:-1])), side="right")
        before, solid = (np.concatenate(([0], np.cumsum(flags))) for flags in (letters, ~is_space(points)))
        has_letters = before[last + 1] > before[first]
        return has_letters, ~has_letters & (solid[last + 1] > solid[first])


def read_costs(
    model: AnyModel, tokenizer: Tokenizer, chunks: Iterable[str], *, name: str, walk: Walk = score_pieces
) -> TokenCosts:
    """Read a whole text and keep what each of its tokens cost; `walk` as in `scores.score_text`."""
    spelling = spelling_of(tokenizer)
    pieces = list(_placed(walk(model, tokenizer, chunks), tokenizer))
    ids = join_ids(piece.measured.ids for piece, _, _ in pieces)
    if not len(ids):
        raise EmptyCorpusError(f"{name} holds no tokens: there is nothing to score; try a text that is not empty")
    unknown_T = np.zeros(len(ids), dtype=bool) if tokenizer.unknown_id is None else ids == tokenizer.unknown_id
    spelled = [_spelling_nats(piece, ends, tokenizer, spelling) for piece, ends, _ in pieces]
    sizes = np.array([len(written.encode()) for _, _, written in pieces], dtype=np.int64)
    begins = np.cumsum(sizes) - sizes
    return TokenCosts(
        text="".join(written for _, _, written in pieces),
        ids=ids,
        ends_T=np.concatenate([ends + begin for (_, ends, _), begin in zip(pieces, begins, strict=True)]),
        nats_T=-np.concatenate([piece.logp_T for piece, _, _ in pieces]).astype(np.float64),
        spelling_T=np.concatenate(spelled),
        unknown_T=unknown_T,
        item_T=np.repeat([piece.item for piece, _, _ in pieces], [len(piece.measured.ids) for piece, _, _ in pieces]),
    )


Placed = tuple[ScoredPiece, Places, str]
"""A piece, where its tokens end inside it, and its text: a line end that was not written is a newline."""


def _placed(pieces: Iterable[ScoredPiece], tokenizer: Tokenizer) -> Iterator[Placed]:
    for piece in pieces:
        if piece.text:
            yield piece, tokenizer.token_ends(piece.text, piece.measured), piece.text
        elif len(piece.measured.ids):
            yield piece, np.ones(1, dtype=np.int64), "\n"


def _spelling_nats(piece: ScoredPiece, ends_T: Places, tokenizer: Tokenizer, spelling: Spelling | None) -> Nats:
    """The spelling of each token of a piece."""
    measured = piece.measured
    nats_T = np.zeros(len(measured.ids))
    if spelling is not None and measured.unknown_forms:
        costs = {form: spelling.nats(form) for form in set(measured.unknown_forms)}
        nats_T[_charged(measured, piece.text, ends_T, tokenizer)] = [costs[form] for form in measured.unknown_forms]
    return nats_T


def _charged(measured: MeasuredText, text: str, ends_T: Places, tokenizer: Tokenizer) -> Places:
    """Which tokens pay for their spelling: the unknown ones, but for a literal `<unk>` in `word`."""
    unknown = np.flatnonzero(measured.ids == tokenizer.unknown_id)
    if len(unknown) == len(measured.unknown_forms):
        return unknown
    written, mark = text.encode(), UNKNOWN.encode()
    begins = np.concatenate(([0], ends_T))[unknown]
    spans = zip(begins.tolist(), ends_T[unknown].tolist(), strict=True)
    literal = [written[begin:end].strip() == mark for begin, end in spans]
    charged: Places = unknown[~np.array(literal)]
    return charged


Floats = NDArray[np.float64]
_LOWEST = -1e4  # in the place of log 0, so that 0 log 0 is 0
TOP = 3
"""Default number of likeliest tokens."""


@dataclass(frozen=True)
class TokenPredictions:
    """`rank_T`: 1 where no token was likelier. `entropy_T`: of the whole prediction, in bits. `top_TK`, `p_TK`: the
    likeliest tokens and their probabilities. `context_T`: how many tokens it was made from, `<s>` counted; for an
    n-gram those of the longest known n-gram that ends with the token."""

    rank_T: NDArray[np.int64]
    entropy_T: Floats
    top_TK: NDArray[np.int64]
    p_TK: Floats
    context_T: NDArray[np.int64]


def check_top(top: int) -> None:
    if top < 0:
        raise OptionError(f"top is {top}; expected 0 or more alternatives; try top={TOP}")


def read_predictions(
    model: AnyModel,
    ids_T: NDArray[np.integer],
    top: int = TOP,
    item_T: NDArray[np.int64] | None = None,
    before: int | None = None,
) -> TokenPredictions:
    """Read tokens from the start of a text, with the whole prediction before each.

    With `item_T` and `before` each item is read from a fresh state, after `before` items before it.
    """
    check_top(top)
    ranks, entropies, tops, shares, at = [], [], [], [], 0
    first = [0] if item_T is None or before is None else np.flatnonzero(np.diff(item_T, prepend=-1)).tolist()
    starts = [first[max(0, place - (before or 0))] for place in range(len(first))]
    spans = list(zip(starts, first, [*first[1:], len(ids_T)], strict=True))
    with progress.task("predicting", total=len(ids_T), unit="tokens") as advance:
        for piece in _pieces(model, ids_T, spans):
            logp_PV = np.asarray(piece)
            came_P = logp_PV[np.arange(len(logp_PV)), ids_T[at : at + len(logp_PV)]]
            ranks.append(1 + np.count_nonzero(logp_PV > came_P[:, None], axis=1))
            entropies.append(entropy_bits(logp_PV))
            likeliest = largest(logp_PV, top) if top else np.empty((len(logp_PV), 0), dtype=np.int64)
            tops.append(likeliest[:, :top])
            shares.append(np.exp(np.take_along_axis(logp_PV, likeliest[:, :top], axis=1).astype(np.float64)))
            at += len(logp_PV)
            advance(len(logp_PV))
    contexts = [model.context_sizes(ids_T[start:end])[begin - start :] for start, begin, end in spans]
    parts = (ranks, entropies, tops, shares, contexts)
    return TokenPredictions(*(np.concatenate(part) for part in parts))


def _pieces(model: AnyModel, ids_T: NDArray[np.integer], spans: Sequence[tuple[int, int, int]]) -> Iterator[Logs]:
    """The predictions before the tokens from `begin` to `end` of each span, read from a fresh state at `start`."""
    for start, begin, end in spans:
        state = model.start(1)
        if start < begin:
            state = model.read(ids_T[start:begin].reshape(1, -1), state)
        yield from model.predictions(ids_T[begin:end], state)


def entropy_bits(logp_PV: Logs) -> Floats:
    """-sum p log2 p of each row; impossible tokens add nothing."""
    terms = np.exp(logp_PV)
    terms *= np.maximum(logp_PV, _LOWEST)
    entropy: Floats = terms.sum(axis=1, dtype=np.float64) / -math.log(2)
    return entropy
