"""The small models all pictures of the gallery are made of: each is trained when it is first asked for, and kept.

Budgets are in tokens, not in minutes, so that every build gives the same pictures on the same machine. A training that
was stopped goes on where it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from thereafter.api import resume, train
from thereafter.language_model import LanguageModel
from thereafter.text.agreement import write_corpus
from thereafter.training.run_folder import is_finished, is_run

KINDS = ("ngram", "window", "rnn", "gru", "lstm", "mingru", "transformer")

BETWEEN = 10
"""Words between subject and verb, at most: the whole corpus has up to 40, and takes minutes to learn, not seconds."""
SENTENCES = {"train": 40_000, "valid": 1_000, "test": 4_000}
BUDGET = 1_600_000
"""Tokens each neural model of the sentences reads."""

_COMMON: dict[str, Any] = {"batch": 16, "rate": 0.01, "dropout": 0.0, "tokens_budget": BUDGET, "validate_every": 500}
# A tied embedding would make "dog" and "dogs" alike: as words to be predicted they are.
_OPTIONS: dict[str, dict[str, Any]] = {
    "ngram": {"order": 5},
    "window": _COMMON | {"hidden": 128},
    "transformer": _COMMON | {"hidden": 128, "layers": 2, "context": 64, "rate": 0.003, "tied": False},
}
_RECURRENT = _COMMON | {"hidden": 128, "layers": 1, "tied": False}
_OPTIONS["rnn"] = _RECURRENT | {"rate": 0.002}  # a simple recurrence makes nothing of larger steps


class Models:
    """Models by name, under a folder that outlives the build; `seed` is that of all trainings.

    `before_training` is called with the name of a model that is about to be trained.
    """

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self.folder, self.seed = folder, seed
        self.before_training: Callable[[str], None] = lambda name: None
        self._held: dict[str, LanguageModel] = {}

    def sentences(self) -> dict[str, Path]:
        """Sentences whose verb agrees with a subject up to `BETWEEN` words before: train, valid and test as text."""
        folder = self.folder / f"sentences-{BETWEEN}-{SENTENCES['train']}"
        parts = {part: folder / f"agreement.{part}.txt" for part in SENTENCES}
        if not all(path.exists() for path in parts.values()):
            parts = write_corpus(folder, sizes=SENTENCES, max_distance=BETWEEN)
        return parts

    def agreement(self, kind: str, **options: Any) -> LanguageModel:
        """A model of `KINDS` trained on `sentences`: one layer of 128 units, a Transformer of two blocks."""
        given = _OPTIONS.get(kind, _RECURRENT) | ({} if kind == "ngram" else {"seed": self.seed}) | options
        parts = self.sentences()
        checked = {} if kind == "ngram" else {"valid": parts["valid"]}
        return self.trained(f"agreement-{kind}", parts["train"], kind, tokens="word", **checked, **given)

    def letters(self) -> LanguageModel:
        """A character LSTM on the built-in `python-code`, for units that follow the text."""
        options: dict[str, Any] = {"tokens": "char", "hidden": 128, "layers": 1, "embed": 32, "tied": False}
        options |= {"dropout": 0.0, "batch": 8, "steps": 100, "rate": 0.005, "tokens_budget": 4_000_000}
        return self.trained("letters", "python-code", "lstm", seed=self.seed, **options)

    def trained(self, name: str, source: str | Path, kind: str, **options: Any) -> LanguageModel:
        """The model of that name; trained with these options where it is not there yet.

        A kept model is found by its options too: after a change of them it is trained anew.
        """
        if name not in self._held:
            run = self.folder / f"{name}-{_mark(source, kind, options)}"
            if not (is_run(run) and is_finished(run)):
                self.before_training(name)
            self._held[name] = resume(run) if is_run(run) else train(source, model=kind, out=run, **options)
        return self._held[name]


def _mark(source: str | Path, kind: str, options: dict[str, Any]) -> str:
    """A few letters that differ where the training does; where the gallery lies makes no difference."""
    told = {name: value.name if isinstance(value, Path) else value for name, value in options.items()}
    named = source.parent.name if isinstance(source, Path) else source
    return sha256(json.dumps([named, kind, told], sort_keys=True, default=str).encode()).hexdigest()[:8]
