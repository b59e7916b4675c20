"""One entry of the gallery: which picture, after whom, how it is made. The small models that the pictures show: the
ready ones, and others that are trained and kept.

The running example is as near to the book's as the words of `agreement` come. The book's trophy was won by athletes and
does not fit into its case; most of those words no sentence of the corpus has. Ours keeps the build: a singular
subject, a relative clause with a plural noun in it, then the verb, as many words later as the gallery's models were
trained on.

The ready models of sentences and of characters ship with the package (`thereafter.ready`); what else a picture needs
is trained when it is first needed. Budgets are in tokens, not in minutes, so that every build gives the same
pictures on the same machine. A training run that was stopped is resumed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thereafter.api import train
from thereafter.base.config import Table
from thereafter.language_model import LanguageModel, load_language_model, resume_language_model
from thereafter.ready import models as ready
from thereafter.ready import shipped
from thereafter.ready import tasks as ready_tasks
from thereafter.ready.models import Made, one_thread
from thereafter.runs.folder import is_finished, is_run
from thereafter.task_model import TaskModel, load_task, resume_task, train_task

if TYPE_CHECKING:
    from thereafter.figures.figure import Figure


@dataclass(frozen=True)
class GalleryPicture:
    """`source`: whose picture or claim it is after, such as "Elman (1990)". `build` may train a model by asking for it.

    `claim` reads off the figure's numbers whether what the source claims shows in them, as a sentence for the caption.
    """

    name: str
    source: str
    build: Callable[[Models], Figure]
    claim: Callable[[Figure], str] | None = None


BEFORE_VERB = "the trophy that the tall senators from the old city had admired"
SENTENCE = f"{BEFORE_VERB} was very heavy ."
IN_PLURAL = SENTENCE.replace("trophy", "trophies").replace("was", "were")
SUBJECT, VERB = (SENTENCE.split().index(word) for word in ("trophy", "was"))

BOOK = "the chapter “RNNs and LSTMs” of the book “Predicting the Next Word: From Shannon to ChatGPT”"
LECTURE = "the lecture notes “Recurrent Networks” after Justin Johnson's “Deep Learning for Computer Vision”"
TRANSFORMERS = "the chapter “Recurrent Networks and Transformers” after Jurafsky and Martin"
ARTICLE = "the article “From counting word pairs to networks with memory”"
SEQUENCES = "the chapter “Working with Sequences” of the book “Dive into Deep Learning”"

HOCHREITER, WILLIAMS = "Hochreiter and Schmidhuber (1997)", "Williams and Peng (1990)"
KARPATHY = "Karpathy, Johnson and Li (2015)"


def after_book(papers: str = "") -> str:
    """The book, and the papers its picture goes back to.

    >>> after_book("Elman (1990)").startswith("Elman (1990) and the chapter")
    True
    """
    return f"{papers} and {BOOK}" if papers else BOOK


BETWEEN, BUDGET = ready.BETWEEN, ready.BUDGET
LINES: Table = {"text.context": "line", "batching": "lines"}
"""Sentences that have nothing to do with each other: each begins with a fresh state."""

_READY = {one.name: one for one in ready.READY}
_READY_TASKS = {one.name: one for one in ready_tasks.READY_TASKS}
_MINGRU: Table = _READY["gru"].options | {"hidden": 128, "tokens_budget": BUDGET}


class Models:
    """Models by name, under a folder that outlives the build; `seed` is that of all training runs.

    `before_training` is called with the name of a model that is about to be trained.
    """

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self.folder, self.seed = folder, seed
        self.before_training: Callable[[str], None] = lambda name: None
        self._loaded: dict[str, LanguageModel] = {}
        self._tasks: dict[str, TaskModel] = {}

    def sentences(self) -> dict[str, Path]:
        """Sentences whose verb agrees with a subject up to `BETWEEN` words before: train, valid and test as text."""
        return ready.sentences(self.folder)

    def agreement(self, kind: str) -> LanguageModel:
        """A model of a kind trained on `sentences`: one layer of units, a Transformer of two blocks."""
        if kind in _READY:
            return self.ready(kind)
        parts = self.sentences()
        options = _MINGRU | {"valid": parts["valid"], "seed": self.seed}
        return self.trained(f"agreement-{kind}", parts["train"], kind, tokens="word", **options)

    def letters(self) -> LanguageModel:
        """A character LSTM on the built-in `python-code`, for units that follow the text."""
        return self.ready("letters")

    def ready(self, name: str) -> LanguageModel:
        """A ready model: unpacked where its weights ship and no other seed is asked for, else trained."""
        if name not in self._loaded:
            one, folder = _READY[name], self.folder / f"ready-{self.seed}"
            if not self._is_there(one, folder):
                self.before_training(name)
                ready.make(one, folder, **({"seed": self.seed} if one.budget else {}))
            self._loaded[name] = load_language_model(folder / name)
        return self._loaded[name]

    def _is_there(self, one: Made, folder: Path) -> bool:
        """Whether a ready model is in its folder; one that ships with this seed is unpacked first."""
        return ready.is_there(one, folder) or (self.seed == 0 and shipped.unpack(one, folder, self.folder / "texts"))

    def ready_task(self, name: str) -> TaskModel:
        """A ready task model, unpacked; trained where its weights do not ship or another seed is asked for."""
        if name not in self._tasks:
            one, folder = _READY_TASKS[name], self.folder / f"ready-{self.seed}"
            place = folder / ready_tasks.TASKS
            if not self._is_there(one, place):
                self.before_training(name)
                ready_tasks.make(one, folder)
            self._tasks[name] = load_task(place / name)
        return self._tasks[name]

    def forecaster(self, name: str, source: str | Path, **options: object) -> TaskModel:
        """The forecaster of that name; trained with these options where it is not there yet."""
        if name not in self._tasks:
            fresh = {"seed": self.seed, "device": "cpu"} | options
            with self._run(name, source, "forecast", options) as run:
                self._tasks[name] = resume_task(run) if is_run(run) else train_task("forecast", source, fresh, out=run)
        return self._tasks[name]

    def trained(self, name: str, source: str | Path, kind: str, **options: Any) -> LanguageModel:
        """The model of that name; trained with these options where it is not there yet.

        Its folder is named after its options too: with other options it is trained again.
        """
        if name not in self._loaded:
            with self._run(name, source, kind, options) as run:
                self._loaded[name] = (
                    resume_language_model(run) if is_run(run) else train(source, model=kind, out=run, **options)
                )
        return self._loaded[name]

    @contextmanager
    def _run(self, name: str, source: str | Path, kind: str, options: Table) -> Iterator[Path]:
        """The run folder of a training, named after its source, kind and options, not after where the gallery lies."""
        settings = {key: value.name if isinstance(value, Path) else value for key, value in options.items()}
        named = source.parent.name if isinstance(source, Path) else source
        text = json.dumps([named, kind, settings], sort_keys=True, default=str)
        run = self.folder / f"{name}-{sha256(text.encode()).hexdigest()[:8]}"
        if not (is_run(run) and is_finished(run)):
            self.before_training(name)
        with one_thread():
            yield run
