"""One training from its first step to its end, whatever learns: the loop and what it needs around it.

The best weights are kept, in memory and in the run folder. A training that is interrupted saves its position; one that
is resumed begins at its snapshot. The last line of the log has the final figures. A device that runs out of memory ends
it in one sentence, with its newest snapshot saved.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import torch
from torch import nn

from thereafter.base.config import Table
from thereafter.base.devices import is_out_of_memory, memory_in_words, out_of_memory
from thereafter.errors import DeviceMemoryError, FormatError
from thereafter.runs import checkpoint
from thereafter.runs.checkpoint import Snapshot
from thereafter.runs.writer import Destination, RunWriter
from thereafter.training import largest_batch, numerics
from thereafter.training.learner import B, Course
from thereafter.training.logs import logging_in
from thereafter.training.loop import Loop
from thereafter.training.numerics import seeded, steady_products
from thereafter.training.settings import TrainingSettings
from thereafter.training.weights import load_weights, put_weights, weights_of

_SINCE = "the steps since its last checkpoint are lost: with more memory it goes on from there with"
_DAMAGED = (KeyError, TypeError, ValueError, AttributeError, StopIteration, RuntimeError)


M = TypeVar("M", bound=nn.Module)


def fit(
    begin: Callable[[torch.device], tuple[M, Course[B]]],
    training: TrainingSettings,
    place: Destination,
    last_line: Callable[[M, Loop[B]], Table],
    finish: Callable[[M], None] | None = None,
) -> M:
    """Train; returns the network with the best weights, in evaluation mode.

    `begin(device)` builds the network, with the training's own random numbers; `last_line` are the figures that the log
    ends with. `finish` is given the network with its best weights, and may change them once more.
    """
    device, writer, snapshot = torch.device(training.device), place.writer, place.snapshot
    initial = {name: torch.from_numpy(np.array(array)) for name, array in place.initial.items()}
    best: dict[str, torch.Tensor] = {}

    def best_weights() -> dict[str, torch.Tensor]:
        if best or writer is None:
            return best
        # they are from before the run was resumed
        return {name: torch.from_numpy(np.array(array)) for name, array in writer.read_weights().items()}

    with (
        seeded(training.seed, device),
        numerics.as_in(snapshot, device),
        steady_products(training.precision, device),
        logging_in(None if writer is None else writer.folder, training),
    ):
        remedy = _use_less(training)
        try:
            with memory_in_words(device, "building the network", remedy):
                module, course = begin(device)
        except KeyboardInterrupt:  # a training that has just been written down
            if writer is not None:
                writer.stopped(0)
            raise
        started = bool(initial) and snapshot is None
        known = started and initial.keys() == weights_of(module).keys()
        if started:
            put_weights(module, initial)

        def keep() -> None:
            best.update({name: tensor.clone() for name, tensor in weights_of(module).items()})
            if writer is not None:
                writer.write_weights({name: tensor.cpu().numpy() for name, tensor in best.items()}, course.facts)

        def write(snapshot: Snapshot) -> None:
            if writer is not None:
                checkpoint.write(writer.state, snapshot)

        loop = Loop(course, training, place.journal, keep, None if writer is None else write, started, known)
        if snapshot is not None:
            try:
                loop.restore(snapshot)
            except _DAMAGED as error:
                message = f"the checkpoint is damaged or of another model ({error}); try training again"
                raise FormatError(message) from error
            place.journal.write({"event": "resumed", "step": loop.at.step})
        is_full = False
        try:
            loop.run()
        except KeyboardInterrupt:
            loop.forget_graphs()  # what is saved needs memory
            if writer is not None:
                writer.stopped(loop.rescue())
            raise
        except (RuntimeError, DeviceMemoryError) as error:
            if not is_out_of_memory(error):
                raise
            is_full = True
        finally:
            loop.forget_graphs()
        if is_full:  # outside the block, since the error's frames hold the whole step
            raise _rescued(device, remedy, loop, writer)
        if finish is not None:
            load_weights(module, best_weights())
            finish(module.eval())
            keep()
        place.journal.write({"event": "trained", **last_line(module, loop)})
        if writer is not None:
            writer.finish(place.journal)
    load_weights(module, best_weights())
    return module.eval()


def _use_less(training: TrainingSettings) -> str:
    """What makes a training need less memory."""
    ways = [f"a smaller batch (it is {training.batch})"]
    ways += ["batch='auto' (--batch auto)"] if largest_batch.is_searched(training) else []
    ways += [f"fewer steps (they are {training.steps})"] if training.steps else []
    ways += ["precision='bfloat16'"] if training.precision == "float32" and training.device == "cuda" else []
    return f"{', '.join(ways[:-1])} or {ways[-1]}" if len(ways) > 1 else ways[0]


def _rescued(device: torch.device, remedy: str, loop: Loop[B], writer: RunWriter | None) -> DeviceMemoryError:
    """The error of a device that is full, once the newest snapshot is on the disk and the step's memory is free."""
    loop.model.zero_grad(set_to_none=True)
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    full = out_of_memory(device, "training", remedy)
    if writer is None:
        return full
    try:
        step = loop.rescue()
        again = f"step {step:,} goes on with" if step else "it begins again with"
        rest = f"nothing is lost: with more memory {again}" if step or not writer.state.exists() else _SINCE
    except (RuntimeError, DeviceMemoryError) as error:
        if not is_out_of_memory(error):
            raise
        rest = _SINCE
    return DeviceMemoryError(f"{full}; {rest}: {writer.resume_line}")
