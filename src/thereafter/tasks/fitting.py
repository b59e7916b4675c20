"""Training a task on examples, by the same loop that trains language models: guard, schedule, checkpoints and all."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from thereafter.base import config as toml
from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.base.devices import device_for, precision_for
from thereafter.errors import OptionError, nearest
from thereafter.models.task_net import Batched, TaskNet
from thereafter.runs.folder import FORMAT
from thereafter.runs.journal import Journal, Line
from thereafter.runs.writer import RunWriter
from thereafter.tasks.batching import Codecs, CodecsFile
from thereafter.tasks.bodies import Body, contradictions
from thereafter.tasks.finding import Part
from thereafter.tasks.learning import MEASURED_AT_ONCE, ExampleBatch, ExampleLearner, Examples, HeldOut
from thereafter.tasks.task import AnyTask, OnBody, Preparing, Solving, aspect
from thereafter.training import largest_batch
from thereafter.training import settings as training_settings
from thereafter.training.fit import Course, Destination
from thereafter.training.fit import fit as train
from thereafter.training.loop import Loop
from thereafter.training.options import TextSettings
from thereafter.training.settings import AUTO, TrainingSettings
from thereafter.training.starting import TABLE
from thereafter.training.weights import check_layered, weights_of

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
    training: Table = dict(task.defaults)
    model: Table = {}
    known = set(training_settings.names())
    for spelled, value in options.items():
        table, _, name = spelled.rpartition(".")
        if name in own and table in ("", task.name):
            model[name] = value
        elif name in known and table in ("", "training"):
            training[name] = value
        elif name in toml.field_names(TextSettings) and table in ("", "text"):
            switch = "--keep-markup" if name == "markup" else f"--{name.replace('_', '-')}"
            raise OptionError(
                f"the task {task.name!r} has no option {spelled!r} ({switch}), which is for the running text of a "
                "language model; the examples of a task are read as they stand; try leaving it out"
            )
        else:
            raise OptionError(f"the task {task.name!r} has no option {spelled!r}; {nearest(name, sorted(own | known))}")
    for name, idle in _IDLE.items():
        if training.get(name) not in (None, idle):
            raise OptionError(
                f"{name} is {training[name]!r}, which does nothing in the task {task.name!r}: its batches are whole "
                f"examples; expected {idle!r}; try leaving it out"
            )
    given = {name.rpartition(".")[2] for name in options}
    if {"tokens_budget", "minutes"} & given and "epochs" not in given:
        training.pop("epochs", None)  # the task's own would end it earlier than was asked for
    if body is not None:
        if not isinstance(task, OnBody):
            raise OptionError(f"the task {task.name!r} cannot begin with a language model; expected classify or tag")
        decided = task.body_settings(body)
        contradictions(model, decided, body)
        model = {**task.defaults_on_body, **model, **decided}
    settings = toml.build(task.settings, model, task.name)
    complete = _complete(toml.build(TrainingSettings, training, "training"), mixed=task.mixed_on_gpu)
    check_layered(complete, isinstance(task, OnBody), f"the task {task.name!r}")
    return settings, complete


def training_of(task: AnyTask) -> TrainingSettings:
    """How a task is trained where no option says otherwise; `device` stands as it is chosen: "auto"."""
    complete = settle(task, {})[1]
    return replace(complete, device=TrainingSettings.device)


def idle_options(task: AnyTask) -> set[str]:
    """The options of training that do nothing in a task."""
    return {*_IDLE, *(() if isinstance(task, OnBody) else _LAYERED)}


def _complete(given: TrainingSettings, *, mixed: bool) -> TrainingSettings:
    device = device_for(given.device)
    return replace(
        given,
        batch=given.batch or _ROWS,
        steps=given.steps or _PLACES,
        optimizer=given.optimizer or "adamw",
        rate=given.rate or 2e-3,
        weight_decay=0.01 if given.weight_decay is None else given.weight_decay,
        clip=1.0 if given.clip is None else given.clip,
        schedule=given.schedule or "cosine",
        warmup=0.05 if given.warmup is None else given.warmup,
        patience=given.patience or 0,
        log_every=given.log_every or 10,
        checkpoint_every=given.checkpoint_every or 100,
        device=device,
        precision=precision_for(given.precision, device) if mixed or given.precision != "auto" else "float32",
    )


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
    initial: Mapping[str, torch.Tensor] = {}
    if body is not None and isinstance(task, OnBody):
        counts = task.count_words(train.examples, body)
        words = body.lexicon(counts)
        codecs, initial = {**codecs, "words": words}, body.weights(words, task.stack)
        notes = [*notes, *body.notes(counts, words)]
    task.check(train.examples, codecs, train.name)
    task.check(valid.examples, codecs, valid.name)
    config: Table = {"format": FORMAT, "task": task.name, "source": dict(source), task.name: toml.as_table(settings)}
    config |= {} if body is None else {TABLE: body.start.describe()}
    if training.batch == AUTO:
        usual = task.defaults.get("batch")
        rows = usual if isinstance(usual, int) else _ROWS
        rows, note = choose_batch(task, codecs, train.examples, valid.examples, settings, training, rows)
        training, notes = replace(training, batch=rows), [*notes, note]
    training = preparing.budget(training, len(train.examples))
    if training.validate_every is None:
        batches = len(Examples(task, codecs, training, train.examples).epoch(0))
        training = replace(training, validate_every=batches)
    config["training"] = asdict(training)
    began: Line = {"event": "began", "examples": len(train.examples), "validation_examples": len(valid.examples)}
    began |= {"notes": notes} | {f"{name}_forms": codec.size for name, codec in codecs.items() if codec.size}
    for note in notes:
        progress.tell(note)
    if out is None:
        place = Destination(Journal(), initial=initial)
        place.journal.write(began)
    else:
        writer = RunWriter(out)
        journal = writer.begin(config, CodecsFile(codecs), began)
        place = Destination(journal, writer, initial=initial)
    return run(task, codecs, config, train, valid, settings, training, place)


def run(
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
    if solving.solves(settings):
        return _solve(task, codecs, config, examples, valid, settings, training, place)

    def begin(device: torch.device) -> tuple[TaskNet[Batched], Course[ExampleBatch]]:
        net = task.build(settings, codecs).to(device)
        learned = Examples(task, codecs, training, examples.examples, recordable=net.recordable)
        heldout = HeldOut.of(net, task, codecs, training, valid.examples)
        return net, Course(ExampleLearner(net), learned, heldout, layers=net.weights_by_layer())

    def last_line(net: TaskNet[Batched], loop: Loop[ExampleBatch]) -> Line:
        at = loop.at
        line: Line = {"examples": len(examples.examples), "steps": at.step, "best_step": at.best_step}
        line |= {"validation": at.best, "epochs": round(at.epoch, 3)}
        return line | {"parameters": net.parameters_count(), "seconds_training": round(at.elapsed(), 3)}

    def finish(net: TaskNet[Batched]) -> None:
        solving.finish(net, valid.examples, codecs)

    try:
        net = train(begin, training, place, last_line, finish if solving.finishes else None)
    finally:
        place.journal.close()
    return Fitted(task, net, codecs, config, place.journal.lines)


def _solve(
    task: AnyTask,
    codecs: Codecs,
    config: Table,
    examples: Part,
    valid: Part,
    settings: object,
    training: TrainingSettings,
    place: Destination,
) -> Fitted:
    """A network whose weights are found at once: what a training leaves behind, without its steps."""
    began, solving = time.perf_counter(), aspect(task, Solving)
    try:
        net = task.build(settings, codecs).to(torch.device(training.device))
        with progress.task("solving"), net.quietly():
            solving.solve(net, examples.examples, codecs)
        if solving.finishes:
            solving.finish(net, valid.examples, codecs)
        heldout = HeldOut.of(net, task, codecs, training, valid.examples).measure()
        line: Line = {"event": "trained", "examples": len(examples.examples), "steps": 0, "best_step": 0}
        line |= {"validation": heldout, "epochs": 0.0, "parameters": net.parameters_count()}
        if place.writer is not None:
            place.writer.write_weights({name: one.cpu().numpy() for name, one in weights_of(net).items()}, {})
        place.journal.write(line | {"seconds_training": round(time.perf_counter() - began, 3)})
        if place.writer is not None:
            place.writer.finish(place.journal)
    finally:
        place.journal.close()
    return Fitted(task, net.eval(), codecs, config, place.journal.lines)


# The largest batch of examples that the memory of a GPU holds: what `training/largest_batch.py` tries of a task.
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
    most = min(len(train), max(1, largest_batch.MOST_PLACES // steps))
    if aspect(task, Solving).solves(settings):
        return usual, f"batch {usual:,}: this network is solved at once and takes no steps"
    if not largest_batch.is_searched(training):
        return usual, largest_batch.describe_batch(usual, most, training)
    lengths_R = task.lengths(train, codecs)
    recordable = False

    def begin(device: torch.device) -> ExampleLearner:
        nonlocal recordable
        net = task.build(settings, codecs).to(device)
        recordable = net.recordable
        return ExampleLearner(net)

    def batches(rows: int) -> list[ExampleBatch]:
        examples = Examples(task, codecs, replace(training, batch=rows), train, recordable=recordable)
        chosen = longest_examples(lengths_R, rows, rows * steps)
        return [examples.make([train[place] for place in places]).to(device) for places in chosen]

    def validated(rows: int) -> list[ExampleBatch]:
        at_once = MEASURED_AT_ONCE * rows
        examples = Examples(task, codecs, replace(training, batch=at_once), valid, shuffle=False)
        chosen = longest_examples(task.lengths(valid, codecs), at_once, at_once * steps)
        return [examples.make([valid[place] for place in places]).to(device) for places in chosen]

    rows = largest_batch.find_batch(
        begin, batches, training, first=min(usual, most), most=most, validated=validated if len(valid) else None
    )
    return rows, largest_batch.describe_batch(rows, most, training)


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
