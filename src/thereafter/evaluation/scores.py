"""Perplexity and bits per byte of a text, counted by the same rules whatever the model and its tokens.

    perplexity    = exp(nats / tokens)
    bits per byte = (nats + spelling) / (ln 2 * bytes)

`spelling` is what unknown forms pay so that a small vocabulary cannot hide behind `<unk>`: the code length of their
bytes under a byte unigram model of the training vocabulary. Where more than a tenth of the words are unknown, a score
says more about the vocabulary than about the model, and a warning says so: `<unk>` is a likely token, and the spelling
of the unknown words decides.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import asdict, dataclass

import numpy as np

from thereafter.base.config import Table
from thereafter.base.tabular import Row, Tabular, facts_html
from thereafter.errors import EmptyCorpusError
from thereafter.models.any_model import AnyModel
from thereafter.models.base import NOT_NORMALISED, Ids, Logs, State, is_normalised
from thereafter.text.tokenizers.base import MeasuredText, Spelling, Tokenizer


@dataclass(frozen=True)
class Score(Tabular):
    """The score of one text under one model.

    `tokens` are the targets, line ends included, `<s>` not; `chars` and `bytes` are those of the text as the tokenizer
    decodes it; `nats` is the sum of -log p.
    """

    name: str
    tokens: int
    lines: int
    unknown: int
    chars: int
    bytes: int
    nats: float
    spelling_nats: float
    vocabulary: int
    tokenizer: str
    context: str
    normalised: bool = True
    """False if the model's scores are not probabilities: perplexity and bits are nan then."""
    switches: str = ""
    """What makes it another score than that of one plain model: a mixture, a cache, dynamic evaluation."""
    weights: tuple[float, ...] = ()
    """Those of a mixture, in the order of its models."""
    caveat: str = ""
    """Why it is not a test score: the model was trained on this text, or chosen by it ("validation score: ...")."""
    form: str = ""
    """What was made of a user's own file before it was read: a licence left out, lines joined (`text/form.py`)."""
    written: str = ""
    """How the text was rewritten, where it was not written as the model's own: bytes are those of that form."""

    @property
    def perplexity(self) -> float:
        if not self.normalised:
            return math.nan
        nats = self.nats / self.tokens
        return math.exp(nats) if nats < 700 else math.inf  # where Python would raise

    @property
    def bits_per_byte(self) -> float:
        return self._bits / self.bytes

    @property
    def bits_per_char(self) -> float:
        return self._bits / self.chars

    @property
    def unknown_share(self) -> float:
        """The share of its words that are unknown to the model, line ends left out."""
        return unknown_share(self.unknown, self.tokens - self.lines if self.tokenizer == "word" else self.tokens)

    @property
    def _bits(self) -> float:
        return (self.nats + self.spelling_nats) / math.log(2) if self.normalised else math.nan

    def as_dict(self) -> Table:
        """All figures, the derived ones too, for JSON; without any of these where there is a `reason` against them."""
        derived = {name: getattr(self, name) for name in ("perplexity", "bits_per_byte", "bits_per_char")}
        share = {"unknown_share": self.unknown_share}
        if not self.normalised:
            return asdict(self) | share | dict.fromkeys(derived) | {"reason": NOT_NORMALISED}
        return asdict(self) | share | derived

    def to_rows(self) -> list[Row]:
        """One row with all figures, so that the scores of several texts can be put below each other."""
        return [self.as_dict()]

    def _repr_html_(self) -> str:
        """One figure per row."""
        return facts_html(self.as_dict(), str(self))

    def __str__(self) -> str:
        about = (
            f"{self.tokens:,} {self.tokenizer} tokens (vocabulary {self.vocabulary:,}, {self.unknown:,} unknown, "
            f"context {self.context})"
        )
        if self.normalised:
            bits = f"{self.bits_per_byte:.4f} bits per byte over {self.bytes:,} bytes"
            text = f"{self.name}: perplexity {self.perplexity:.3f} over {about}, {bits}"
        else:
            text = f"{self.name}: {about}, {self.bytes:,} bytes; {NOT_NORMALISED}"
        written = f"rewritten as the model's own text: {self.written}" if self.written else ""
        caution = unknown_caution(self.unknown_share)
        return "; ".join(filter(None, [text, self.switches, written, caution, self.caveat]))


@dataclass(frozen=True)
class ScoredPiece:
    """A part of a text that was read at once: as written, as tokens, and log p of each token [T].

    What closes a last line without a newline was not written: its `text` is "". `item` is the number of the item that
    it belongs to, from 0, where items are read.
    """

    text: str
    measured: MeasuredText
    logp_T: Logs
    item: int = 0


def score_pieces(
    model: AnyModel, tokenizer: Tokenizer, chunks: Iterable[str], state: State | None = None, item: int = 0
) -> Generator[ScoredPiece, None, State]:
    """Read a whole text piece by piece, the state carried from one to the next: everything that sums nats uses it.

    `state`: the one to begin with, by default a fresh one; the generator returns the last one.
    """
    state = model.start(1) if state is None else state
    for text, measured in tokenizer.measure_groups(chunks, whole=True):
        logp_T: Logs = np.empty(0, dtype=np.float32)
        if len(measured.ids):
            logp_BT, state = model.log_probs(measured.ids.reshape(1, -1), state)
            logp_T = np.asarray(logp_BT)[0]
        yield ScoredPiece(text, measured, logp_T, item)
    return state


def score_items(model: AnyModel, tokenizer: Tokenizer, items: Iterable[str], *, before: int) -> Iterator[ScoredPiece]:
    """As `score_pieces`, each item from a fresh state, after the `before` items before it, which are not counted."""
    earlier = deque[Ids](maxlen=before)
    for number, item in enumerate(items):
        state = model.start(1)
        for ids in earlier:
            state = model.read(ids.reshape(1, -1), state)
        yield from score_pieces(model, tokenizer, [item], state, number)
        if before:
            earlier.append(tokenizer.encode(item))


Walk = Callable[[AnyModel, Tokenizer, Iterable[str]], Iterable[ScoredPiece]]
"""`score_pieces`, or `score_items` with its number of items."""


def spelling_of(tokenizer: Tokenizer) -> Spelling | None:
    """The cost of unknown forms; None if nothing is unknown."""
    return None if tokenizer.unknown_id is None else Spelling.from_forms(tokenizer.ordinary_forms)


def score_text(
    model: AnyModel,
    tokenizer: Tokenizer,
    chunks: Iterable[str],
    *,
    name: str,
    context: str,
    watch: Callable[[ScoredPiece], None] | None = None,
    walk: Walk = score_pieces,
) -> Score:
    """Score a whole text that comes in chunks, the state carried from one to the next; memory does not grow with it.

    `watch` is shown every piece that was read. `walk` reads the chunks in another way, such as item by item.
    """
    spelling = spelling_of(tokenizer)
    tokens = lines = unknown = chars = size = 0
    nats = spelling_nats = 0.0
    for piece in walk(model, tokenizer, chunks):
        part = piece.measured
        if watch is not None:
            watch(piece)
        lines, chars, size = lines + part.lines, chars + part.chars, size + part.bytes
        unknown += part.unknown
        if spelling is not None and part.unknown_forms:
            spelling_nats += spelling.total(part.unknown_forms)
        nats -= float(piece.logp_T.sum(dtype=float))
        tokens += len(part.ids)
    if not tokens:
        raise EmptyCorpusError(f"{name} holds no tokens: there is nothing to score; try a text that is not empty")
    return Score(
        name=name,
        tokens=tokens,
        lines=lines,
        unknown=unknown,
        chars=chars,
        bytes=size,
        nats=nats,
        spelling_nats=spelling_nats,
        vocabulary=len(tokenizer.vocabulary),
        tokenizer=tokenizer.name,
        context=context,
        normalised=is_normalised(model),
    )


MANY = 0.1
"""The share of unknown words above which a warning is due."""


def unknown_share(unknown: int, words: int) -> float:
    """The share of unknown words; 0 of no words."""
    return unknown / words if words else 0.0


def unknown_share_of(tokenizer: Tokenizer, texts: Iterable[str]) -> float:
    """The share of the words of texts that are outside a vocabulary, line ends left out.

    >>> from thereafter.text.tokenizers.word import WordTokenizer
    >>> known = WordTokenizer.fit(lambda: ["the cat sat\\n"] * 2)
    >>> unknown_share_of(known, ["the cat", "the dog"])
    0.25
    """
    unknown = words = 0
    for text in texts:
        for piece in tokenizer.measure_stream([text], whole=False):
            unknown += piece.unknown
            words += len(piece.ids) - (piece.lines if tokenizer.name == "word" else 0)
    return unknown_share(unknown, words)


def unknown_caution(share: float) -> str:
    """A warning if there are many unknown words, else "".

    >>> unknown_caution(0.2)
    '20.0 % of the tokens are unknown to the model: compare its score with others of the same vocabulary only'
    """
    if share <= MANY:
        return ""
    return (
        f"{100 * share:.1f} % of the tokens are unknown to the model: compare its score with others of the same "
        "vocabulary only"
    )
