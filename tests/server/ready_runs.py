"""Runs to serve in tests: models that ship with the package, unpacked."""

from __future__ import annotations

from pathlib import Path

from thereafter.ready import models as ready
from thereafter.ready import shipped
from thereafter.ready import tasks as ready_tasks


def unpack_runs(folder: Path, *names: str) -> list[Path]:
    """Ready models by name, each as a run folder of that name."""
    recipes = {one.name: one for one in (*ready.READY, *ready_tasks.READY_TASKS)}
    for name in names:
        assert shipped.unpack(recipes[name], folder, folder / "texts"), name
    return [folder / name for name in names]
