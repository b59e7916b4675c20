"""Training a task on examples, by the loop that trains language models, and a trained task as a run folder.

Guard, schedule, checkpoints, run folders: all is as it is for a language model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray

from thereafter.base import config as toml
from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.base.devices import device_for, placed, precision_for
from thereafter.base.storage import read_plain, write_text
from thereafter.data.codecs import StoredCodec, restore_codecs, store_codecs
from thereafter.data.files import AnySource, Parts
from thereafter.errors import FormatError, OptionError, nearest
from thereafter.models.task_net import Batched, TaskNet
from thereafter.runs import folder as files
from thereafter.runs import writer
from thereafter.runs.folder import FORMAT, Line
from thereafter.runs.writer import Destination, Unfinished
from thereafter.tasks import TASKS, finding
from thereafter.tasks.batching import MEASURED_AT_ONCE, ExampleBatch, ExampleLearner, Examples, HeldOut
from thereafter.tasks.bodies import Body, body_of
from thereafter.tasks.finding import Part
from thereafter.tasks.lexicon import Lexicon
from thereafter.tasks.task import AnyTask, Codecs, Dividing, OnBody, Preparing, Solving, aspect
from thereafter.training.control import COUNTED, Counters
from thereafter.training.fit import MOST_PLACES, choose_rows
from thereafter.training.fit import fit as fit_in_steps
from thereafter.training.kinds import sort_into_tables
from thereafter.training.learner import Course
from thereafter.training.protocol import read_again
from thereafter.training.settings import AUTO, START, TextSettings, TrainingSettings, check_logs
from thereafter.training.weights import check_counts, check_layered, restored, weights_of

_IDLE: Mapping[str, object] = {"batching": None, "jitter": False}
"""Options of language models that have no effect on tasks, and the value that tasks use."""
_LAYERED = ("unfreeze", "layer_decay")
"""Options of tasks that can have the layers of a language model under them."""
_ROWS = 32
_PLACES = 64  # of an example on average: what `steps` means here


@dataclass
class Fitted:
    """A trained network with all that is saved beside it."""

    task: AnyTask
    net: TaskNet[Batched]
    codecs: Codecs
    config: Table
    log: list[Line]


def settle(task: AnyTask, options: Table, body: Body | None = None) -> tuple[object, TrainingSettings]:
    """The network's settings and the training's, from options by name; those left out are the task's own.

    `body`: the layers of a language model, which decide sizes; options that say otherwise are refused.
    """
    own = {name for name in vars(task.settings()) if not name.startswith("_")}
    known = toml.field_names(TrainingSettings)

    def refuse(spelled: str) -> OptionError:
        table, _, name = spelled.rpartition(".")
        if name in toml.field_names(TextSettings) and table in ("", "text"):
            switch = "--keep-markup" if name == "markup" else f"--{name.replace('_', '-')}"
            return OptionError(
                f"the task {task.name!r} has no option {spelled!r} ({switch}), which is for the running text of a "
                "language model; the examples of a task are read as they stand; try leaving it out"
            )
        return OptionError(f"the task {task.name!r} has no option {spelled!r}; {nearest(name, sorted(own | known))}")

    chosen = sort_into_tables(options, {task.name: own, "training": known}, refuse)
    model, training = chosen[task.name], {**task.defaults, **chosen["training"]}
    for name, idle in _IDLE.items():
        if training.get(name) not in (None, idle):
            raise OptionError(
                f"{name} is {training[name]!r}, which does nothing in the task {task.name!r}: its batches are whole "
                f"examples; expected {idle!r}; try leaving it out"
            )
    if {"tokens_budget", "minutes"} & chosen["training"].keys() and "epochs" not in chosen["training"]:
        training.pop("epochs", None)  # the task's own would end it earlier than was asked for
    if body is not None:
        if not isinstance(task, OnBody):
            raise OptionError(f"the task {task.name!r} cannot begin with a language model; expected classify or tag")
        decided = task.body_settings(body)
        body.start.check_own(model, decided, "has layers with")
        model = {**task.defaults_on_body, **model, **decided}
    settings = toml.build(task.settings, model, task.name)
    given = toml.build(TrainingSettings, training, "training")
    device = device_for(given.device)
    mixed = task.mixed_on_gpu or given.precision != "auto"
    precision = precision_for(given.precision, device) if mixed else "float32"
    complete = given.completed(
        device, precision, batch=_ROWS, steps=_PLACES, rate=2e-3, warmup=0.05, schedule="cosine", patience=0
    )
    check_layered(complete, isinstance(task, OnBody), f"the task {task.name!r}")
    return settings, complete


def training_of(task: AnyTask) -> TrainingSettings:
    """How a task is trained where no option says otherwise; `device` stands as it is chosen: "auto"."""
    complete = settle(task, {})[1]
    return replace(complete, device=TrainingSettings.device)


def idle_options(task: AnyTask) -> set[str]:
    """The options of training that do nothing in a task."""
    return {*_IDLE, *(() if isinstance(task, OnBody) else _LAYERED)}


def train(
    task: AnyTask,
    source: AnySource,
    valid: AnySource | None,
    settings: object,
    training: TrainingSettings,
    folder: Path | None = None,
    body: Body | None = None,
) -> Fitted:
    """Find the examples and train on them, in the run folder where there is one; `body` as in `fit`."""
    if folder is not None:
        files.check_free(folder)
    check_logs(training, folder)
    task = task.configured(settings)
    with nullcontext() if folder is None else files.owning(folder):
        parts = finding.located(task, source)
        task = _settled(task, parts) if valid is None else task
        examples, heldout, notes = finding.train_and_valid(task, parts, valid)
        task = _settled(task, parts, examples.examples) if valid is None else task
        about = finding.describe_examples(source, parts, examples, valid, heldout)
        return fit(task, examples, heldout, task.chosen, training, source=about, notes=notes, out=folder, body=body)


def fit(
    task: AnyTask,
    train: Part,
    valid: Part,
    settings: object,
    training: TrainingSettings,
    *,
    source: Table,
    notes: list[str],
    out: Path | None = None,
    body: Body | None = None,
) -> Fitted:
    """Train a network from the beginning; saved to the run folder `out` as it goes, if there is one.

    `body`: the layers of a language model to begin with, whose settings are among `settings` (`settle`).
    """
    codecs: Codecs = task.codecs(train.examples)
    preparing = aspect(task, Preparing)
    notes = [*notes, *preparing.codec_notes(codecs)]
    initial: dict[str, NDArray[np.generic]] = {}
    if body is not None and isinstance(task, OnBody):
        counts = task.count_words(train.examples, body)
        words = body.lexicon(counts)
        codecs, initial = {**codecs, "words": words}, body.weights(words, task.stack)
        notes = [*notes, *body.notes(counts, words)]
    for part in (train, valid):
        task.check(part.examples, codecs, part.name)
    config: Table = {"format": FORMAT, "task": task.name, "source": dict(source), task.name: toml.as_table(settings)}
    config |= {} if body is None else {START: body.start.describe()}
    if training.batch == AUTO:
        usual = task.defaults.get("batch")
        rows = usual if isinstance(usual, int) else _ROWS
        rows, note = choose_batch(task, codecs, train.examples, valid.examples, settings, training, rows)
        training, notes = replace(training, batch=rows), [*notes, note]
    count, validated = len(train.examples), len(valid.examples)
    training = preparing.budget(training, count)
    if training.validate_every is None:
        batches = len(Examples(task, codecs, training, train.examples).epoch(0))
        training = replace(training, validate_every=batches)
    config["training"] = asdict(training)
    figures: Line = {"examples": count, "validation_examples": validated, "notes": notes}
    figures |= {f"{name}_forms": codec.size for name, codec in codecs.items() if codec.size}
    for note in notes:
        progress.tell(note)
    place = writer.begin(out, config, partial(write_codecs, codecs), figures, initial)
    return _run(task, codecs, config, train, valid, settings, training, place)


def _settled(task: AnyTask, parts: Parts, examples: Sequence[object] | None = None) -> AnyTask:
    """The task with what its files, or its examples, decide of its settings."""
    return task.configured(task.settled(task.chosen, parts, examples)) if isinstance(task, Dividing) else task


def _run(
    task: AnyTask,
    codecs: Codecs,
    config: Table,
    examples: Part,
    valid: Part,
    settings: object,
    training: TrainingSettings,
    place: Destination,
) -> Fitted:
    """Train with everything chosen, from a snapshot on where there is one."""
    solving = aspect(task, Solving)

    def begin(device: torch.device) -> tuple[TaskNet[Batched], Course[ExampleBatch]]:
        net = task.build(settings, codecs).to(device)
        learned = Examples(task, codecs, training, examples.examples, recordable=net.recordable)
        heldout = HeldOut.of(net, task, codecs, training, valid.examples)
        return net, Course(ExampleLearner(net), learned, heldout, layers=net.weights_by_layer())

    def last_line(net: TaskNet[Batched], at: Counters) -> Line:
        line: Line = {"examples": len(examples.examples), "steps": at.step, "best_step": at.best_step}
        line |= {"validation": at.best, "epochs": round(at.epoch, 3)}
        return line | {"parameters": net.parameters_count(), "seconds_training": round(at.elapsed(), 3)}

    def finish(net: TaskNet[Batched]) -> None:
        solving.finish(net, valid.examples, codecs)

    with place.journal as journal:
        if not solving.solves(settings):
            net = fit_in_steps(begin, training, place, last_line, finish if solving.finishes else None)
            return Fitted(task, net, codecs, config, journal.lines)
        # the weights are found at once: what a training leaves behind, without its steps
        at = Counters()
        net = task.build(settings, codecs).to(torch.device(training.device))
        with progress.task("solving"), net.quietly():
            solving.solve(net, examples.examples, codecs)
        if solving.finishes:
            finish(net)
        at.best = HeldOut.of(net, task, codecs, training, valid.examples).measure()
        if place.writer is not None:
            place.writer.write_weights(_arrays(net), {})
        journal.write({"event": "trained", **last_line(net, at)})
        if place.writer is not None:
            place.writer.finish(journal)
        return Fitted(task, net.eval(), codecs, config, journal.lines)


def _arrays(net: TaskNet[Batched]) -> dict[str, NDArray[np.generic]]:
    return {name: weight.cpu().numpy() for name, weight in weights_of(net).items()}


# A trained task as a run folder.

_KEY = "lexicons"


@runtime_checkable
class Styled(Protocol):
    """A codec that brings plain text into the way its training text was written."""

    def verbatim(self) -> StoredCodec:
        """The same codec, leaving text as it is."""


def verbatim(codecs: Codecs) -> Codecs:
    """Codecs that read every text as it is written."""
    return {name: codec.verbatim() if isinstance(codec, Styled) else codec for name, codec in codecs.items()}


def write_codecs(codecs: Codecs, path: Path) -> None:
    """Write codecs in the place where a language model has its tokenizer."""
    write_text(path, json.dumps({_KEY: store_codecs(codecs)}, ensure_ascii=False))


def read_codecs(path: Path) -> dict[str, StoredCodec]:
    """Read what `write_codecs` wrote; nothing in it is executed."""
    try:
        return restore_codecs(json.loads(read_plain(path).decode("utf-8"))[_KEY])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(f"{path} holds no lexicons ({error}); try training again") from error


def save(fitted: Fitted, folder: Path, dtype: str = "float32") -> Path:
    """Write a trained task as a run, in the place of one that is there already; `dtype` as in `runs/narrow.py`."""
    save_codecs = partial(write_codecs, fitted.codecs)
    return writer.save(folder, fitted.config, save_codecs, _arrays(fitted.net), {}, fitted.log, dtype)


def load(folder: Path, device: str = "cpu") -> Fitted:
    """Read a run back onto a device (`devices.device_for`); nothing in it is executed."""
    config, log, task = read_config(folder)
    arrays, _ = writer.read_weights(folder, config)
    codecs = read_codecs(folder / files.TOKENIZER)
    check_counts(task.chosen, len(arrays))
    net = restored(lambda: task.build(task.chosen, codecs), arrays)
    return Fitted(task, placed(net, device, task.name), codecs, config, log)


def resume(folder: Path) -> Fitted:
    """Train a run to its end; a finished one is loaded, with a note."""
    read_config(folder)
    return writer.resume(folder, COUNTED, load, _go_on)


def _go_on(unfinished: Unfinished) -> Fitted:
    config, folder = unfinished.config, unfinished.folder
    _, _, task = read_config(folder)
    train, valid = finding.learned_from(task, config, f"the run {folder}")
    codecs = read_codecs(folder / files.TOKENIZER)
    initial: dict[str, NDArray[np.generic]] = {}
    words = codecs.get("words")
    if unfinished.snapshot is None and START in config and isinstance(words, Lexicon) and isinstance(task, OnBody):
        initial = body_of(read_again(config[START], folder)).weights(words, task.stack)
    place = unfinished.destination(initial)
    return _run(task, codecs, config, train, valid, task.chosen, training_of_run(config), place)


def training_of_run(config: Table) -> TrainingSettings:
    """How a run was trained; without its GPU on a machine that has none."""
    training = toml.build(TrainingSettings, config["training"], "training")
    return replace(training, device=device_for("auto" if training.device == "cuda" else training.device))


def read_config(folder: Path) -> tuple[Table, list[Line], AnyTask]:
    """The configuration, the log and the task of a task's run, checked; the task has the settings of the run."""
    config, log = files.read_config(folder)
    name = config.get("task")
    if name is None:
        raise FormatError(
            f"{folder} holds the language model {config['model']!r}; expected a task; try: thereafter next {folder}"
        )
    task: AnyTask = TASKS.load(name)
    files.check_tables(config, folder, {"source": (), "training": (), name: ()})
    return config, log, task.configured(toml.build(task.settings, config[name], name))


# The largest batch of examples that the memory of a GPU holds: what `training/fit.py` tries of a task.
#
# Shapes: R examples.


def choose_batch(
    task: AnyTask,
    codecs: Codecs,
    train: Sequence[object],
    valid: Sequence[object],
    settings: object,
    training: TrainingSettings,
    usual: int,
) -> tuple[int, str]:
    """The most examples that fit into the memory of a GPU, elsewhere the usual number, and the note on it."""
    steps, device = training.steps or 1, torch.device(training.device)
    most = min(len(train), max(1, MOST_PLACES // steps))
    if aspect(task, Solving).solves(settings):
        return usual, f"batch {usual:,}: this network is solved at once and takes no steps"
    recordable = False

    def begin(device: torch.device) -> ExampleLearner:
        nonlocal recordable
        net = task.build(settings, codecs).to(device)
        recordable = net.recordable
        return ExampleLearner(net)

    def longest(rows: int, examples: Sequence[object], recordable: bool) -> list[ExampleBatch]:
        cut = Examples(task, codecs, replace(training, batch=rows), examples, recordable=recordable)
        chosen = longest_examples(task.lengths(examples, codecs), rows, rows * steps)
        return [cut.make([examples[place] for place in places]).to(device) for places in chosen]

    def batches(rows: int) -> list[ExampleBatch]:
        return longest(rows, train, recordable)

    def validated(rows: int) -> list[ExampleBatch]:
        return longest(MEASURED_AT_ONCE * rows, valid, recordable=False)

    return choose_rows(begin, batches, training, usual, most, validated if len(valid) else None)


def longest_examples(lengths_R: NDArray[np.int64], most: int, places: int) -> list[list[int]]:
    """The examples of the two largest batches within the limits of `batching.batches`: the longest ones there are, and
    the longest of which `most` fit.

    >>> longest_examples(np.array([1, 9, 2, 3, 2]), most=3, places=9)
    [[1], [2, 4, 3]]
    """
    order_R = np.argsort(lengths_R, kind="stable")
    long = max(1, min(most, places // int(lengths_R[order_R[-1]])))
    within = int((lengths_R <= places // most).sum())
    chosen = [order_R[-long:], order_R[max(0, within - most) : within]]
    return [one.tolist() for one in chosen if len(one)]
