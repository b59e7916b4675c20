"""Options by name, given all at once, sorted to where they belong: the text, the model, the training.

A name may be spelled in full, `lstm.hidden` or `training.clip`, as the tables of `config.toml` are; a plain name goes
where it is known. One that belongs to other models only is refused, and the error names them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from thereafter.base import config as toml
from thereafter.base.config import Table
from thereafter.errors import MissingPackageError, OptionError, nearest
from thereafter.text.form import Forming
from thereafter.training import settings as training_settings
from thereafter.training.kinds import MODELS, ModelKind


@dataclass(frozen=True)
class TextSettings:
    """How the text is read and cut. None means the rule of the tokenizer or the corpus."""

    tokens: str | None = None
    context: str | None = None
    min_count: int | None = None
    vocabulary: int | None = None
    lower: bool = False
    letters_only: bool = False
    encoding: str | None = None
    keep_licence: bool = False
    """Whether Project Gutenberg's header and licence stay in a file of the user's own."""
    wrapped: bool = False
    """Whether hard-wrapped prose of a user's own file keeps its line breaks."""
    markup: bool = False
    """Whether HTML, Markdown and subtitles of the user's own are read as plain text, markup and all."""

    @classmethod
    def of_config(cls, about: Table, encoding: str | None) -> TextSettings:
        """How a run reads texts, by its table `text`. Runs of earlier versions read every file as it is.

        Not by `config.build`, which compiles the types of a class: a run that is read compiles nothing.
        """
        return cls(
            lower=bool(about["lower"]),
            letters_only=bool(about["letters_only"]),
            encoding=encoding,
            keep_licence=bool(about.get("keep_licence", True)),
            wrapped=bool(about.get("wrapped", True)),
            markup=bool(about.get("markup", True)),
        )

    @property
    def forming(self) -> Forming:
        """What is kept as it is in files of the user's own."""
        return Forming(keep_licence=self.keep_licence, wrapped=self.wrapped, markup=self.markup)


@dataclass
class Sorted:
    """Options by the table they belong to."""

    text: Table = field(default_factory=dict)
    model: Table = field(default_factory=dict)
    training: Table = field(default_factory=dict)


def sort_options(model: str, options: Table) -> Sorted:
    """Sort options for a model of this name; OptionError for one that nothing here answers to.

    >>> sort_options("ngram", {"order": 3, "text.lower": True})
    Sorted(text={'lower': True}, model={'order': 3}, training={})
    """
    kind: ModelKind = MODELS.load(model)
    text = toml.field_names(TextSettings)
    own = toml.field_names(kind.settings)
    training = set(training_settings.names()) if kind.trained_in_steps else {"seed"}
    sorted_options = Sorted()
    for spelled, value in options.items():
        table, _, name = spelled.rpartition(".")
        tables = {
            "text": (text, sorted_options.text),
            model: (own, sorted_options.model),
            "training": (training, sorted_options.training),
        }
        if table and table not in tables:
            raise OptionError(
                f"the option {spelled!r} is in the table {table!r}; expected {', '.join(tables)}"
                + (f"; the model trained here is {model!r}" if table in MODELS else f"; {nearest(table, list(tables))}")
            )
        if not table:
            # "context" alone is the text's line or stream, unless it is a number and the model's own
            candidates = ["text", model, "training"] if isinstance(value, str) else [model, "training", "text"]
            table = next((place for place in candidates if name in tables[place][0]), "")
        if not table or name not in tables[table][0]:
            raise OptionError(_unknown(model, name, sorted(text | own | training)))
        tables[table][1][name] = value
    return sorted_options


def _unknown(model: str, name: str, known: list[str]) -> str:
    others = sorted(other for other in MODELS if other != model and name in _options_of(other))
    message = f"the model {model!r} has no option {name!r}; "
    if others:
        have = "have" if len(others) > 1 else "has"
        return message + f"{', '.join(others)} {have} it; try model={others[0]!r}, or leave it out"
    return message + nearest(name, known)


def _options_of(model: str) -> set[str]:
    try:
        kind: ModelKind = MODELS.load(model)
    except (ModuleNotFoundError, MissingPackageError):  # torch is not here, and nobody asked for such a model
        return set()
    return toml.field_names(kind.settings) | (set(training_settings.names()) if kind.trained_in_steps else set())
