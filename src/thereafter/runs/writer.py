"""A run folder that is written while its training goes on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from thereafter import config as toml
from thereafter import progress
from thereafter.config import Table
from thereafter.errors import StorageError
from thereafter.runs.folder import BOARD, CONFIG, LOG, ROWS, STATE, TOKENIZER, WEIGHTS, check_free, is_file, left_behind
from thereafter.runs.journal import Journal, Line
from thereafter.runs.saving import Codecs
from thereafter.storage import map_arrays, replacing, write_arrays, write_text

if TYPE_CHECKING:
    import torch

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

    def begin(self, config: Table, codecs: Codecs, line: Line) -> Journal:
        """Make room for a new run, and open its log with a first line; the configuration comes last, so that a folder
        that has it can be resumed."""
        check_free(self.folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with replacing(self.folder / TOKENIZER) as made:
                codecs.save(made)  # on a full disk this fails, and the run that was there is still whole
                for name in (CONFIG, STATE, WEIGHTS, LOG, ROWS):
                    (self.folder / name).unlink(missing_ok=True)
                for events in (self.folder / BOARD).glob(EVENT_FILES):
                    events.unlink(missing_ok=True)
            self.tidy()
        except OSError as error:
            raise StorageError(
                f"cannot write the run folder {self.folder}: {error.strerror}; try another --out"
            ) from error
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

    def read_weights(self) -> dict[str, torch.Tensor]:
        """The weights that were written last."""
        import torch

        arrays, _ = map_arrays(self.folder / WEIGHTS)
        return {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}

    def finish(self, journal: Journal) -> None:
        """The training has come to its end: once its last line is on the disk there is nothing to go on from."""
        journal.sync()
        self.state.unlink(missing_ok=True)

    def resumed(self, facts: Table | None) -> None:
        """Say where a training goes on: by the facts of its snapshot, or from the beginning where there is none."""
        if facts is None:
            progress.note("starting over: no checkpoint was written yet")
            return
        at = facts["at"]
        where = f"step {at['step']:,}, epoch {at['epoch'] + 1}, after {at['seconds']:.0f} seconds of training"
        progress.note(f"going on at {where}")

    def stopped(self, step: int) -> None:
        """Say how to go on with a training that was stopped, and of which so many steps are saved."""
        where = f"stopped at step {step:,}; go on with" if step else "stopped before its first step; begin again with"
        progress.note(f"{where}: {self.resume_line}")

    def tidy(self) -> None:
        """Remove temporary files that a killed process left."""
        for path in self.folder.iterdir():
            if left_behind(path.name):
                path.unlink(missing_ok=True)
