"""Run configurations as TOML: written completely, read back strictly.

The standard library reads TOML but does not write it; a configuration has two levels, and a third on one line, so the
writer is short.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import tomllib
from collections.abc import Mapping
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from thereafter.errors import FormatError, OptionError, nearest

T = TypeVar("T")
_DOTS = 50
Table = dict[str, Any]
"""A table of TOML or an object of JSON: plain values by name. They come from files, so their types are unknown until
they are checked: `build` makes dataclasses of them."""


def dumps(config: Mapping[str, object]) -> str:
    """A table of values and tables as TOML; None is left out, since TOML has no null.

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


def loads(text: str, name: str = "the configuration") -> Table:
    """Parse TOML; FormatError names the file and the line.

    The time that a key takes grows with the square of its dots, so keys of many levels are refused unread.
    """
    for number, line in enumerate(text.splitlines(), 1):
        if line.partition("=")[0].count(".") > _DOTS:
            raise FormatError(
                f"{name} is not valid: line {number} has a key of more than {_DOTS} levels; expected three"
            )
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise FormatError(f"{name} is not valid TOML: {error}") from error


def build(kind: type[T], table: Mapping[str, object], name: str) -> T:
    """A dataclass from a table; an unknown key or a value of the wrong type is an OptionError.

    >>> @dataclasses.dataclass
    ... class Pet:
    ...     legs: int = 4
    >>> build(Pet, {"legs": 3}, "pet")
    Pet(legs=3)
    """
    hints = get_type_hints(kind)
    fields = {name: hints[name] for name in field_names(kind)}
    values = {}
    for key, raw in table.items():
        if key not in fields:
            raise OptionError(f"{name} has no setting {key!r}; {nearest(key, sorted(fields))}")
        value = tuple(raw) if isinstance(raw, list) else _plain(raw)
        if not _fits(value, fields[key]):
            hint = fields[key]
            expected = hint.__name__ if isinstance(hint, type) else str(hint)
            raise OptionError(f"{key} of {name} is {raw!r}, a {type(raw).__name__}; expected {expected}")
        values[key] = value
    try:
        return kind(**values)
    except TypeError as error:
        raise OptionError(f"{name} is not complete: {error}") from error


def _fits(value: object, hint: object) -> bool:
    """Whether a value has the type of a field: a plain type, a union of them, or a tuple of one type."""
    if get_origin(hint) in (UnionType, Union):
        return any(_fits(value, part) for part in get_args(hint))
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(_fits(item, get_args(hint)[0]) for item in value)
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return hint is Any or (isinstance(hint, type) and isinstance(value, hint))


def _plain(value: object) -> object:
    """A numpy number as a Python number. There is none before numpy is imported, which takes a while."""
    generic = getattr(sys.modules.get("numpy"), "generic", ())
    return value.item() if isinstance(value, generic) else value


def _key(name: str) -> str:
    plain = name and all(c.isascii() and (c.isalnum() or c in "-_") for c in name)
    return name if plain else _value(name)


def _value(value: object) -> str:
    value = _plain(value)  # repr of numpy's own numbers is np.float64(0.1)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)  # inf and nan too are written alike in Python and TOML
    if isinstance(value, str):
        # a file name that is not Unicode holds lone surrogates, which TOML cannot write
        value = value.encode("utf-8", "replace").decode("utf-8")
        # JSON escapes as TOML does, except for one control character that JSON leaves alone
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, Mapping):  # a table inside a table, on one line
        inside = ", ".join(f"{_key(name)} = {_value(item)}" for name, item in value.items() if item is not None)
        return f"{{{inside}}}"
    raise TypeError(f"a configuration cannot hold {type(value).__name__}")


def field_names(kind: type[object]) -> set[str]:
    """The names that `build` takes for a dataclass."""
    if not dataclasses.is_dataclass(kind):
        raise TypeError(f"{kind.__name__} is not a dataclass")
    return {field.name for field in dataclasses.fields(kind)}


def as_table(settings: object) -> Table:
    """A dataclass as a table from which `build` makes it again."""
    if not dataclasses.is_dataclass(settings) or isinstance(settings, type):
        raise TypeError(f"{settings!r} is not a dataclass")
    return dataclasses.asdict(settings)
