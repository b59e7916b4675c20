"""A trained task as its user holds it: `fit`, `predict`, `score`, saved and loaded as a run folder."""

from __future__ import annotations

import json
from contextlib import nullcontext
from os import PathLike
from pathlib import Path
from typing import Any

from thereafter import config as toml
from thereafter.errors import OptionError
from thereafter.inspection.trace import Trace
from thereafter.language_model import visible
from thereafter.storage import replacing, write_arrays, write_text
from thereafter.tasks import answering, baselines, finding, fitting, store, tracing
from thereafter.tasks.fitting import Fitted
from thereafter.tasks.task import TASKS, Measured, Task
from thereafter.text import corpora
from thereafter.training import ownership, run_folder
from thereafter.training.weights import weights_of


class TaskModel:
    """A trained network with its lexicons: answers, and measures its answers."""

    def __init__(self, fitted: Fitted) -> None:
        self._fitted = fitted

    @property
    def task(self) -> Task:
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
    def lexicons(self) -> Any:
        """The forms it knows, by what they are: words, letters, tags."""
        return self._fitted.lexicons

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

    def score(self, source: finding.AnySource, *, part: str = "test", **options: Any) -> Measured:
        """How good its answers are on examples with their answers; of a corpus on its test part. As in `predict`."""
        with visible():
            found = finding.find(self.task, source, part)
            self.task.check(found.examples, self.lexicons, found.name)
            answers = answering.answers(self._fitted, found.examples, **options)
            return self.task.measure(found.examples, answers, self.lexicons)

    def baselines(
        self, source: finding.AnySource, *, part: str = "test", trained: bool = True
    ) -> list[tuple[str, Measured]]:
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
        folder = Path(run)
        run_folder.check_free(folder)
        arrays = {name: tensor.cpu().numpy() for name, tensor in weights_of(self.net).items()}
        with ownership.owning(folder):
            with replacing(folder / run_folder.TOKENIZER) as place:
                store.Kept(self.lexicons).save(place)
            write_arrays(folder / run_folder.WEIGHTS, arrays, {})
            write_text(folder / run_folder.LOG, "".join(json.dumps(line) + "\n" for line in self.log))
            write_text(folder / run_folder.CONFIG, toml.dumps(self.config))
        return folder

    def __repr__(self) -> str:
        return f"<TaskModel {self.config['task']} from {self.config['source']['name']}>"

    def _examples(self, given: Any) -> list[Any]:
        return [self.task.example(one) for one in (given if isinstance(given, list | tuple) else [given])]


def fit(
    task: str,
    source: finding.AnySource,
    *,
    valid: finding.AnySource | None = None,
    out: str | PathLike[str] | None = None,
    **options: Any,
) -> TaskModel:
    """Train a network for a task on examples: a file, or the name of a corpus.

    `task`: tag, classify, fill or translate. `valid`: examples to validate on; by default a corpus' own, else the
    last tenth. `out`: a run folder, to which it is saved as it is trained, and from which `resume_task` goes on.
    Options are the fields of the task's settings and of `TrainingSettings`: hidden, layers, epochs, rate, seed...
    """
    known: Task = TASKS.load(task)
    settings, training = fitting.settle(known, options)
    known = known.told(settings)
    folder = None if out is None else Path(out)
    if folder is not None:
        run_folder.check_free(folder)
    if training.tensorboard and folder is None:
        raise OptionError("tensorboard is on and there is no folder to write to; try out='runs/NAME' (--out)")
    with visible(), nullcontext() if folder is None else ownership.owning(folder):
        train, held, notes = finding.train_and_valid(known, source, valid)
        about: dict[str, Any] = {"name": _named(source), "files": _files(source, train), "sha256": train.fingerprint}
        about["valid_sha256"] = held.fingerprint
        if valid is not None:
            about |= {"valid_name": _named(valid), "valid_files": _files(valid, held)}
        return TaskModel(fitting.fit(known, train, held, settings, training, source=about, notes=notes, out=folder))


def load_task(run: str | PathLike[str]) -> TaskModel:
    """Load the run folder of a task. Executes nothing that is in it."""
    return TaskModel(store.load(Path(run)))


def resume_task(run: str | PathLike[str]) -> TaskModel:
    """Go on with a training that was stopped or killed; a run that has finished is loaded as it is."""
    with visible():
        return TaskModel(store.resume(Path(run)))


def _named(source: finding.AnySource) -> str:
    return source if isinstance(source, str) else str(source)


def _files(source: finding.AnySource, part: finding.Part) -> list[str] | None:
    """The files of a source by their full names; a corpus is found again by its own."""
    if isinstance(source, str) and source.partition(":")[0] in corpora.names():
        return None
    return [str(path.absolute()) for path in part.files]
