"""A training written down as TOML, in the tables of `config.toml`, so that the one of any run is a recipe too:

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
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from thereafter.base import config as toml
from thereafter.base.config import Table
from thereafter.data.files import Parts
from thereafter.data.finding import own_parts
from thereafter.errors import FormatError, OptionError, SourceError, nearest
from thereafter.training.kinds import MODELS
from thereafter.training.settings import START

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
        named = _table(path, "part_files", source["part_files"])
        files = {part: [Path(str(file)) for file in own] for part, own in named.items()}
        recipe.source = own_parts(str(source.get("name", "files")), files, column=source.get("column"))
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
