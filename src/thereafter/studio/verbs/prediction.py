"""The verb `next`: what a model expects after a text."""

from __future__ import annotations

from typing import Any

import numpy as np

from thereafter.language_model import LanguageModel
from thereafter.studio.verbs.number import number_of, verbs_expected

_SHOWN = 400  # tokens of a prompt that are shown


def predict(lm: LanguageModel, prompt: str, k: int) -> dict[str, Any]:
    """The last tokens of a prompt as the model reads them, and the k likeliest continuations.

    `candidates`: `text` as it reads alone, `append` what makes the prompt longer by it, `p` its probability, `number`
    that of a verb form. `unknown`: how many of the tokens the model has never met. `verbs`: the probability of all
    singular and of all plural verb forms, None for a model of other texts than the generated sentences.
    """
    ids = lm.encode(prompt)
    logp_V = np.asarray(lm.model.predict(lm._after(ids)))[0]
    shown = ids[-_SHOWN:].tolist()
    return {
        "tokens": [lm.tokenizer.piece(token) for token in shown],
        "unknown": sum(token == lm.tokenizer.unknown_id for token in shown),
        "candidates": [candidate(lm, prompt, token, p) for token, p in lm.likeliest(logp_V, k)],
        "verbs": verbs_expected(lm, logp_V, prompt),
    }


def candidate(lm: LanguageModel, prompt: str, token: int, p: float) -> dict[str, Any]:
    """One continuation of a prompt; what to append depends on its last character alone, the number on its last word."""
    last = prompt[-1:]
    append = lm.tokenizer.continuation(last, [token])[len(last) :]
    text = lm.tokenizer.piece(token)
    return {"text": text, "append": append, "p": p, "number": number_of(lm, text, prompt)}
