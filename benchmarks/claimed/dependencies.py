"""Three long dependencies besides number: reflexives, fillers with their gaps, and brackets."""

from __future__ import annotations

from functools import cache
from typing import Any

from claimed.learning import remembered, trained
from thereafter.evaluation.agreement import measure_agreement
from thereafter.text.agreement import Sentence, sentence_corpus

BRACKETS = "balanced-brackets"


@cache
def _material(name: str, lines: int, longest: int, asked: int) -> tuple[str, list[Sentence]]:
    """A text to train on, and new sentences to ask about."""
    corpus = sentence_corpus(name)
    text = "".join(f"{one.text}\n" for one in corpus.sentences(lines, seed=1, part="train", longest=longest))
    return text, list(corpus.sentences(asked, seed=2, longest=longest))


def right_beyond(
    name: str, kind: str, far: int, *, lines: int, longest: int, seed: int, asked: int = 600, **options: Any
) -> float:
    """The share of right forms with `far` to `longest` words between, of a small model trained on up to `longest`."""
    if name == BRACKETS:
        spans = range(far + far % 2, longest + 1, 2)
        right = remembered(kind, name, spans, lines=lines, shortest=0, longest=longest, seed=seed, **options)
        return sum(right.values()) / len(right)
    text, sentences = _material(name, lines, longest, asked)
    size = {} if kind == "ngram" else {"embed": 32, "init": 0.5}
    lm = trained(kind, text, seed=seed, **(size | options))
    tallies = measure_agreement(lm.model, lm.tokenizer, sentences, context=lm.config["text"]["context"])
    return tallies.between(far, longest).accuracy
