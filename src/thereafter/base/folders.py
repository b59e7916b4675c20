"""Folders on this machine: the user's data folder and the cache."""

from __future__ import annotations

import os
from pathlib import Path

from thereafter.base.packages import installed, require


def data_folder() -> Path | None:
    """`$THEREAFTER_DATA`, where named corpora are looked for first; None where it is not set."""
    named = os.environ.get("THEREAFTER_DATA")
    return Path(named).expanduser() if named else None


def cache_folder() -> Path:
    """`$THEREAFTER_CACHE`, else the platform's cache folder for this user. It may not exist yet."""
    named = os.environ.get("THEREAFTER_CACHE")
    if named:
        return Path(named).expanduser()
    if installed("platformdirs"):
        return Path(require("platformdirs", "finding the cache folder").user_cache_dir("thereafter", appauthor=False))
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "thereafter"


def programs_folder() -> Path | None:
    """`$THEREAFTER_GPU_PROGRAMS`, a folder of GPU programs that were compiled elsewhere; None where it is not set."""
    named = os.environ.get("THEREAFTER_GPU_PROGRAMS")
    return Path(named).expanduser() if named else None
