"""The command line. Every command calls the library; results go to standard output, notes and errors to standard error.

app             the application: which commands there are, imported when asked for, how help is written; the model of
                a run
options         the options that commands share, each described once; `command`, which adds them to a function
tables          what is printed and saved: rows, measurements, figures, notes about the text
train           `train`, Ctrl-C included; train_report: what it prints, and what --set takes
score           scores of texts
surprisal       bits of every word
ask             `next`, `generate`, `rank` and `neighbours`
predict         answers of a task, and `backtest`; pictures: what is shown of networks that see and draw
compare         several models on one text
inspect/        instruments
figure          `figure`, `gallery` and `kernels`
servers         `studio`, the web page, and `serve`, runs over HTTP
data            corpora
export          `export`, `arpa` and `lm-eval`: what runs without this package
"""

from __future__ import annotations

import os
import sys

from thereafter.base import progress
from thereafter.base.progress import TerminalReporter, escaped_streams
from thereafter.cli.app import app
from thereafter.errors import ThereafterError

__all__ = ["app", "main"]


def main() -> None:
    """Run a command; a user's mistake is one sentence and exit code 2, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a text may contain characters that this terminal cannot show
    with escaped_streams():
        try:
            with progress.reporting(TerminalReporter()):
                app()
        except ThereafterError as error:
            sys.stderr.write(f"error: {error.in_shell}\n")
            sys.exit(2)
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                _exit_quietly()
            sys.stderr.write(f"error: {error.strerror or error}{f': {error.filename}' if error.filename else ''}\n")
            sys.exit(2)


def _exit_quietly() -> None:
    """Whoever reads our output has stopped reading, as `head` does. That is no error: end without a message."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(1)
