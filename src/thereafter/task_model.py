"""`TaskModel`: what `train` and `load` return for a task. It predicts, explains and scores, and is saved and loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from thereafter import config as toml
from thereafter import progress
from thereafter.config import Table
from thereafter.data.files import AnySource
from thereafter.errors import OptionError
from thereafter.inspection.trace import Trace
from thereafter.models.task_net import Batched, TaskNet
from thereafter.tabular import facts_html
from thereafter.tasks import TASKS, answering, baselines, finding, fitting, store, tracing
from thereafter.tasks.bodies import body_of
from thereafter.tasks.codecs import Codecs, verbatim
from thereafter.tasks.fitting import Fitted
from thereafter.tasks.predictions import PredictionTable
from thereafter.tasks.task import AnyTask, Measured
from thereafter.terminal import show_progress
from thereafter.training.options import TextSettings
from thereafter.training.protocol import find_texts, form_notes, part_of
from thereafter.training.starting import read_start


class TaskModel:
    """A trained network for a task, with the codecs of its inputs and answers."""

    def __init__(self, fitted: Fitted, *, as_written: bool = False) -> None:
        self._fitted = fitted
        self.as_written = as_written
        """Whether inputs are read as they are, even where the training examples were pre-tokenised and they are not."""

    @property
    def task(self) -> AnyTask:
        return self._fitted.task

    @property
    def net(self) -> TaskNet[Batched]:
        """The network itself, over tensors."""
        return self._fitted.net

    @property
    def config(self) -> Table:
        """The complete configuration of the run."""
        return self._fitted.config

    @property
    def log(self) -> list[Table]:
        """The training log, one entry for each event."""
        return self._fitted.log

    @property
    def codecs(self) -> Codecs:
        """What turns words, characters, tags into numbers and back."""
        return self._fitted.codecs

    def predict(self, given: object, **options: object) -> Any:
        """The answer to one input, or a list of answers to a list of inputs; an input is what `task.example` takes.

        Options are the task's own: a translator takes `beam` and `length_penalty`.
        """
        asked = self._asked
        answers = answering.answers(asked, self._examples(given), **options)
        answers = [self.task.restore(answer, asked.codecs) for answer in answers]
        return answers if isinstance(given, list | tuple) else answers[0]

    def tabulate(
        self,
        source: AnySource | None = None,
        *,
        text: str | None = None,
        pretokenised: bool = False,
        part: str | None = None,
        encoding: str | None = None,
        keep_licence: bool = False,
        wrapped: bool = False,
        markup: bool = False,
        **options: object,
    ) -> PredictionTable:
        """Predict on a whole text, a source or `text=`: a table (`to_csv`, `to_pandas`, `to_conllu`).

        A tagger cuts the text into sentences and words (a row a word), unless it is `pretokenised`: then a line is a
        sentence, and spaces are between words. Any other task takes a line as an example (a row a line); `number` is
        that of the line, blank lines counted. A file is read in its form: without Project Gutenberg's licence, unless
        `keep_licence`; without hard line breaks, unless `wrapped`; without markup, unless `markup`. Options as in
        `predict`.
        """
        settings = TextSettings(encoding=encoding, keep_licence=keep_licence, wrapped=wrapped, markup=markup)
        with show_progress():
            texts = find_texts(source, text, settings, part)
            chosen = part_of(texts, "test")
            for note in form_notes(chosen):
                progress.note(note)
            return answering.predictions(
                self._asked, chosen.chunks(), Path(chosen.name).name, pretokenised=pretokenised, **options
            )

    def tag(
        self,
        source: AnySource | None = None,
        *,
        text: str | None = None,
        pretokenised: bool = False,
        part: str | None = None,
        encoding: str | None = None,
        keep_licence: bool = False,
        wrapped: bool = False,
        markup: bool = False,
    ) -> PredictionTable:
        """Tag a whole text, such as a book: see `tabulate`. `.to_conllu("book.conllu")` writes it as CoNLL-U."""
        if self.task.kind != "tagged":
            raise OptionError(f"the run holds the task {self.task.name!r}, which tags no words; try tabulate")
        return self.tabulate(
            source,
            text=text,
            pretokenised=pretokenised,
            part=part,
            encoding=encoding,
            keep_licence=keep_licence,
            wrapped=wrapped,
            markup=markup,
        )

    def explain(self, given: object) -> Any:
        """As `predict`, with the reasons for each answer (`tasks/explaining.py`): text to read, and figures.

        For a classified text `label`, `probabilities`, and the attribution of each word (gradient times input); for a
        tagged sentence p of the likeliest tags of each word; for a translation the attention of each of its words.
        """
        explained = answering.explanations(self._asked, self._examples(given))
        return explained if isinstance(given, list | tuple) else explained[0]

    def trace(self, given: object) -> Trace:
        """What the network computed for one input, step by step: see `tasks/tracing.py` and `Trace`."""
        asked = self._asked
        return tracing.trace(asked, self.task.prepare(given, asked.codecs))

    def score(self, source: AnySource, *, part: str = "test", **options: object) -> Measured:
        """Measure its answers on examples with answers; of a corpus, on its test part. Options as in `predict`."""
        with show_progress():
            test = finding.find(self.task, source, part)
            self.task.check(test.examples, self.codecs, test.name)
            answers = answering.answers(self._asked, test.examples, **options)
            return self.task.measure(test.examples, answers, self.codecs)

    def baselines(self, source: AnySource, *, part: str = "test", trained: bool = True) -> list[tuple[str, Measured]]:
        """The scores of simple models trained on the same examples, to compare with `score`: (name, figures) each.

        A hidden Markov model for tags; Naive Bayes and a convolution for labels; see `tasks/baselines.py`. Some are
        networks, trained with the same budget; `trained=False` leaves them out.
        """
        if not baselines.has_rows(self.task):
            return []
        with show_progress():
            train, valid = store.learned_from(self.task, self.config, "the training")
            test = finding.find(self.task, source, part)
            settings = toml.build(self.task.settings, self.config[self.task.name], self.task.name)
            budget = baselines.Budget(valid, settings, store.training_of(self.config)) if trained else None
            return baselines.baseline_rows(self.task, train, test, budget)

    def save(self, run: str | PathLike[str]) -> Path:
        """Save as a run folder."""
        return store.save(self._fitted, Path(run))

    def _repr_html_(self) -> str:
        """In a notebook: what it is and was trained on."""
        about = self.config
        facts = {"task": about["task"], "source": about["source"]["name"], **about[self.task.name]}
        for line in self.log:
            if line.get("event") == "trained":
                facts |= {name: value for name, value in line.items() if name != "event"}
        return facts_html(facts, repr(self))

    def __repr__(self) -> str:
        return f"<TaskModel {self.config['task']} from {self.config['source']['name']}>"

    @property
    def _asked(self) -> Fitted:
        """The network with codecs that read inputs as `as_written` says; what is saved stays as it was trained."""
        return replace(self._fitted, codecs=verbatim(self.codecs)) if self.as_written else self._fitted

    def _examples(self, given: object) -> list[object]:
        inputs = given if isinstance(given, list | tuple) else [given]
        codecs = self._asked.codecs
        return [self.task.prepare(one, codecs) for one in inputs]


def train_task(
    task: str,
    source: AnySource,
    options: Mapping[str, object],
    *,
    valid: AnySource | None = None,
    out: str | PathLike[str] | None = None,
    start_from: str | PathLike[str] | None = None,
) -> TaskModel:
    """Train a network for a task on examples; see `api.train`."""
    known: AnyTask = TASKS.load(task)
    body = None if start_from is None else body_of(read_start(Path(start_from)))
    settings, training = fitting.settle(known, dict(options), body)
    folder = None if out is None else Path(out)
    with show_progress():
        return TaskModel(store.train(known, source, valid, settings, training, folder, body))


def load_task(run: str | PathLike[str], *, as_written: bool = False) -> TaskModel:
    """The trained task of a run folder; FormatError if it holds a language model."""
    return TaskModel(store.load(Path(run)), as_written=as_written)


def resume_task(run: str | PathLike[str]) -> TaskModel:
    """Resume the training of a task; see `api.resume`."""
    with show_progress():
        return TaskModel(store.resume(Path(run)))
