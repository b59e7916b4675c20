"""What a model of the generated sentences knows of number: the verb forms among its words, and how likely they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from thereafter.language_model import LanguageModel
from thereafter.studio.answers.prediction import VerbFormsAnswer
from thereafter.text.agreement import words
from thereafter.text.agreement.lexicon import lexicon, twin, verb_number, verb_numbers


@dataclass(frozen=True)
class VerbForms:
    """The token ids of the verb forms that agree with one subject, and with several."""

    singular: NDArray[np.int64]
    plural: NDArray[np.int64]


_KNOWN: WeakKeyDictionary[LanguageModel, VerbForms | None] = WeakKeyDictionary()


def verb_forms(lm: LanguageModel) -> VerbForms | None:
    """The verb forms in the vocabulary of a model of the generated sentences; None for every other model.

    It is one where most of the vocabulary are nouns and verbs of theirs: in another text "walks" may be a noun.
    """
    if lm not in _KNOWN:
        _KNOWN[lm] = _find(lm)
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
    return VerbFormsAnswer(singular=float(p_V[forms.singular].sum()), plural=float(p_V[forms.plural].sum()))


def twin_of(lm: LanguageModel, text: str) -> str:
    """The text with singular and plural exchanged; "" where the model is of other texts or no word has a number."""
    if verb_forms(lm) is None:
        return ""
    other = " ".join(twin(text.split()))
    return "" if other == " ".join(text.split()) else other


def _last(prompt: str) -> str:
    return (prompt[-50:].split() or [""])[-1]


def _find(lm: LanguageModel) -> VerbForms | None:
    if lm.tokenizer.name != "word":
        return None
    numbers = verb_numbers()
    nouns = {form for noun in lexicon().all_nouns for form in (noun.singular, noun.plural)}
    verbs = numbers.keys() | {form for verb in lexicon().all_verbs for form in verb}
    forms = list(lm.tokenizer.vocabulary.forms)
    if 2 * sum(form in nouns or form in verbs for form in forms) < len(forms):
        return None
    ids = {
        number: [at for at, form in enumerate(forms) if numbers.get(form) == number]
        for number in ("singular", "plural")
    }
    return VerbForms(np.array(ids["singular"], dtype=np.int64), np.array(ids["plural"], dtype=np.int64))
