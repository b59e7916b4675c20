"""One side of a sentence pair as ids: a tokenizer with an end mark.

Id 0 ends a sentence and pads rows; the ids of the tokenizer follow. White space is made single. Where spaces belong to
words, one is put before the first word, so that "the" is the same form everywhere in a sentence. What the tasks have in
common that answer in sentences is here too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from thereafter.base.config import Table
from thereafter.decoding.sources import AnswerSettings, decode_answers
from thereafter.errors import FormatError
from thereafter.inspection.trace import record
from thereafter.models.task_net import Memory
from thereafter.models.word_decoder import END, WordDecoder
from thereafter.tasks.answers import Fields, Shown
from thereafter.text.pretokenised import WritingStyle, style_of_vocabulary
from thereafter.text.tokenizers import TOKENIZERS, tokenizer_from_json
from thereafter.text.tokenizers.base import Tokenizer

_MARKS = 1
_END_FORM = "</s>"
_REMEMBERED = 1 << 20  # sentences whose ids are kept: they come again every epoch
_SPACED = ("prose", "bpe", "wordpiece", "unigram")  # tokenizers whose words begin with their space


class Wording:
    """Sentences to ids and back: see `data.codecs.Codec`. `seen`: the tokens of the longest training sentence.

    >>> side = Wording.fit(["a cat", "a dog", "a cat"], "word", min_count=1)
    >>> side.decode(side.encode("a dog"))
    'a dog'
    """

    codec: ClassVar[str] = "sentences"

    def __init__(self, tokenizer: Tokenizer, *, lower: bool, longest: int, seen: int = 0) -> None:
        self.tokenizer, self.lower, self.longest, self.seen = tokenizer, lower, longest, seen
        self.as_written = False
        self._known: dict[str, NDArray[np.int64]] = {}

    @classmethod
    def fit(
        cls,
        sentences: Iterable[str],
        tokens: str,
        *,
        vocabulary: int = 0,
        min_count: int = 2,
        lower: bool = False,
        longest: int = 250,
    ) -> Wording:
        """The wording of training sentences; `vocabulary` forms at most, 0 has it chosen."""
        text = "".join(_normalise(sentence, tokens, lower) + "\n" for sentence in sentences)
        least = None if tokens == "unigram" else min_count  # its pieces are chosen by probability
        fitted = TOKENIZERS.load(tokens).fit(lambda: [text], min_count=least, max_size=vocabulary or None)
        return cls(fitted, lower=lower, longest=longest)

    def __len__(self) -> int:
        return _MARKS + len(self.tokenizer.vocabulary)

    @property
    def size(self) -> int:
        return len(self)

    def verbatim(self) -> Wording:
        """The same, for sentences that are read as they are written, whatever the training sentences were."""
        same = copy(self)
        same.as_written = True
        return same

    @property
    def style(self) -> WritingStyle | None:
        """How the sentences were written, where they were pre-tokenised."""
        return None if self.as_written else self._style

    @cached_property
    def _style(self) -> WritingStyle | None:
        style = style_of_vocabulary(self.tokenizer)
        return None if style is None else replace(style, sentence_lines=False)

    @property
    def unknown(self) -> int | None:
        """The id of forms that were never met, where there can be any."""
        return None if self.tokenizer.unknown_id is None else _MARKS + self.tokenizer.unknown_id

    def count(self, sentence: str) -> int:
        """The tokens of a sentence, however long it is."""
        return len(self._with_end(sentence)) - 1

    def encode(self, sentence: str) -> NDArray[np.int64]:
        """The ids of a sentence with its end; of one that is longer than `longest` the first so many, without it."""
        ids = self._with_end(sentence)
        return ids[: self.longest] if len(ids) - 1 > self.longest else ids

    def decode(self, ids: Sequence[int] | NDArray[np.int64]) -> str:
        """The sentence that ids spell; marks are left out."""
        return self.tokenizer.decode([number - _MARKS for number in ids if number >= _MARKS]).strip()

    def continuation(self, prompt: str, ids: Sequence[int], /) -> str:
        """The prompt with the text of ids after it, as a text that grows is spelled."""
        return self.tokenizer.continuation(prompt, [number - _MARKS for number in ids if number >= _MARKS])

    def forms(self, ids: Sequence[int] | NDArray[np.int64]) -> list[str]:
        """Each id as a reader may be shown it."""
        piece = self.tokenizer.piece
        return [_END_FORM if number < _MARKS else piece(int(number) - _MARKS) for number in ids]

    def to_json(self) -> Table:
        """What `from_json` reads."""
        about = {"lower": self.lower, "longest": self.longest, "seen": self.seen}
        return {"tokenizer": self.tokenizer.to_json(), **about}

    @classmethod
    def from_json(cls, stored: Table) -> Wording:
        lower, longest, seen = (stored.get(name) for name in ("lower", "longest", "seen"))
        if type(lower) is not bool or type(longest) is not int or type(seen) is not int:
            raise FormatError("a wording of this run is damaged; expected lower, longest and seen; try training again")
        return cls(tokenizer_from_json(stored.get("tokenizer")), lower=lower, longest=longest, seen=seen)

    def _with_end(self, sentence: str) -> NDArray[np.int64]:
        """All ids of a sentence and the END; worked out once, and never written to."""
        ids = self._known.get(sentence)
        if ids is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            normal = _normalise(sentence, self.tokenizer.name, self.lower)
            ids = self._known[sentence] = np.append(self.tokenizer.encode(normal).astype(np.int64) + _MARKS, END)
            ids.flags.writeable = False
        return ids


def _normalise(sentence: str, tokens: str, lower: bool) -> str:
    text = " ".join((sentence.lower() if lower else sentence).split())
    return f" {text}" if tokens in _SPACED else text


def generators_of(questions: Iterable[tuple[int, ...]], settings: AnswerSettings) -> list[np.random.Generator] | None:
    """One for each question, of the seed and the question's own numbers, so that its batch does not matter; and of how
    often it came before, so that one asked several times has several answers. None where nothing is drawn."""
    if not settings.do_sample:
        return None
    if settings.seed is None:
        return [np.random.default_rng() for _ in questions]
    rngs, came = [], Counter[tuple[int, ...]]()
    for question in questions:
        rngs.append(np.random.default_rng([settings.seed, came[question], *question]))
        came[question] += 1
    return rngs


def shown_answer(net: WordDecoder, memory: Memory, words: Wording, about: Table) -> Shown:
    """The likeliest answer to the one source of a memory, with what the decoder did at each of its tokens."""
    (answer,) = decode_answers(net, memory, AnswerSettings())
    ids = np.array([*answer, END])
    traced = record(net.given(memory), ids, words.forms(ids), words.forms(range(len(words))))
    fields: Fields = {name: (traced.axes[name], array) for name, array in traced.arrays.items()}
    return Shown(traced.tokens, traced.vocabulary, fields, {"answer": words.decode(answer), **about})
