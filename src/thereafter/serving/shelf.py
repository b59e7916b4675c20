"""The models one can pick: the ready ones and the runs of the user's folder, loaded when first asked for.

A model has a name, never a path: `ready:lstm`, `runs:book-lstm`. A name leads only to what a listing of the two folders
shows, so nothing outside of them can be opened. Loaded models are kept, the least used dropped first; each has a lock,
since a model has buffers of its own.
"""

from __future__ import annotations

import json
import re
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from thereafter.base.storage import open_plain, read_plain
from thereafter.errors import FormatError, ThereafterError
from thereafter.ready.models import UNITS
from thereafter.ready.tasks import TASKS
from thereafter.serving.listening import CONFIG, WEIGHTS, own_runs
from thereafter.serving.schema import Answer, NotThereError

if TYPE_CHECKING:
    from thereafter.base.config import Table
    from thereafter.language_model import LanguageModel
    from thereafter.task_model import TaskModel

MOST_LOADED = 12
READY, RUNS = "ready", "runs"
_NEEDED = frozenset({CONFIG, WEIGHTS})
# what reading a folder that somebody else wrote, or deletes meanwhile, may raise
_DAMAGE = (ThereafterError, OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError)


class ModelAnswer(Answer):
    """A model of the list. `units` are those known to carry something, by property: {"number": "l0.c[17]"}."""

    name: str
    label: str
    kind: str
    tokens: str
    source: str
    layers: int | None
    hidden: int | None
    units: dict[str, str]


class TaskModelAnswer(Answer):
    """A task model of the list; `attention` is "" where its task has none."""

    name: str
    label: str
    task: str
    source: str
    attention: str
    hidden: int | None


ModelT = TypeVar("ModelT")
CardT = TypeVar("CardT")


@dataclass
class _Loaded(Generic[ModelT]):
    """A loaded model. One lock for loading and for using it: fifty who ask at once load it once."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    model: ModelT | None = None
    stamp: tuple[int, int] = (0, 0)


class Folders(ABC, Generic[ModelT, CardT]):
    """Models of one sort in two folders, `ready` and `runs`; either may not exist yet."""

    def __init__(self, ready: Path, runs: Path) -> None:
        self.folders = {READY: ready, RUNS: runs}
        self._loaded: OrderedDict[str, _Loaded[ModelT]] = OrderedDict()
        self._lock = threading.Lock()
        self._cards: dict[str, tuple[tuple[int, ...], CardT]] = {}

    @abstractmethod
    def describe(self, name: str, path: Path, config: Table) -> CardT:
        """What a configuration says of a model of this sort; any error where it is one of another."""

    @abstractmethod
    def open(self, path: Path) -> ModelT:
        """Load the model in a folder."""

    def cards(self) -> list[CardT]:
        """All models there are, ready ones first; a folder that is no run, or a broken one, is left out."""
        cards = (
            self._card(f"{shelf}:{path.name}", path)
            for shelf, folder in self.folders.items()
            for path in _runs_in(folder)
        )
        return [card for card in cards if card is not None]

    def place(self, name: str) -> Path:
        """The folder of a model by its name; one that is not in the list is refused, whatever it looks like."""
        shelf, _, wanted = name.partition(":")
        for path in _runs_in(self.folders.get(shelf), only=wanted):
            return path
        raise NotThereError(f"there is no model {name!r} (any more); pick one of the list")

    @contextmanager
    def borrow(self, name: str) -> Iterator[ModelT]:
        """The model of that name, for one thread at a time."""
        path = self.place(name)
        with self._lock:
            loaded = self._loaded.setdefault(name, _Loaded())
            self._loaded.move_to_end(name)
            while len(self._loaded) > MOST_LOADED:
                self._loaded.popitem(last=False)
        with loaded.lock:
            stamp = _stamp(path / WEIGHTS)
            if loaded.model is None or loaded.stamp != stamp:
                loaded.model, loaded.stamp = self._load(name, path), stamp
            yield loaded.model

    def copy(self, name: str) -> ModelT:
        """The model of that name, loaded for the caller alone: nobody else waits for it meanwhile."""
        return self._load(name, self.place(name))

    def drop(self, name: str) -> None:
        """Forget a loaded model, for instance because its run goes on."""
        with self._lock:
            self._loaded.pop(name, None)

    def _card(self, name: str, path: Path) -> CardT | None:
        from thereafter.base import config as toml

        try:
            stamp = (*_stamp(path / WEIGHTS), *_stamp(path / UNITS))
            known = self._cards.get(name)
            if known is not None and known[0] == stamp:
                return known[1]
            config = toml.loads(read_plain(path / CONFIG, links=False).decode("utf-8"), str(path / CONFIG))
            card = self.describe(name, path, config)
        except _DAMAGE:
            return None
        self._cards[name] = (stamp, card)
        return card

    def _load(self, name: str, path: Path) -> ModelT:
        """The model in a folder, whose files may be damaged or may be going away right now."""
        try:
            return self.open(path)
        except _DAMAGE as error:
            if not (path / WEIGHTS).exists():
                raise NotThereError(f"the model {name!r} is no longer there; pick another") from error
            raise FormatError(f"the model {name!r} cannot be read: {error}; pick another") from error


class Shelf(Folders["LanguageModel", ModelAnswer]):
    """The language models."""

    def describe(self, name: str, path: Path, config: Table) -> ModelAnswer:
        kind = str(config["model"])
        sizes = config.get(kind, {})
        return ModelAnswer(
            name=name,
            label=_label(name),
            kind=kind,
            tokens=str(config["text"]["tokens"]),
            source=str(config["source"]["name"]),
            layers=_whole(sizes.get("layers")),
            hidden=_whole(sizes.get("hidden")),
            units=known_units(path),
        )

    def open(self, path: Path) -> LanguageModel:
        from thereafter.language_model import load_language_model  # takes seconds the first time

        return load_language_model(path)


class TaskShelf(Folders["TaskModel", TaskModelAnswer]):
    """The task models: translators, taggers, classifiers. The ready ones are in a folder of their own."""

    def __init__(self, ready: Path, runs: Path) -> None:
        super().__init__(ready / TASKS, runs)

    def describe(self, name: str, path: Path, config: Table) -> TaskModelAnswer:
        task = str(config["task"])
        settings = config[task]
        attention = str(settings.get("attention", ""))
        if settings.get("model") == "transformer":
            attention = "transformer"
        source = "generated" if name.startswith(READY) else str(config["source"]["name"])
        return TaskModelAnswer(
            name=name,
            label=_label(name),
            task=task,
            source=source,
            attention=attention,
            hidden=_whole(settings.get("hidden")),
        )

    def open(self, path: Path) -> TaskModel:
        from thereafter.task_model import load_task

        return load_task(path)


def _runs_in(folder: Path | None, *, only: str | None = None) -> list[Path]:
    """The folders in it that hold a model, by name. Links are not followed: they may lead out of it."""
    if folder is None:
        return []
    # some systems allow names that are no text, which could not go over the wire and come back
    runs = own_runs(folder, _NEEDED, only=only)
    return [path for path in runs if (name := path.name).isprintable() and "\\" not in name and len(name) <= 200]


def _label(name: str) -> str:
    """What a person reads: "lstm" of "ready:lstm", or the name of the run."""
    return name.partition(":")[2]


def _stamp(file: Path) -> tuple[int, int]:
    """Changes when a file of a run does; 0, 0 where there is none."""
    try:
        facts = file.lstat()
    except OSError:
        return 0, 0
    return facts.st_mtime_ns, facts.st_size


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


# Units of a model that are known to carry something: `units.json` in its folder, a property to the name of a unit.
#
#     {"number": "l0.c[17]", "quotes": "l0.c[11]"}
#
# The file is made once, by whoever has searched the model, and panels open on what it names. It may come from somebody
# else: anything but a small plain file of such names counts as none.


MOST_UNITS = 20
"""Units a file may name."""
_LONGEST = 4_000  # bytes of the file
_UNIT = re.compile(r"l[0-9]{1,2}\.[hc]\[[0-9]{1,5}\]")
_PROPERTY = re.compile(r"[a-z][a-z0-9-]{0,39}")


def known_units(run: Path) -> dict[str, str]:
    """The units a run folder names, by property; {} where it has no such file, or one that is not as it should be."""
    try:
        with open_plain(run / UNITS, links=False) as file:
            content = file.read(_LONGEST + 1)
        units = json.loads(content) if len(content) <= _LONGEST else None
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(units, dict) or len(units) > MOST_UNITS:
        return {}
    sound = all(
        _PROPERTY.fullmatch(name) and isinstance(unit, str) and _UNIT.fullmatch(unit) for name, unit in units.items()
    )
    return units if sound else {}
