"""The ready models: small ones of the built-in corpora, for the panels of the studio and the pictures of the gallery.

Their weights ship with the package (`shipped.py`). What does not ship, or was made by another recipe, is trained:
budgets are in tokens, so that models are trained alike on every machine, and equal for all models of sentences, which
are compared with each other. A training run that was stopped is resumed. The sentences are those of `agreement` with
fewer words between subject and verb, and every line starts with a fresh state, as a sentence in the studio does. Beside
each model stands the recipe it was made by; one that was made by another recipe is made again.

What the units of a model carry is searched for once, and kept beside its weights. A model of the sentences has a unit
that carries the subject's number (`inspection.units.number_unit`), the character model units that follow quotes,
comments and the like (`inspection.units`). Both are chosen on one half of a text that no training has seen and measured
on the other, against a control.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from thereafter.base.config import Table
from thereafter.base.storage import write_text
from thereafter.errors import BusyError, ThereafterError

if TYPE_CHECKING:
    from thereafter.inspection.measurement import Measurement
    from thereafter.language_model import LanguageModel


BETWEEN = 10
"""Words between a subject and its verb, at most: the whole corpus has up to 40, which takes longer to learn."""
SENTENCES = {"train": 40_000, "valid": 1_000, "test": 4_000}
COMPARED = 1_000
"""Test sentences that models are compared on while somebody waits."""
SENTENCES_NAME = "sentences"
LETTERS_NAME = "python-code"
BUDGET = 3_000_000
"""Tokens each neural model of the sentences reads."""
WORD_UNITS, LETTER_UNITS = 64, 224
"""Units of a layer of the models of sentences, and of letters."""

_LINES: Table = {"text.context": "line", "batching": "lines", "batch": 16, "dropout": 0.0, "validate_every": 500}
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


def sentences(folder: Path) -> dict[str, Path]:
    """The files of the sentences, written where they are not there yet: train, valid, test."""
    from thereafter.text.agreement import write_corpus

    place = folder / "texts" / f"{SENTENCES_NAME}-{BETWEEN}-{SENTENCES['train']}"
    parts = {part: place / f"agreement.{part}.txt" for part in SENTENCES}
    if not all(path.exists() and path.with_suffix(".jsonl").exists() for path in parts.values()):
        parts = write_corpus(place, sizes=SENTENCES, max_distance=BETWEEN)
    return parts


def compared_sentences(folder: Path) -> dict[str, Path]:
    """The same with a shorter test part: what models are compared on while somebody waits."""
    parts = sentences(folder)
    test = parts["test"]
    short = test.with_name(f"agreement.test-{COMPARED}.txt")
    if not short.exists():
        for suffix in (".jsonl", ".txt"):  # the text last: where it is, both are
            lines = test.with_suffix(suffix).read_text(encoding="utf-8").splitlines(keepends=True)
            write_text(short.with_suffix(suffix), "".join(lines[:COMPARED]))
    return parts | {"test": short}


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
    """How long its training takes, about, on one core of an x86 processor at 2.5 GHz: no part of the recipe."""
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
        write_text(folder / one.name / UNITS, json.dumps(find_units(one, folder), indent=1) + "\n")


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


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch works on one thread, whatever the machine has; afterwards on as many as before.

    Small models do so little in a step that a second thread wins a tenth to a half on a machine with nothing else to
    do, and beside another busy process loses ten times that: threads wait for each other at the end of every operation.
    With one, the last bits do not depend on the number of cores either.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


UNITS = "units.json"
HAVE_UNITS = frozenset({"rnn", "gru", "lstm"})
"""The kinds of model that have units with a state of their own."""
NUMBER = "number"
FOLLOWED = ("quotes-or-comment", "quotes", "comment", "line-position", "indentation", "brackets")
_TOKENS = 200_000
LETTERS_TEXT = "python-code:test"


def find_units(one: Ready, folder: Path) -> dict[str, str]:
    """The unit for each property: {"number": "l0.c[17]"}; `folder` is that of all ready models."""
    from thereafter.language_model import load_language_model

    lm = load_language_model(folder / one.name)
    if one.source == "sentences":
        return {NUMBER: str(search_number(lm, folder)["unit"][0])}
    units = search_letters(lm)
    return dict(zip(units["property"].tolist(), units["unit"][:, 0].tolist(), strict=True))


def search_number(lm: LanguageModel, folder: Path) -> Measurement:
    """The units that carry the subject's number, over the held-out sentences."""
    from thereafter.inspection.sentence_reader import SentenceReader
    from thereafter.inspection.units import number_unit
    from thereafter.text.agreement import read_sentences

    known = read_sentences(sentences(folder)["test"].with_suffix(".jsonl"))
    # of an LSTM the memory itself, which its gates write and keep, rather than what it shows of it
    field = "c" if lm.config["model"] == "lstm" else "h"
    return number_unit(SentenceReader.of(lm.model, lm.tokenizer, lm.config), known, field=field)


def search_letters(lm: LanguageModel, followed: Sequence[str] = FOLLOWED, **about: str) -> Measurement:
    """The units of a character model that follow quotes, comments and the like, over held-out Python code."""
    from thereafter.inspection.properties import PROPERTIES
    from thereafter.inspection.units import search
    from thereafter.text.sources import resolve

    text = resolve(LETTERS_TEXT).parts["text"].text()
    return search(lm.model, lm.tokenizer, text, [PROPERTIES[name] for name in followed], limit=_TOKENS, about=about)
