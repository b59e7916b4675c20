"""Options by name, sorted to where they belong (the text, the model, the training), and options from a file.

A name may be spelled in full, `lstm.hidden` or `training.clip`, as the tables of `config.toml` are; a plain name goes
where it is known. One that belongs to other models only is refused, and the error names them.

A recipe is a training written down as TOML, in the tables of `config.toml`, so that the one of any run is a recipe too:

    model = "lstm"
    [source]
    name = "ptb"
    [lstm]
    hidden = 650
    [training]
    epochs = 20
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from thereafter.base import config as toml
from thereafter.base.config import Table
from thereafter.data.files import Parts
from thereafter.data.finding import own_parts
from thereafter.errors import FormatError, MissingPackageError, OptionError, SourceError, nearest
from thereafter.text.form import Forming
from thereafter.training import settings as training_settings
from thereafter.training.kinds import MODELS, ModelKind

START = "start"
"""What a configuration calls the run that its own began with."""


@dataclass(frozen=True)
class TextSettings:
    """How the text is read and cut. None means the rule of the tokenizer or the corpus.

    The first paragraph below a field here, and in the other settings, is its help on the command line (`cli.options`).
    """

    tokens: str | None = None
    """Tokenizer: word, prose, char, byte, bpe, wordpiece or unigram. Default: what suits the source."""
    context: str | None = None
    """line: each line starts afresh. stream: the context runs on across lines."""
    min_count: int | None = None
    """Tokens seen less often than this become <unk> (default 2)."""
    vocabulary: int | None = None
    """Largest vocabulary to keep; for bpe, wordpiece and unigram, how many pieces to learn (default 4096)."""
    lower: bool = False
    """Convert the text to lower case."""
    letters_only: bool = False
    """Keep letters only; everything else becomes a space."""
    encoding: str | None = None
    """Encoding of the text, such as latin-1. Default: UTF-8, or as its BOM says."""
    keep_licence: bool = False
    """Keep Project Gutenberg's header and licence in your own files."""
    wrapped: bool = False
    """Keep the line breaks of hard-wrapped prose in your own files."""
    markup: bool = False
    """Read HTML, Markdown and subtitles as they are, markup and times with them."""

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
    own = toml.field_names(kind.settings)
    text = toml.field_names(TextSettings)
    training = set(training_settings.names()) if kind.trained_in_steps else {"seed"}
    tables = {"text": text, model: own, "training": training}

    def refuse(spelled: str) -> OptionError:
        table, _, name = spelled.rpartition(".")
        if table and table not in tables:
            of_model = f"; the model trained here is {model!r}" if table in MODELS else ""
            return OptionError(
                f"the option {spelled!r} is in the table {table!r}; expected {', '.join(tables)}"
                + (of_model or f"; {nearest(table, list(tables))}")
            )
        others = sorted(other for other in MODELS if other != model and name in _options_of(other))
        have = f"{', '.join(others)} {'have' if len(others) > 1 else 'has'} it"
        remedy = f"{have}; try model={others[0]!r}, or leave it out" if others else ""
        known = sorted(text | own | training)
        return OptionError(f"the model {model!r} has no option {name!r}; {remedy or nearest(name, known)}")

    chosen = sort_into_tables(options, {model: own, "training": training, "text": text}, refuse)
    return Sorted(chosen["text"], chosen[model], chosen["training"])


def sort_into_tables(
    options: Table, tables: Mapping[str, Collection[str]], refuse: Callable[[str], OptionError]
) -> dict[str, Table]:
    """Options by the table they belong to, from the names that each table has; the first of them takes a plain name.

    `refuse(spelled)` is the error for an option that stands in none.
    """
    chosen: dict[str, Table] = {table: {} for table in tables}
    for spelled, value in options.items():
        table, _, name = spelled.rpartition(".")
        candidates = [table] if table else list(tables)
        if isinstance(value, str):  # "context" alone is the text's line or stream, unless it is a number
            candidates.sort(key=lambda candidate: candidate != "text")
        place = next((candidate for candidate in candidates if name in tables.get(candidate, ())), None)
        if place is None:
            raise refuse(spelled)
        chosen[place][name] = value
    return chosen


def _options_of(model: str) -> set[str]:
    try:
        kind: ModelKind = MODELS.load(model)
    except (ModuleNotFoundError, MissingPackageError):  # torch is not here, and nobody asked for such a model
        return set()
    return toml.field_names(kind.settings) | (set(training_settings.names()) if kind.trained_in_steps else set())


_SOURCE = ("name", "files", "part_files", "parts", "column", "split", "valid_source", "valid_files", "valid_column")
_HASHES = ("text_sha256", "whole_text_sha256", "valid_text_sha256")
_WRITTEN_BY_A_RUN = (
    "valid_name",
    "part",
    "detail",
    "sha256",
    "valid",
    "valid_sha256",
    "formed",
    "valid_formed",
    *_HASHES,
)

_STYLE = (("text", "style"), ("text", "typography"))
"""How the text of a run was written, which is found anew in whatever text the recipe is for."""


@dataclass
class Recipe:
    """What `train` is to be called with, or with which task; options are spelled in full, `lstm.hidden`."""

    model: str | None = None
    task: str | None = None
    source: str | list[str] | Parts | None = None
    parts: bool = True
    valid: str | list[str] | None = None
    split: str | None = None
    start_from: str | None = None
    options: Table = field(default_factory=dict)


def read_recipe(path: Path) -> Recipe:
    """Read a recipe; an unknown table or key fails with the nearest valid one."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise SourceError(
            f"the recipe {str(path)[:200]!r} could not be read: {reason}; expected a TOML file"
        ) from error
    tables = toml.loads(text, str(path))
    tables.pop("format", None)
    recipe = Recipe(tables.pop("model", None), tables.pop("task", None))
    if recipe.task is not None and recipe.model is not None:
        raise FormatError(f"{path} names the task {recipe.task!r} and the model {recipe.model!r}; expected one of them")
    if recipe.task is None and (not isinstance(recipe.model, str) or recipe.model not in MODELS):
        raise FormatError(f"{path}: model is {recipe.model!r}; {nearest(str(recipe.model), list(MODELS))}")
    source = _table(path, "source", tables.pop("source", {}))
    for name in source.keys() - {*_SOURCE, *_WRITTEN_BY_A_RUN}:
        raise FormatError(f"{path}: [source] has no {name!r}; {nearest(name, list(_SOURCE))}")
    recipe.source = _files(source.get("files"), source.get("column")) or source.get("name")
    if "part_files" in source:
        recipe.source = _parts(path, source)
    recipe.parts = source.get("parts") is not False
    recipe.valid = _files(source.get("valid_files"), source.get("valid_column")) or source.get("valid_source")
    recipe.split = source.get("split")
    recipe.start_from = _table(path, START, tables.pop(START, {})).get("run")
    made = str(recipe.task or recipe.model)
    known = [made, "training"] if recipe.task else ["text", made, "training"]
    for table, values in tables.items():
        if table not in known:
            raise FormatError(f"{path}: a recipe for {made!r} has no {table!r}; {nearest(table, ['source', *known])}")
        own = {name: value for name, value in _table(path, table, values).items() if (table, name) not in _STYLE}
        recipe.options |= {f"{table}.{name}": value for name, value in own.items()}
    return recipe


def _parts(path: Path, source: Table) -> Parts:
    """The files of each part of a user's own folder."""
    listed = _table(path, "part_files", source["part_files"])
    files = {part: [Path(str(file)) for file in own] for part, own in listed.items()}
    return own_parts(str(source.get("name", "files")), files, column=source.get("column"))


def _files(paths: list[str] | None, column: str | None) -> list[str] | None:
    """Files as `train` takes them; of a table its column."""
    return paths if not paths or column is None else [f"{path}:{column}" for path in paths]


def parse_settings(spelled: Iterable[str]) -> Table:
    """`name=value` pairs as options; values are TOML, or several with commas, or plain words.

    >>> parse_settings(["lstm.hidden=256", "sizes=64,32", "optimizer=sgd", "tied=false"])
    {'lstm.hidden': 256, 'sizes': (64, 32), 'optimizer': 'sgd', 'tied': False}
    """
    options: Table = {}
    for pair in spelled:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise OptionError(f"--set got {pair!r}; expected name=value; try --set training.clip=0.25")
        options[name.strip()] = _value(value.strip())
    return options


def _value(spelled: str) -> object:
    for form in (spelled, f"[{spelled}]") if "," in spelled else (spelled,):
        try:
            value = tomllib.loads(f"value = {form}")["value"]
        except (tomllib.TOMLDecodeError, KeyError):
            continue
        return tuple(value) if isinstance(value, list) else value
    return spelled


def _table(path: Path, name: str, values: object) -> Table:
    if not isinstance(values, dict):
        raise FormatError(f"{path}: {name} is {values!r}; expected a table: [{name}]")
    return values
