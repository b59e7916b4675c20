"""All errors raised on purpose, as one tree. Each message says what was got, what was expected and what to try.

ThereafterError
├── SourceError           a file, folder, glob or corpus name that leads nowhere or cannot be read
│   ├── EncodingError     bytes that are not the text they should be
│   └── EmptyCorpusError  a text with nothing in it
├── CorpusError           a named corpus that is not here
│   ├── DownloadError     it could not be fetched
│   └── ChecksumError     a file has other content than it must have
├── OptionError           a value outside its range
│   ├── UnknownNameError  a name that is not registered
│   └── ShapeError        a tensor of the wrong shape, type, device or content
├── DeviceMemoryError     a GPU, or the machine, has no memory left for what was asked
├── TrainingError         a training run that cannot continue: losses or gradients that are not finite
├── FormatError           a run folder, an ARPA file or a tokenizer file that is not what it claims to be
├── StorageError          writing failed
├── ExportError           a model that cannot be written in a form, or a file of one that computes something else
├── BusyError             a run folder that another process is writing
└── MissingPackageError   an optional package is needed and not installed
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LONGEST_NAME, _LISTED, _COMPARED = 200, 100, 10_000  # a user's table may have any number of columns


_SHOWN_AS: dict[str, str] = {}


def show_as(path: str, name: str) -> None:
    """Have errors call a temporary file by the name of what it is a copy of, such as "standard input"."""
    _SHOWN_AS[path] = name


def forget_shown(path: str) -> None:
    """The temporary file is gone."""
    _SHOWN_AS.pop(path, None)


def _with_names(message: str) -> str:
    for path, name in list(_SHOWN_AS.items()):
        message = message.replace(path, name)
    return message


class ThereafterError(Exception):
    """Base of all errors raised on purpose; the command line prints it as one sentence and exits with 2."""

    def __init__(self, *parts: object) -> None:
        super().__init__(*(_with_names(part) if isinstance(part, str) else part for part in parts))

    @property
    def in_shell(self) -> str:
        """The sentence as the command line prints it."""
        return str(self)


class SourceError(ThereafterError):
    """A source of text could not be found or read.

    `hint` is what to try in Python, `shell_hint` what to try on the command line; each ends the sentence there.
    """

    def __init__(self, message: str, hint: str = "", shell_hint: str = "") -> None:
        message = _with_names(message)
        super().__init__(f"{message} ({hint})" if hint else message)
        self._in_shell = f"{message} ({shell_hint})" if shell_hint else message

    @property
    def in_shell(self) -> str:
        return self._in_shell


class EncodingError(SourceError):
    """The bytes of a source are not valid text in the expected encoding."""


class EmptyCorpusError(SourceError):
    """A text has no tokens."""


class CorpusError(ThereafterError):
    """A named corpus is not available."""


class DownloadError(CorpusError):
    """A corpus could not be downloaded; nothing half-written was left behind."""


class ChecksumError(CorpusError):
    """A file's content does not have the sha256 it must have."""


class OptionError(ThereafterError, ValueError):
    """An option has a value outside its range."""


class UnknownNameError(OptionError):
    """A name that nothing is registered under."""

    def __init__(self, kind: str, got: str, choices: Iterable[str]) -> None:
        names = sorted(choices)
        super().__init__(f"no {kind} is called {got!r}; {nearest(got, names)}")


class ShapeError(OptionError):
    """A tensor that does not fit the layer it was given to: its shape, type, device, lengths or a NaN inside."""


class DeviceMemoryError(ThereafterError):
    """A device has no memory left for what was asked; the message says how much there is and what to try."""


class TrainingError(ThereafterError):
    """Training cannot continue: losses or gradients stayed infinite or NaN, whatever was tried."""


class FormatError(ThereafterError):
    """A file or run folder does not have the format it should have."""


class StorageError(ThereafterError):
    """Writing failed: disk full, no permission, not a folder."""


class ExportError(ThereafterError):
    """A model or a figure has no form that was requested, or what was written does not compute what the model does."""


class BusyError(ThereafterError):
    """A run folder is being written by another process; the message says by which."""


class MissingPackageError(ThereafterError, ImportError):
    """An optional package is needed and not installed."""


def nearest(got: str, names: list[str]) -> str:
    """A suggestion: "did you mean 'lstm'?", or the list if no name is close."""
    names = [name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..." for name in names]
    close = difflib.get_close_matches(got[:_LONGEST_NAME], names[:_COMPARED], n=3, cutoff=0.6)
    if close:
        return "did you mean " + " or ".join(repr(name) for name in close) + "?"
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return "known are " + ", ".join(names[:_LISTED]) + more if names else "none is known"
