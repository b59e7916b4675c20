"""What models expect after a text, how a half-typed word may go on, what each word of a text cost several models, and
texts to try them with.

People type the same beginnings, and a page asks again whenever its models change: the last answers of every model are
kept for as long as the model is, so they are those it would give again, to the bit.

What a model of the generated sentences knows of number stands here, too: the verb forms among its words, and how likely
they are.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import Annotated, Literal
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from thereafter.evaluation.text_reading import TextReading
from thereafter.export.check import NO_TEXT, best_openings, model_text
from thereafter.inspection.surprisal import Surprisals, tabulate
from thereafter.language_model import LanguageModel
from thereafter.serving.lanes import Together
from thereafter.serving.schema import Answer, Asked, FailedAnswer, ModelName, Prompt
from thereafter.studio import asking
from thereafter.studio.asking import LikelyAnswer, Visitor, likely, number
from thereafter.studio.panels.units import own_text
from thereafter.studio.studio import Studio
from thereafter.text.agreement import words
from thereafter.text.agreement.lexicon import lexicon, twin, verb_number, verb_numbers

_EXAMPLES = 3  # texts to try a model with
_SHOWN = 400  # tokens of a prompt that are shown
KEPT = 1_000
"""Answers of a model that are kept."""
_KEPT_LENGTH = 500  # characters of a prompt whose answer is kept: longer ones would let visitors fill the memory
VerbForms = tuple[NDArray[np.int64], NDArray[np.int64]]
"""The token ids of the verb forms that agree with one subject, and with several."""
Question = tuple[str, int]
"""A prompt, and how many continuations of it."""
_KNOWN: WeakKeyDictionary[LanguageModel, VerbForms | None] = WeakKeyDictionary()
_QUESTIONS: WeakKeyDictionary[Studio, Together[str, Question, bytes]] = WeakKeyDictionary()


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


class NextAsked(Asked):
    models: Annotated[list[ModelName], Field(min_length=1, max_length=6)]
    prompt: Prompt = ""
    k: Annotated[int, Field(ge=1, le=50)] = 8


def verb_forms(lm: LanguageModel) -> VerbForms | None:
    """The verb forms in the vocabulary of a model of the generated sentences; None for every other model.

    It is one where most of the vocabulary are nouns and verbs of theirs: in another text "walks" may be a noun.
    """
    if lm not in _KNOWN:
        numbers = verb_numbers()
        nouns = {form for noun in lexicon().all_nouns for form in (noun.singular, noun.plural)}
        theirs = nouns | numbers.keys() | {form for verb in lexicon().all_verbs for form in verb}
        forms = list(lm.tokenizer.vocabulary.forms) if lm.tokenizer.name == "word" else []
        is_theirs = forms and 2 * sum(form in theirs for form in forms) >= len(forms)
        singular, plural = (
            np.array([at for at, form in enumerate(forms) if numbers.get(form) == form_number], dtype=np.int64)
            for form_number in ("singular", "plural")
        )
        _KNOWN[lm] = (singular, plural) if is_theirs else None
    return _KNOWN[lm]


def number_of(lm: LanguageModel, word: str, prompt: str) -> Literal["singular", "plural", ""]:
    """ "singular" or "plural" for a verb form that may follow a prompt, "" for whatever else."""
    if verb_forms(lm) is None:
        return ""
    return verb_number(word.strip(), after=_last(prompt)) or ""


def verbs_expected(lm: LanguageModel, logp_V: NDArray[np.floating], prompt: str) -> VerbFormsAnswer | None:
    """The probability of all verb forms of each number together; None where the model is of other texts."""
    forms = verb_forms(lm)
    if forms is None:
        return None
    if _last(prompt) in words.MODALS:  # infinitives: they agree with everything
        return VerbFormsAnswer(singular=0.0, plural=0.0)
    p_V = np.exp(np.asarray(logp_V, dtype=np.float64))
    singular, plural = (float(p_V[ids].sum()) for ids in forms)
    return VerbFormsAnswer(singular=singular, plural=plural)


def twin_of(lm: LanguageModel, text: str) -> str:
    """The text with singular and plural exchanged; "" where the model is of other texts or no word has a number."""
    if verb_forms(lm) is None:
        return ""
    other = " ".join(twin(text.split()))
    return "" if other == " ".join(text.split()) else other


def _last(prompt: str) -> str:
    return (prompt[-50:].split() or [""])[-1]


def predict(lm: LanguageModel, prompt: str, k: int, *, name: str = "") -> PredictionAnswer:
    """The last tokens of a prompt as the model reads them, and the k likeliest continuations.

    `name` is what the answer calls the model.
    """
    ids = lm.encode(prompt)
    logp_V = np.asarray(lm.model.predict(lm.state_after(ids)))[0]
    shown = ids[-_SHOWN:].tolist()
    return PredictionAnswer(
        model=name,
        tokens=[lm.tokenizer.piece(token) for token in shown],
        unknown=sum(token == lm.tokenizer.unknown_id for token in shown),
        candidates=[candidate(lm, prompt, token, p) for token, p in lm.likeliest(logp_V, k)],
        verbs=verbs_expected(lm, logp_V, prompt),
    )


def complete(lm: LanguageModel, prompt: str, k: int, *, name: str = "") -> CompletionAnswer:
    """The k likeliest words that begin as the last word of a prompt does; none where no word is begun."""
    words = lm.complete(prompt, k)
    before = prompt[: len(prompt) - len(words.typed)]
    return CompletionAnswer(
        model=name,
        typed=words.typed.strip(),
        candidates=[
            CandidateAnswer(text=one.word, append=one.append, p=one.p, number=number_of(lm, one.word, before))
            for one in words
        ],
        mass=min(1.0, words.mass),
        covered=words.covered,
        ending=words.ending,
        half_typed=words.half_typed,
    )


@asking.of_language_model("/examples", "example_texts")
def examples(lm: LanguageModel) -> ExamplesAnswer:
    """Texts to try a model with: from its own text, or written by itself.

    They are beginnings of lines.
    """
    if verb_forms(lm) is not None:
        return ExamplesAnswer(generated=True, texts=[])
    try:
        text, _ = own_text(lm)
    except NO_TEXT:
        text = model_text(lm.trained)
    return ExamplesAnswer(generated=False, texts=best_openings(lm.trained, text, 10 * _EXAMPLES)[:_EXAMPLES])


def candidate(lm: LanguageModel, prompt: str, token: int, p: float) -> CandidateAnswer:
    """One continuation of a prompt; what to append depends on its last character alone, the number on its last word."""
    last = prompt[-1:]
    append = lm.tokenizer.continuation(last, [token])[len(last) :]
    text = lm.tokenizer.piece(token)
    return CandidateAnswer(text=text, append=append, p=p, number=number_of(lm, text, prompt))


def questions_of(studio: Studio) -> Together[str, Question, bytes]:
    """Where the questions to each model of a studio gather."""
    if studio not in _QUESTIONS:
        _QUESTIONS[studio] = Together(studio.lanes, KeptAnswers(studio).answer)
    return _QUESTIONS[studio]


class KeptAnswers:
    """Answers as JSON, the last of them kept."""

    def __init__(self, studio: Studio) -> None:
        self._shelf = studio.shelf  # not the studio, for whose time `questions_of` keeps this
        self._kept: WeakKeyDictionary[LanguageModel, OrderedDict[Question, bytes]] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def answer(self, name: str, questions: Sequence[Question]) -> list[bytes | Exception]:
        """What a model says to each of several questions; one that cannot be answered spoils no other."""
        results: list[bytes | Exception] = []
        with self._shelf.borrow(name) as lm:
            with self._lock:  # the models share the table; each answers on one thread at a time
                kept = self._kept.setdefault(lm, OrderedDict())
            for question in questions:
                try:
                    results.append(self._answer(name, lm, question, kept))
                except Exception as error:  # it goes to whoever asked
                    results.append(error)
        return results

    def _answer(self, name: str, lm: LanguageModel, question: Question, kept: OrderedDict[Question, bytes]) -> bytes:
        prompt, k = question
        if question not in kept:
            kept[question] = asking.as_json(predict(lm, prompt, k, name=name))
        kept.move_to_end(question)
        answer = kept[question]
        if len(prompt) > _KEPT_LENGTH:
            del kept[question]
        elif len(kept) > KEPT:
            kept.popitem(last=False)
        return answer


@asking.answers("/next", list[PredictionAnswer | FailedAnswer])
async def next_words(asked: NextAsked, visitor: Visitor) -> bytes:
    """The likeliest continuations of a prompt under each of several models."""
    questions = questions_of(visitor.studio)
    return asking.join(
        await asking.attempt_each(
            asked.models, lambda name: questions.ask(name, (asked.prompt, asked.k), visitor.waits), together=True
        )
    )


@asking.answers("/complete", list[CompletionAnswer | FailedAnswer])
async def complete_words(asked: NextAsked, visitor: Visitor) -> bytes:
    """The likeliest words that begin as the last word of a prompt does, under each of several models."""

    def ask(name: str) -> Awaitable[bytes]:
        return visitor.ask(name, lambda lm: asking.as_json(complete(lm, asked.prompt, asked.k, name=name)))

    return asking.join(await asking.attempt_each(asked.models, ask, together=True))


LONGEST = 5_000
"""Characters of a text: each token costs a whole prediction."""


class WordSurprisalAnswer(Answer):
    """A word under one model. `bits` is null where its probability was 0.

    `rank`, `entropy` (bits), `context` (tokens the model saw) and `alternatives` are those of the prediction where the
    word begins. `unknown`: how many of its tokens the model has never met.
    """

    bits: float | None
    spelling_bits: float
    unknown: int
    tokens: list[str]
    rank: int
    entropy: float
    context: int
    alternatives: list[LikelyAnswer]


class ModelSurprisalAnswer(Answer):
    """One model: its sums, and a row for each word; null for a line end that it does not read."""

    model: str
    bits: float | None
    spelling_bits: float
    tokens: int
    unknown: int
    words: list[WordSurprisalAnswer | None]


class SurprisalAnswer(Answer):
    """`words` as they are written, a line end as a newline; every model has a row for each of them."""

    words: list[str]
    models: list[ModelSurprisalAnswer]
    failed: list[FailedAnswer]


class SurprisalAsked(Asked):
    models: Annotated[list[ModelName], Field(min_length=1, max_length=2)]
    text: Annotated[str, Field(min_length=1, max_length=LONGEST, examples=["the teachers near the farmer are old ."])]
    top: Annotated[int, Field(ge=0, le=10)] = 3


def read(lm: LanguageModel, text: str, top: int, *, name: str = "") -> TextReading:
    """A text as a model reads it, its predictions included; `name` is what the answer calls the model."""
    reading = lm.surprisal(text=text, detail=True, top=top).readings[0]
    return replace(reading, model=name or reading.model)


def surprisal(readings: Sequence[TextReading], failed: Sequence[FailedAnswer] = ()) -> SurprisalAnswer:
    """Readings of one text side by side, word for word."""
    table = tabulate(readings, "word")
    models = [_of_model(table, at) for at in range(len(readings))]
    return SurprisalAnswer(words=table.texts, models=models, failed=list(failed))


def _of_model(table: Surprisals, at: int) -> ModelSurprisalAnswer:
    reading = table.readings[at]
    total = reading.nats / math.log(2)
    return ModelSurprisalAnswer(
        model=reading.model,
        bits=number(total),
        spelling_bits=reading.spelling_nats / math.log(2),
        tokens=len(reading.costs.ids),
        unknown=int(np.count_nonzero(reading.costs.unknown_T)),
        words=_words(table, at),
    )


def _words(table: Surprisals, at: int) -> list[WordSurprisalAnswer | None]:
    reading, units = table.readings[at], table.units[at]
    predicted = reading.predicted
    if predicted is None:
        return []
    pieces, piece = reading.pieces(), reading.tokenizer.piece
    bits, spelling, unknown = table.bits(at), table.spelling_bits(at), table.unknown(at)
    words: list[WordSurprisalAnswer | None] = []
    for word, step in enumerate(reading.decisive(units).tolist()):
        begin, end = units.first_U1[word : word + 2].tolist()
        if begin == end:
            words.append(None)
            continue
        likeliest = zip(predicted.top_TK[step].tolist(), predicted.p_TK[step].tolist(), strict=True)
        words.append(
            WordSurprisalAnswer(
                bits=number(bits[word]),
                spelling_bits=float(spelling[word]),
                unknown=int(unknown[word]),
                tokens=pieces[begin:end],
                rank=int(predicted.rank_T[step]),
                entropy=float(predicted.entropy_T[step]),
                context=int(predicted.context_T[step]),
                alternatives=likely((piece(token), p) for token, p in likeliest),
            )
        )
    return words


@asking.answers("/surprisal", SurprisalAnswer, "surprisal")
async def compared(asked: SurprisalAsked, visitor: Visitor) -> bytes:
    """Surprisal of every word of a text under one model or two: bits, rank, entropy, alternatives."""

    async def ask(name: str) -> TextReading:
        return await visitor.ask(name, lambda lm: read(lm, asked.text, asked.top, name=name))

    readings, failed = asking.part(await asking.attempt_each(asked.models, ask, together=True))
    return await asyncio.to_thread(lambda: asking.as_json(surprisal(readings, failed)))
