"""The JSON file of a tokenizer: written completely or not at all, and checked when it is read."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress

from thereafter.base.config import Table
from thereafter.base.storage import read_plain
from thereafter.errors import FormatError, StorageError, nearest

FORMAT = "thereafter-tokenizer"
VERSION = 1


def header(name: str) -> Table:
    """The first entries of every tokenizer file."""
    return {"format": FORMAT, "version": VERSION, "name": name}


def check_header(stored: object, known: list[str]) -> str:
    """The name of the tokenizer that a parsed file describes."""
    if not isinstance(stored, dict) or stored.get("format") != FORMAT:
        raise FormatError(
            f"this is not a tokenizer file: expected a JSON object with format {FORMAT!r}; try tokenizer.json"
        )
    if stored.get("version") != VERSION:
        raise FormatError(
            f"the tokenizer file has version {stored.get('version')!r}, expected {VERSION}; "
            "try the version of thereafter that wrote it"
        )
    name = stored.get("name")
    if not isinstance(name, str) or name not in known:
        raise FormatError(f"the tokenizer file names the tokenizer {name!r}; {nearest(str(name), known)}")
    return name


def read_stored(path: str | os.PathLike[str]) -> object:
    """The parsed JSON of a file."""
    try:
        return json.loads(read_plain(path).decode("utf-8"))
    except OSError as failed:
        raise FormatError(f"no tokenizer could be read from {os.fspath(path)}: {failed.strerror or failed}") from None
    except (ValueError, RecursionError) as failed:
        raise FormatError(
            f"{os.fspath(path)} is not a tokenizer file: expected JSON ({failed}); try the tokenizer.json of a run"
        ) from None


def write_stored(stored: Table, path: str | os.PathLike[str]) -> None:
    """Write a temporary file and rename it, so that there is never half a tokenizer."""
    text = json.dumps(stored, ensure_ascii=False, separators=(",", ":"))
    folder, name = os.path.split(os.fspath(path))
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=folder or ".")
        with open(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.chmod(temporary, 0o644)  # mkstemp files are private, and a tokenizer is no secret
        os.replace(temporary, path)
    except OSError as failed:
        if temporary:
            with suppress(OSError):
                os.unlink(temporary)
        raise StorageError(
            f"the tokenizer could not be saved as {os.fspath(path)}: {failed.strerror or failed}; "
            "try a folder that exists and has room"
        ) from None
