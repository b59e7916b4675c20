"""The command line. Every command calls the library; results go to standard output, notes and errors to standard error.

app                 the application, and the arguments that commands share
commands            which commands there are, imported when asked for, and how help is written
tables              the options --csv and --json, printing rows, notes about the text
train               `train`, Ctrl-C included; train_options (its options and their help, what --set takes), train_report
                    (what it prints)
score, rank         scores of texts
surprisal           bits of every word
next_words          `next`: the next token, and words that are half typed
generate            `generate`
predict             answers of a task; captions, clips, drawings, forecasts (what it saves of them), task_hints
backtest            forecasts from rolling origins
compare             several models on one text
neighbours          similar words
inspect/            instruments, one file each
figure, gallery     pictures
studio              the web page
serve               runs over HTTP
harness             `lm-eval`: the tasks of lm-evaluation-harness
data, arpa          corpora, ARPA files
export              `export`: files that run without this package
kernels             how recurrent layers run on this machine
"""

from __future__ import annotations

import os
import sys

from thereafter.base import progress
from thereafter.base.terminal import TerminalReporter, escaped_streams
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
