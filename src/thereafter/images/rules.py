"""Rules by which pictures or clips are made, as small JSON files: {"format": "moving digits", "size": 64, ...}."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from thereafter.errors import FormatError, OptionError, nearest
from thereafter.storage import read_plain

R = TypeVar("R")
_LONGEST_FILE = 100_000


def rule_text(format: str, entries: Mapping[str, object]) -> str:
    """A rule as the content of a file."""
    return json.dumps({"format": format, **entries}, indent=1) + "\n"


def rule_of_text(make: Callable[..., R], known: list[str], format: str, text: str | bytes, name: str) -> R:
    """A rule from the content of a file, checked: `make` of its entries, which are `known`; errors call it by its
    `name`."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as broken:
        raise FormatError(f"{name} is not JSON ({broken}); expected a rule of {format}") from None
    if not isinstance(given, dict) or given.pop("format", None) != format:
        raise FormatError(f'{name} is not a rule of {format}; expected an object with "format": "{format}"')
    for key in given:
        if key not in known:
            raise FormatError(f"{name} has an entry {key!r}, which no rule of {format} has; {nearest(key, known)}")
    try:
        return make(**given)
    except OptionError as wrong:
        raise FormatError(f"{name}: {wrong}") from None


def rule_of_file(from_json: Callable[[bytes, str], R], format: str, path: Path) -> R:
    """A rule from a file; a long one is none."""
    try:
        if path.stat().st_size > _LONGEST_FILE:
            raise FormatError(
                f"{path} has {path.stat().st_size:,} bytes; expected a rule of {format}, which has some hundred"
            )
        return from_json(read_plain(path), str(path))
    except OSError as failed:
        raise FormatError(f"{path} could not be read: {failed.strerror or failed}") from None


def check_whole_numbers(values: Mapping[str, object], least: Mapping[str, int], most: Mapping[str, int]) -> None:
    """OptionError where an entry is no whole number between its bounds."""
    for name in most:
        value = values[name]
        if isinstance(value, bool) or not isinstance(value, int) or not least[name] <= value <= most[name]:
            raise OptionError(f"{name} is {value!r}; expected a whole number from {least[name]} to {most[name]}")
