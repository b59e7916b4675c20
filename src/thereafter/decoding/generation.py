"""Continuing a prompt, sampled, greedy or by beam search, with the argument names of Hugging Face's `generate`."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypedDict

from thereafter.base.tabular import Row, Tabular, html_table
from thereafter.decoding.beam import Search, beam_search
from thereafter.decoding.sampling import Sampler, Warping, check_penalty, generators
from thereafter.decoding.writing import Detokenizer, Written
from thereafter.errors import OptionError
from thereafter.models.base import Ids, S, SequenceModel

if TYPE_CHECKING:
    from thereafter.decoding.graph_generation import GraphSampler


class GenerationOptions(TypedDict, total=False):
    """The options of `generate` and its streams; `GenerationSettings` says what they mean."""

    do_sample: bool | None
    temperature: float
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repetition_penalty: float
    num_beams: int
    length_penalty: float
    early_stopping: bool
    stop_strings: str | Sequence[str] | None
    seed: int | None
    weights: str | None


@dataclass(frozen=True)
class GenerationSettings:
    """How a prompt is continued.

    Drawn tokens follow `Warping`, a search `beam.Search`; without a seed the text differs every time. Whoever begins a
    prompt sees to `weights`.
    """

    max_new_tokens: int = 40
    """Maximum number of tokens to generate."""
    do_sample: bool | None = None
    """Whether to draw tokens (the default) or, if False, always take the likeliest."""
    temperature: float = 1.0
    """Below 1 safer, above 1 more random, 0 always the most likely token."""
    top_k: int | None = None
    """Sample from the k most likely tokens only."""
    top_p: float | None = None
    """Sample from the most likely tokens that together reach this probability."""
    min_p: float | None = None
    """Sample from tokens at least this fraction as likely as the most likely one."""
    repetition_penalty: float = 1.0
    """Above 1: tokens that were already used become less likely."""
    num_beams: int = 1
    """Beam search with this many hypotheses, instead of sampling."""
    length_penalty: float = 1.0
    """Beam search: above 1 favours long texts, 0 short ones."""
    early_stopping: bool = False
    """Beam search: stop as soon as there are as many finished texts as hypotheses."""
    num_return_sequences: int = 1
    """Number of texts to generate."""
    stop_strings: str | tuple[str, ...] | None = None
    """The text ends before the first of these."""
    seed: int | None = None
    """Random seed: the same seed gives the same text."""
    weights: str | None = None
    """bfloat16 or int8: a recurrent model reads its matrices in fewer bytes, faster."""

    def __post_init__(self) -> None:
        if self.max_new_tokens < 0:
            raise OptionError(f"max_new_tokens is {self.max_new_tokens}; expected 0 or more; try 40")
        if self.seed is not None and self.seed < 0:
            raise OptionError(f"seed is {self.seed}; expected 0 or more, or none for another text every time; try 1")
        if self.num_beams < 1:
            raise OptionError(f"num_beams is {self.num_beams}; expected 1 (no search) or more; try 4")
        if self.num_return_sequences < 1:
            raise OptionError(f"num_return_sequences is {self.num_return_sequences}; expected 1 or more; try 3")
        if not -10 <= self.length_penalty <= 10:
            raise OptionError(f"length_penalty is {self.length_penalty}; expected -10 to 10; try 1.0")
        if "" in self.stops:
            raise OptionError("a stop string is empty, so no text could be generated; expected text; try '\\n'")
        check_penalty(self.repetition_penalty)
        warping = self.warping
        if self.num_beams > 1:
            self._check_search(warping)
        elif self.length_penalty != 1 or self.early_stopping:
            raise OptionError("length_penalty and early_stopping belong to beam search; try num_beams=4 with them")
        elif self.greedy and self.num_return_sequences > 1:
            raise OptionError(
                f"num_return_sequences is {self.num_return_sequences}, but greedy decoding has a single result; "
                f"try do_sample=True with a temperature above 0, or num_beams={self.num_return_sequences}"
            )

    def _check_search(self, warping: Warping) -> None:
        if self.do_sample:
            raise OptionError(
                "do_sample is True with a beam search; expected do_sample=False or num_beams=1; try num_beams=1"
            )
        for name, value, unused in (
            ("temperature", self.temperature, warping.temperature in (0, 1)),
            ("top_k", self.top_k, warping.top_k is None),
            ("top_p", self.top_p, warping.top_p == 1),
            ("min_p", self.min_p, warping.min_p == 0),
        ):
            if not unused:
                raise OptionError(
                    f"{name} is {value}, but a beam search does not sample; leave it out, or try num_beams=1"
                )
        if self.num_return_sequences > self.num_beams:
            raise OptionError(
                f"num_return_sequences is {self.num_return_sequences} with {self.num_beams} beams; "
                f"expected no more than num_beams; try num_beams={self.num_return_sequences}"
            )

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is always taken."""
        return self.temperature == 0 or self.do_sample is False

    @property
    def warping(self) -> Warping:
        """How distributions are reshaped; greedy if the settings are, by `temperature` or by `do_sample`."""
        return Warping(
            temperature=0.0 if self.do_sample is False and self.num_beams == 1 else self.temperature,
            top_k=self.top_k,
            top_p=1.0 if self.top_p is None else self.top_p,
            min_p=0.0 if self.min_p is None else self.min_p,
            repetition_penalty=self.repetition_penalty,
        )

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop strings as a tuple."""
        return (self.stop_strings,) if isinstance(self.stop_strings, str) else tuple(self.stop_strings or ())


@dataclass(frozen=True)
class Prompted(Generic[S]):
    """A model that has read a prompt or was given a source: where generation starts.

    `forbidden` tokens are never generated; `until` is the token that ends a text, if the model has one.
    """

    model: SequenceModel[S]
    tokenizer: Detokenizer
    text: str
    ids: Ids
    state: S
    forbidden: Sequence[int] = ()
    until: int | None = None

    def writing(self, stops: tuple[str, ...]) -> Written:
        """The text after the prompt, still empty."""
        return Written(self.tokenizer, stops, self.text[-1:], until=self.until)


@dataclass(frozen=True)
class Generated(Tabular):
    """A text with what it is made of.

    `tokens` are the new ones, including the one that completed a stop string; `log_probs` are their log probabilities
    under the model, in nats, before temperature and the like.
    """

    text: str
    tokens: list[int]
    log_probs: list[float]

    @property
    def log_prob(self) -> float:
        """log p of all new tokens together."""
        return math.fsum(self.log_probs)

    def to_rows(self) -> list[Row]:
        """A row a new token: its place, its id, log p in nats and in bits."""
        return [
            {"place": place, "token": token, "log_prob": logp, "bits": -logp / math.log(2)}
            for place, (token, logp) in enumerate(zip(self.tokens, self.log_probs, strict=True))
        ]

    def _repr_html_(self) -> str:
        """The text, then its tokens."""
        return f"<pre>{html.escape(self.text)}</pre>{html_table(self.to_rows())}"


@dataclass(frozen=True)
class Piece:
    """What one draw adds to a row: a token and the text that it makes certain. At the end, text alone."""

    row: int
    token: int | None
    log_prob: float
    text: str


def generate(begin: Prompted[S], settings: GenerationSettings) -> list[Generated]:
    """`num_return_sequences` texts: samples in the order of their rows, beams best first."""
    if settings.num_beams > 1:
        return _search(begin, settings)
    rows = range(settings.num_return_sequences)
    texts = [[begin.text] for _ in rows]
    tokens: list[list[int]] = [[] for _ in rows]
    log_probs: list[list[float]] = [[] for _ in rows]
    for piece in pieces(begin, settings):
        texts[piece.row].append(piece.text)
        if piece.token is not None:
            tokens[piece.row].append(piece.token)
            log_probs[piece.row].append(piece.log_prob)
    return [Generated("".join(texts[row]), tokens[row], log_probs[row]) for row in rows]


def pieces(begin: Prompted[S], settings: GenerationSettings) -> Iterator[Piece]:
    """Draw for all rows as one batch and yield each piece at once; joined, the texts of a row follow the prompt."""
    count = settings.num_return_sequences
    written = [begin.writing(settings.stops)] * count
    sampler = _sampler(begin, settings)
    try:
        for _ in range(settings.max_new_tokens):
            draws = sampler.draw()
            if not draws:
                break
            for draw in draws:
                text, written[draw.row] = written[draw.row].add(draw.token)
                if written[draw.row].ended:
                    sampler.stop(draw.row)
                yield Piece(draw.row, draw.token, draw.log_prob, text)
    finally:  # whoever takes the pieces may leave early: the next text gets what this one used
        for row in range(count):
            sampler.stop(row)
    for row, grown in enumerate(written):
        if rest := grown.end():
            yield Piece(row, None, 0.0, rest)


def _sampler(begin: Prompted[S], settings: GenerationSettings) -> Sampler[S] | GraphSampler:
    model, state, warping = begin.model, begin.state, settings.warping
    rngs = generators(settings.seed, settings.num_return_sequences)
    if model.facts.differentiable:  # only such models live on a GPU, and only they need torch
        from thereafter.decoding.graph_generation import graph_sampler

        most, forbidden = settings.max_new_tokens, begin.forbidden
        on_gpu = graph_sampler(model, state, rngs, warping, most=most, prompt=begin.ids, forbidden=forbidden)
        if on_gpu is not None:
            return on_gpu
    return Sampler(model, state, rngs, warping, prompt=begin.ids, forbidden=begin.forbidden)


def check_stream(settings: GenerationSettings) -> None:
    """Refuse to stream a beam search, whose text is known only at its end, or several texts."""
    if settings.num_beams > 1:
        raise OptionError("a beam search knows its text only at its end, so it cannot be streamed; try generate")
    if settings.num_return_sequences > 1:
        raise OptionError(
            f"num_return_sequences is {settings.num_return_sequences}, but only one text can be streamed; try generate"
        )


def _search(begin: Prompted[S], settings: GenerationSettings) -> list[Generated]:
    search = Search(
        settings.num_beams,
        settings.max_new_tokens,
        length_penalty=settings.length_penalty,
        early_stopping=settings.early_stopping,
        repetition_penalty=settings.repetition_penalty,
        forbidden=begin.forbidden,
    )
    texts = beam_search(begin.model, begin.state, begin.writing(settings.stops), search, begin.ids)
    return [
        Generated(begin.text + best.text + best.written.end(), list(best.tokens), list(best.log_probs))
        for best in texts[: settings.num_return_sequences]
    ]
