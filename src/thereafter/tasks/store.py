"""A trained task as a run folder: what `runs` writes and reads of it, and which task is meant by a name."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import torch

from thereafter.base import config as toml
from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.base.devices import device_for, placed
from thereafter.data import corpora
from thereafter.data.files import AnySource, Files, Parts
from thereafter.data.parts import own_parts
from thereafter.errors import FormatError, SourceError
from thereafter.runs import folder as files
from thereafter.runs import ownership, writer
from thereafter.runs.journal import Line
from thereafter.runs.writer import Unfinished
from thereafter.series.table import IN_MEMORY
from thereafter.tasks import TASKS, finding
from thereafter.tasks.batching import CodecsFile, read_codecs
from thereafter.tasks.bodies import Body, body_of
from thereafter.tasks.finding import Part
from thereafter.tasks.fitting import Fitted, fit, run
from thereafter.tasks.lexicon import Lexicon
from thereafter.tasks.task import AnyTask
from thereafter.training.counters import COUNTED
from thereafter.training.fit import Destination
from thereafter.training.protocol import named_files
from thereafter.training.settings import TrainingSettings, check_logs
from thereafter.training.starting import TABLE, read_again
from thereafter.training.weights import check_counts, restored, weights_of


def train(
    task: AnyTask,
    source: AnySource,
    valid: AnySource | None,
    settings: object,
    training: TrainingSettings,
    folder: Path | None = None,
    body: Body | None = None,
) -> Fitted:
    """Find the examples and train on them, in the run folder where there is one; `body` as in `fitting.fit`."""
    if folder is not None:
        files.check_free(folder)
    check_logs(training, folder)
    task = task.configured(settings)
    with nullcontext() if folder is None else ownership.owning(folder):
        located = finding.located(task, source)
        if valid is None:
            settings = task.settled(settings, located)
            task = task.configured(settings)
        examples, heldout, notes = finding.train_and_valid(task, located, valid)
        if valid is None:
            settings = task.settled(settings, located, examples.examples)
            task = task.configured(settings)
        about: Table = {"name": name_of(source), "files": _files(source, examples), "sha256": examples.fingerprint}
        about |= named_files(located)
        about["valid_sha256"] = heldout.fingerprint
        if valid is not None:
            about |= {"valid_name": name_of(valid), "valid_files": _files(valid, heldout)}
        return fit(task, examples, heldout, settings, training, source=about, notes=notes, out=folder, body=body)


def name_of(source: AnySource) -> str:
    """What a source is called."""
    return source.name if isinstance(source, Files | Parts) else str(source)


def _files(source: AnySource, part: Part) -> list[str] | None:
    """The files of a source by their full names; a corpus is found again by its own."""
    if isinstance(source, str) and source.partition(":")[0] in corpora.names():
        return None
    return [str(path.absolute()) for path in part.files]


def save(fitted: Fitted, folder: Path, dtype: str = "float32") -> Path:
    """Write a trained task as a run, in the place of one that is there already; `dtype` as in `runs/narrow.py`."""
    arrays = {name: tensor.cpu().numpy() for name, tensor in weights_of(fitted.net).items()}
    return writer.save(writer.Saved(fitted.config, CodecsFile(fitted.codecs), arrays, {}, fitted.log), folder, dtype)


def load(folder: Path, device: str = "cpu") -> Fitted:
    """Read a run back onto a device (`devices.device_for`); nothing in it is executed."""
    config, log, task = read_config(folder)
    arrays, _ = writer.read_weights(folder, config)
    codecs = read_codecs(folder / files.TOKENIZER)
    settings = toml.build(task.settings, config[task.name], task.name)
    check_counts(settings, len(arrays))
    net = restored(lambda: task.build(settings, codecs), arrays)
    return Fitted(task, placed(net, device, task.name), codecs, config, log)


def resume(folder: Path) -> Fitted:
    """Train a run to its end; a finished one is loaded, with a note."""
    read_config(folder)
    return writer.resume(folder, COUNTED, load, _go_on)


def _go_on(unfinished: Unfinished) -> Fitted:
    config, folder = unfinished.config, unfinished.folder
    _, _, task = read_config(folder)
    training = training_of(config)
    train, valid = learned_from(task, config, f"the run {folder}")
    codecs = read_codecs(folder / files.TOKENIZER)
    settings = toml.build(task.settings, config[task.name], task.name)
    initial: dict[str, torch.Tensor] = {}
    words = codecs.get("words")
    if unfinished.snapshot is None and TABLE in config and isinstance(words, Lexicon):
        initial = body_of(read_again(config[TABLE], folder)).weights(words, task.stack)
    journal = unfinished.journal()
    place = Destination(journal, unfinished.writer, unfinished.snapshot, initial)
    return run(task, codecs, config, train, valid, settings, training, place)


def training_of(config: Table) -> TrainingSettings:
    """How a run was trained; without its GPU on a machine that has none."""
    training = toml.build(TrainingSettings, config["training"], "training")
    return replace(training, device=device_for("auto" if training.device == "cuda" else training.device))


def learned_from(task: AnyTask, config: Table, whose: str) -> tuple[Part, Part]:
    """The examples that a run is trained and validated on, found again."""
    source = config["source"]
    for name, paths in ((source["name"], source.get("files")), (source.get("valid_name"), source.get("valid_files"))):
        if name in IN_MEMORY and not all(Path(path).exists() for path in paths or ()):
            raise SourceError(
                f"{whose} learned from {name}, which is gone with the process that had it; try writing the table to a "
                "file (.csv) and training on that, with another --out"
            )
    valid_source = list(source["valid_files"]) if source.get("valid_files") else source.get("valid_name")
    train, valid, _ = finding.train_and_valid(task, source_of(config), valid_source)
    for part, key in ((train, "sha256"), (valid, "valid_sha256")):
        if part.fingerprint != source.get(key, part.fingerprint):  # older runs do not say what they validated on
            raise SourceError(
                f"{part.name} has changed since {whose} began (its sha256 is another); try putting that back, or "
                "training anew with another --out"
            )
    return train, valid


def source_of(config: Table) -> AnySource:
    """What a run learned from, as it was given: a corpus by its name, else files."""
    source = config["source"]
    if source.get("part_files"):
        files = {part: [Path(str(file)) for file in own] for part, own in source["part_files"].items()}
        return own_parts(str(source["name"]), files)
    return list(source["files"]) if source.get("files") else str(source["name"])


def read_config(folder: Path) -> tuple[Table, list[Line], AnyTask]:
    """The configuration, the log and the task of a task's run, checked."""
    config, log = files.read_config(folder)
    name = config.get("task")
    if name is None:
        raise FormatError(
            f"{folder} holds the language model {config['model']!r}; expected a task; try: thereafter next {folder}"
        )
    task: AnyTask = TASKS.load(name)
    files.check_tables(config, folder, {"source": (), "training": (), name: ()})
    return config, log, task.configured(toml.build(task.settings, config[name], name))


def task_for(name: str, source: AnySource) -> AnyTask:
    """The task of that name, or the one that takes this source in its place, which is printed.

    One name may stand for several: `classify` takes texts, and series of numbers too.
    """
    task: AnyTask = TASKS.load(name)
    chosen = task.name_for(source)
    if chosen == task.name:
        return task
    progress.note(f"the source holds {TASKS.load(chosen).kind}: the task {chosen!r} is taken for {name!r}")
    other: AnyTask = TASKS.load(chosen)
    return other
