"""What each token of a text cost a model: its nats, the nats of its spelling, and where it stands in the text.

It is read by the walk that scores a text (`scores.score_pieces`), so that the sums are those of the score.

Shapes: T tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import EmptyCorpusError
from thereafter.evaluation.scores import ScoredPiece, Walk, score_pieces, spelling_of
from thereafter.models.any_model import AnyModel
from thereafter.text.spaces import Places, byte_ends, code_points, is_space
from thereafter.text.tokenizers.base import Ids, MeasuredText, Tokenizer, join_ids
from thereafter.text.vocabulary import UNKNOWN, Spelling

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
        """The character by which each token is found: its last one that is no white space, else its last one, [T]."""
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
    return TokenCosts(
        text="".join(written for _, _, written in pieces),
        ids=ids,
        ends_T=np.concatenate([ends + begin for (_, ends, _), begin in zip(pieces, _begins(pieces), strict=True)]),
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


def _begins(pieces: list[Placed]) -> Places:
    sizes = np.array([len(written.encode()) for _, _, written in pieces], dtype=np.int64)
    begins: Places = np.cumsum(sizes) - sizes
    return begins


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
