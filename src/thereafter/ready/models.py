"""The ready models: small ones of the built-in corpora, for the panels of the studio and the pictures of the gallery.

Their weights ship with the package (`shipped.py`). What does not ship, or was made by another recipe, is trained:
budgets are in tokens, so that models are trained alike on every machine, and equal for all models of sentences, which
are compared with each other. A training run that was stopped is resumed. The sentences are those of `agreement` with
fewer words between subject and verb, and every line starts with a fresh state, as a sentence in the studio does. Beside
each model stands the recipe it was made by; one that was made by another recipe is made again.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from thereafter.base.config import Table
from thereafter.base.storage import write_text
from thereafter.errors import BusyError, ThereafterError
from thereafter.ready.texts import BETWEEN as BETWEEN
from thereafter.ready.texts import COMPARED as COMPARED
from thereafter.ready.texts import SENTENCES as SENTENCES
from thereafter.ready.texts import SENTENCES_NAME as SENTENCES_NAME
from thereafter.ready.texts import compared_sentences as compared_sentences
from thereafter.ready.texts import sentences as sentences
from thereafter.ready.threads import one_thread
from thereafter.ready.units import HAVE_UNITS, UNITS, find_units, write_units

LETTERS_NAME = "python-code"
BUDGET = 3_000_000
"""Tokens each neural model of the sentences reads."""
WORD_UNITS, LETTER_UNITS = 64, 224
"""Units of a layer of the models of sentences, and of letters."""

_LINES: Table = {
    "text.context": "line",
    "batching": "lines",
    "batch": 16,
    "dropout": 0.0,
    "validate_every": 500,
}
# Narrow word vectors keep the files small. A tied embedding would make "dog" and "dogs" alike: as words to be predicted
# they are. A Transformer can tell them apart in its first block.
_CELLS = _LINES | {"hidden": WORD_UNITS, "embed": 32, "layers": 1, "tied": False, "rate": 0.01}
_ATTENTION = _LINES | {"hidden": WORD_UNITS, "layers": 2, "transformer.context": 64, "tied": True, "rate": 0.004}
_WINDOW = {"hidden": WORD_UNITS, "embed": 32, "rate": 0.005}
_LETTERS: Table = {
    "tokens": "char",
    "hidden": LETTER_UNITS,
    "layers": 1,
    "embed": 32,
    "tied": False,
    "dropout": 0.0,
    "batch": 32,
    "steps": 128,
    "rate": 0.006,
    "weight_decay": 0.1,
    "validate_every": 500,
}


class Made(Protocol):
    """A model that is made once by a recipe and kept as a run."""

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
    options: Table = field(default_factory=dict)
    minutes: float = field(default=0.0, repr=False)
    """How long its training takes, about: no part of the recipe."""
    stored: str = field(default="float16", repr=False)
    """The form in which its weights ship, as in `runs/narrow.py`: no part of the recipe either."""

    @property
    def recipe(self) -> str:
        """What it is made by, as a text."""
        sentences = f" of {SENTENCES}, at most {BETWEEN} between" if self.source == SENTENCES_NAME else ""
        return f"{self!r}{sentences}\n"

    @property
    def learns(self) -> str:
        """What it is trained on, in words."""
        if not self.budget:
            return f"all {SENTENCES['train']:,} generated sentences, counted"
        text = "letters of Python code" if self.source == LETTERS_NAME else "words of generated sentences"
        return f"{self.budget:,} {text}"


READY = (
    Ready("ngram", "ngram", SENTENCES_NAME, options={"order": 4}, minutes=0.1),
    Ready("lstm", "lstm", SENTENCES_NAME, BUDGET, _CELLS, minutes=2.5),
    Ready("rnn", "rnn", SENTENCES_NAME, BUDGET, _CELLS | {"rate": 0.006}, minutes=2),
    Ready("letters", "lstm", LETTERS_NAME, 20_000_000, _LETTERS, minutes=35, stored="int8"),
    Ready("window", "window", SENTENCES_NAME, BUDGET, _LINES | _WINDOW, minutes=1.2),
    Ready("gru", "gru", SENTENCES_NAME, BUDGET, _CELLS, minutes=2),
    Ready("transformer", "transformer", SENTENCES_NAME, BUDGET, _ATTENTION, minutes=4.5),
)
"""In the order they are made: the first panel of the studio needs the first ones."""


def missing(folder: Path) -> list[Ready]:
    """The ready models that are not there yet, trained to their end by their recipe and searched for their units."""
    return [one for one in READY if not is_there(one, folder) or not _is_searched(one, folder)]


def is_there(one: Made, folder: Path) -> bool:
    """Whether it is trained to its end by its recipe."""
    from thereafter.runs.folder import WEIGHTS, is_file, is_finished

    run = folder / one.name
    return _is_made_by(one, folder) and is_finished(run) and is_file(run / WEIGHTS)


def _is_searched(one: Ready, folder: Path) -> bool:
    return one.kind not in HAVE_UNITS or (folder / one.name / UNITS).is_file()


def make(one: Ready, folder: Path, scale: float = 1.0, **options: Any) -> None:
    """Train a ready model, or resume its training, and search its units; `scale` shortens all budgets, for tests."""
    from thereafter.api import resume

    if not is_there(one, folder):
        make_run(one, folder, resume, lambda: _train(one, folder, scale, options))
    if not _is_searched(one, folder):
        write_units(folder / one.name, find_units(one, folder))


def make_run(one: Made, folder: Path, go_on: Callable[[Path], object], begin: Callable[[], None]) -> None:
    """Resume a run that was stopped and has the same recipe; else train from the start."""
    from thereafter.runs.folder import is_finished, is_run

    run = folder / one.name
    if _is_made_by(one, folder) and is_run(run) and not is_finished(run):
        try:
            with one_thread():
                go_on(run)
            return
        except BusyError:
            raise  # another process is training it: it is not ours to remove
        except ThereafterError:
            pass  # its text, or a part of it, is gone: train from the start
    if run.exists():
        shutil.rmtree(run)
    sign(one, folder)
    with one_thread():
        begin()


def sign(one: Made, folder: Path) -> None:
    """Note by which recipe the model is made."""
    write_text(_recipe(one, folder), one.recipe)


def _train(one: Ready, folder: Path, scale: float, changed: Table) -> None:
    from thereafter.api import train

    options = dict(one.options)
    if one.budget:
        options = {"seed": 0} | options | {"tokens_budget": max(2_000, round(one.budget * scale))} | changed
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
