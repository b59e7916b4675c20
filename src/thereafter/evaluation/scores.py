"""Perplexity and bits per byte of a text, counted by the same rules whatever the model and its tokens.

    perplexity    = exp(nats / tokens)
    bits per byte = (nats + spelling) / (ln 2 * bytes)

`spelling` is what unknown forms pay so that a small vocabulary cannot hide behind `<unk>`: the code length of their
bytes under a byte unigram model of the training vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from thereafter.config import Table
from thereafter.errors import EmptyCorpusError
from thereafter.models.any_model import AnyModel
from thereafter.models.base import NOT_NORMALISED, is_normalised
from thereafter.text.spelling import Spelling
from thereafter.text.tokenizers.base import Tokenizer


@dataclass(frozen=True)
class Score:
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
    """False where the model's scores are no probabilities: then there is neither perplexity nor bits, but nan."""
    switches: str = ""
    """What makes it another score than that of one plain model: a mixture, a cache, dynamic evaluation."""
    weights: tuple[float, ...] = ()
    """Those of a mixture, in the order of its models."""
    caveat: str = ""
    """Why it is no test score: what was trained on this very text, or chosen by it ("validation score: ...")."""

    @property
    def perplexity(self) -> float:
        return _exp(self.nats / self.tokens) if self.normalised else math.nan

    @property
    def bits_per_byte(self) -> float:
        return self._bits / self.bytes

    @property
    def bits_per_char(self) -> float:
        return self._bits / self.chars

    @property
    def _bits(self) -> float:
        return (self.nats + self.spelling_nats) / math.log(2) if self.normalised else math.nan

    def as_dict(self) -> Table:
        """All figures, the derived ones too, for JSON; without any of these where there is a `reason` against them."""
        derived = {
            "perplexity": self.perplexity,
            "bits_per_byte": self.bits_per_byte,
            "bits_per_char": self.bits_per_char,
        }
        if not self.normalised:
            return asdict(self) | dict.fromkeys(derived) | {"reason": NOT_NORMALISED}
        return asdict(self) | derived

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
        return "; ".join(filter(None, [text, self.switches, self.caveat]))


def score_text(
    model: AnyModel,
    tokenizer: Tokenizer,
    chunks: Iterable[str],
    *,
    name: str,
    context: str,
    switches: str = "",
    weights: tuple[float, ...] = (),
    caveat: str = "",
) -> Score:
    """Score a whole text that comes in chunks, the state carried from one to the next; memory does not grow with it."""
    spelling = Spelling.from_forms(tokenizer.ordinary_forms) if tokenizer.unknown_id is not None else None
    state = model.start(1)
    tokens = lines = unknown = chars = size = 0
    nats = spelling_nats = 0.0
    for piece in tokenizer.measure_stream(chunks, whole=True):
        lines, chars, size = lines + piece.lines, chars + piece.chars, size + piece.bytes
        unknown += piece.unknown
        if spelling is not None and piece.unknown_forms:
            spelling_nats += spelling.total(piece.unknown_forms)
        if len(piece.ids):
            logp_BT, state = model.log_probs(piece.ids.reshape(1, -1), state)
            nats -= float(logp_BT.sum(dtype=float))
            tokens += len(piece.ids)
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
        switches=switches,
        weights=weights,
        caveat=caveat,
    )


def _exp(x: float) -> float:
    """exp that answers infinity where Python would raise."""
    return math.exp(x) if x < 700 else math.inf
