"""Training a ready model again on this machine, in a folder apart; at its end it replaces the one that is there."""

from __future__ import annotations

import shutil
from pathlib import Path

from thereafter.ready import models, tasks

APART = "anew"
"""The folder of what is being trained, inside that of all ready models; a run that was stopped is resumed there."""
_MODELS = {one.name: one for one in models.READY}
_TASKS = {one.name: one for one in tasks.READY_TASKS}
NAMES = (*_MODELS, *_TASKS)


def minutes(name: str) -> float:
    """How long it takes, about, on one core of an x86 processor at 2.5 GHz (2026-11-16)."""
    return _MODELS[name].minutes if name in _MODELS else _TASKS[name].minutes


def make_anew(name: str, folder: Path, scale: float = 1.0) -> None:
    """Train the ready model of that name by its recipe and put it in its place; `scale` shortens it, for tests."""
    apart = folder / APART
    if name in _MODELS:
        models.make(_MODELS[name], apart, scale)
        _replace(apart / name, folder / name)
        models.sign(_MODELS[name], folder)
    else:
        tasks.make(_TASKS[name], apart, scale)
        _replace(apart / tasks.TASKS / name, folder / tasks.TASKS / name)
        models.sign(_TASKS[name], folder / tasks.TASKS)


def _replace(new: Path, old: Path) -> None:
    """Move the new one to the place of the old, which is removed last: a stop between leaves one of them whole."""
    old.parent.mkdir(parents=True, exist_ok=True)
    former = new.with_name(f"{new.name}.former")
    shutil.rmtree(former, ignore_errors=True)
    if old.exists():
        old.replace(former)
    new.replace(old)
    shutil.rmtree(former, ignore_errors=True)
