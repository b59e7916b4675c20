"""The names of models that are compared: `lstm`, `ngram-3`, `unigram`, `lstm:char`; and which options go to which.

>>> Entry.parse("ngram-3:char", "word")
Entry(name='ngram-3:char', model='ngram', tokens='char', order=3)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from thereafter.base import config as toml
from thereafter.base.config import Table
from thereafter.base.kinds import KINDS
from thereafter.errors import OptionError, UnknownNameError
from thereafter.text.tokenizers import TOKENIZERS
from thereafter.training import settings as training_settings
from thereafter.training.kinds import MODELS, ModelKind
from thereafter.training.options import Sorted, sort_options

ORDERS = {"unigram": 1, "bigram": 2, "trigram": 3}


def ladder() -> tuple[str, ...]:
    """The generations of language models, oldest first."""
    return ("unigram", *(name for name, kind in KINDS.items() if kind.compared))


@dataclass(frozen=True)
class Entry:
    """One model of a comparison: as it was named, its kind, its tokenizer, and the order of an n-gram."""

    name: str
    model: str
    tokens: str
    order: int | None = None

    @classmethod
    def parse(cls, spelled: str, tokens: str) -> Entry:
        """Read a name; `tokens` is the tokenizer where it names none."""
        name = spelled.strip()
        base, colon, asked = name.partition(":")
        if colon and asked not in TOKENIZERS:
            raise UnknownNameError("tokenizer", asked, TOKENIZERS)
        tokens = asked or tokens
        if base in ORDERS:
            return cls(name, "ngram", tokens, ORDERS[base])
        stem, _, order = base.rpartition("-")
        if stem == "ngram":
            if not order.isascii() or not order.isdigit() or not int(order):
                raise OptionError(f"the model {name!r} has no order that can be read; try ngram-3, 1 or more")
            return cls(name, "ngram", tokens, int(order))
        if base not in MODELS:
            raise UnknownNameError("model", base, [*MODELS, *ORDERS])
        return cls(name, base, tokens)

    @property
    def kind(self) -> ModelKind:
        kind: ModelKind = MODELS.load(self.model)
        return kind

    @property
    def stem(self) -> str:
        """What its files are called."""
        order = "" if self.order is None else f"-{self.order}"
        return f"{self.model}{order}-{self.tokens}"


def parse_entries(models: str | Iterable[str], tokens: str) -> list[Entry]:
    """Entries from names, or from one text with commas; the same model twice is taken once."""
    names = models.split(",") if isinstance(models, str) else [part for name in models for part in name.split(",")]
    entries = {entry.stem: entry for entry in reversed([Entry.parse(name, tokens) for name in names if name.strip()])}
    if not entries:
        raise OptionError(f"there are no models to compare; expected some of {', '.join([*ORDERS, *MODELS])}")
    return list(reversed(entries.values()))


def deal_options(entries: Sequence[Entry], options: Table) -> dict[str, Table]:
    """Options for each entry, by its stem, all spelled in full.

    `lstm.hidden` and `lstm.rate` go to the LSTMs, `training.rate` to all that are trained in steps, `text.min_count` to
    all, and a plain `hidden` to every model that has it. One that goes to none of them is refused. An option for
    one kind of model overrules the same one for all.
    """
    dealt: dict[str, Table] = {
        entry.stem: {} if entry.order is None else {"ngram.order": entry.order} for entry in entries
    }
    for name, value in sorted(options.items(), key=lambda option: option[0].rpartition(".")[0] in MODELS):
        table = name.rpartition(".")[0]
        taken, refused = False, None
        for entry in entries:
            others = table in MODELS and table != entry.model
            if others or (entry.order is not None and name in ("order", "ngram.order")):
                continue
            try:
                taken_as = _sort_option(entry.model, name, value)
            except OptionError as error:
                refused = refused or error
                continue
            for place, values in (
                ("text", taken_as.text),
                (entry.model, taken_as.model),
                ("training", taken_as.training),
            ):
                dealt[entry.stem] |= {f"{place}.{key}": given for key, given in values.items()}
            taken = True
        if not taken:
            raise refused or OptionError(
                f"the option {name!r} is for no model that is compared ({', '.join(entry.name for entry in entries)}); "
                "leave it out"
            )
    return dealt


def _sort_option(model: str, name: str, value: object) -> Sorted:
    """Where an option belongs; in `lstm.rate` it is one of training, for LSTMs alone."""
    table, _, plain = name.rpartition(".")
    if table == model and plain in training_settings.names() and not _own(model, plain):
        name = f"training.{plain}"
    return sort_options(model, {name: value})


def _own(model: str, name: str) -> bool:
    kind: ModelKind = MODELS.load(model)
    return name in toml.field_names(kind.settings)
