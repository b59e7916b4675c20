"""Runs of a folder whose training was broken off, by whomever: what `Jobs` lists as paused."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from thereafter.serving.own import CONFIG, LOG, own_runs
from thereafter.storage import read_plain

if TYPE_CHECKING:
    from thereafter.training.settings import TrainingSettings

_NEEDED = frozenset({CONFIG, LOG})


@dataclass(frozen=True)
class UnfinishedRun:
    """A training that can go on: the kind of its model, and the share of its budget that is used."""

    kind: str
    share: float
    is_task: bool = False
    """Whether it is that of a task; `kind` is its name then."""


class UnfinishedRuns:
    """The runs of `folder` that have not finished. Each is read again only when its log has changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, tuple[tuple[int, int], UnfinishedRun | None]] = {}

    def runs(self) -> dict[str, UnfinishedRun]:
        """By name; links are not followed, and what cannot be read is left out."""
        runs = {path.name: self._look(path) for path in own_runs(self._folder, _NEEDED)}
        return {name: run for name, run in runs.items() if run is not None}

    def _look(self, path: Path) -> UnfinishedRun | None:
        try:
            facts = (path / LOG).lstat()
        except OSError:
            return None
        stamp = facts.st_mtime_ns, facts.st_size
        known = self._known.get(path.name)
        if known is None or known[0] != stamp:
            known = self._known[path.name] = stamp, _read(path)
        return known[1]


def _read(path: Path) -> UnfinishedRun | None:
    from thereafter import config as toml
    from thereafter.runs.folder import is_finished
    from thereafter.training.settings import TrainingSettings

    try:
        config = toml.loads(read_plain(path / CONFIG, links=False).decode("utf-8"), str(path))
        if "training" not in config or is_finished(path):
            return None
        budget = toml.build(TrainingSettings, config["training"], "training")
        kind = config["task"] if "task" in config else config["model"]
        return UnfinishedRun(str(kind), _used(path / LOG, budget), "task" in config)
    except Exception:  # a folder somebody else wrote may hold anything; it is not offered, and that is all
        return None


def _used(log: Path, budget: TrainingSettings) -> float:
    """The share of the budget that was used at the last step in the log."""
    from thereafter.training.counters import Counters

    written = read_plain(log, links=False).splitlines(keepends=True)
    lines = (json.loads(line) for line in reversed(written) if line.endswith(b"\n"))
    last = next((line for line in lines if line.get("event") == "step"), None)
    if last is None:
        return 0.0
    return Counters(epoch=last["epoch"], seen=last["seen"], seconds=last["seconds"]).used(budget, 1)
