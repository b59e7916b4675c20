"""Training on examples, by the same loop that trains language models: guard, schedule, checkpoints and all.

Shapes: R examples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from thereafter import config as toml
from thereafter import progress
from thereafter.errors import OptionError, nearest
from thereafter.models.task_net import TaskNet
from thereafter.tasks import batching
from thereafter.tasks.finding import Part
from thereafter.tasks.task import Lexicons, Task
from thereafter.training import checkpoint, numerics
from thereafter.training import settings as training_settings
from thereafter.training.blocks import Block
from thereafter.training.checkpoint import Snapshot
from thereafter.training.generators import seeded
from thereafter.training.journal import Journal
from thereafter.training.loop import Loop
from thereafter.training.neural import device_for, precision_for
from thereafter.training.products import steady_products
from thereafter.training.run_folder import RunWriter
from thereafter.training.settings import TrainingSettings
from thereafter.training.weights import load_weights, weights_of

_IDLE: dict[str, Any] = {"batching": None, "jitter": False, "graphs": False}
"""What the training of language models can be told and that of tasks cannot, and what tasks do instead."""
_PLACES = 64  # of an example on average: what `steps` means here


@dataclass
class Fitted:
    """A trained network with all that is saved beside it."""

    task: Task
    net: TaskNet
    lexicons: Lexicons
    config: dict[str, Any]
    log: list[dict[str, Any]]


def settle(task: Task, options: Mapping[str, Any]) -> tuple[Any, TrainingSettings]:
    """The network's settings and the training's, from options by name; those left out are the task's own."""
    own = {name for name in vars(task.settings()) if not name.startswith("_")}
    training, model = dict(task.defaults), {}
    known = set(training_settings.names())
    for spelled, value in options.items():
        table, _, name = spelled.rpartition(".")
        if name in own and table in ("", task.name):
            model[name] = value
        elif name in known and table in ("", "training"):
            training[name] = value
        else:
            raise OptionError(f"the task {task.name!r} has no option {spelled!r}; {nearest(name, sorted(own | known))}")
    for name, idle in _IDLE.items():
        if training.get(name) not in (None, idle):
            raise OptionError(
                f"{name} is {training[name]!r}, which does nothing in the task {task.name!r}: its batches are whole "
                f"examples; expected {idle!r}; try leaving it out"
            )
    said = {name.rpartition(".")[2] for name in options}
    if {"tokens_budget", "minutes"} & said and "epochs" not in said:
        training.pop("epochs", None)  # the task's own would end it earlier than was asked for
    settings = toml.build(task.settings, model, task.name)
    return settings, _completed(toml.build(TrainingSettings, training, "training"))


def _completed(given: TrainingSettings) -> TrainingSettings:
    device = device_for(given.device)
    return replace(
        given,
        batch=given.batch or 32,
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
        precision=precision_for(given.precision, device) if given.precision != "auto" else "float32",
        graphs=False,  # batches have as many shapes as there are lengths
    )


def fit(
    task: Task,
    train: Part,
    valid: Part,
    settings: Any,
    training: TrainingSettings,
    *,
    source: Mapping[str, Any],
    notes: list[str],
    out: Path | None = None,
) -> Fitted:
    """Train a network from the beginning; saved to the run folder `out` as it goes, if there is one."""
    lexicons = task.lexicons(train.examples)
    task.check(train.examples, lexicons, train.name)
    task.check(valid.examples, lexicons, valid.name)
    config = {"format": 1, "task": task.name, "source": dict(source), task.name: asdict(settings)}
    examples = Examples(task, lexicons, training, train.examples)
    if training.validate_every is None:
        training = replace(training, validate_every=len(examples.plan(0)))
    config["training"] = asdict(training)
    began = {"event": "began", "examples": len(train.examples), "validation_examples": len(valid.examples)}
    began |= {"notes": notes} | {f"{name}_forms": len(lexicon) for name, lexicon in lexicons.items()}
    for note in notes:
        progress.tell(note)
    writer, journal = None, Journal()
    if out is not None:
        from thereafter.tasks.store import Kept

        writer = RunWriter(out)
        journal = writer.begin(config, Kept(lexicons), began, tensorboard=training.tensorboard)  # type: ignore[arg-type]
    else:
        journal.write(began)
    return run(task, lexicons, config, examples, valid, settings, training, journal, writer, None)


def run(
    task: Task,
    lexicons: Lexicons,
    config: dict[str, Any],
    examples: Examples,
    valid: Part,
    settings: Any,
    training: TrainingSettings,
    journal: Journal,
    writer: RunWriter | None,
    snapshot: Snapshot | None,
) -> Fitted:
    """Train what is laid out, from a snapshot on where there is one."""
    try:
        net = _trained(task, lexicons, examples, valid, settings, training, journal, writer, snapshot)
    finally:
        journal.close()
    return Fitted(task, net, lexicons, config, journal.lines)


def _trained(
    task: Task,
    lexicons: Lexicons,
    examples: Examples,
    valid: Part,
    settings: Any,
    training: TrainingSettings,
    journal: Journal,
    writer: RunWriter | None,
    snapshot: Snapshot | None,
) -> TaskNet:
    device = torch.device(training.device)
    best: dict[str, torch.Tensor] = {}
    with (
        seeded(training.seed, device),
        numerics.as_in(snapshot, device),
        steady_products(training.precision, device),
    ):
        net = task.build(settings, lexicons).to(device)

        def keep() -> None:
            best.update({name: tensor.clone() for name, tensor in weights_of(net).items()})
            if writer is not None:
                writer.write_weights({name: tensor.cpu().numpy() for name, tensor in best.items()}, {})

        write: Callable[[Snapshot], None] | None = None
        if writer is not None:
            place = writer.state
            write = lambda taken: checkpoint.write(place, taken)  # noqa: E731
        held: Any = HeldOut(task, lexicons, training, valid.examples)
        blocks: Any = examples
        learner: Any = net  # the loop asks of a model what `TaskNet` has
        loop = Loop(learner, blocks, blocks.plan, held, training, journal, keep, write, of_text=False)
        if snapshot is not None:
            loop.restore(snapshot)
            journal.write({"event": "resumed", "step": loop.at.step})
        try:
            loop.run()
        except KeyboardInterrupt:
            if writer is not None:
                writer.stopped(loop.rescue())
            raise
        at = loop.at
        figures = {"steps": at.step, "best_step": at.best_step, "validation": at.best, "epochs": round(at.epoch, 3)}
        figures |= {"parameters": net.parameters_count(), "seconds_training": round(at.elapsed(), 3)}
        journal.write({"event": "trained", "examples": len(examples), **figures})
        if writer is not None:
            writer.finish(journal)
    if not best and writer is not None:  # it was found before the run was resumed
        best = writer.read_weights()
    load_weights(net, best)
    return net.eval()


class Examples:
    """All batches of an epoch, as the training loop asks for them."""

    def __init__(self, task: Task, lexicons: Lexicons, training: TrainingSettings, examples: list[Any]) -> None:
        self._task, self._lexicons, self._training, self._examples = task, lexicons, training, examples
        self._lengths_R = task.lengths(examples, lexicons)
        self._device = torch.device(training.device)

    def __len__(self) -> int:
        return len(self._examples)

    def plan(self, epoch: int, shuffle: bool = True) -> batching.Batches:
        """The batches of an epoch."""
        most, places = int(self._training.batch or 1), int(self._training.batch or 1) * int(self._training.steps or 1)
        seed = self._training.seed
        return batching.batches(self._lengths_R, most, places, seed=seed, epoch=epoch, shuffle=shuffle)

    def cut(self, plan: batching.Batches, k: int) -> Block:
        """Batch k of a plan."""
        chosen = [self._examples[i] for i in plan.examples(k)]
        made: Any = self._task.batch(chosen, self._lexicons).to(self._device)
        nothing: Any = None
        return Block(made, nothing, None, self._task.targets(chosen, self._lexicons))


class HeldOut:
    """Examples that training does not see; `measure` is the mean -log p of what was to be told of them."""

    def __init__(self, task: Task, lexicons: Lexicons, training: TrainingSettings, examples: list[Any]) -> None:
        self._examples = Examples(task, lexicons, training, examples)
        self._plan = self._examples.plan(0, shuffle=False)

    def measure(self, net: TaskNet) -> float:
        """Nats a target."""
        total, count = 0.0, 0
        with net.quietly(), net.remembering():
            for k in range(len(self._plan)):
                block = self._examples.cut(self._plan, k)
                total, count = total + float(net.nats(block.inputs_BT)), count + block.count
        return total / max(1, count)
