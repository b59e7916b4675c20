"""A request of the protocol as what a model reads, and a row of the engine as one choice of its answer.

Read are token ids, and how tokens are drawn after them. Written is text that is certain, tokens with their log
probabilities, and the end. Text is that of `LanguageModel.generate`: never half a character, cut before a stop string,
and written as people write it where the model's own text was pre-tokenised.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from thereafter.base.config import field_names
from thereafter.decoding.sampling import Warping, generators
from thereafter.decoding.writing import Written
from thereafter.language_model import LanguageModel
from thereafter.serving.engine_prompts import RowEvent, ScoredTokens
from thereafter.serving.server.protocol import (
    MOST_CHARACTERS,
    MOST_CHOICES,
    MOST_LOG_PROBS,
    MOST_NEW_TOKENS,
    MOST_PROMPT_TOKENS,
    CompletionRequest,
    FieldError,
    TokenLogProbs,
)
from thereafter.text.pretokenised_words import Restorer
from thereafter.text.tokenizers.base import Tokenizer

START = "<s>"
DEFAULT_TOKENS = 16
"""Of a request that does not say how many, as with OpenAI."""


@dataclass(frozen=True)
class ReadPrompt:
    """A prompt as text and as ids. `started`: the ids that came began with the start mark, which `ids` leaves out."""

    text: str
    ids: NDArray[np.int32]
    started: bool = False

    @property
    def size(self) -> int:
        """Tokens that came."""
        return len(self.ids) + self.started


@dataclass(frozen=True)
class Wish:
    """What is wanted of every prompt; the defaults of the protocol are filled in.

    `top`: how many alternatives of a token are reported, None for no log probabilities at all.
    """

    warping: Warping
    stops: tuple[str, ...]
    seed: int | None
    n: int
    max_tokens: int
    echo: bool
    top: int | None

    def seeds(self) -> list[np.random.Generator]:
        """A generator for each text after one prompt: those of `LanguageModel.generate`."""
        return generators(self.seed, self.n)


def wish_of(asked: CompletionRequest) -> Wish:
    """The settings of a request; FieldError for what no model here can honour."""
    check(asked)
    return Wish(
        warping=Warping(**asked.model_dump(include=field_names(Warping), exclude_none=True)),
        stops=tuple(asked.stop or ()),
        seed=asked.seed,
        n=asked.n or 1,
        max_tokens=DEFAULT_TOKENS if asked.max_tokens is None else asked.max_tokens,
        echo=bool(asked.echo),
        top=asked.logprobs,
    )


def check(asked: CompletionRequest) -> None:
    """Refuse fields that would silently be ignored, and more work than one request may ask for."""
    if asked.best_of is not None and asked.best_of != (asked.n or 1):
        raise FieldError(
            "best_of",
            f"best_of is {asked.best_of}, but texts are not chosen by the server; try n={asked.best_of} with "
            "logprobs=0 and take the text whose token_logprobs have the largest mean",
        )
    if asked.suffix:
        raise FieldError("suffix", "suffix is given, but models read from left to right; try it without a suffix")
    if asked.logit_bias:
        raise FieldError("logit_bias", "logit_bias is not supported; try top_k, top_p or min_p to leave tokens out")
    for name, value in (("presence_penalty", asked.presence_penalty), ("frequency_penalty", asked.frequency_penalty)):
        if value:
            raise FieldError(name, f"{name} is {value:g}; expected 0; try repetition_penalty=1.2 instead")
    prompts = len(_batch(asked))
    rows = prompts * (asked.n or 1)
    if rows > MOST_CHOICES:
        raise FieldError(
            "n", f"{prompts} prompts with n={asked.n or 1} are {rows} texts; expected at most {MOST_CHOICES}; try fewer"
        )
    if rows * (asked.max_tokens or 0) > 4 * MOST_NEW_TOKENS:
        raise FieldError(
            "max_tokens",
            f"{rows} texts of {asked.max_tokens} tokens were asked for; expected at most {4 * MOST_NEW_TOKENS:,} "
            "in all; try several requests",
        )
    numbers = rows * (asked.max_tokens or 0) * (1 + (asked.logprobs or 0))
    if asked.logprobs is not None and numbers > MOST_LOG_PROBS:
        raise FieldError(
            "logprobs",
            f"{rows} texts of {asked.max_tokens} tokens with logprobs={asked.logprobs} have {numbers:,} log "
            f"probabilities; expected at most {MOST_LOG_PROBS:,}; try fewer texts or tokens, or smaller logprobs",
        )


def read_prompts(asked: CompletionRequest, wish: Wish, lm: LanguageModel) -> list[ReadPrompt]:
    """All prompts of a request, encoded; none given is one that is empty."""
    given = _batch(asked)
    characters = sum(len(one) for one in given if isinstance(one, str))
    if characters > MOST_CHARACTERS:
        raise FieldError(
            "prompt", f"the prompts have {characters:,} characters; expected {MOST_CHARACTERS:,}; try several requests"
        )
    prompts = [ReadPrompt(one, lm.encode(one)) if isinstance(one, str) else read_ids(one, lm) for one in given]
    check_size(prompts, wish)
    return prompts


def check_size(prompts: Sequence[ReadPrompt], wish: Wish) -> None:
    """Refuse what would take too long to read, or to send back."""
    tokens = sum(len(prompt.ids) for prompt in prompts)
    if tokens > MOST_PROMPT_TOKENS:
        raise FieldError(
            "prompt", f"the prompts have {tokens:,} tokens; expected at most {MOST_PROMPT_TOKENS:,}; try shorter ones"
        )
    if tokens * wish.n > 4 * MOST_PROMPT_TOKENS:
        raise FieldError("n", f"prompts of {tokens:,} tokens are read for each of n={wish.n} texts; try a smaller n")
    if not wish.echo:
        return
    characters = wish.n * sum(len(prompt.text) for prompt in prompts)
    numbers = 0 if wish.top is None else wish.n * tokens * (1 + wish.top)
    if characters > MOST_CHARACTERS or numbers > MOST_LOG_PROBS:
        raise FieldError(
            "echo",
            f"repeating the prompts takes {characters:,} characters and {numbers:,} log probabilities; expected "
            f"{MOST_CHARACTERS:,} of each at most; try n=1, smaller logprobs or several requests",
        )


def is_long(asked: CompletionRequest) -> bool:
    """Whether encoding it takes so long that a thread should do it."""
    return sum(map(len, _batch(asked))) > 2_000


def _batch(asked: CompletionRequest) -> Sequence[str | list[int]]:
    """The prompts of a request; a list of ids is one prompt."""
    match asked.prompt:
        case None:
            return [""]
        case str() as text:
            return [text]
        case [str() | list(), *_] as several:
            return [one for one in several if not isinstance(one, int)]
        case ids:
            return [[one for one in ids if isinstance(one, int)]]


def read_ids(ids: Sequence[int], lm: LanguageModel) -> ReadPrompt:
    """A prompt of ids. The start mark may come first: every text begins after it, said or not."""
    size = lm.tokenizer.size
    started = len(ids) > 0 and ids[0] == lm.tokenizer.start_id
    array = np.array(ids[1:] if started else ids, dtype=np.int64)
    if len(array) and int(array.max()) >= size:
        raise FieldError(
            "prompt",
            f"token id {int(array.max())} is outside the vocabulary of {size:,}; expected 0 to {size - 1}, or "
            f"{size} ({START}) as the first; try the run's own tokenizer, at /tokenize",
        )
    return ReadPrompt(lm.tokenizer.decode(array), array.astype(np.int32), started)


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
