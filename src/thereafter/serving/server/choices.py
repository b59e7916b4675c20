"""A row of the engine as one choice of an answer: text that is certain, tokens with their log probabilities, the end.

Text is that of `LanguageModel.generate`: never half a character, cut before a stop string, and written as people write
it where the model's own text was pre-tokenised.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from thereafter.decoding.writing import Written
from thereafter.language_model import LanguageModel
from thereafter.serving.engine_prompts import RowEvent, ScoredTokens
from thereafter.serving.server.prompts import START, ReadPrompt, Wish
from thereafter.serving.server.wire import TokenLogProbs
from thereafter.text.pretokenised_words import Restorer
from thereafter.text.tokenizers.base import Tokenizer

IMPOSSIBLE = -9999.0
"""log p of a token that cannot come: JSON has no infinity."""
_TAIL = 20_000  # characters of a prompt that decide how the text after it is written
Finish = Literal["stop", "length"]


@dataclass(frozen=True)
class TokenEntry:
    """A token as it is reported: its text, log p (None for the start mark), alternatives, and where it begins."""

    text: str
    log_prob: float | None
    top: Mapping[str, float] | None
    place: int


@dataclass
class ChoicePart:
    """What has been added to a choice since the last look."""

    text: str = ""
    entries: list[TokenEntry] = field(default_factory=list)
    finish: Finish | None = None

    @property
    def empty(self) -> bool:
        return not self.text and not self.entries and self.finish is None


class TokenLabels:
    """Tokens one after another, each with the text it adds; a part of a character is written "bytes:\\xe2\\x80"."""

    def __init__(self, tokenizer: Tokenizer, last: str = "", place: int = 0) -> None:
        self._tokenizer, self._last, self.place = tokenizer, last, place

    def entry(self, token: int, log_prob: float, top: Sequence[tuple[int, float]] | None) -> TokenEntry:
        """The next token; `top` are the likeliest in its place, to which the token itself is added."""
        text, logp = self._text(token), _number(log_prob)
        likeliest: dict[str, float] | None = None
        if top is not None:
            likeliest = {}
            for other, other_logp in top:
                likeliest.setdefault(self._text(other), _number(other_logp))
            if top:
                likeliest[text] = logp
        place = self.place
        if text.startswith("bytes:"):
            begins = [byte & 0xC0 != 0x80 for byte in self._tokenizer.bytes_of(token)]
            if not begins[0]:
                place = max(0, place - 1)  # it belongs to the character before
            self.place += sum(begins)
        else:
            self.place += len(text)
            self._last = text[-1:] or self._last
        return TokenEntry(text, logp, likeliest, place)

    def _text(self, token: int) -> str:
        return _label(self._tokenizer, self._last, token)


@lru_cache(maxsize=1 << 16)
def _label(tokenizer: Tokenizer, last: str, token: int) -> str:
    """The text that a token adds after a character. The same few thousand come again and again as alternatives."""
    raw = tokenizer.bytes_of(token)
    try:
        raw.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)
    return tokenizer.continuation(last, (token,))[len(last) :]


class ChoiceWriter:
    """A choice while it is generated."""

    def __init__(self, lm: LanguageModel, prompt: ReadPrompt, wish: Wish) -> None:
        self._written = Written(lm.tokenizer, wish.stops, prompt.text[-1:])
        self._restorer: Restorer | None = None
        if lm.style is not None:
            whole = lm.tokenizer.name == "word" and not wish.stops
            self._restorer = Restorer(lm.style, prompt.text[-_TAIL:], whole=whole)
        self._base = self._certain = len(prompt.text)
        self._top = wish.top
        self._labels = TokenLabels(lm.tokenizer, prompt.text[-1:], self._base)
        self._pending: list[TokenEntry] = []
        self._part = ChoicePart()
        self.tokens = 0
        """How many were drawn."""
        self.finished = False
        if wish.max_tokens == 0:
            self._finish("length")

    def take(self, event: RowEvent) -> None:
        """The next event of its row."""
        if self.finished:
            return
        if event.token is not None:
            self.tokens += 1
            if self._top is not None:
                self._pending.append(self._labels.entry(event.token, event.log_prob, event.top))
            piece, self._written = self._written.add(event.token)
            self._add(piece)
            if self._written.ended:
                self._finish("stop")
        if event.end and not self.finished:
            self._add(self._written.end())
            self._finish("length" if event.end == "length" else "stop")

    def begin_with(self, text: str, entries: Iterable[TokenEntry]) -> None:
        """The prompt, where it is to be repeated."""
        self._part.text = text + self._part.text
        self._part.entries[:0] = entries

    def look(self) -> ChoicePart:
        """What is new since the last look."""
        part, self._part = self._part, ChoicePart()
        return part

    def _add(self, piece: str) -> None:
        if not piece:
            return
        self._certain += len(piece)
        self._part.text += piece if self._restorer is None else self._restorer.add(piece)
        while self._pending and self._pending[0].place < self._certain:
            self._part.entries.append(self._pending.pop(0))

    def _finish(self, reason: Finish) -> None:
        if self._restorer is not None:
            self._part.text += self._restorer.end()
        if not self._written.ended:  # else what is left belongs to the stop string
            self._part.entries += self._pending
        self._pending = []
        self._part.finish = reason
        self.finished = True


def prompt_entries(lm: LanguageModel, prompt: ReadPrompt, scored: ScoredTokens, top: int) -> list[TokenEntry]:
    """The tokens of a prompt. The first has a number too: models predict it after the start mark."""
    labels = TokenLabels(lm.tokenizer)
    start = [TokenEntry(START, None, None, 0)] if prompt.started else []
    tops = scored.top if top else [()] * len(prompt.ids)
    rows = zip(prompt.ids.tolist(), scored.log_probs.tolist(), tops, strict=True)
    return [*start, *(labels.entry(token, logp, likeliest) for token, logp, likeliest in rows)]


def log_probs_of(entries: Sequence[TokenEntry], top: int | None) -> TokenLogProbs | None:
    """Entries as the protocol has them; None where no log probabilities were asked for."""
    if top is None:
        return None
    return TokenLogProbs(
        tokens=[entry.text for entry in entries],
        token_logprobs=[entry.log_prob for entry in entries],
        top_logprobs=[None if entry.top is None else dict(entry.top) for entry in entries] if top else None,
        text_offset=[entry.place for entry in entries],
    )


def _number(log_prob: float) -> float:
    return log_prob if math.isfinite(log_prob) else IMPOSSIBLE
