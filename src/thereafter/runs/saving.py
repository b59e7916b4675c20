"""Writing and reading a whole run, whatever it holds: all files first, then the moves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from thereafter import config as toml
from thereafter.config import Table
from thereafter.runs import folder as files
from thereafter.runs import ownership
from thereafter.runs.journal import Line
from thereafter.storage import map_arrays, replacing, write_arrays, write_text

Arrays = Mapping[str, NDArray[np.generic]]


class Codecs(Protocol):
    """What turns a user's data into numbers and back: a tokenizer, or the codecs of a task."""

    def save(self, path: Path) -> None:
        """Write it as JSON."""


@dataclass(frozen=True)
class Saved:
    """All that a run folder holds. `facts` are small texts that stand beside the weights."""

    config: Table
    codecs: Codecs
    arrays: Arrays
    facts: Mapping[str, str]
    log: list[Line]


def save(run: Saved, folder: Path) -> Path:
    """Write a run. All files are written before the first takes its place, the configuration last: a folder that has
    it is complete, and a disk that fills up leaves the run that was there.

    A run that is there already is replaced; a folder that holds anything else is left alone.
    """
    files.check_free(folder)
    with ExitStack() as moves:  # left in reverse order
        moves.enter_context(ownership.owning(folder))
        config, log, codecs, weights = (moves.enter_context(replacing(folder / name)) for name in files.FILES)
        write_arrays(weights, run.arrays, run.facts)
        run.codecs.save(codecs)
        write_text(log, "".join(json.dumps(line) + "\n" for line in run.log))
        write_text(config, toml.dumps(run.config))
        (folder / files.STATE).unlink(missing_ok=True)  # that of another training
        (folder / files.CONFIG).unlink(missing_ok=True)  # an old one must not stand beside new weights for a moment
    return folder


def read_weights(folder: Path, config: Table) -> tuple[dict[str, NDArray[np.generic]], dict[str, str]]:
    """The weights of a run, mapped and not copied, with the facts beside them."""
    files.check_weights(config, folder)
    return map_arrays(folder / files.WEIGHTS)
