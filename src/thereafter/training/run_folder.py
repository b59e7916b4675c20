"""A run on disk: `config.toml`, `tokenizer.json`, `weights.safetensors`, `log.jsonl`. Loading one executes nothing."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from thereafter import config as toml
from thereafter.errors import FormatError, StorageError, nearest
from thereafter.storage import map_arrays, replacing, write_arrays, write_text
from thereafter.text.tokenizers import load_tokenizer
from thereafter.training.kinds import MODELS, ModelKind, Trained

CONFIG, TOKENIZER, WEIGHTS, LOG = "config.toml", "tokenizer.json", "weights.safetensors", "log.jsonl"
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
    try:
        if folder.exists() and not folder.is_dir():
            raise StorageError(f"{folder} is a file; expected a folder for the run; try another --out")
        others = [path for path in folder.iterdir() if not _ours(path.name)] if folder.is_dir() else []
        if others and not is_run(folder):
            raise StorageError(f"{folder} holds other files and no run; nothing was written; try a new folder")
    except (OSError, ValueError) as error:
        raise StorageError(f"cannot use {str(folder)[:200]!r} as a run folder: {error}; try another --out") from error


def _ours(name: str) -> bool:
    """A file of a run, or what a save that was killed left of one."""
    return name in _FILES or (name.endswith(".tmp") and any(name.startswith(f".{file}.") for file in _FILES))


def save(trained: Trained, folder: Path) -> Path:
    """Write a run. All files are written before the first takes its place, the configuration last: a folder that has
    it is complete, and a disk that fills up leaves the run that was there.

    A run that is there already is replaced; a folder that holds anything else is left alone.
    """
    check_free(folder)
    kind: ModelKind = MODELS.load(trained.config["model"])
    arrays, facts = kind.arrays(trained.model)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot write the run folder {folder}: {error.strerror}; try another --out") from error
    with ExitStack() as moves:  # left in reverse order
        config, log, tokenizer, weights = (moves.enter_context(replacing(folder / name)) for name in _FILES)
        write_arrays(weights, arrays, facts)
        trained.tokenizer.save(tokenizer)
        write_text(log, "".join(json.dumps(line) + "\n" for line in trained.log))
        write_text(config, toml.dumps(trained.config))
        (folder / CONFIG).unlink(missing_ok=True)  # an old one must not stand beside new weights, not even for a moment
    return folder


def load(folder: Path) -> Trained:
    """Read a run back; its weights are mapped, not copied."""
    if not is_run(folder):
        raise FormatError(_no_run(folder))
    try:
        config = toml.loads((folder / CONFIG).read_text(encoding="utf-8"), str(folder / CONFIG))
        lines = (folder / LOG).read_text(encoding="utf-8").splitlines() if (folder / LOG).is_file() else []
        log = [json.loads(line) for line in lines]
    except (OSError, ValueError, RecursionError) as error:
        raise FormatError(f"the run {folder} cannot be read: {error}; try training again") from error
    _check(config, log, folder)
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


def _check(config: dict[str, Any], log: list[Any], folder: Path) -> None:
    """Refuse what no `save` has written; from here on the tables of a configuration are taken for granted."""
    path = folder / CONFIG
    if config.get("format") != FORMAT:
        raise FormatError(f"{path} is of format {config.get('format')!r}; expected {FORMAT}; try training again")
    model = config.get("model")
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
    if not all(isinstance(line, dict) for line in log):
        raise FormatError(f"{folder / LOG} is damaged: expected an object in every line; try training again")


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
