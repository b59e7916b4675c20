"""A run on disk: `config.toml`, `tokenizer.json`, `weights.safetensors`, `log.jsonl`. Loading one executes nothing.

A model that is trained step by step also has `state.safetensors`, from which its training goes on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from thereafter import config as toml
from thereafter import progress
from thereafter.errors import FormatError, StorageError, nearest
from thereafter.packages import require
from thereafter.storage import map_arrays, read_plain, replacing, write_arrays, write_text
from thereafter.text.tokenizers import load_tokenizer
from thereafter.text.tokenizers.base import Tokenizer
from thereafter.training import ownership
from thereafter.training.journal import Journal, has_ended, read_log
from thereafter.training.kinds import MODELS, ModelKind, Trained

if TYPE_CHECKING:
    import torch

CONFIG, TOKENIZER, WEIGHTS, LOG = "config.toml", "tokenizer.json", "weights.safetensors", "log.jsonl"
STATE, BOARD = "state.safetensors", "tensorboard"
_FILES = (CONFIG, LOG, TOKENIZER, WEIGHTS)
FORMAT = 1


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run."""
    return is_file(folder / CONFIG)


def is_file(path: Path) -> bool:
    """Whether a path is a plain file; one that no system could open is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def check_free(folder: Path) -> None:
    """Refuse a folder that a run may not be written to: to be asked before the training, not after it."""
    if "\0" in str(folder):
        raise StorageError(f"{str(folder)!r} holds a NUL and can be no folder; try another --out")
    ownership.check_idle(folder)
    try:
        if folder.exists() and not folder.is_dir():
            raise StorageError(f"{folder} is a file; expected a folder for the run; try another --out")
        others = [path for path in folder.iterdir() if not _ours(path.name)] if folder.is_dir() else []
        if others and not is_run(folder):
            raise StorageError(f"{folder} holds other files and no run; nothing was written; try a new folder")
        if is_file(folder / STATE) and not is_finished(folder):
            raise StorageError(
                f"{folder} holds a training that has not finished; nothing was written; try: thereafter train --resume "
                f"{folder}, or another --out"
            )
    except (OSError, ValueError) as error:
        raise StorageError(f"cannot use {str(folder)[:200]!r} as a run folder: {error}; try another --out") from error


def _ours(name: str) -> bool:
    """A file of a run, its lock, or what a save that was killed left of one."""
    return name in (*_FILES, STATE, BOARD, ownership.LOCK) or _left_behind(name)


def _left_behind(name: str) -> bool:
    # a temporary file beside a temporary file has two dots before its name
    return name.endswith(".tmp") and any(name.lstrip(".").startswith(f"{file}.") for file in (*_FILES, STATE))


def is_finished(folder: Path) -> bool:
    """Whether the training in a run folder has come to its end: its log says so in the last line."""
    try:
        return has_ended(read_plain(folder / LOG))
    except (OSError, ValueError):
        return False


def save(trained: Trained, folder: Path) -> Path:
    """Write a run. All files are written before the first takes its place, the configuration last: a folder that has
    it is complete, and a disk that fills up leaves the run that was there.

    A run that is there already is replaced; a folder that holds anything else is left alone.
    """
    check_free(folder)
    kind: ModelKind = MODELS.load(trained.config["model"])
    arrays, facts = kind.arrays(trained.model)
    with ExitStack() as moves:  # left in reverse order
        moves.enter_context(ownership.owning(folder))
        config, log, tokenizer, weights = (moves.enter_context(replacing(folder / name)) for name in _FILES)
        write_arrays(weights, arrays, facts)
        trained.tokenizer.save(tokenizer)
        write_text(log, "".join(json.dumps(line) + "\n" for line in trained.log))
        write_text(config, toml.dumps(trained.config))
        (folder / STATE).unlink(missing_ok=True)  # that of another training
        (folder / CONFIG).unlink(missing_ok=True)  # an old one must not stand beside new weights, not even for a moment
    return folder


class RunWriter:
    """A run folder that is written as the training goes, and can be loaded or gone on from at any moment."""

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

    def begin(
        self, config: Mapping[str, Any], tokenizer: Tokenizer, line: Mapping[str, Any], *, tensorboard: bool = False
    ) -> Journal:
        """Make room for a new run, and open its log with a first line; the configuration comes last, so that a folder
        that has it can be resumed."""
        check_free(self.folder)
        if tensorboard:
            require("tensorboard", "training.tensorboard")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with replacing(self.folder / TOKENIZER) as made:
                tokenizer.save(made)  # on a full disk this fails, and the run that was there is still whole
                for name in (CONFIG, STATE, WEIGHTS, LOG):
                    (self.folder / name).unlink(missing_ok=True)
            self.tidy()
        except OSError as error:
            raise StorageError(
                f"cannot write the run folder {self.folder}: {error.strerror}; try another --out"
            ) from error
        journal = self.journal(tensorboard=tensorboard)
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

    def journal(self, *, keep: int = 0, tensorboard: bool = False) -> Journal:
        """The log, of which so many bytes are kept."""
        return Journal(self.folder / LOG, keep=keep, tensorboard=self.folder / BOARD if tensorboard else None)

    def write_weights(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, str]) -> None:
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

    def resumed(self, facts: Mapping[str, Any] | None) -> None:
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
        """Remove what a process that was killed while it wrote has left."""
        for path in self.folder.iterdir():
            if _left_behind(path.name):
                path.unlink(missing_ok=True)


def load(folder: Path) -> Trained:
    """Read a run back; n-gram tables are mapped, not copied."""
    config, log = read_config(folder)
    if not is_file(folder / WEIGHTS) and config.get("training"):
        raise FormatError(
            f"the training in {folder} was broken off before its first weights were saved; try: thereafter train "
            f"--resume {folder}"
        )
    kind: ModelKind = MODELS.load(config["model"])
    arrays, facts = map_arrays(folder / WEIGHTS)
    tokenizer = load_tokenizer(folder / TOKENIZER)
    model = kind.restore(arrays, facts, config)
    if model.vocabulary_size != len(tokenizer.vocabulary):
        raise FormatError(
            f"the run {folder} mixes a model of {model.vocabulary_size:,} words with a tokenizer of "
            f"{len(tokenizer.vocabulary):,}; try training again"
        )
    return Trained(model, tokenizer, config, log)


def read_config(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The configuration and the log of a run, checked."""
    if not is_run(folder):
        raise FormatError(_no_run(folder))
    try:
        config = toml.loads(read_plain(folder / CONFIG).decode("utf-8"), str(folder / CONFIG))
        log = read_log(folder / LOG)
    except (OSError, ValueError, RecursionError) as error:
        raise FormatError(f"the run {folder} cannot be read: {error}; try training again") from error
    _check(config, folder)
    return config, log


def _check(config: dict[str, Any], folder: Path) -> None:
    """Refuse what no `save` has written; from here on the tables of a configuration are taken for granted."""
    path = folder / CONFIG
    if config.get("format") != FORMAT:
        raise FormatError(f"{path} is of format {config.get('format')!r}; expected {FORMAT}; try training again")
    model = config.get("model")
    if "task" in config:
        raise FormatError(f"{folder} is a run of the task {config['task']!r}; expected a language model; try load_task")
    if not isinstance(model, str) or model not in MODELS:
        raise FormatError(f"{path}: no model is called {model!r}; {nearest(str(model), list(MODELS))}")
    for table, names in {
        "source": ("name",),
        "text": ("tokens", "context", "lower", "letters_only"),
        model: (),
    }.items():
        held = config.get(table)
        missing = [name for name in names if not isinstance(held, dict) or name not in held]
        if not isinstance(held, dict) or missing:
            raise FormatError(
                f"{path} is not complete: expected the table [{table}] {'with ' if names else ''}{', '.join(missing)}; "
                "try training again"
            )


def free_folder(base: Path, name: str) -> Path:
    """`base/name`, or with the first number that no run has taken yet."""
    folder, number = base / name, 2
    while folder.exists():
        folder, number = base / f"{name}-{number}", number + 1
    return folder


def _no_run(folder: Path) -> str:
    if folder.is_dir():
        return f"{folder} holds no {CONFIG}: expected a run folder; try: thereafter train SOURCE --out {folder}"
    beside: list[str] = []
    if folder.parent.is_dir():
        beside = sorted(str(other) for other in folder.parent.iterdir() if is_run(other))
    hint: Any = nearest(str(folder), beside) if beside else "try: thereafter train SOURCE --out RUN"
    return f"there is no run {folder}; {hint}"
