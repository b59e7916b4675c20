"""A request of the completions protocol as what a model reads: token ids, and how tokens are drawn after them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thereafter.decoding.sampling import generators
from thereafter.decoding.warping import Warping
from thereafter.language_model import LanguageModel
from thereafter.serving.server.refusals import FieldError
from thereafter.serving.server.wire import (
    MOST_CHARACTERS,
    MOST_CHOICES,
    MOST_LOG_PROBS,
    MOST_NEW_TOKENS,
    MOST_PROMPT_TOKENS,
    CompletionRequest,
)

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
        warping=Warping(
            temperature=1.0 if asked.temperature is None else asked.temperature,
            top_k=asked.top_k,
            top_p=1.0 if asked.top_p is None else asked.top_p,
            min_p=asked.min_p or 0.0,
            repetition_penalty=1.0 if asked.repetition_penalty is None else asked.repetition_penalty,
        ),
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
    for name, value in (
        ("presence_penalty", asked.presence_penalty),
        ("frequency_penalty", asked.frequency_penalty),
    ):
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
