"""What in a folder of runs is a run of the user's own: a plain folder whose files are plain files.

A run that somebody else made may hold a link in the place of its log or its tokenizer, which leads to any file of this
machine, or a pipe, which hangs whoever opens it. Such a folder is not listed. Only names and kinds are looked at here;
whoever opens a file looks again (`storage.open_plain`).
"""

from __future__ import annotations

import os
from pathlib import Path

CONFIG, WEIGHTS, LOG = "config.toml", "weights.safetensors", "log.jsonl"
_FILES = frozenset({CONFIG, WEIGHTS, LOG, "tokenizer.json", "state.safetensors", "log.csv", ".lock"})
_FOLDERS = frozenset({"tensorboard"})


def own_runs(folder: Path, needed: frozenset[str], *, only: str | None = None) -> list[Path]:
    """The folders in it, by name, that hold the `needed` files and nothing odd among the files of a run.

    With `only`, the one of exactly that name, where it is there.
    """
    try:
        names = sorted(name for name in os.listdir(folder) if only in (None, name))
    except OSError:
        return []
    return [folder / name for name in names if needed <= _files_of(folder / name)]


def is_own_run(path: Path) -> bool:
    """Whether a folder is a run of the user's own."""
    return CONFIG in _files_of(path)


def _files_of(path: Path) -> frozenset[str]:
    """The files of a run that a folder holds; none where the folder, or one of them, is something else."""
    try:
        if path.is_symlink():
            return frozenset()
        with os.scandir(path) as entries:
            kinds = {entry.name: entry for entry in entries if entry.name in _FILES | _FOLDERS}
        plain = all(
            entry.is_dir(follow_symlinks=False) if name in _FOLDERS else entry.is_file(follow_symlinks=False)
            for name, entry in kinds.items()
        )
    except (OSError, ValueError):
        return frozenset()
    return frozenset(kinds) if plain else frozenset()
