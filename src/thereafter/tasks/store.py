"""A trained task on disk: a run folder as a language model's, with lexicons in the place of a tokenizer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from thereafter import config as toml
from thereafter import progress
from thereafter.errors import FormatError, SourceError
from thereafter.storage import map_arrays, read_plain, write_text
from thereafter.tasks import finding
from thereafter.tasks.finding import Part
from thereafter.tasks.fitting import Examples, Fitted, run
from thereafter.tasks.lexicon import Lexicon
from thereafter.tasks.task import TASKS, Lexicons, Task
from thereafter.training import checkpoint, ownership, run_folder
from thereafter.training.journal import read_log
from thereafter.training.neural import device_for
from thereafter.training.run_folder import CONFIG, LOG, STATE, TOKENIZER, WEIGHTS, RunWriter
from thereafter.training.settings import TrainingSettings
from thereafter.training.weights import load_weights

_KEY = "lexicons"


class Kept:
    """Lexicons as a run folder keeps them."""

    def __init__(self, lexicons: Lexicons) -> None:
        self._lexicons = lexicons

    def save(self, path: Path) -> None:
        """Write them as JSON."""
        stored = {_KEY: {name: lexicon.to_json() for name, lexicon in self._lexicons.items()}}
        write_text(path, json.dumps(stored, ensure_ascii=False))


def is_task(folder: Path) -> bool:
    """Whether a folder holds the run of a task, not that of a language model."""
    try:
        return "task" in toml.loads(read_plain(folder / CONFIG).decode("utf-8"))
    except (OSError, ValueError, FormatError):
        return False


def load(folder: Path) -> Fitted:
    """Read a run back; nothing in it is executed."""
    config, log, task = _read(folder)
    if not run_folder.is_file(folder / WEIGHTS):
        raise FormatError(
            f"the training in {folder} was broken off before its first weights were saved; try: thereafter train "
            f"--resume {folder}"
        )
    lexicons = _lexicons(folder)
    with torch.random.fork_rng(devices=[]):  # fresh weights are drawn and overwritten: leave no trace of that
        net = task.build(toml.build(task.settings, config[task.name], task.name), lexicons)
    arrays, _ = map_arrays(folder / WEIGHTS)
    load_weights(net, {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()})
    return Fitted(task, net.eval(), lexicons, config, log)


def resume(folder: Path) -> Fitted:
    """Train a run to its end; one that is there already is loaded."""
    _read(folder)
    if run_folder.is_finished(folder):
        progress.note(f"{folder} had come to its end already")
        return load(folder)
    with ownership.owning(folder):
        return _go_on(folder)


def _go_on(folder: Path) -> Fitted:
    """Train an unfinished run that is ours alone to its end."""
    if run_folder.is_finished(folder):  # by another process, while this one waited for the lock
        return load(folder)
    config, _, task = _read(folder)
    snapshot = _snapshot(folder)
    training = training_of(config)
    train, valid = learned_from(task, config, f"the run {folder}")
    lexicons = _lexicons(folder)
    writer = RunWriter(folder)
    writer.tidy()
    writer.resumed(None if snapshot is None else snapshot.facts)
    keep = writer.first_line() if snapshot is None else int(snapshot.facts["log_bytes"])
    journal = writer.journal(keep=keep, tensorboard=training.tensorboard)
    settings = toml.build(task.settings, config[task.name], task.name)
    examples = Examples(task, lexicons, training, train.examples)
    return run(task, lexicons, config, examples, valid, settings, training, journal, writer, snapshot)


def _snapshot(folder: Path) -> checkpoint.Snapshot | None:
    state = folder / STATE
    return checkpoint.read(state) if run_folder.is_file(state) else None


def training_of(config: Mapping[str, Any]) -> TrainingSettings:
    """How a run was trained; without its GPU on a machine that has none."""
    training = toml.build(TrainingSettings, config["training"], "training")
    return replace(training, device=device_for("auto" if training.device == "cuda" else training.device))


def learned_from(task: Task, config: Mapping[str, Any], whose: str) -> tuple[Part, Part]:
    """The examples that a run is trained and validated on, found again."""
    source = config["source"]
    held = list(source["valid_files"]) if source.get("valid_files") else source.get("valid_name")
    train, valid, _ = finding.train_and_valid(task, source_of(config), held)
    for part, key in ((train, "sha256"), (valid, "valid_sha256")):
        if part.fingerprint != source.get(key, part.fingerprint):  # older runs do not say what they validated on
            raise SourceError(
                f"{part.name} has changed since {whose} began (its sha256 is another); try putting that back, or "
                "training anew with another --out"
            )
    return train, valid


def source_of(config: Mapping[str, Any]) -> Any:
    """What a run learned from, as it was given: a corpus by its name, else files."""
    source = config["source"]
    return list(source["files"]) if source.get("files") else source["name"]


def _read(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]], Task]:
    try:
        config = toml.loads(read_plain(folder / CONFIG).decode("utf-8"), str(folder / CONFIG))
        log = read_log(folder / LOG)
    except (OSError, ValueError, RecursionError) as error:
        raise FormatError(f"the run {folder} cannot be read: {error}; try training again") from error
    name = config.get("task")
    if config.get("format") != run_folder.FORMAT or not isinstance(name, str):
        raise FormatError(f"{folder / CONFIG} is not that of a task; expected format {run_folder.FORMAT}")
    task: Task = TASKS.load(name)
    missing = [table for table in ("source", "training", name) if not isinstance(config.get(table), dict)]
    if missing:
        raise FormatError(f"{folder / CONFIG} is not complete: expected the table [{missing[0]}]; try training again")
    return config, log, task.told(toml.build(task.settings, config[name], name))


def _lexicons(folder: Path) -> dict[str, Any]:
    try:
        stored = json.loads(read_plain(folder / TOKENIZER).decode("utf-8"))[_KEY]
        return {str(name): _lexicon(one) for name, one in stored.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(f"{folder / TOKENIZER} holds no lexicons ({error}); try training again") from error


def _lexicon(stored: Mapping[str, Any]) -> Any:
    """Forms, or the tokenizer of one side of a pair."""
    if "tokenizer" not in stored:
        return Lexicon.from_json(stored)
    from thereafter.tasks.wording import Wording  # here, so that tasks without one load no tokenizer

    return Wording.from_json(stored)
