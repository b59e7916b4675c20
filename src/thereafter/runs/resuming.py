"""Going on with a run that was stopped or killed, whatever it trains."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from thereafter import progress
from thereafter.config import Table
from thereafter.errors import FormatError
from thereafter.runs import folder as files
from thereafter.runs import ownership
from thereafter.runs.journal import Journal, Line
from thereafter.runs.writer import RunWriter

if TYPE_CHECKING:
    from thereafter.runs.checkpoint import Snapshot

T = TypeVar("T")


@dataclass(frozen=True)
class Unfinished:
    """A locked run whose training goes on. `snapshot` is None where it starts from the beginning."""

    folder: Path
    config: Table
    log: list[Line]
    snapshot: Snapshot | None
    writer: RunWriter

    def journal(self) -> Journal:
        """The log, cut back to where the training goes on. It changes the folder: call it after all checks."""
        snapshot = self.snapshot
        self.writer.tidy()
        self.writer.resumed(None if snapshot is None else snapshot.facts)
        keep = self.writer.first_line() if snapshot is None else int(snapshot.facts["log_bytes"])
        return self.writer.journal(keep=keep)

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
    from thereafter.runs import checkpoint  # torch is needed from here on

    with ownership.owning(folder):
        config, log = files.read_config(folder)
        state = folder / files.STATE
        snapshot = checkpoint.read(state, counters) if files.is_file(state) else None
        if files.is_finished(folder):  # by another process, while this one waited for the lock
            return _load_finished(folder, load)
        if snapshot is not None and not files.is_file(folder / files.WEIGHTS) and _had_weights(snapshot.facts):
            raise FormatError(
                f"{folder} has lost its {files.WEIGHTS}; expected the best weights so far; try training again"
            )
        return go_on(Unfinished(folder, config, log, snapshot, RunWriter(folder)))


def _load_finished(folder: Path, load: Callable[[Path], T]) -> T:
    progress.note(f"the training in {folder} has finished: there is nothing to go on with")
    return load(folder)


def _had_weights(facts: Table) -> bool:
    return int(facts["at"]["validated"]) >= 0
