"""Commands to a worker, and those that are kept: of trainings that were asked for and have no run yet.

They lie with the pasted texts in the folder `texts` beside the runs. Such a file may come from somebody else. So it is
believed only as far as a request would be: its fields are those of the API, its source is the text beside it or a
built-in corpus, its run is the one of its name.

Beside them lies the lock of each training that a studio is at, from the moment it is asked for: the process that trains
locks the run folder itself (`runs/folder.py`), but not before it has loaded what it needs.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Annotated, Literal, NotRequired, TypedDict, get_args

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from thereafter.base import storage
from thereafter.base.kinds import KINDS, listed
from thereafter.base.storage import is_plain, open_plain, write_text
from thereafter.errors import BusyError, StorageError
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


class TrainCommand(TypedDict):
    """Train a new model on a text or a corpus."""

    do: Literal["train"]
    source: str
    model: str
    tokens: str | None
    options: dict[str, float]
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


class TrainingNumbers(Asked):
    """The numbers that a training can be given; what is left out is chosen by the size of the text."""

    minutes: Annotated[float, Field(gt=0, le=600)] | None = None
    epochs: Annotated[float, Field(gt=0, le=1000)] | None = None
    hidden: Annotated[int, Field(ge=1, le=2048)] | None = None
    layers: Annotated[int, Field(ge=1, le=8)] | None = None
    order: Annotated[int, Field(ge=1, le=10)] | None = None


class _Stored(Asked):
    """A command as a file holds it."""

    do: Literal["train"]
    source: str
    model: Kind
    tokens: Tokens | None
    options: TrainingNumbers
    run: str


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
                stored = _Stored.model_validate(json.loads(file.read(_LARGEST)))
        except (OSError, ValueError, RecursionError):  # pydantic's errors are ValueErrors
            return None
        options = stored.options.model_dump(exclude_none=True)
        fits = stored.run == str((self._runs / run).absolute()) and options.keys() <= numbers_of(stored.model)
        if not fits or not self._is_known(run, stored.source):
            return None
        return TrainCommand(
            do="train", source=stored.source, model=stored.model, tokens=stored.tokens, options=options, run=stored.run
        )

    def _is_known(self, run: str, source: str) -> bool:
        """Whether a source is the training's own text, or a built-in corpus."""
        if source == str(self.text(run).absolute()):
            return is_plain(self.text(run), links=False)
        return source in get_args(Corpus)

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
