"""`TaskModel`: what `train` and `load` return for a task. It predicts, explains and scores, and is saved and loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np

from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.base.progress import show_progress
from thereafter.data.files import AnySource
from thereafter.errors import OptionError
from thereafter.inspection.trace import Trace
from thereafter.models.look import watch
from thereafter.models.task_net import Batched, TaskNet
from thereafter.runs import folder as files
from thereafter.series.forecasting import asking as forecast_asking
from thereafter.series.forecasting.answers import ForecastTable, PointTable
from thereafter.series.forecasting.asking import Backtest
from thereafter.series.frames import AnyTable, as_source, naming
from thereafter.tasks import TASKS, answering, finding, fitting
from thereafter.tasks.answers import PredictionTable
from thereafter.tasks.bodies import body_of
from thereafter.tasks.finding import task_for
from thereafter.tasks.fitting import Fitted, verbatim
from thereafter.tasks.task import (
    AnyTask,
    Asking,
    AskingFiles,
    Baselines,
    Codecs,
    Dividing,
    Locating,
    Measured,
    Tracing,
    aspect,
    scored,
)
from thereafter.training.finding import find_texts, form_notes, part_of
from thereafter.training.kinds import RunView
from thereafter.training.protocol import read_start
from thereafter.training.settings import TextSettings

if TYPE_CHECKING:
    from thereafter.export.export import Exported


class FileReading(TypedDict, total=False):
    """How a file of text is read, as in `TextSettings`."""

    encoding: str | None
    keep_licence: bool
    wrapped: bool
    markup: bool


class TaskModel(RunView):
    """A trained network for a task, with the codecs of its inputs and answers."""

    def __init__(self, fitted: Fitted, *, as_written: bool = False) -> None:
        super().__init__(fitted.config, fitted.log, as_written=as_written)
        self.fitted = fitted
        """The network with all that is saved beside it."""

    @property
    def task(self) -> AnyTask:
        return self.fitted.task

    @property
    def net(self) -> TaskNet[Batched]:
        """The network itself, over tensors."""
        return self.fitted.net

    @property
    def codecs(self) -> Codecs:
        """What turns words, characters, tags into numbers and back."""
        return self.fitted.codecs

    def predict(self, given: object, **options: object) -> Any:
        """The answer to one input, or a list of answers to a list of inputs; an input is what `task.example` takes.

        Options are the task's own: a translator takes `beam` and `length_penalty`.
        """
        asked = self._asked
        answers = answering.answers(asked, self._examples(given), **options)
        answers = [answering.restored(self.task, answer, asked.codecs) for answer in answers]
        return answers[0] if aspect(self.task, Asking).is_one(given) else answers

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
            if isinstance(self.task, AskingFiles) and source is not None:
                return self._tabulate_files(self.task, source, part or "test", settings, options)
            texts = find_texts(source, text, settings, part)
            chosen = part_of(texts, "test")
            for note in (*(() if "text" in texts.parts else texts.notes), *form_notes(chosen)):
                progress.note(note)
            return answering.predictions(
                self._asked, chosen.chunks(), Path(chosen.name).name, pretokenised=pretokenised, **options
            )

    def _tabulate_files(
        self, task: AskingFiles[object, Codecs], source: AnySource, part: str, settings: TextSettings, options: Table
    ) -> PredictionTable:
        """Predict on examples that are read from files and not from text."""
        if settings != TextSettings():
            raise OptionError(
                f"the run holds the task {self.task.name!r}, which reads tables of numbers; encodings, licences and "
                "markup are for text; try leaving them out"
            )
        files = finding.files_of(self.task, source, part)
        questions = task.ask(files.files, self.codecs)
        return answering.tabulated(self._asked, questions, Path(files.name).name, **options)

    def tag(
        self,
        source: AnySource | None = None,
        *,
        text: str | None = None,
        pretokenised: bool = False,
        part: str | None = None,
        **reading: Unpack[FileReading],
    ) -> PredictionTable:
        """Tag a whole text, such as a book: see `tabulate`. `.to_conllu("book.conllu")` writes it as CoNLL-U."""
        if self.task.kind != "tagged":
            raise OptionError(f"the run holds the task {self.task.name!r}, which tags no words; try tabulate")
        return self.tabulate(source, text=text, pretokenised=pretokenised, part=part, **reading)

    def forecast(
        self, source: AnyTable, *, horizon: int | None = None, samples: int = 0, seed: int = 0
    ) -> ForecastTable:
        """What comes after the last value of every series of a table: a path, a data frame or an array.

        `horizon`: steps ahead, by default those of the run; beyond them a forecaster reads its own predictions.
        `samples`: futures drawn for each series, by `seed`. The result has `to_csv`, `to_pandas`, and a forecast by the
        name of each series.
        """
        table = as_source(source)
        with show_progress(), naming(table):
            return forecast_asking.forecast_table(self.fitted, table, horizon=horizon, samples=samples, seed=seed)

    def surprises(self, source: AnyTable) -> PointTable:
        """-log p of each point of a table under a forecaster, one step ahead, in nats: `most_unusual` lists the
        largest, `to_csv` writes a row a point. Points before the first whole window are left out."""
        table = as_source(source)
        with show_progress(), naming(table):
            return forecast_asking.surprising_points(self.fitted, table)

    def backtest(self, source: AnyTable, *, horizon: int | None = None, every: int = 1) -> Backtest:
        """Forecasts from rolling origins, `every` so many rows, over the rows of a table that the run did not learn
        from: `errors("step")` and `errors("series")` with intervals, beside the seasonal naive forecast; `figure()`;
        `to_pandas()` has every value. The run is not trained again."""
        table = as_source(source)
        with show_progress(), naming(table):
            return forecast_asking.backtest_table(self.fitted, table, horizon=horizon, every=every)

    def explain(self, given: object) -> Any:
        """As `predict`, with the reasons for each answer (`tasks/answers.py`): text to read, and figures.

        For a classified text `label`, `probabilities`, and the attribution of each word (gradient times input); for a
        tagged sentence p of the likeliest tags of each word; for a translation the attention of each of its words.
        """
        explained = answering.explanations(self._asked, self._examples(given))
        return explained[0] if aspect(self.task, Asking).is_one(given) else explained

    def trace(self, given: object) -> Trace:
        """What the network computed for one input, step by step: see `Trace`."""
        asked = self._asked
        return trace(asked, self.task.prepare(given, asked.codecs))

    def score(self, source: AnyTable, *, part: str = "test", parts: bool = True, **options: object) -> Measured:
        """Measure its answers on examples with answers; of a corpus or a folder with parts, on its test part (all files
        of a folder with `parts=False`). Options as in `predict`."""
        given = as_source(source)
        with show_progress(), naming(given):
            given = given if parts else finding.joined(self.task, given)
            test = finding.find(self._reader, given, part)
            self.task.check(test.examples, self.codecs, test.name)
            if caveat := answering.training_caveat(self.fitted, test):
                progress.note(caveat)
            examples, notes = scored(self.task, test.examples, self.codecs)
            for note in notes:
                progress.tell(note)
            answers = answering.answers(self._asked, examples, **options)
            return self.task.measure(examples, answers, self.codecs)

    def baselines(self, source: AnyTable, *, part: str = "test", trained: bool = True) -> list[tuple[str, Measured]]:
        """The scores of simple models trained on the same examples, to compare with `score`: (name, figures) each.

        A hidden Markov model for tags; Naive Bayes and a convolution for labels; the last value and least squares for
        forecasts; one sentence, the nearest picture's caption and a blind network for captions; see
        `tasks/answering.py`. Some are trained with the same budget; `trained=False` leaves them out.
        """
        if not isinstance(self.task, Baselines):
            return []
        with show_progress():
            train, valid = finding.learned_from(self.task, self.config, "the training")
            test = finding.find(self._reader, as_source(source), part)
            test = replace(test, examples=scored(self.task, test.examples, self.codecs)[0])
            training = fitting.training_of_run(self.config)
            budget = answering.Budget(valid, self.task.chosen, training) if trained else None
            return answering.baseline_rows(self.task, train, test, budget, self.fitted)

    def save(self, run: str | PathLike[str], *, dtype: str = "float32") -> Path:
        """Save as a run folder. `dtype`: "float16" halves its weights, "int8" makes them four times smaller; both round
        them (`runs/narrow.py`), and `load` reads them into float32."""
        return fitting.save(self.fitted, Path(run), dtype)

    def export(
        self, path: str | PathLike[str], to: str = "onnx", *, int8: bool = False, dtype: str | None = None
    ) -> Exported:
        """Write the network as ONNX graphs, checked with drawn inputs before they are handed over.

        A tagger, a classifier of texts or of series, a forecaster (the parameters of its distribution), or a recurrent
        translator (the decoder, and FILE-encoder.onnx beside it); ExportError for any other. The codecs, which turn
        words into ids and numbers into scaled ones, are in the metadata. `to="run"` writes a run folder as `save`
        does, with the weights as `dtype`, scored on the validation examples before and after.
        """
        from thereafter.export.export import RUN, dtype_of, export_task_run
        from thereafter.export.task_export import export_task

        form = dtype_of(to, dtype, int8)
        with show_progress():
            if to == RUN:
                return export_task_run(self.fitted, Path(path), form)
            return export_task(self.fitted, Path(path), to=to, int8=int8)

    def summary(self) -> Table:
        """Figures of the task: settings, source, results of training."""
        about = self.config
        return {"task": about["task"], "source": about["source"]["name"], **about[self.task.name], **self.results()}

    def __repr__(self) -> str:
        return f"<TaskModel {self.config['task']} from {self.config['source']['name']}>"

    @property
    def _asked(self) -> Fitted:
        """The network with codecs that read inputs as `as_written` says; what is saved stays as it was trained."""
        return replace(self.fitted, codecs=verbatim(self.codecs)) if self.as_written else self.fitted

    @property
    def _reader(self) -> AnyTask:
        """The task as this run reads examples."""
        return self.task.fitted(self.codecs) if isinstance(self.task, Locating) else self.task

    def _examples(self, given: object) -> list[object]:
        inputs = [given] if aspect(self.task, Asking).is_one(given) or not isinstance(given, Iterable) else list(given)
        codecs = self._asked.codecs
        return [self.task.prepare(one, codecs) for one in inputs]


def train_task(
    task: str,
    source: AnyTable | None,
    options: Mapping[str, object],
    *,
    valid: AnyTable | None = None,
    out: str | PathLike[str] | None = None,
    start_from: str | PathLike[str] | None = None,
    parts: bool = True,
) -> TaskModel:
    """Train a network for a task on examples; see `api.train`."""
    if "split" in options and not isinstance(TASKS.load(task), Dividing):
        raise OptionError(f"got split= with task={task!r}; split is for language models; try leaving it out")
    if source is None:
        raise OptionError(f"the task {task!r} needs examples; expected a file or the name of a corpus")
    folder = None if out is None else Path(out)
    with show_progress():
        if folder is not None:
            files.say_replaced(folder)
        examples = as_source(source)
        known = task_for(task, examples)
        examples = examples if parts else finding.joined(known, examples)
    body = None if start_from is None else body_of(read_start(Path(start_from)))
    settings, training = fitting.settle(known, dict(options), body)
    with show_progress(), naming(examples):
        validation = None if valid is None else as_source(valid)
        return TaskModel(fitting.train(known, examples, validation, settings, training, folder, body))


def load_task(run: str | PathLike[str], *, as_written: bool = False, device: str = "cpu") -> TaskModel:
    """The trained task of a run folder; FormatError if it holds a language model. `device` as in `api.load`."""
    return TaskModel(fitting.load(Path(run), device), as_written=as_written)


def resume_task(run: str | PathLike[str]) -> TaskModel:
    """Resume the training of a task; see `api.resume`."""
    with show_progress():
        return TaskModel(fitting.resume(Path(run)))


def backtest(
    run: TaskModel | str | PathLike[str], source: AnyTable, *, horizon: int | None = None, every: int = 1
) -> Backtest:
    """`TaskModel.backtest` of a trained forecaster or of a run folder.

    Example: thereafter.backtest("runs/sales", pandas.read_csv("sales.csv")).errors("series").to_pandas()
    """
    model = run if isinstance(run, TaskModel) else load_task(run)
    return model.backtest(source, horizon=horizon, every=every)


# What the network of a task did with one example, as a `Trace`.
#
# Of every task the gates and states of its recurrent layers at each word, named as in a language model's trace
# ("l0.forget", "l0_reverse.h"); and what the task itself can show: the probabilities of tags, the evidence of words,
# where each word of a translation looked.


def trace(fitted: Fitted, example: object) -> Trace:
    """Answer one example and keep what happened."""
    task = fitted.task
    if not isinstance(task, Tracing):
        raise OptionError(f"the task {task.name!r} has nothing to trace; try predict")
    batch = task.batch([example], fitted.codecs).to(fitted.net.device)
    with watch(fitted.net, task.reads) as seen:
        shown = task.shown(fitted.net, batch, example, fitted.codecs)
    fields = dict(shown.fields)
    for module, layers in seen.items():
        prefix, axis = task.reads[module]
        for layer in layers:
            for name, array_BTH in layer.arrays.items():
                fields[f"{prefix}{layer.name}.{name}"] = ((axis, "unit"), array_BTH[0].detach().float().cpu().numpy())
    return Trace(
        shown.tokens,
        shown.vocabulary,
        {name: np.ascontiguousarray(array) for name, (_, array) in fields.items()},
        {name: axes for name, (axes, _) in fields.items()},
        {"model": task.name, **shown.about},
    )
