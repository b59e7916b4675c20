"""The runs a server has loaded, by name: the name of a run is that of its folder."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from thereafter.errors import OptionError, nearest
from thereafter.serving.schema import NotThereError

if TYPE_CHECKING:
    from thereafter.language_model import LanguageModel
    from thereafter.serving.engine import Engine
    from thereafter.task_model import TaskModel


TASK_VERBS = {"tag": "/tag", "classify": "/classify", "translate": "/translate", "forecast": "/forecast"}
"""The verb of each task that has one."""
TEXT_VERBS = ("/v1/completions", "/score", "/next")
"""The verbs of language models."""


@dataclass(frozen=True)
class ServedModel:
    """A run: a language model with its engine, or a task."""

    name: str
    language_model: LanguageModel | None = None
    task: TaskModel | None = None
    engine: Engine | None = None
    created: int = field(default_factory=lambda: int(time.time()))
    """When it was trained, in seconds since 1970; when it was loaded where that is not known."""

    @property
    def verbs(self) -> tuple[str, ...]:
        """The addresses that answer for it."""
        if self.task is None:
            return TEXT_VERBS
        verb = TASK_VERBS.get(self.task.task.name)
        return () if verb is None else (verb,)

    def language_model_for(self, verb: str) -> LanguageModel:
        """Its language model, which an address needs."""
        if self.language_model is None:
            raise self._wrong_kind(verb, "a language model")
        return self.language_model

    def task_for(self, verb: str) -> TaskModel:
        """Its model of the task that an address is for."""
        if self.task is None or TASK_VERBS.get(self.task.task.name) != verb:
            raise self._wrong_kind(verb, f"a run of the task {verb.removeprefix('/')!r}")
        return self.task

    def _wrong_kind(self, verb: str, expected: str) -> NotThereError:
        holds = "a language model" if self.task is None else f"the task {self.task.task.name!r}"
        verbs = " or ".join(self.verbs)
        hint = f"try {verbs}" if verbs else "no address of this server answers for it; try thereafter predict"
        return NotThereError(f"the run {self.name!r} holds {holds}; {verb} expects {expected}; {hint}")


class ServedModels:
    """All runs of a server, in the order they were given."""

    def __init__(self, models: Sequence[ServedModel]) -> None:
        if not models:
            raise OptionError("no run was given; expected at least one; try thereafter serve runs/book")
        twice = [name for name, count in Counter(model.name for model in models).items() if count > 1]
        if twice:
            raise OptionError(f"two runs are called {twice[0]!r}; expected a name for each; try renaming a folder")
        self._models = {model.name: model for model in models}

    @property
    def names(self) -> list[str]:
        return list(self._models)

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(self._models.values())

    def get(self, name: str | None = None) -> ServedModel:
        """The run of that name; a single run needs none."""
        if name is None:
            if len(self._models) > 1:
                raise NotThereError(f"several runs are served, so a request names one; {nearest('', self.names)}")
            return next(iter(self._models.values()))
        if name not in self._models:
            raise NotThereError(f"no run is called {name[:200]!r}; {nearest(name[:200], self.names)}")
        return self._models[name]

    def close(self, patience: float = 0.0) -> None:
        """End all engines: nothing new is taken, rows in flight have that many seconds, then they hear of the end."""
        engines = [model.engine for model in self if model.engine is not None]
        if engines:
            with ThreadPoolExecutor(len(engines)) as threads:
                list(threads.map(lambda engine: engine.close(patience), engines))


def open_models(
    runs: Sequence[str | PathLike[str]],
    *,
    tokens: str = "word",
    as_written: bool = False,
    most_rows: int = 64,
    device: str = "cpu",
) -> ServedModels:
    """Load runs, ARPA files among them (`tokens` as in `read_arpa`), and start an engine for each language model."""
    loaded = [_load(run, tokens, as_written, device) for run in runs]
    ServedModels(loaded)  # refuses before any thread is started
    return ServedModels([_with_engine(model, most_rows) for model in loaded])


def _load(run: str | PathLike[str], tokens: str, as_written: bool, device: str) -> ServedModel:
    from thereafter.api import load
    from thereafter.language_model import LanguageModel

    model, path = load(run, tokens, as_written=as_written, device=device), Path(run).resolve()
    name = path.name if path.is_dir() else path.name.removesuffix(".gz").removesuffix(".arpa")
    created = int(path.stat().st_mtime if path.exists() else time.time())
    if isinstance(model, LanguageModel):
        return ServedModel(name, language_model=model, created=created)
    return ServedModel(name, task=model, created=created)


def _with_engine(model: ServedModel, most_rows: int) -> ServedModel:
    from thereafter.serving.engine import Engine

    lm = model.language_model
    return model if lm is None else replace(model, engine=Engine(lm.model, most_rows=most_rows))
