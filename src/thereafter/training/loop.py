"""The training loop: batch by batch, with a guard, validations and snapshots.

It knows the contracts of `learner.py` and nothing else of what it trains.

A snapshot holds all that the following steps depend on: weights, optimizer state, carried hidden state, random
generators, position, schedule, guard, sums. A run that goes on from one computes the same bits, in this process or
after it was stopped or killed. Snapshots that the guard goes back to are taken at steps that depend on the settings
alone; one that is taken where a training is stopped remembers the last of them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Generic

import torch
from torch import Tensor

from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.kernels.switches import leaving_unread
from thereafter.models.quiet import NeuralState
from thereafter.runs.writer import Journal, Snapshot, take_snapshot
from thereafter.training import numerics
from thereafter.training.control import Counters, Guard, PendingSteps, Position, Schedule, Stop, blame, undisturbed
from thereafter.training.graphs import Graphs, beside_graphs, undone
from thereafter.training.learner import B, Course, Epoch
from thereafter.training.numerics import generator_states, mixed_products, set_generators
from thereafter.training.settings import TrainingSettings
from thereafter.training.watching import Audience, ProgressLine, StepReport, ValidationReport
from thereafter.training.weights import Layering, clip_gradients, load_weights, make_optimizer, weights_of

STEPS_AT_ONCE = {"cpu": 1}
"""Steps whose figures are read from the device together, by type of device; every other one is asked seldom."""
_ASK_SELDOM = 32
_WRITE_SHARE = 0.02  # of the time, at most, goes into writing checkpoints
_LOSS_SCALE = 1024.0
"""In mixed precision the loss is taken so many times: cuDNN computes recurrent layers in float16 then, whose smallest
number, 6e-8, is more than many a gradient of a mean over thousands of tokens. Its largest is 65,504: where a gradient
goes beyond, the loss is taken fewer times from there on."""
_LOWER = 16.0


class Loop(Generic[B]):
    """One training.

    `keep()` is called when the learner has the best weights so far; `write(snapshot)` saves a snapshot, where there is
    a place for it. `started`: the learner has weights of another training, which are saved before the first step, so
    that that training is not asked for again. `known`: all of them are; they are validated first, and whatever comes
    later is measured by them.
    """

    def __init__(
        self,
        course: Course[B],
        settings: TrainingSettings,
        journal: Journal,
        keep: Callable[[], None],
        write: Callable[[Snapshot], None] | None = None,
        started: bool = False,
        known: bool = False,
    ) -> None:
        self.learner, self.model, self.settings, self.journal = course.learner, course.learner.module, settings, journal
        self.at = Counters()
        self._epochs, self._heldout = course.epochs, course.heldout
        self._keep, self._write = keep, write
        self._device = next(self.model.parameters()).device
        self._layering, self._started = Layering(self.model, settings, course.layers), started
        self._known = known
        self._optimizer = make_optimizer(self.model, settings, self._layering.factors)
        self._schedule, self.guard = Schedule(settings), Guard()
        self._clip = float(settings.clip or 0.0)
        self.loss_scale = _LOSS_SCALE if settings.precision == "bfloat16" and self._device.type == "cuda" else 1.0
        self._graphs = self.new_graphs()
        self._state: NeuralState | None = None
        self._epoch, self._laid_out = course.epochs.epoch(0), 0
        self._pending = PendingSteps()
        self._careful = 0  # up to this step the figures of every step are read at once
        self._good: Snapshot | None = None
        self._stop, self._audience = Stop(), Audience(self)
        self._warm = False
        self._written, self._writing = time.monotonic(), 0.0  # when the last checkpoint was written, how long it took

    def run(self) -> None:
        """Train until the budget is used up or nothing gets better; the last step is always validated.

        KeyboardInterrupt where a signal asks it to stop; `rescue` then saves the newest state.
        """
        with progress.task("training", total=100, unit="%") as advance, self._stop.listening():
            self.model.train()
            self._good = self._good or self.snapshot()
            if self._started:
                if self._known:
                    self._validate()
                self._good = self.snapshot()
                self._save(self._good)
            line = ProgressLine(advance)
            self._after_step(again=True)
            while True:
                self._stop.allow()
                self._audience.deliver()
                if self._warm and line.is_due():
                    line.show(self._used(), self.at, self.learner, self.journal)
                patience = self.settings.patience or 0
                if self._used() >= 1.0 - 1e-12 or (patience and self.at.stale >= patience):
                    if self.at.validated == self.at.step or self._validate():
                        break
                elif self.step():
                    self._after_step()
            self._layering.open_all()
            self._audience.end()

    def _after_step(self, *, again: bool = False) -> None:
        """What is due after a step: a line of the log, a validation, a snapshot.

        `again`: another process took the step. It may have been stopped in the validation, and in nothing else.
        """
        step, settings = self.at.step, self.settings
        every = (settings.log_every, settings.validate_every, settings.checkpoint_every)
        log, validate, keep = (step > 0 and step % (steps or 1) == 0 for steps in every)
        if again:
            validate = validate and self.at.validated != step
            log, keep = False, keep and validate
        if (log or validate or keep) and not self._settle(step):
            return
        if log:
            self.journal.write(self.at.line())
        if validate and not self._validate():
            return
        if keep:
            self._checkpoint()

    def step(self) -> bool:
        """Learn from one batch; False where that failed and the run went back."""
        self._audience.before_step()
        self._stop.hold()
        epoch, at = self._current_epoch(), self.at
        if self._layering.open(at.epoch):
            self._graphs = self.new_graphs()  # which weights learn is part of what was recorded
        batch = epoch.batch(at.block)
        state = self.learner.fresh(batch.rows) if self._state is None else self._state
        at.rate = self._rate(len(epoch), batch)
        after = self._replay(batch, state if epoch.carried else None)
        if after is None:
            figures, scale, after = self._beside_graphs(batch, state)
            self._audience.before_update()
            self._pending.add(figures, batch.count, at)
            asked = len(self._pending) >= self._ask_every()
            if asked and not self._settle(at.step + 1, lambda: self._loss(batch, state)):
                return False
            self._optimizer.step(at.rate, scale)
            self._optimizer.clear()
            after = _carried(after) if epoch.carried else after
        self._optimizer.after_step()
        if not self._warm:
            self._warm = True
            at.start_clock()  # what had to be compiled for the first step is not the training's time
        ended = at.take(batch.count, len(epoch))
        self._state = None if ended or not epoch.carried else after
        return len(self._pending) < self._ask_every() or self._settle(at.step)

    def _replay(self, batch: B, state: NeuralState | None) -> NeuralState | None:
        """Take a step by replaying a recorded CUDA graph: the state after it; None where there is no such graph."""
        if self._graphs is None or self.at.step < self._careful:
            return None
        played = self._graphs.play(batch, state, self.at.rate)
        if played is None:
            return None
        self._pending.add(played[0], batch.count, self.at)
        return NeuralState({}) if played[1] is None else played[1]

    def _learn(self, batch: B, state: NeuralState | None, rate: Tensor) -> tuple[Tensor, NeuralState]:
        """A whole step without waiting for the device, as a CUDA graph needs it: its figures and the state after it."""
        try:
            figures, scale, after = self._gradients(batch, state or self.learner.fresh(batch.rows))
            self._optimizer.step(rate, scale)
        finally:
            self._optimizer.clear()  # also where it could not be recorded: the next step begins without gradients
        return figures, after

    def _beside_graphs(self, batch: B, state: NeuralState) -> tuple[Tensor, Tensor | None, NeuralState]:
        """The backward pass of a batch that is not replayed; recorded steps make room for it where they must."""
        if self._graphs is None:
            return self._gradients(batch, state)
        generators = generator_states(self._device)
        buffers = [(buffer, buffer.clone()) for buffer in self.model.buffers()]

        def restore() -> None:
            self._optimizer.clear()
            set_generators(generators, self._device)
            for buffer, before in buffers:
                buffer.copy_(before)

        # by the kernels that recorded steps take: a training does not change them where it gives recordings up
        with leaving_unread() if self._graphs.gave_up else nullcontext():
            return beside_graphs(self._graphs, lambda: self._gradients(batch, state), restore)

    def _gradients(self, batch: B, state: NeuralState) -> tuple[Tensor, Tensor | None, NeuralState]:
        """Backward pass: nats, loss and gradient norm of a batch, what to divide gradients by, the state after it."""
        nats, loss, after = self._loss(batch, state)
        torch.autograd.backward(loss if self.loss_scale == 1.0 else loss * self.loss_scale)
        norm, scale = clip_gradients(self._optimizer.gradients(), self._clip, self.loss_scale)
        return torch.stack([nats.detach().float(), loss.detach().float(), norm.float()]), scale, after

    def _loss(self, batch: B, state: NeuralState) -> tuple[Tensor, Tensor, NeuralState]:
        """The nats of a batch, the loss to minimise, and the state after it."""
        with mixed_products(self.settings.precision, self._device):
            loss = self.learner.loss(batch, state)
        return loss.total, batch.mean(loss.total) + loss.extra, loss.state

    def _settle(self, last: int, again: Callable[[], object] | None = None) -> bool:
        """Read the figures of the steps up to `last` that are still on the device; False where the run went back.

        Where only one step is pending and not yet taken (`again` computes its loss once more), the guard says which
        layer failed. Of several the first bad one has spoilt the others: the run goes back, and reads the figures of
        every step until it is there again.
        """
        if not self._pending:
            return True
        steps = self._pending.read()
        for number, one in enumerate(steps, last - len(steps) + 1):
            if not one.finite:
                known = again is not None and len(steps) == 1
                if known and math.isfinite(one.loss) and self.loss_scale > 1.0:
                    self._lower_scale(number)
                else:
                    what = blame(self.model, one.loss, one.norm, again) if again is not None and known else None
                    self._back(number, what)
                return False
            self.at.add(one.nats, one.count, one.norm, self._clip)
            if self._audience:
                mean = one.nats / max(1, one.count)
                figures = self.learner.figures(mean)
                seconds = self.at.elapsed() if self._warm else self.at.seconds
                self._audience.add(StepReport(number, one.epoch, one.seen, mean, one.norm, one.rate, seconds, figures))
        return True

    def _lower_scale(self, step: int) -> None:
        """A gradient went beyond the largest number of float16: go back, and multiply the loss by less."""
        self.loss_scale = max(1.0, self.loss_scale / _LOWER)
        self._graphs = self.new_graphs()  # the scale is part of what was recorded
        what = f"a gradient is beyond the largest number of float16; the loss scale is {self.loss_scale:g} from here on"
        self.journal.write({"event": "guard", "step": step, "what": what, **vars(self.guard)})
        progress.note(f"step {step}: {what}")
        self._back(step, None)

    def new_graphs(self) -> Graphs[B] | None:
        """Recorded steps, on a device that records them."""
        undo = partial(undone, self.model, self._optimizer, self._device)
        return Graphs(self._learn, undo, self._device) if self.settings.graphs and self._device.type == "cuda" else None

    def forget_graphs(self) -> None:
        """Give the memory of recorded steps back: they and the loop refer to each other, and would keep it for long."""
        graphs, self._graphs = self._graphs, None
        if graphs is not None:
            with suppress(RuntimeError):  # of a GPU that has failed: that is said by what failed
                graphs.clear()

    def _back(self, step: int, what: str | None) -> None:
        """Go back to the last good snapshot; at half the learning rate where `what` says what went wrong."""
        if self._good is None:
            raise RuntimeError("a training without a first snapshot")  # `run` takes one before anything else
        self._optimizer.clear()
        if what is None:
            self._careful = step
        else:
            message = self.guard.trip(step, what, self.at.rate)
            self.journal.write({"event": "guard", "step": step, "what": what, **vars(self.guard)})
            progress.note(message)
        # Time does not go back, and the best weights found since are kept as they are.
        kept = {"seconds": self.at.elapsed(), "best": self.at.best, "best_step": self.at.best_step}
        facts = {**self._good.facts, "guard": dict(vars(self.guard)), "log_bytes": self.journal.length}
        facts |= {"loss_scale": self.loss_scale, "careful": self._careful}
        facts["at"] = {**facts["at"], **kept}
        self.restore(replace(self._good, facts=facts))

    def _validate(self) -> bool:
        """Validate, and keep the weights where they are the best so far; False where the run went back."""
        if not self._settle(self.at.step):
            return False
        at, what = self.at, None
        with self._optimizer.best_guess():
            self._stop.allow()  # nothing changes while it is measured
            loss = beside_graphs(self._graphs, self._heldout.measure)
            self._stop.hold()
            better = loss < at.best
            if not math.isfinite(loss):
                what = "in validation " + blame(self.model, loss, 0.0, self._heldout.measure)
            elif better:
                beside_graphs(self._graphs, self._keep)
                at.best, at.best_step = loss, at.step
        if what is not None:
            self._back(at.step, what)
            return False
        at.validated, at.stale = at.step, 0 if better else at.stale + 1
        figures, seconds = self.learner.figures(loss), at.elapsed()
        line: Table = {"event": "validation", "step": at.step, "epoch": at.epoch, "loss": loss}
        line |= figures | {"best": better, "seconds": round(seconds, 3)}
        if self._audience:
            self._audience.add(ValidationReport(at.step, at.epoch, at.seen, loss, better, seconds, figures))
        for change in (self._optimizer.after_validation(loss), self._schedule.after_validation(loss)):
            if change:
                line["note"] = change
                progress.note(f"step {at.step}: {change}")
        self.journal.write(line)
        return True

    def _checkpoint(self) -> None:
        """Take a snapshot; write it where the last one written is old enough."""
        into, self._good = self._good, None  # while it is being overwritten there is none
        self._good = beside_graphs(self._graphs, lambda: self.snapshot(into))
        wait = self.settings.checkpoint_seconds  # 0 means each of them, whatever it costs
        if time.monotonic() - self._written >= (wait and max(wait, self._writing / _WRITE_SHARE)):
            self._save(self._good)

    def _save(self, snapshot: Snapshot) -> None:
        if self._write is None:
            return
        began = time.monotonic()
        try:
            self._audience.checkpoint()
        finally:  # whatever a watcher raises
            self.journal.sync()
            self._write(snapshot)
            self._written = time.monotonic()
            self._writing = self._written - began

    def rescue(self) -> int:
        """Save the newest complete state when the training is interrupted; returns its step, 0 where there is none."""
        with undisturbed():
            snapshot = self._good
            if self._stop.whole:
                self._settle(self.at.step)
                good, snapshot = self._good, self.snapshot()
                if good is not None and good.facts["at"]["step"] != self.at.step:
                    snapshot = replace(snapshot, earlier=good)
            if snapshot is None or not snapshot.facts["at"]["step"]:
                return 0
            with suppress(KeyboardInterrupt):  # a watcher that asks for what is under way
                self._save(snapshot)
            return int(snapshot.facts["at"]["step"])

    def snapshot(self, into: Snapshot | None = None) -> Snapshot:
        """All that the following steps depend on, copied; `into` the memory of an older one where that fits."""
        own, remembered = self._optimizer.state()
        parts = {"model": weights_of(self.model), "optimizer": own, "generator": generator_states(self._device)}
        parts["carried"] = {} if self._state is None else self._state.tensors()
        tensors = {f"{part}/{name}": tensor for part, named in parts.items() for name, tensor in named.items()}
        facts: Table = {
            "at": self.at.as_dict(),
            "optimizer": remembered,
            "schedule": self._schedule.state(),
            "guard": dict(vars(self.guard)),
            "loss_scale": self.loss_scale,
            "careful": self._careful,
            "log_bytes": self.journal.length,
            **numerics.facts(self._device),
        }
        return take_snapshot(tensors, facts, into)

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot. It becomes the last good one, or the earlier one that it remembers does."""
        facts, device = snapshot.facts, self._device
        self.at = Counters.from_dict(facts["at"])
        self._pending.clear()
        load_weights(self.model, snapshot.part("model"))
        self._optimizer.restore(snapshot.part("optimizer"), facts["optimizer"])
        self._schedule.restore(facts["schedule"])
        self.guard.restore(facts["guard"])
        self.loss_scale = float(facts.get("loss_scale", self.loss_scale))  # older checkpoints do not say
        self._careful = int(facts.get("careful", 0))
        set_generators(snapshot.part("generator"), device)
        carried = {name: tensor.to(device, copy=True) for name, tensor in snapshot.part("carried").items()}
        rows = len(next(iter(carried.values()))) if carried else 0
        self._state = self.learner.fresh(rows).with_tensors(carried) if carried else None
        self._good = snapshot.earlier or snapshot

    def _current_epoch(self) -> Epoch[B]:
        if self._laid_out != self.at.epoch:
            self._epoch, self._laid_out = self._epochs.epoch(self.at.epoch), self.at.epoch
        return self._epoch

    def _rate(self, batches: int, batch: B) -> float:
        at = self.at
        used = at.used(self.settings, batches, 1, batch.count)
        self.learner.trained(used)
        rate = self._schedule.rate(Position(at.step + 1, at.epoch + at.block / batches, used)) * self.guard.factor
        return rate * batch.rate_factor

    def _used(self) -> float:
        # between two epochs the length of the next one does not matter: no need to lay it out
        return self.at.used(self.settings, len(self._current_epoch()) if self.at.block else 1)

    def _ask_every(self) -> int:
        return 1 if self.at.step < self._careful else STEPS_AT_ONCE.get(self._device.type, _ASK_SELDOM)


def _carried(state: NeuralState) -> NeuralState:
    """A state without its graph, in contiguous memory of its own: laid out as it is when read from a checkpoint."""
    plain = torch.contiguous_format
    return state.with_tensors({name: t.detach().clone(memory_format=plain) for name, t in state.tensors().items()})
