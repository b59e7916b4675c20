"""Run configurations as TOML: written whole, read back strictly.

The standard library reads TOML and does not write it; a run's configuration is two levels deep, which takes a page.
"""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Mapping
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from thereafter.errors import FormatError, OptionError, nearest

T = TypeVar("T")
Table = dict[str, Any]
"""A table of TOML, or an object of JSON: plain values by name. They come from files, so that their types are known only
once they were checked: `build` makes dataclasses of them."""


def dumps(config: Mapping[str, Any]) -> str:
    """A table of values and tables of values as TOML; None is left out, since TOML has no such thing.

    >>> print(dumps({"seed": 1, "ngram": {"order": 5, "cutoffs": [0, 1]}}), end="")
    seed = 1
    <BLANKLINE>
    [ngram]
    order = 5
    cutoffs = [0, 1]
    """
    plain = {key: value for key, value in config.items() if not isinstance(value, Mapping) and value is not None}
    lines = [f"{_key(key)} = {_value(value)}" for key, value in plain.items()]
    for key, table in config.items():
        if isinstance(table, Mapping):
            lines += ["", f"[{_key(key)}]"]
            lines += [f"{_key(name)} = {_value(value)}" for name, value in table.items() if value is not None]
    return "\n".join(lines) + "\n"


def loads(text: str, name: str = "the configuration") -> dict[str, Any]:
    """Parse TOML; FormatError names the file and the line."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise FormatError(f"{name} is not valid TOML: {error}") from error


def build(kind: type[T], table: Mapping[str, Any], name: str) -> T:
    """A dataclass from a table; an unknown key fails with the nearest valid one, a value of another type with both.

    >>> @dataclasses.dataclass
    ... class Pet:
    ...     legs: int = 4
    >>> build(Pet, {"legs": 3}, "pet")
    Pet(legs=3)
    """
    hints = get_type_hints(kind)
    fields = {field.name: hints[field.name] for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    values = {}
    for key, given in table.items():
        if key not in fields:
            raise OptionError(f"{name} has no setting {key!r}; {nearest(key, sorted(fields))}")
        value = given.item() if isinstance(given, np.generic) else tuple(given) if isinstance(given, list) else given
        if not _fits(value, fields[key]):
            wanted = getattr(fields[key], "__name__", None) or str(fields[key])
            raise OptionError(f"{key} of {name} is {given!r}, a {type(given).__name__}; expected {wanted}")
        values[key] = value
    try:
        return kind(**values)
    except TypeError as error:
        raise OptionError(f"{name} is not complete: {error}") from error


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value has the type a field asks for: plain types, unions of them, and tuples of one type."""
    if get_origin(hint) in (UnionType, Union):
        return any(_fits(value, part) for part in get_args(hint))
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(_fits(item, get_args(hint)[0]) for item in value)
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return hint is Any or isinstance(value, hint)


def _key(name: str) -> str:
    plain = name and all(c.isascii() and (c.isalnum() or c in "-_") for c in name)
    return name if plain else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, np.generic):
        value = value.item()  # numpy's numbers spell themselves np.float64(0.1)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)  # also inf and nan are spelled alike
    if isinstance(value, str):
        # a file name that is not Unicode holds lone surrogates, which TOML has no way to say
        value = value.encode("utf-8", "replace").decode("utf-8")
        # JSON's escapes are TOML's, but for the one control character JSON leaves alone
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    raise TypeError(f"a configuration cannot hold {type(value).__name__}")


def field_names(kind: type[Any]) -> set[str]:
    """The names that `build` takes for a dataclass."""
    return {field.name for field in dataclasses.fields(kind)}


def as_table(settings: Any) -> Table:
    """A dataclass as the table it is built from again."""
    return dataclasses.asdict(settings)
