"""The codecs of a task by name, as a run folder keeps them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from thereafter.data.codecs import StoredCodec, restore_codecs, store_codecs
from thereafter.errors import FormatError
from thereafter.storage import read_plain, write_text

Codecs = Mapping[str, StoredCodec]
_KEY = "lexicons"


@runtime_checkable
class Styled(Protocol):
    """A codec that brings plain text into the way its training text was written."""

    def verbatim(self) -> StoredCodec:
        """The same codec, leaving text as it is."""


def verbatim(codecs: Codecs) -> Codecs:
    """Codecs that read every text as it is written."""
    return {name: codec.verbatim() if isinstance(codec, Styled) else codec for name, codec in codecs.items()}


class CodecsFile:
    """Codecs in the place where a language model has its tokenizer: see `runs.saving.Codecs`."""

    def __init__(self, codecs: Codecs) -> None:
        self._codecs = codecs

    def save(self, path: Path) -> None:
        write_text(path, json.dumps({_KEY: store_codecs(self._codecs)}, ensure_ascii=False))


def read_codecs(path: Path) -> dict[str, StoredCodec]:
    """Read what `CodecsFile` wrote; nothing in it is executed."""
    try:
        return restore_codecs(json.loads(read_plain(path).decode("utf-8"))[_KEY])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(f"{path} holds no lexicons ({error}); try training again") from error
