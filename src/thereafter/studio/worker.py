"""The program that trains, in a process of its own: the page stays quick, and a training outlives its visitors.

    python -m thereafter.studio.worker < command.json

It writes {"hello"} when it listens, reads one command as JSON and reports what happens as lines of JSON: {"task",
"share", "status"}, {"note"}, {"making"} and {"ready"} for each ready model, and at the end {"done"} or {"error"} with
a sentence.

It stops when it is interrupted (SIGINT), or when nobody listens any more. A training is broken off only between two of
its steps, where its last snapshot is whole; a second interrupt does not wait for that.

Commands of trainings that were asked for and have no run yet are kept with the pasted texts in the folder `texts`
beside the runs. Such a file may come from somebody else. So it is believed only as far as a request would be: its
fields are those of the API, its source is the text beside it or a built-in corpus, its run is the one of its name.

Beside them lies the lock of each training that a studio is at, from the moment it is asked for: the process that trains
locks the run folder itself (`runs/folder.py`), but not before it has loaded what it needs.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Annotated, Literal, NotRequired, TextIO, get_args

from pydantic import AfterValidator, ConfigDict, Field, PlainValidator, TypeAdapter, with_config
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from thereafter.base import progress, storage
from thereafter.base.config import Table
from thereafter.base.kinds import KINDS, listed
from thereafter.base.progress import Advance
from thereafter.base.storage import is_plain, open_plain, write_text
from thereafter.errors import BusyError, StorageError, ThereafterError
from thereafter.serving.schema import Asked

TEXTS = "texts"


def known_kind(name: str) -> str:
    """The name of a kind of model; any other is an error in pydantic's form."""
    if name not in KINDS:
        raise PydanticCustomError(
            "kind", "no kind of model is called {name}; expected {kinds}", {"name": repr(name[:40]), "kinds": listed()}
        )
    return name


Kind = Annotated[str, AfterValidator(known_kind), Field(json_schema_extra={"enum": list(KINDS)})]
Corpus = Literal["agreement", "python-docs", "python-code"]
Tokens = Literal["word", "prose", "char", "byte", "bpe", "wordpiece", "unigram"]
_BUDGETS = ("minutes", "epochs")
_LARGEST = 100_000  # bytes of a command


class TrainingNumbers(Asked):
    """The numbers that a training can be given; what is left out is chosen by the size of the text."""

    minutes: Annotated[float, Field(gt=0, le=600)] | None = None
    epochs: Annotated[float, Field(gt=0, le=1000)] | None = None
    hidden: Annotated[int, Field(ge=1, le=2048)] | None = None
    layers: Annotated[int, Field(ge=1, le=8)] | None = None
    order: Annotated[int, Field(ge=1, le=10)] | None = None


def _checked_numbers(options: object) -> dict[str, float]:
    return TrainingNumbers.model_validate(options).model_dump(exclude_none=True)


@with_config(ConfigDict(extra="forbid", strict=True))
class TrainCommand(TypedDict):
    """Train a new model on a text or a corpus."""

    do: Literal["train"]
    source: str
    model: Kind
    tokens: Tokens | None
    options: Annotated[dict[str, float], PlainValidator(_checked_numbers)]
    run: str


class ResumeCommand(TypedDict):
    """Go on with a run."""

    do: Literal["resume"]
    run: str


class ReadyCommand(TypedDict):
    """Make ready models in a folder: all that are missing, those of a `task`, or the one of a `name` anew."""

    do: Literal["ready", "tasks", "anew"]
    folder: str
    scale: float
    task: NotRequired[str]
    name: NotRequired[str]


Command = TrainCommand | ResumeCommand | ReadyCommand


def numbers_of(model: str) -> frozenset[str]:
    """Which numbers a kind of model takes."""
    kind = KINDS[model]
    return frozenset((*kind.sizes, *(_BUDGETS if kind.neural else ())))


class StoredCommands:
    """The commands that are kept in one folder of runs."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs

    def text(self, run: str) -> Path:
        """Where the text of a training is kept."""
        return self._runs / TEXTS / f"{run}.txt"

    def place(self, run: str) -> Path:
        """Where the command of a training is kept."""
        return self._runs / TEXTS / f"{run}.json"

    def is_free(self, run: str) -> bool:
        """Whether a name has neither a run, nor a text, nor a command: a link that leads nowhere counts as one, since
        what is written there would go where it leads."""
        return not any(map(os.path.lexists, (self._runs / run, self.text(run), self.place(run))))

    def write_text(self, run: str, text: str) -> str:
        """Keep the text of a training; returns the source to be named in its command."""
        self._check_folder()
        write_text(self.text(run), text)
        return str(self.text(run).absolute())

    def write(self, run: str, command: TrainCommand) -> None:
        """Keep a command."""
        self._check_folder()
        write_text(self.place(run), json.dumps(command) + "\n")

    def waiting(self) -> dict[str, TrainCommand]:
        """The commands that can be obeyed, by the name of their run; whatever else lies there is left out."""
        folder = self._runs / TEXTS
        try:
            names = [] if folder.is_symlink() else sorted(os.listdir(folder))
        except OSError:
            return {}
        runs = [name.removesuffix(".json") for name in names if name.endswith(".json")]
        commands = {run: self._read(run) for run in runs}
        return {run: command for run, command in commands.items() if command is not None}

    def _read(self, run: str) -> TrainCommand | None:
        try:
            with open_plain(self.place(run), links=False) as file:
                stored = TypeAdapter(TrainCommand).validate_json(file.read(_LARGEST))
        except (OSError, ValueError, RecursionError):  # pydantic's errors are ValueErrors
            return None
        text, source = self.text(run), stored["source"]
        is_known = is_plain(text, links=False) if source == str(text.absolute()) else source in get_args(Corpus)
        fits = stored["run"] == str((self._runs / run).absolute()) and stored["options"].keys() <= numbers_of(
            stored["model"]
        )
        return stored if fits and is_known else None

    def take(self, run: str) -> storage.FileLock:
        """The lock of a training, for this studio; BusyError, which says who has it, where another one is at it."""
        self._check_folder()
        try:
            lock = storage.take_lock(self._lock(run), command="thereafter studio")
        except OSError as error:
            raise StorageError(f"cannot write {self._runs / TEXTS}: {error.strerror}; try another --runs") from error
        if lock is None:
            raise busy(run, storage.lock_owner(self._lock(run)) or storage.Owner())
        return lock

    def owner(self, run: str) -> storage.Owner | None:
        """Who is at a training now: another studio, or whoever trains in its run folder."""
        from thereafter.runs.folder import owner_of

        return storage.lock_owner(self._lock(run)) or owner_of(self._runs / run)

    def _lock(self, run: str) -> Path:
        # the name of a run may be as long as a file name can be
        return self._runs / TEXTS / f".{hashlib.sha256(os.fsencode(run)).hexdigest()[:32]}.lock"

    def _check_folder(self) -> None:
        folder = self._runs / TEXTS
        if folder.is_symlink():
            raise StorageError(f"{folder} is a link, which is not followed; expected a folder; try removing it")


def busy(run: str, owner: storage.Owner) -> BusyError:
    """The error for whoever wants to go on with a training that somebody else is at."""
    return BusyError(f"the training {run!r} is running elsewhere, by {owner}; try again when that has ended")


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
