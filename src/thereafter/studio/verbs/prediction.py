"""The verbs `next`, `complete` and `examples`: what a model expects after a text, and texts to try it with."""

from __future__ import annotations

import numpy as np

from thereafter.export.texts import NO_TEXT, best_openings, model_text
from thereafter.language_model import LanguageModel
from thereafter.studio.answers.prediction import CandidateAnswer, CompletionAnswer, ExamplesAnswer, PredictionAnswer
from thereafter.studio.verbs.number import number_of, verb_forms, verbs_expected
from thereafter.studio.verbs.units import own_text

_SHOWN = 400  # tokens of a prompt that are shown


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


def examples(lm: LanguageModel, most: int = 3) -> ExamplesAnswer:
    """Texts to try a model with: beginnings of lines of its own text, else of what it writes itself."""
    if verb_forms(lm) is not None:
        return ExamplesAnswer(generated=True, texts=[])
    try:
        text, _ = own_text(lm)
    except NO_TEXT:
        text = model_text(lm.trained)
    return ExamplesAnswer(generated=False, texts=best_openings(lm.trained, text, 10 * most)[:most])


def candidate(lm: LanguageModel, prompt: str, token: int, p: float) -> CandidateAnswer:
    """One continuation of a prompt; what to append depends on its last character alone, the number on its last word."""
    last = prompt[-1:]
    append = lm.tokenizer.continuation(last, [token])[len(last) :]
    text = lm.tokenizer.piece(token)
    return CandidateAnswer(text=text, append=append, p=p, number=number_of(lm, text, prompt))
