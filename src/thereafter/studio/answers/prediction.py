"""Answers of `next`, `complete` and `examples`: what a model expects after a text, and texts to try it with."""

from __future__ import annotations

from typing import Literal

from thereafter.serving.schema import Answer


class CandidateAnswer(Answer):
    """A continuation: how it reads, what to append to the prompt, its probability.

    `number` is that of a verb form, in a model of the generated sentences; "" for whatever else.
    """

    text: str
    append: str
    p: float
    number: Literal["singular", "plural", ""]


class VerbFormsAnswer(Answer):
    """The probability of all verb forms of each number together."""

    singular: float
    plural: float


class PredictionAnswer(Answer):
    """`tokens` are the last of the prompt as the model reads it; `unknown` of them it has never met.

    `verbs` is null for a model of other texts than the generated sentences.
    """

    model: str
    tokens: list[str]
    unknown: int
    candidates: list[CandidateAnswer]
    verbs: VerbFormsAnswer | None


class ExamplesAnswer(Answer):
    """Example texts for a model. `generated`: it learned the generated sentences, and has no texts here."""

    generated: bool
    texts: list[str]


class CompletionAnswer(Answer):
    """Words that begin as the last word of a prompt does; their probabilities are shares of `mass`.

    `typed` is what there is of that word, `covered` the share of the mass that a search has followed to the ends of
    words, `ending` the share of the word as it stands: 0 where it is no word. `half_typed`: the model expects the word
    to go on.
    """

    model: str
    typed: str
    candidates: list[CandidateAnswer]
    mass: float
    covered: float
    ending: float
    half_typed: bool
