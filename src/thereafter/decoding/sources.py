"""What a decoder says of each source it was given: the likeliest word at every step, a beam search, or a draw.

All of it is what serves language models: `sampling.Sampler`, `beam.beam_searches`, `generation.pieces`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from thereafter.decoding.beam import SPARSE, Hypothesis, Search, beam_searches
from thereafter.decoding.generation import Prompted
from thereafter.decoding.sampling import Sampler
from thereafter.decoding.warping import Warping
from thereafter.decoding.writing import Spelling, UntilToken
from thereafter.errors import OptionError
from thereafter.models.encoder import Memory
from thereafter.models.word_decoder import END, WordDecoder


@dataclass(frozen=True)
class AnswerSettings:
    """How sources are answered.

    `beam`: hypotheses that are followed at once, 1 for the likeliest word at every step; `length_penalty`: see `beam`.
    `do_sample`: answers are drawn; `temperature`, `top_k`, `top_p`: see `Warping`; `seed`: the same one gives the same
    answers, none others every time.
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
            raise OptionError(f"beam is {self.beam}, but a beam search draws nothing; try do_sample=True without it")
        for name, unused in {
            "temperature": self.temperature == 1,
            "top_k": self.top_k is None,
            "top_p": self.top_p == 1,
            "seed": self.seed is None,
        }.items():
            if not unused and not self.do_sample:
                raise OptionError(f"{name} is for answers that are drawn, and none is; try do_sample=True with it")


def answered(
    decoder: WordDecoder,
    memory: Memory,
    settings: AnswerSettings,
    rngs: Sequence[np.random.Generator] | None = None,
) -> list[list[int]]:
    """The answer to every source, as ids without END; drawn ones by the generator of each."""
    if settings.beam > 1:
        texts = searched(decoder, memory, settings.beam, settings.length_penalty)
        return [[token for token in best[0].tokens if token != END] for best in texts]
    warping = Warping(temperature=0.0)
    if settings.do_sample:
        warping = Warping(temperature=settings.temperature, top_k=settings.top_k, top_p=settings.top_p)
    return drawn(decoder, memory, warping, rngs)


def searched(
    decoder: WordDecoder, memory: Memory, beam: int = 5, length_penalty: float = 1.0, best: int = 1
) -> list[list[Hypothesis]]:
    """The best answers found to every source, best first, END included where they have come to it."""
    search = Search(
        beam,
        decoder.limit,
        length_penalty=length_penalty,
        forbidden=_forbidden(decoder),
        narrowing=True,
        best=best,
    )
    model = decoder.given(memory)
    return beam_searches(model, model.start(len(memory)), [UntilToken(END)] * len(memory), search)


def drawn(
    decoder: WordDecoder,
    memory: Memory,
    warping: Warping,
    rngs: Sequence[np.random.Generator] | None = None,
) -> list[list[int]]:
    """An answer drawn to every source, as ids without END."""
    model, rows = decoder.given(memory), range(len(memory))
    sampler = Sampler(
        model,
        model.start(len(memory)),
        [np.random.default_rng() for _ in rows] if rngs is None else rngs,
        warping,
        forbidden=_forbidden(decoder),
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


def prompted(decoder: WordDecoder, memory: Memory, spelling: Spelling) -> Prompted:
    """One source as `generation` takes it: its answer can be generated, searched and streamed as any text."""
    model = decoder.given(memory)
    ids = np.empty(0, dtype=np.int64)
    return Prompted(model, spelling, "", ids, model.start(1), _forbidden(decoder), until=END)


def _forbidden(decoder: WordDecoder) -> tuple[int, ...]:
    return () if decoder.unknown is None else (decoder.unknown,)
