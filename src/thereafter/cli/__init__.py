"""The command line: every command is a library function with a name. Results go to the standard output."""

from __future__ import annotations

import os
import sys

from thereafter import progress
from thereafter.cli import (
    arpa,
    compare,
    data,
    figure,
    gallery,
    generate,
    inspect,
    kernels,
    neighbours,
    predict,
    rank,
    score,
    studio,
    train,
)
from thereafter.cli.app import app
from thereafter.errors import ThereafterError
from thereafter.terminal import TerminalReporter

__all__ = [
    "app",
    "arpa",
    "compare",
    "data",
    "figure",
    "gallery",
    "generate",
    "inspect",
    "kernels",
    "main",
    "neighbours",
    "predict",
    "rank",
    "score",
    "studio",
    "train",
]


def main() -> None:
    """Run a command; a user's mistake is one sentence and exit code 2, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a text may hold what this terminal cannot show
    try:
        with progress.reporting(TerminalReporter()):
            app()
    except ThereafterError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            _reader_went_away()
        sys.stderr.write(f"error: {error.strerror or error}{f': {error.filename}' if error.filename else ''}\n")
        sys.exit(2)


def _reader_went_away() -> None:
    """The reader of our output stopped reading, as `head` does: no error of ours, and nothing more to say."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(1)
