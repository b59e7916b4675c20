"""The harness' own command line, `lm_eval`, with a run as its model."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from thereafter.errors import OptionError, ThereafterError
from thereafter.harness.backend import INSTALL, NAME, PURPOSE, register
from thereafter.language_model import load_language_model
from thereafter.packages import require


def run_harness(run: str, arguments: Sequence[str], *, tokens: str = "word", as_written: bool = False) -> None:
    """Call `lm_eval` with these arguments (`--tasks ...`) and the model of a run; OptionError where it refuses them."""
    if any(one.partition("=")[0] in ("--model", "-M") for one in arguments):
        raise OptionError(f"got --model; the model is the run {run}; try it without --model, or call lm_eval itself")
    if not Path(run).exists():
        load_language_model(run, tokens)  # says what is wrong before the harness is imported
    register()
    command = require("lm_eval.__main__", PURPOSE, install=INSTALL)
    about = {"path": run, "tokens": tokens, "as_written": as_written}
    with _arguments(["lm_eval", "--model", NAME, "--model_args", json.dumps(about), *arguments]):
        try:
            command.cli_evaluate()
        except ThereafterError:
            raise
        except ValueError as error:  # how the harness refuses tasks and options
            raise OptionError(f"lm_eval: {error}; try: lm_eval --help, or lm_eval ls tasks") from error


@contextmanager
def _arguments(given: list[str]) -> Iterator[None]:
    """The arguments of the process for a while: the harness takes them from there alone."""
    before, sys.argv = sys.argv, given
    try:
        yield
    finally:
        sys.argv = before
