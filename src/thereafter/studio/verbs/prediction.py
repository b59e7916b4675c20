"""The verb `next`: what a model expects after a text."""

from __future__ import annotations

from typing import Any

from thereafter.language_model import LanguageModel

_SHOWN = 400  # tokens of a prompt that are shown


def predict(lm: LanguageModel, prompt: str, k: int) -> dict[str, Any]:
    """The last tokens of a prompt as the model reads them, and the k likeliest continuations.

    `candidates`: `text` as it reads alone, `append` what makes the prompt longer by it, `p` its probability. `unknown`:
    how many of the tokens the model has never met.
    """
    ids = lm.encode(prompt)
    shown = ids[-_SHOWN:].tolist()
    return {
        "tokens": [lm.tokenizer.piece(token) for token in shown],
        "unknown": sum(token == lm.tokenizer.unknown_id for token in shown),
        "candidates": [candidate(lm, prompt, token, p) for token, p in lm.next_ids(ids, k)],
    }


def candidate(lm: LanguageModel, prompt: str, token: int, p: float) -> dict[str, Any]:
    """One continuation of a prompt; what to append to it depends on its last character alone."""
    last = prompt[-1:]
    append = lm.tokenizer.continuation(last, [token])[len(last) :]
    return {"text": lm.tokenizer.piece(token), "append": append, "p": p}
