"""Small models with random weights that can be exported: every kind, every option of every cell, every head."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from thereafter.cells.options import ElmanOptions, GRUVariant, LSTMVariant, option_cases
from thereafter.layers.attention import Block
from thereafter.models.any_model import AnyModel
from thereafter.models.build import build, settings_of
from thereafter.text.tokenizers import TOKENIZERS
from thereafter.text.tokenizers.base import Tokenizer

TEXT = "the cat sat on the mat; a dog, 12 years old, ran after it.\nwhere is the cat now? up a tree — é è ü.\n" * 3

GPT2 = "transformer of gpt2"
"""The gelu of its blocks is GPT-2's, and their weights reach where the two differ."""
Case = tuple[str, dict[str, Any]]
CASES: dict[str, Case] = {
    "rnn": ("rnn", {"hidden": 9, "layers": 2}),
    "rnn untied": ("rnn", {"sizes": (5, 10), "embed": 3, "tied": False, "layer_norm": True}),
    "lstm": ("lstm", {"hidden": 12}),
    "lstm residual": ("lstm", {"hidden": 8, "layers": 3, "connect": "residual", "layer_norm": True}),
    "lstm highway": ("lstm", {"hidden": 8, "layers": 3, "connect": "highway", "embed": 8}),
    "lstm adaptive": ("lstm", {"hidden": 8, "head": "adaptive", "cutoffs": (6, 15), "tied": False}),
    "lstm folded": ("lstm", {"hidden": 48, "tied": False, "layers": 2}),
    "lstm folded tied": ("lstm", {"sizes": (40, 48), "embed": 48, "layer_norm": True, "peephole": True}),
    "gru": ("gru", {"hidden": 11}),
    "awd-lstm": ("awd-lstm", {"embed": 8, "sizes": (13, 12, 8)}),
    "mingru": ("mingru", {"hidden": 10}),
    "minlstm": ("minlstm", {"hidden": 10, "connect": "residual"}),
    "window": ("window", {"embed": 6, "hidden": 10, "window": 3}),
    "window direct": ("window", {"embed": 5, "hidden": 10, "window": 4, "direct": True}),
    "average": ("average", {"embed": 8, "window": 5, "tied": True}),
    "transformer": ("transformer", {"hidden": 8, "layers": 2, "heads": 2, "context": 7}),
    "transformer post": (
        "transformer",
        {"hidden": 12, "layers": 1, "heads": 3, "context": 16, "norm": "post", "positions": "learned", "tied": False},
    ),
    GPT2: ("transformer", {"hidden": 8, "layers": 2, "heads": 2, "context": 7}),
}
for _kind, _variant in (("rnn", ElmanOptions), ("gru", GRUVariant), ("lstm", LSTMVariant)):
    for _options in option_cases(_variant):
        _named = ", ".join(f"{name}={value}" for name, value in _options.items())
        CASES[f"{_kind} {_named}"] = (_kind, {"hidden": 7, "layers": 2, **_options})
CORE = (
    *("rnn untied", "rnn nonlinearity=sigmoid", "lstm residual", "lstm highway", "lstm adaptive", "lstm folded tied"),
    *("lstm peephole=True, coupled=True, layer_norm=True", "gru reset=after, update=new", "awd-lstm", "mingru"),
    *("gru reset=before, update=old, layer_norm=True", "minlstm", "window direct", "average", "transformer post", GPT2),
)
"""Every kind, every head and every option of a cell in one of them: what `make test` runs."""


@dataclass
class Toy:
    """What `plan_of` asks of a trained model."""

    model: AnyModel
    tokenizer: Tokenizer
    config: dict[str, Any] = field(default_factory=dict)


def toy(
    case: str,
    tokens: str = "char",
    *,
    context: str = "stream",
    seed: int = 0,
    lower: bool = False,
    letters_only: bool = False,
    text: str = TEXT,
) -> Toy:
    """A model of `CASES` over the tokens of a text, with random weights far enough from 0 that differences show."""
    name, options = CASES[case]
    tokenizer = TOKENIZERS.load(tokens).fit(lambda: [text])
    torch.manual_seed(seed)
    size = len(tokenizer.vocabulary)
    about = {"vocabulary_size": size, "context": context, "line_end": tokenizer.line_end_id}
    model = build(name, settings_of(name)(**options), **about)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
        for block in (part for part in model.modules() if isinstance(part, Block) and case == GPT2):
            block.approximate = "tanh"
            block.narrow.weight.mul_(4)
    return Toy(model.eval(), tokenizer, {"model": name, "text": {"lower": lower, "letters_only": letters_only}})


def some_ids(size: int, steps: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, size, steps)


def expected(model: AnyModel, ids: np.ndarray) -> np.ndarray:
    """log p of every token before each of the ids and after the last, with the state carried, [T + 1, V]."""
    state: Any = model.start(1)
    rows = [np.asarray(model.predict(state))[0]]
    for token in ids:
        logp, state = model.step(np.array([token]), state)
        rows.append(np.asarray(logp)[0])
    return np.stack(rows)


def ran(runner: Any, ids: np.ndarray) -> np.ndarray:
    """The same by a runner."""
    return np.concatenate([runner.start(1), *(runner.step(np.array([token])) for token in ids)])
