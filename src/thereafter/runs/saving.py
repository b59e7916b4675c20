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
from thereafter.errors import FormatError
from thereafter.runs import folder as files
from thereafter.runs import narrow, ownership
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


def save(run: Saved, folder: Path, dtype: str = "float32") -> Path:
    """Write a run. All files are written before the first takes its place, the configuration last: a folder that has
    it is complete, and a disk that fills up leaves the run that was there.

    A run that is there already is replaced; a folder that holds anything else is left alone. `dtype`: the form of the
    weights (`narrow.py`).
    """
    files.check_free(folder)
    arrays = narrow.narrowed(run.arrays, dtype)
    config_table = run.config if dtype == "float32" else run.config | {narrow.TABLE: {"dtype": dtype}}
    with ExitStack() as moves:  # left in reverse order
        moves.enter_context(ownership.owning(folder))
        config, log, codecs, weights = (moves.enter_context(replacing(folder / name)) for name in files.FILES)
        write_arrays(weights, arrays, run.facts)
        run.codecs.save(codecs)
        write_text(log, "".join(json.dumps(line) + "\n" for line in run.log))
        write_text(config, toml.dumps(config_table))
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
