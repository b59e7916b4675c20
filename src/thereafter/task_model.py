"""A trained task as its user holds it: `predict`, `explain`, `score`, saved and loaded as a run folder."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from thereafter import config as toml
from thereafter.data.files import AnySource
from thereafter.inspection.trace import Trace
from thereafter.language_model import visible
from thereafter.tasks import TASKS, answering, baselines, finding, fitting, store, tracing
from thereafter.tasks.codecs import Codecs
from thereafter.tasks.fitting import Fitted
from thereafter.tasks.task import AnyTask, Measured


class TaskModel:
    """A trained network with its lexicons: answers, and measures its answers."""

    def __init__(self, fitted: Fitted) -> None:
        self._fitted = fitted

    @property
    def task(self) -> AnyTask:
        return self._fitted.task

    @property
    def net(self) -> Any:
        """The network itself, over tensors."""
        return self._fitted.net

    @property
    def config(self) -> dict[str, Any]:
        """The complete configuration of the run."""
        return self._fitted.config

    @property
    def log(self) -> list[dict[str, Any]]:
        """What happened in training, a line each."""
        return self._fitted.log

    @property
    def codecs(self) -> Codecs:
        """What it numbers things by: the forms of words, letters, tags it knows."""
        return self._fitted.codecs

    def predict(self, given: Any, **options: Any) -> Any:
        """The answer to one input, or a list of answers to a list of inputs: what the task's `example` takes.

        Options are the task's own: a translator takes `beam` and `length_penalty`.
        """
        answers = answering.answers(self._fitted, self._examples(given), **options)
        return answers if isinstance(given, list | tuple) else answers[0]

    def explain(self, given: Any) -> Any:
        """As `predict`, with what spoke for each answer (`tasks/explaining.py`): text to read, and figures.

        Of a text that is classified `label`, `probabilities`, and how much each word spoke for the label (gradient
        times input); of a sentence that is tagged p of the likeliest tags of each word; of a translation where each of
        its words looked (attention).
        """
        explained = answering.explanations(self._fitted, self._examples(given))
        return explained if isinstance(given, list | tuple) else explained[0]

    def trace(self, given: Any) -> Trace:
        """What the network did with one input, step by step: see `tasks/tracing.py` and `Trace`."""
        return tracing.trace(self._fitted, self.task.example(given))

    def score(self, source: AnySource, *, part: str = "test", **options: Any) -> Measured:
        """How good its answers are on examples with their answers; of a corpus on its test part. As in `predict`."""
        with visible():
            found = finding.find(self.task, source, part)
            self.task.check(found.examples, self.codecs, found.name)
            answers = answering.answers(self._fitted, found.examples, **options)
            return self.task.measure(found.examples, answers, self.codecs)

    def baselines(self, source: AnySource, *, part: str = "test", trained: bool = True) -> list[tuple[str, Measured]]:
        """What simple models score that learned from the same examples: a row each, to stand beside `score`.

        A hidden Markov model for tags; Naive Bayes and a convolution for labels; see `tasks/baselines.py`. Some are
        networks, with the budget this one had; `trained=False` leaves them out.
        """
        if not baselines.has_rows(self.task):
            return []
        with visible():
            train, valid = store.learned_from(self.task, self.config, "the training")
            test = finding.find(self.task, source, part)
            settings = toml.build(self.task.settings, self.config[self.task.name], self.task.name)
            budget = baselines.Budget(valid, settings, store.training_of(self.config)) if trained else None
            return baselines.baseline_rows(self.task, train, test, budget)

    def save(self, run: str | PathLike[str]) -> Path:
        """Save as a run folder."""
        return store.save(self._fitted, Path(run))

    def __repr__(self) -> str:
        return f"<TaskModel {self.config['task']} from {self.config['source']['name']}>"

    def _examples(self, given: Any) -> list[Any]:
        return [self.task.example(one) for one in (given if isinstance(given, list | tuple) else [given])]


def train_task(
    task: str,
    source: AnySource,
    *,
    valid: AnySource | None = None,
    out: str | PathLike[str] | None = None,
    **options: Any,
) -> TaskModel:
    """Train a network for a task on examples; see `api.train`."""
    known: AnyTask = TASKS.load(task)
    settings, training = fitting.settle(known, options)
    with visible():
        return TaskModel(store.train(known, source, valid, settings, training, None if out is None else Path(out)))


def load_task(run: str | PathLike[str]) -> TaskModel:
    """The trained task of a run folder; FormatError where it holds a language model."""
    return TaskModel(store.load(Path(run)))


def resume_task(run: str | PathLike[str]) -> TaskModel:
    """Go on with the training of a task; see `api.resume`."""
    with visible():
        return TaskModel(store.resume(Path(run)))
