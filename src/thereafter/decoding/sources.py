"""The answer of a decoder to each source it was given: greedy, by beam search, or sampled.

All of it is shared with language models: `sampling.Sampler`, `beam.beam_searches`, `generation.pieces`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from thereafter.decoding.beam import SPARSE, Hypothesis, Search, beam_searches
from thereafter.decoding.sampling import Sampler, Warping
from thereafter.decoding.writing import UntilToken
from thereafter.errors import OptionError
from thereafter.models.task_net import Memory
from thereafter.models.word_decoder import END, WordDecoder


@dataclass(frozen=True)
class AnswerSettings:
    """How answers are decoded.

    `beam`: the number of hypotheses, 1 for greedy decoding; `length_penalty`: see `beam`. `do_sample`: answers are
    sampled; `temperature`, `top_k`, `top_p`: see `Warping`; `seed`: the same seed gives the same answers, without one
    they differ every time.
    """

    beam: int = 1
    length_penalty: float = 1.0
    do_sample: bool = False
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise OptionError(f"beam is {self.beam}; expected at least 1; try beam=5")
        if self.seed is not None and self.seed < 0:
            raise OptionError(f"seed is {self.seed}; expected 0 or more, or none for another answer every time; try 1")
        if self.do_sample and self.beam > 1:
            raise OptionError(f"beam is {self.beam}, but a beam search does not sample; try do_sample=True without it")
        for name, unused in {
            "temperature": self.temperature == 1,
            "top_k": self.top_k is None,
            "top_p": self.top_p == 1,
            "seed": self.seed is None,
        }.items():
            if not unused and not self.do_sample:
                raise OptionError(f"{name} is for sampled answers; got do_sample=False; try do_sample=True with it")


def decode_answers(
    decoder: WordDecoder, memory: Memory, settings: AnswerSettings, rngs: Sequence[np.random.Generator] | None = None
) -> list[list[int]]:
    """The answer to every source, as ids without END; sampled ones use the generator of their source."""
    if settings.beam > 1:
        texts = search_answers(decoder, memory, settings.beam, settings.length_penalty)
        return [[token for token in best[0].tokens if token != END] for best in texts]
    warping = Warping(temperature=0.0)
    if settings.do_sample:
        warping = Warping(temperature=settings.temperature, top_k=settings.top_k, top_p=settings.top_p)
    return draw_answers(decoder, memory, warping, rngs)


def search_answers(
    decoder: WordDecoder, memory: Memory, beam: int = 5, length_penalty: float = 1.0, best: int = 1
) -> list[list[Hypothesis]]:
    """The best answers to every source, best first, END included if they reached it."""
    search = Search(
        beam,
        decoder.limit,
        length_penalty=length_penalty,
        forbidden=_forbidden_tokens(decoder),
        narrowing=True,
        best=best,
    )
    model = decoder.given(memory)
    return beam_searches(model, model.start(len(memory)), [UntilToken(END)] * len(memory), search)


def draw_answers(
    decoder: WordDecoder, memory: Memory, warping: Warping, rngs: Sequence[np.random.Generator] | None = None
) -> list[list[int]]:
    """A sampled answer to every source, as ids without END."""
    model, rows = decoder.given(memory), range(len(memory))
    sampler = Sampler(
        model,
        model.start(len(memory)),
        [np.random.default_rng() for _ in rows] if rngs is None else rngs,
        warping,
        forbidden=_forbidden_tokens(decoder),
        rows=np.array(rows),
        sparse=SPARSE,
    )
    answers: list[list[int]] = [[] for _ in rows]
    for _ in range(decoder.limit):
        draws = sampler.draw()
        for draw in draws:
            if draw.token == END:
                sampler.stop(draw.row)
            else:
                answers[draw.row].append(draw.token)
        if not draws:
            break
    return answers


def _forbidden_tokens(decoder: WordDecoder) -> tuple[int, ...]:
    return () if decoder.unknown is None else (decoder.unknown,)
