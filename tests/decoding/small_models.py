"""Language models small enough to be made for a test: a counted one, and neural ones with fresh weights."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any

import pytest

import thereafter
from thereafter.models.build import NEURAL, build, settings_of
from thereafter.text.tokenizers import TOKENIZERS
from thereafter.training.kinds import Trained

TEXT = "the cat sat on the mat\nthe dog sat on the cat\n\na cat ate the fish\nle café où est né 日本\n" * 4
NAMES = ["ngram", *NEURAL]
WITH_TOKENS = [
    pytest.param(name, tokens, marks=() if tokens == "prose" or name in ("ngram", "rnn") else pytest.mark.wide)
    for name in NAMES
    for tokens in TOKENIZERS
]
"""Every model with every tokenizer: wide, but for each model with one, and a counted and a neural one with each."""
SIZES: dict[str, Any] = {
    "hidden": 16,
    "embed": 16,
    "layers": 2,
    "sizes": (16, 16),
    "heads": 2,
    "window": 4,
    "context": 8,
}


@cache
def counted(tokens: str = "prose") -> thereafter.LanguageModel:
    return thereafter.train(text=TEXT, tokens=tokens, order=3)


@cache
def made(name: str, tokens: str = "prose") -> thereafter.LanguageModel:
    """The named model over the tokens of TEXT; a neural one speaks at random, but always the same."""
    import torch

    lm = counted(tokens)
    if name == "ngram":
        return lm
    known = {field.name for field in fields(settings_of(name))}
    with torch.random.fork_rng():
        torch.manual_seed(3)
        net = build(
            name,
            settings_of(name)(**{option: value for option, value in SIZES.items() if option in known}),
            vocabulary_size=len(lm.tokenizer.vocabulary),
            context=lm.config["text"]["context"],
            line_end=lm.tokenizer.line_end_id,
        )
    return thereafter.LanguageModel(Trained(net, lm.tokenizer, {**lm.config, "model": name}))
