"""What the units of the ready models carry: searched for once, and kept beside their weights.

A model of the sentences has a unit that carries the subject's number (`inspection.number_unit`), the character model
units that follow quotes, comments and the like (`inspection.units`). Both are chosen on one half of a text that no
training has seen and measured on the other, against a control.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from thereafter.base.storage import write_text

if TYPE_CHECKING:
    from thereafter.inspection.measurement import Measurement
    from thereafter.language_model import LanguageModel

UNITS = "units.json"
HAVE_UNITS = frozenset({"rnn", "gru", "lstm"})
"""The kinds of model that have units with a state of their own."""
NUMBER = "number"
FOLLOWED = ("quotes-or-comment", "quotes", "comment", "line-position", "indentation", "brackets")
_TOKENS = 200_000
LETTERS_TEXT = "python-code:test"


class SearchedModel(Protocol):
    """What this file needs of a ready model: its name, and what it was trained on."""

    @property
    def name(self) -> str: ...

    @property
    def source(self) -> str: ...


def find_units(one: SearchedModel, folder: Path) -> dict[str, str]:
    """The unit for each property: {"number": "l0.c[17]"}; `folder` is that of all ready models."""
    from thereafter.language_model import load_language_model

    lm = load_language_model(folder / one.name)
    if one.source == "sentences":
        return {NUMBER: str(search_number(lm, folder)["unit"][0])}
    units = search_letters(lm)
    return dict(zip(units["property"].tolist(), units["unit"][:, 0].tolist(), strict=True))


def search_number(lm: LanguageModel, folder: Path) -> Measurement:
    """The units that carry the subject's number, over the held-out sentences."""
    from thereafter.inspection.number_unit import number_unit
    from thereafter.inspection.sentence_reader import SentenceReader
    from thereafter.ready.texts import sentences
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


def write_units(run: Path, units: Mapping[str, str]) -> None:
    """Write the unit of each property beside the weights."""
    write_text(run / UNITS, json.dumps(dict(units), indent=1) + "\n")
