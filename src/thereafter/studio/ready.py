"""The ready models: small ones, trained on first start from the built-in corpora, so that every panel is alive.

About a minute on two cores. Budgets are in tokens, so that everybody gets the same models, and equal for all models of
the sentences, which stand side by side in the panels; a training that was stopped goes on where it was. The sentences
are those of `agreement` with fewer words between subject and verb, and every line begins afresh, as a sentence on the
page does: that can be learned in the time. Beside each model stands the recipe it was made by; one that was made by
another is made again.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from thereafter.errors import BusyError, ThereafterError
from thereafter.storage import write_text

BETWEEN = 6
"""Words between a subject and its verb, at most."""
SENTENCES = {"train": 20_000, "valid": 500, "test": 1_000}
SENTENCES_NAME, LETTERS_NAME = "sentences", "python-code"
BUDGET = 500_000
"""Tokens each neural model of the sentences reads."""

_LINES: dict[str, Any] = {
    "text.context": "line",
    "batching": "lines",
    "batch": 16,
    "dropout": 0.0,
    "validate_every": 250,
}
_CELLS = _LINES | {"hidden": 96, "layers": 1, "tied": False, "rate": 0.01}
_ATTENTION = _LINES | {"hidden": 64, "layers": 2, "transformer.context": 64, "tied": False, "rate": 0.005}
_LETTERS = {"hidden": 128, "layers": 1, "embed": 32, "tied": False, "dropout": 0.0, "batch": 8, "steps": 100}


class Made(Protocol):
    """Whatever is made once by a recipe and kept as a run."""

    @property
    def name(self) -> str: ...

    @property
    def recipe(self) -> str: ...


@dataclass(frozen=True)
class Ready:
    """A ready model: its name, its kind, what it is trained on, for how many tokens, and how."""

    name: str
    kind: str
    source: str
    budget: int = 0
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def recipe(self) -> str:
        """All that it depends on, as a text."""
        sentences = f" of {SENTENCES}, at most {BETWEEN} between" if self.source == SENTENCES_NAME else ""
        return f"{self!r}{sentences}\n"


READY = (
    Ready("ngram", "ngram", SENTENCES_NAME, options={"order": 4}),
    Ready("lstm", "lstm", SENTENCES_NAME, BUDGET, _CELLS),
    Ready("rnn", "rnn", SENTENCES_NAME, BUDGET, _CELLS | {"rate": 0.006}),
    Ready("letters", "lstm", LETTERS_NAME, 900_000, _LETTERS | {"tokens": "char", "rate": 0.005}),
    Ready("window", "window", SENTENCES_NAME, BUDGET, _LINES | {"hidden": 96, "rate": 0.01}),
    Ready("gru", "gru", SENTENCES_NAME, BUDGET, _CELLS),
    Ready("transformer", "transformer", SENTENCES_NAME, BUDGET, _ATTENTION),
)
"""In the order they are trained: the first ones make the first panel alive."""


def missing(folder: Path) -> list[Ready]:
    """The ready models that are not trained to their end by their recipe yet."""
    return [one for one in READY if not is_there(one, folder)]


def is_there(one: Made, folder: Path) -> bool:
    """Whether it is trained to its end by its recipe."""
    from thereafter.training.run_folder import WEIGHTS, is_file, is_finished

    run = folder / one.name
    return _is_made_by(one, folder) and is_finished(run) and is_file(run / WEIGHTS)


def sentences(folder: Path) -> dict[str, Path]:
    """The files of the sentences, written where they are not there yet: train, valid, test."""
    from thereafter.text.agreement import write_corpus

    place = folder / "texts" / f"{SENTENCES_NAME}-{BETWEEN}-{SENTENCES['train']}"
    parts = {part: place / f"agreement.{part}.txt" for part in SENTENCES}
    if not all(path.exists() for path in parts.values()):
        parts = write_corpus(place, sizes=SENTENCES, max_distance=BETWEEN)
    return parts


def make(one: Ready, folder: Path, scale: float = 1.0) -> None:
    """Train a ready model, or go on with it; `scale` shortens all budgets, for tests."""
    from thereafter.api import resume

    make_run(one, folder, resume, lambda: _train(one, folder, scale))


def make_run(one: Made, folder: Path, go_on: Callable[[Path], Any], begin: Callable[[], None]) -> None:
    """Go on with a run that was stopped, where it was begun by the same recipe; else begin it anew."""
    from thereafter.training.run_folder import is_finished, is_run

    run = folder / one.name
    if _is_made_by(one, folder) and is_run(run) and not is_finished(run):
        try:
            go_on(run)
            return
        except BusyError:
            raise  # somebody else is at it: it is not ours to remove
        except ThereafterError:
            pass  # its text, or a part of it, is gone: it is made anew
    if run.exists():
        shutil.rmtree(run)
    write_text(_recipe(one, folder), one.recipe)
    begin()


def _train(one: Ready, folder: Path, scale: float) -> None:
    from thereafter.api import train

    options = dict(one.options)
    if one.budget:
        options |= {"tokens_budget": max(2_000, round(one.budget * scale)), "seed": 0}
    if one.source == SENTENCES_NAME:
        parts = sentences(folder)
        if one.budget:
            options["valid"] = parts["valid"]
        train(parts["train"], model=one.kind, tokens="word", out=folder / one.name, **options)
    else:
        train(one.source, model=one.kind, out=folder / one.name, **options)


def _recipe(one: Made, folder: Path) -> Path:
    return folder / "recipes" / f"{one.name}.txt"


def _is_made_by(one: Made, folder: Path) -> bool:
    try:
        return _recipe(one, folder).read_text(encoding="utf-8") == one.recipe
    except (OSError, UnicodeDecodeError):
        return False
