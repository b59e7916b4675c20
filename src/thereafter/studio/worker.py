"""The program that trains, in a process of its own: the page stays quick, and a training outlives its visitors.

    python -m thereafter.studio.worker < command.json

It writes {"hello"} when it listens, reads one command as JSON and reports what happens as lines of JSON: {"task",
"share", "status"}, {"note"}, {"making"} and {"ready"} for each ready model, and at the end {"done"} or {"error"} with
a sentence.

It stops when it is interrupted (SIGINT), or when nobody listens any more. A training is broken off only between two of
its steps, where its last snapshot is whole; a second interrupt does not wait for that.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TextIO

from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.base.progress import Advance
from thereafter.errors import ThereafterError
from thereafter.studio.commands import Command, ReadyCommand

TRAINING = "training"  # the task whose steps can be gone back to
_EVERY = 0.2  # seconds between two lines about the same task
_TOKENS = 2_000_000  # read where no budget is given, about: a minute on two cores
_ROW = 35  # tokens of a row in one step, about
_SHARE, _LEAST_STEPS = 0.2, 20  # of the text, and of steps, between two validations
_SNAPSHOT_STEPS = 10  # between two states that a pause can save: so many steps are lost at most


class Lines:
    """Reports progress as lines of JSON."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._training = self._asked = False

    def report(self, **facts: str | float | bool | None) -> None:
        """One line, at once. Where nobody listens any more the studio is gone: then there is nothing to go on for."""
        try:
            self._out.write(json.dumps(facts) + "\n")
            self._out.flush()
        except BrokenPipeError as error:
            raise KeyboardInterrupt from error

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Stop: at once, or between two steps where the first interrupt comes in the middle of a training.

        What is raised here may be lost: Python ignores an exception in a callback, of which importing has many. So it
        is raised again where the next task begins or goes on.
        """
        again, self._asked = self._asked, True
        if again or not self._training:
            raise KeyboardInterrupt

    def begin(self, label: str, total: float | None, unit: str) -> Advance:
        done, reported = 0.0, 0.0
        if self._asked and not self._training:
            raise KeyboardInterrupt
        self._training = self._training or label == TRAINING
        self.report(task=label, share=None, status="")

        def advance(amount: float, status: str = "") -> None:
            nonlocal done, reported
            done += amount
            if time.monotonic() - reported >= _EVERY:
                reported = time.monotonic()
                self.report(task=label, share=min(1.0, done / total) if total else None, status=status)
            if self._asked and (label == TRAINING or not self._training):
                raise KeyboardInterrupt

        return advance

    def end(self, label: str) -> None:
        self._training = self._training and label != TRAINING

    def note(self, message: str) -> None:
        self.report(note=message)


def obey(command: Command, lines: Lines) -> bool:
    """Do what a command says: make the ready models, those of a task, one of them anew, train a new model, or go on
    with a run.

    False where some failed.
    """
    from thereafter.api import resume, train

    if command["do"] == "resume":
        resume(Path(command["run"]))
    elif command["do"] == "train":
        source, tokens = command["source"], command["tokens"]
        options: Table = dict(command["options"])
        if command["model"] != "ngram":
            options = watched_options(source, tokens, command["options"]) | options
        train(source, model=command["model"], tokens=tokens, out=Path(command["run"]), **options)
    else:
        return _make_ready(command, lines)
    return True


def watched_options(source: str, tokens: str | None, options: Mapping[str, float]) -> dict[str, float]:
    """What is chosen for a training that somebody watches.

    It ends in about a minute where no budget is given. It is validated after about a fifth of the text, so that the
    curve is seen to grow and the first weights come soon, and the held-out twentieth takes less than a tenth of the
    time.
    """
    from thereafter.comparing import budget
    from thereafter.text.sources import resolve
    from thereafter.training.neural import tier_of

    texts = resolve(source)
    count = budget.count_tokens(texts, [tokens or texts.tokens])
    every = max(_LEAST_STEPS, round(_SHARE * count / (tier_of(int(count)).batch * _ROW)))
    chosen: dict[str, float] = {"checkpoint_every": _SNAPSHOT_STEPS, "validate_every": every}
    asked = any(options.get(unit) is not None for unit in budget.UNITS)
    return chosen if asked else chosen | budget.default_budget(texts, [tokens or texts.tokens], _TOKENS)


def _make_ready(command: ReadyCommand, lines: Lines) -> bool:
    """Train what is missing; one that fails does not keep the others from their panels."""
    from thereafter.ready import models as ready
    from thereafter.ready import shipped
    from thereafter.ready import tasks as ready_tasks

    folder, scale = Path(command["folder"]), command["scale"]
    jobs: dict[str, Callable[[], None]]
    if command["do"] == "anew":
        jobs = {command["name"]: partial(shipped.make_anew, command["name"], folder, scale)}
    elif command["do"] == "tasks":
        missing = ready_tasks.missing(folder, command["task"])
        jobs = {task.name: partial(ready_tasks.make, task, folder, scale) for task in missing}
    else:
        jobs = {one.name: partial(ready.make, one, folder, scale) for one in ready.missing(folder)}
    failed = False
    for name, make in jobs.items():
        lines.report(making=name)
        try:
            make()
        except ThereafterError as error:
            failed = True
            lines.report(error=f"the ready model {name} could not be made: {error}")
            continue
        lines.report(ready=name)
    return not failed


def main() -> None:
    """Obey the command on the standard input."""
    lines = Lines(sys.stdout)
    signal.signal(signal.SIGINT, lines.interrupt)
    try:
        lines.report(hello=True)
        command: Command = json.loads(sys.stdin.read())
        if command["do"] == "ready" and sys.platform != "win32":
            os.nice(10)  # nobody asked for these models: whoever looks at a panel meanwhile goes first
        with progress.reporting(lines):
            if not obey(command, lines):
                sys.exit(2)
        lines.report(done=True)
    except ThereafterError as error:
        lines.report(error=str(error))
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        lines.report(error=f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}")
        sys.exit(2)
    except MemoryError:
        lines.report(error="there is not enough memory for this training; try a smaller hidden size or a shorter text")
        sys.exit(2)


if __name__ == "__main__":
    main()
