"""The small models all pictures of the gallery are made of: each is trained when it is first asked for, and kept.

Budgets are in tokens, not in minutes, so that every build gives the same pictures on the same machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from thereafter.api import load, train
from thereafter.language_model import LanguageModel

KINDS = ("ngram", "window", "rnn", "gru", "lstm", "mingru", "transformer")


class Models:
    """Models by name, under a folder that outlives the build; `seed` is that of all trainings."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self.folder, self.seed = folder, seed
        self._held: dict[str, LanguageModel] = {}

    def agreement(self, kind: str, **options: Any) -> LanguageModel:
        """A model of `KINDS` trained on the built-in sentences of `agreement`, one layer of 128 units."""
        small: dict[str, Any] = {}
        if kind != "ngram":
            small = {"epochs": 2, "batch": 16, "rate": 0.01, "dropout": 0.0, "seed": self.seed}
            small |= {"hidden": 64, "layers": 2, "context": 64, "rate": 0.003} if kind == "transformer" else {}
            small |= {"hidden": 128} if kind != "transformer" else {}
            small |= {"layers": 1, "tied": False} if kind not in ("transformer", "window") else {}
        return self.trained(f"agreement-{kind}", "agreement", kind, **(small | options))

    def letters(self) -> LanguageModel:
        """A character LSTM on the built-in `python-code`, for units that follow the text."""
        options: dict[str, Any] = {"tokens": "char", "hidden": 256, "layers": 1, "embed": 32, "tied": False}
        options |= {"dropout": 0.0, "batch": 32, "steps": 100, "rate": 0.004, "tokens_budget": 3_000_000}
        return self.trained("letters", "python-code", "lstm", seed=self.seed, **options)

    def trained(self, name: str, source: str | Path, kind: str, **options: Any) -> LanguageModel:
        """The model of that name; trained with these options where it is not there yet."""
        if name not in self._held:
            run = self.folder / name
            ready = (run / "config.toml").exists() and (run / "weights.safetensors").exists()
            self._held[name] = load(run) if ready else train(source, model=kind, out=run, **options)
        return self._held[name]
