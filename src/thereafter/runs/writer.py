"""A run folder, whatever it holds: written while its training goes on or all at once, read, and gone on with.

`Destination` is where a training writes to. Its journal is there with or without a folder. A `Snapshot` is a moment of
a training, from which it goes on to the bit: tensors by name, and plain facts beside them. On disk it is one file,
written beside the last one and moved into its place, so that there is always a whole one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from thereafter.base import config as toml
from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.base.storage import map_arrays, replacing, write_arrays, write_text
from thereafter.errors import FormatError, StorageError
from thereafter.runs import folder as files
from thereafter.runs import narrow
from thereafter.runs.folder import (
    BOARD,
    CONFIG,
    LOG,
    ROWS,
    STATE,
    TOKENIZER,
    WEIGHTS,
    Line,
    check_free,
    is_file,
    left_behind,
    read_lines,
)

if TYPE_CHECKING:
    from torch import Tensor


Arrays = Mapping[str, NDArray[np.generic]]
EVENT_FILES = "events.out.tfevents.*"
"""What TensorBoard's files are called."""


class RunWriter:
    """A run folder that is written while the training goes on; it can be loaded or resumed at any moment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def state(self) -> Path:
        """The file of the checkpoint."""
        return self.folder / STATE

    @property
    def resume_line(self) -> str:
        """The command that goes on with this run."""
        return f"thereafter train --resume {self.folder}"

    def begin(self, config: Table, save_codecs: SaveCodecs, line: Line) -> Journal:
        """Make room for a new run, and open its log with a first line; the configuration comes last, so that a folder
        that has it can be resumed."""
        check_free(self.folder)
        with storing(f"the run folder {self.folder}", "try another --out"):
            self.folder.mkdir(parents=True, exist_ok=True)
            with replacing(self.folder / TOKENIZER) as made:
                save_codecs(made)  # on a full disk this fails, and the run that was there is still whole
                for name in (CONFIG, STATE, WEIGHTS, LOG, ROWS):
                    (self.folder / name).unlink(missing_ok=True)
                for events in (self.folder / BOARD).glob(EVENT_FILES):
                    events.unlink(missing_ok=True)
            self.tidy()
        journal = self.journal()
        journal.write(dict(line))
        journal.sync()
        write_text(self.folder / CONFIG, toml.dumps(config), durable=True)
        return journal

    def first_line(self) -> int:
        """The bytes of the first line of the log, which stays where a training starts over."""
        if not is_file(self.folder / LOG):
            return 0
        with (self.folder / LOG).open("rb") as log:
            return len(log.readline())

    def journal(self, *, keep: int = 0) -> Journal:
        """The log, of which so many bytes are kept."""
        return Journal(self.folder / LOG, keep=keep)

    def write_weights(self, arrays: Mapping[str, NDArray[np.generic]], facts: Mapping[str, str]) -> None:
        """The weights that `load` finds from now on."""
        write_arrays(self.folder / WEIGHTS, arrays, facts, durable=True)

    def read_weights(self) -> dict[str, NDArray[np.generic]]:
        """The weights that were written last."""
        return map_arrays(self.folder / WEIGHTS)[0]

    def finish(self, journal: Journal) -> None:
        """The training has come to its end: once its last line is on the disk there is nothing to go on from."""
        journal.sync()
        self.state.unlink(missing_ok=True)

    def stopped(self, step: int) -> None:
        """Say how to go on with a training that was stopped, and of which so many steps are saved."""
        where = f"stopped at step {step:,}; go on with" if step else "stopped before its first step; begin again with"
        progress.note(f"{where}: {self.resume_line}")

    def tidy(self) -> None:
        """Remove temporary files that a killed process left."""
        for path in self.folder.iterdir():
            if left_behind(path.name):
                path.unlink(missing_ok=True)


@contextmanager
def storing(what: Path | str | None, remedy: str) -> Iterator[None]:
    """An OSError inside is a StorageError that says what cannot be written, and what to try."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot write {what}: {error.strerror}; {remedy}") from error


class GrowingFile(FileIO):
    """A log, whose lines go straight to the system, so that a killed process has lost none."""

    def write_whole(self, raw: bytes) -> int:
        """The number of bytes written: all, unless the disk is full."""
        written = self.write(raw) or 0
        if written < len(raw):  # a disk that is just full takes a part
            written += self.write(raw[written:]) or 0
        return written


class Journal:
    """The lines of a log, in memory and in a file: a line is in the file when `write` returns."""

    def __init__(self, path: Path | None = None, *, keep: int = 0) -> None:
        """`keep`: so many bytes of the file are kept, as far as they are whole lines; what comes after is cut off."""
        self.lines: list[Line] = []
        self._path = path
        self._file: GrowingFile | None = None
        if path is not None:
            with self._storing():
                self._file = GrowingFile(path, "a+")
                self._file.seek(0)
                self.lines, self.length = read_lines((self._file.readall() or b"")[:keep])
                self._file.truncate(self.length)
            if self.length < keep:
                progress.note(
                    f"{path} is damaged after its first {len(self.lines):,} lines: the rest of it was dropped; the "
                    "training itself goes on as it was"
                )
        else:
            self.length = 0

    def write(self, line: Line) -> None:
        """Add a line. Straight to the system, so that a killed process has lost none."""
        self.lines.append(line)
        if self._file is not None:
            with self._storing():
                self.length += self._file.write_whole(json.dumps(line).encode() + b"\n")

    def sync(self) -> None:
        """Wait until all lines are on the disk."""
        if self._file is not None:
            with self._storing():
                os.fsync(self._file.fileno())

    def close(self) -> None:
        """Nothing more is written."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _storing(self) -> AbstractContextManager[None]:
        return storing(self._path, "what was saved stays; try freeing space")


SaveCodecs = Callable[[Path], None]
"""Writes what turns a user's data into numbers and back, a tokenizer or the codecs of a task, as JSON."""


@dataclass(frozen=True)
class Destination:
    """Where a training writes to: its log and, where it has one, its run folder.

    `snapshot`: where it is resumed. `initial`: weights of another training to begin with; those it has no name for are
    fresh. A snapshot goes before them.
    """

    journal: Journal
    writer: RunWriter | None = None
    snapshot: Snapshot | None = None
    initial: Arrays = field(default_factory=dict)


def begin(folder: Path | None, config: Table, save_codecs: SaveCodecs, figures: Table, initial: Arrays) -> Destination:
    """The destination of a new training, its log begun with a line of these figures; a run folder where it has one."""
    line: Line = {"event": "began", **figures}
    if folder is not None:
        writer = RunWriter(folder)
        return Destination(writer.begin(config, save_codecs, line), writer, initial=initial)
    journal = Journal()
    journal.write(line)
    return Destination(journal, initial=initial)


def save(
    folder: Path,
    config: Table,
    save_codecs: SaveCodecs,
    arrays: Arrays,
    facts: Mapping[str, str],
    log: list[Line],
    dtype: str = "float32",
) -> Path:
    """Write a run; `facts` are small texts that stand beside the weights.

    All files are written before the first takes its place, the configuration last: a folder that has it is complete,
    and a disk that fills up leaves the run that was there.

    A run that is there already is replaced; a folder that holds anything else is left alone. `dtype`: the form of the
    weights (`narrow.py`).
    """
    files.check_free(folder)
    arrays = narrow.narrowed(arrays, dtype)
    config = config if dtype == "float32" else config | {narrow.TABLE: {"dtype": dtype}}
    with ExitStack() as moves:  # left in reverse order
        moves.enter_context(files.owning(folder))
        paths = {name: moves.enter_context(replacing(folder / name)) for name in files.FILES}
        write_arrays(paths[WEIGHTS], arrays, facts)
        save_codecs(paths[TOKENIZER])
        write_text(paths[LOG], "".join(json.dumps(line) + "\n" for line in log))
        write_text(paths[CONFIG], toml.dumps(config))
        (folder / files.STATE).unlink(missing_ok=True)  # that of another training
        (folder / files.CONFIG).unlink(missing_ok=True)  # an old one must not stand beside new weights for a moment
    return folder


def read_weights(folder: Path, config: Table) -> tuple[dict[str, NDArray[np.generic]], dict[str, str]]:
    """The weights of a run, mapped and not copied, with the facts beside them; those that are stored in fewer bytes are
    copied into float32, and `config` says no more of that."""
    files.check_weights(config, folder)
    arrays, facts = map_arrays(folder / files.WEIGHTS)
    if narrow.TABLE not in config:
        return arrays, facts
    form = config.pop(narrow.TABLE)
    if not isinstance(form, dict) or form.get("dtype") not in narrow.DTYPES:
        raise FormatError(
            f"{folder / files.CONFIG}: the form of the weights is {form!r}; expected dtype = one of "
            f"{', '.join(narrow.DTYPES)}; try saving again"
        )
    try:
        return narrow.widened(arrays), facts
    except FormatError as error:
        raise FormatError(f"{folder / files.WEIGHTS}: {error}") from error


T = TypeVar("T")


@dataclass(frozen=True)
class Unfinished:
    """A locked run whose training goes on. `snapshot` is None where it starts from the beginning."""

    folder: Path
    config: Table
    log: list[Line]
    snapshot: Snapshot | None
    writer: RunWriter

    def destination(self, initial: Arrays) -> Destination:
        """The folder with its log cut back to where the training goes on. It changes them: call it after all checks."""
        self.writer.tidy()
        if self.snapshot is None:
            progress.note("starting over: no checkpoint was written yet")
            keep = self.writer.first_line()
        else:
            at, keep = self.snapshot.facts["at"], int(self.snapshot.facts["log_bytes"])
            where = f"step {at['step']:,}, epoch {at['epoch'] + 1}, after {at['seconds']:.0f} seconds of training"
            progress.note(f"going on at {where}")
        return Destination(self.writer.journal(keep=keep), self.writer, self.snapshot, initial)

    @property
    def notes(self) -> list[str]:
        """The notes on the data from when the training began."""
        began = (line for line in self.log if line.get("event") == "began" and "notes" in line)
        return next((list(line["notes"]) for line in began), [])


def resume(folder: Path, counters: Collection[str], load: Callable[[Path], T], go_on: Callable[[Unfinished], T]) -> T:
    """Train a run to its end; a finished one is loaded, with a note.

    `counters` are the numbers that a checkpoint must hold to be one.
    """
    config, _ = files.read_config(folder)
    if "training" not in config or files.is_finished(folder):
        return _load_finished(folder, load)
    with files.owning(folder):
        config, log = files.read_config(folder)
        state = folder / files.STATE
        snapshot = read_snapshot(state, counters) if files.is_file(state) else None
        if files.is_finished(folder):  # by another process, while this one waited for the lock
            return _load_finished(folder, load)
        validated = snapshot is not None and int(snapshot.facts["at"]["validated"]) >= 0
        if validated and not files.is_file(folder / files.WEIGHTS):
            raise FormatError(
                f"{folder} has lost its {files.WEIGHTS}; expected the best weights so far; try training again"
            )
        return go_on(Unfinished(folder, config, log, snapshot, RunWriter(folder)))


def _load_finished(folder: Path, load: Callable[[Path], T]) -> T:
    progress.note(f"the training in {folder} has finished: there is nothing to go on with")
    return load(folder)


FORMAT = 1
_KEY, _EARLIER, _TYPES = "training", "earlier", "types"
_BITS = {"bfloat16": "int16"}
"""Types that numpy does not have, such as a carried state's in mixed precision: their bits are kept as integers."""
FACTS = frozenset({"at", "optimizer", "schedule", "guard", "log_bytes", "threads", "torch"})
"""What every checkpoint says beside its tensors."""


@dataclass(frozen=True)
class Snapshot:
    """A moment of a training. Tensors are copies, on the device they came from.

    `earlier` is the snapshot that the training would go back to from here, where that is another one: one taken when a
    training is stopped is at no step of its own choosing, and it must go back to where it would have without the stop.
    """

    tensors: Mapping[str, Tensor]
    facts: Table
    earlier: Snapshot | None = None

    def part(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose name begins with `prefix/`, without it."""
        return {
            name.removeprefix(f"{prefix}/"): tensor
            for name, tensor in self.tensors.items()
            if name.startswith(f"{prefix}/")
        }


def take_snapshot(tensors: Mapping[str, Tensor], facts: Table, into: Snapshot | None = None) -> Snapshot:
    """Copy tensors and facts into a snapshot; the memory of an older one (`into`) is used again where it fits."""
    import torch

    old = {} if into is None else into.tensors
    copies: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        place, tensor = old.get(name), tensor.detach()
        if place is not None and (place.shape, place.dtype, place.device) == (
            tensor.shape,
            tensor.dtype,
            tensor.device,
        ):
            copies[name] = place.copy_(tensor)
        else:
            copies[name] = tensor.clone(memory_format=torch.contiguous_format)
    return Snapshot(copies, dict(facts))


def write_snapshot(path: Path, snapshot: Snapshot) -> None:
    """Write it in one move; a disk that is full leaves the one that was there."""
    import torch

    tensors = dict(snapshot.tensors)
    if snapshot.earlier is not None:
        tensors |= {f"{_EARLIER}/{name}": tensor for name, tensor in snapshot.earlier.tensors.items()}
    named = {name: str(tensor.dtype).removeprefix("torch.") for name, tensor in tensors.items()}
    types = {name: kind for name, kind in named.items() if kind in _BITS}
    facts: Table = {"format": FORMAT, _TYPES: types, **snapshot.facts}
    if snapshot.earlier is not None:
        facts[_EARLIER] = dict(snapshot.earlier.facts)
    bits = {name: getattr(torch, _BITS.get(kind, kind)) for name, kind in named.items()}
    arrays = {name: tensor.view(bits[name]).cpu().numpy() for name, tensor in tensors.items()}
    write_arrays(path, arrays, {_KEY: json.dumps(facts)}, durable=True)


def read_snapshot(path: Path, counters: Collection[str]) -> Snapshot:
    """Read it back; FormatError where it is no checkpoint with all `counters`. Nothing in it is executed."""
    import torch

    arrays, known = map_arrays(path)
    try:
        facts = json.loads(known[_KEY])
        version, before, types = facts.pop("format"), facts.pop(_EARLIER, None), facts.pop(_TYPES, {})
        for moment in (facts, *([] if before is None else [before])):
            if not moment.keys() >= FACTS or moment["at"].keys() != set(counters):
                raise ValueError("it is not complete")
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise FormatError(f"{path} is no checkpoint of a training ({error}); try training again") from error
    if version != FORMAT:
        raise FormatError(f"{path} is a checkpoint of format {version!r}; expected {FORMAT}; try training again")
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
    try:
        for name, kind in types.items():
            bits, stored = tensors[name], getattr(torch, _BITS[kind])
            if bits.dtype != stored:
                raise ValueError(f"{bits.dtype} in the place of torch.{kind}")
            tensors[name] = bits.view(getattr(torch, kind))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(f"{path}: the types of its tensors are damaged ({error}); try training again") from error
    own = {name: tensor for name, tensor in tensors.items() if not name.startswith(f"{_EARLIER}/")}
    earlier = None if before is None else Snapshot(Snapshot(tensors, before).part(_EARLIER), before)
    return Snapshot(own, facts, earlier)
