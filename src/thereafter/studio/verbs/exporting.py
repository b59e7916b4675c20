"""The verb `export`: a language model as one page that runs by itself, checked before it is handed over."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from thereafter import progress
from thereafter.studio.answers.training import ExportAnswer

if TYPE_CHECKING:
    from thereafter.language_model import LanguageModel

_IDLE = ExportAnswer(model="", task="", share=None)


class Exporting:
    """Writes one page at a time, and reports how far that is."""

    def __init__(self) -> None:
        self._now = _IDLE

    def answer(self) -> ExportAnswer:
        return self._now

    def page(self, name: str, load: Callable[[str], LanguageModel]) -> bytes:
        """The page of a model; ExportError says why there is none. `load` gives a copy, which nobody else waits for."""
        self._now = ExportAnswer(model=name, task="loading the model", share=None)
        try:
            with progress.reporting(self), tempfile.TemporaryDirectory() as folder:
                # the name of a run may be as long as a file name can be
                path = Path(folder) / f"{name.partition(':')[2][:60]}.html"
                load(name).export(path, "html")
                return path.read_bytes()
        finally:
            self._now = _IDLE

    def begin(self, label: str, total: float | None, unit: str) -> progress.Advance:
        done = 0.0

        def advance(amount: float, status: str = "") -> None:
            nonlocal done
            done += amount
            self._now = self._now.model_copy(update={"share": min(1.0, done / total) if total else None})

        self._now = self._now.model_copy(update={"task": label, "share": None})
        return advance

    def end(self, label: str) -> None:
        return None

    def note(self, message: str) -> None:
        return None
