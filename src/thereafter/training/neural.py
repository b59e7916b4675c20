"""Neural models as kinds of model: settings, training, and what is saved of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from thereafter import config as toml
from thereafter.errors import FormatError, OptionError
from thereafter.models.build import NEURAL, SETTINGS, build
from thereafter.models.neural import NeuralModel
from thereafter.training import checkpoint, defaults, numerics, order
from thereafter.training.blocks import Blocks
from thereafter.training.counters import perplexity
from thereafter.training.generators import seeded
from thereafter.training.kinds import About, Job
from thereafter.training.loop import Loop
from thereafter.training.products import steady_products
from thereafter.training.settings import TrainingSettings
from thereafter.training.validation import Validation
from thereafter.training.weights import load_weights, weights_of


class NeuralKind:
    """See `kinds.ModelKind`."""

    trained_in_steps = True

    def __init__(self, name: str) -> None:
        self.name = name
        self.settings = SETTINGS[name]

    def complete(
        self, given: Mapping[str, Any], training: TrainingSettings, about: About
    ) -> tuple[Any, TrainingSettings, list[str]]:
        model, sizes = defaults.complete_model(self.name, given, about)
        device = device_for(training.device)
        precision = precision_for(training.precision, device)
        chosen, rest = defaults.complete_training(self.name, model, training, about, device, precision)
        if (chosen.batching == "lines") != (about.context == "line"):
            raise OptionError(
                f"batching is {chosen.batching!r} and context is {about.context!r}; lines go with the context 'line', "
                "stream and partition with 'stream'; try leaving one of the two out"
            )
        said = f"for {about.tokens:,} {about.tokenizer} tokens: " + ", ".join(sizes + rest)
        return model, chosen, [said] if sizes + rest else []

    def train(self, job: Job) -> NeuralModel:
        device = torch.device(job.training.device)
        with (
            seeded(job.training.seed, device),
            numerics.as_in(job.snapshot, device),
            steady_products(job.training.precision, device),
        ):
            model = self._built(job).to(device)
            best: dict[str, torch.Tensor] = {}
            loop = self._loop(job, model, best)
            if job.snapshot is not None:
                self._go_on(job, loop)
            try:
                loop.run()
            except KeyboardInterrupt:
                if job.run is not None:
                    job.run.stopped(loop.rescue())
                raise
            job.done(self.describe(model) | _figures(loop))
            if job.run is not None:
                job.run.finish(job.journal)
        if not best and job.run is not None:  # it was found before the run was resumed
            best = job.run.read_weights()
        load_weights(model, best)
        return model.eval()

    def describe(self, model: NeuralModel) -> dict[str, Any]:
        return {"parameters": model.parameters_count()}

    def arrays(self, model: NeuralModel) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
        facts = {"vocabulary_size": model.vocabulary_size, "context": model.context, "line_end": model.line_end}
        weights = {name: tensor.cpu().numpy() for name, tensor in weights_of(model).items()}
        return weights, {"neural": json.dumps(facts)}

    def restore(
        self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, str], config: Mapping[str, Any]
    ) -> NeuralModel:
        try:
            known = json.loads(facts["neural"])
            size, line_end = int(known["vocabulary_size"]), known["line_end"]
            if size < 1 or not (line_end is None or 0 <= int(line_end) < size):
                raise ValueError(f"{size} words with the line end {line_end!r}")
            settings = toml.build(self.settings, config[self.name], self.name)
            with torch.random.fork_rng(devices=[]):  # fresh weights are drawn and overwritten: leave no trace of that
                model = build(
                    self.name,
                    settings,
                    vocabulary_size=size,
                    context=str(known["context"]),
                    line_end=None if line_end is None else int(line_end),
                )
            load_weights(model, {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()})
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
            raise FormatError(f"the weights are incomplete or damaged ({error}); try training again") from error
        return model.eval()

    def _built(self, job: Job) -> NeuralModel:
        return build(
            self.name,
            job.settings,
            vocabulary_size=len(job.tokenizer.vocabulary),
            context=job.context,
            line_end=job.tokenizer.line_end_id,
            counts=job.tokenizer.vocabulary.counts,
        )

    def _loop(self, job: Job, model: NeuralModel, best: dict[str, torch.Tensor]) -> Loop:
        """The loop over this text; the best weights are put into `best`, and into the run's folder."""

        def keep() -> None:
            best.update({name: tensor.clone() for name, tensor in weights_of(model).items()})
            if job.run is not None:
                job.run.write_weights(*self.arrays(model))

        run, valid = job.run, job.valid
        if valid is None:
            raise OptionError(f"the model {self.name!r} is validated while it is trained, and no text was given for it")
        return Loop(
            model,
            Blocks(job.ids, job.tokenizer.start_id, model.device),
            _plans(job),
            Validation(valid, model, model.device),
            job.training,
            job.journal,
            keep,
            None if run is None else lambda snapshot: checkpoint.write(run.state, snapshot),
        )

    def _go_on(self, job: Job, loop: Loop) -> None:
        assert job.snapshot is not None
        try:
            loop.restore(job.snapshot)
        except (KeyError, TypeError, ValueError, AttributeError, StopIteration, RuntimeError) as error:
            raise FormatError(f"the checkpoint is damaged or of another model ({error}); try training again") from error
        job.journal.write({"event": "resumed", "step": loop.at.step})


def _plans(job: Job) -> Callable[[int], order.Plan]:
    """The order of each epoch."""
    s, ids = job.training, job.ids
    batch, steps, line_end = s.batch or 1, s.steps or 1, job.tokenizer.line_end_id
    if s.batching == "lines" and line_end is not None:
        return lambda epoch: order.lines(ids, line_end, batch, steps, seed=s.seed, epoch=epoch)
    if s.batching == "partition":
        return lambda epoch: order.partition(len(ids), batch, steps, seed=s.seed, epoch=epoch)
    return lambda epoch: order.stream(len(ids), batch, steps, jitter=bool(s.jitter), seed=s.seed, epoch=epoch)


def _figures(loop: Loop) -> dict[str, Any]:
    at = loop.at
    return {
        "validation": at.best,
        "validation_perplexity": perplexity(at.best),
        "best_step": at.best_step,
        "steps": at.step,
        "epochs": at.epoch,
        "seen": at.seen,
        "tokens_per_second": round(at.seen / max(1e-9, at.elapsed())),
        "seconds_training": round(at.elapsed(), 3),
    }


def device_for(asked: str) -> str:
    """The device that is meant: `auto` is a GPU where torch sees one."""
    if asked == "cuda" and not torch.cuda.is_available():
        raise OptionError("device is 'cuda', and torch sees no GPU here; try device='cpu' (--set training.device=cpu)")
    return ("cuda" if torch.cuda.is_available() else "cpu") if asked == "auto" else asked


def precision_for(asked: str, device: str) -> str:
    """The precision that is meant: `auto` is bfloat16 on a GPU that computes in it, else float32."""
    if asked == "auto":
        return "bfloat16" if device == "cuda" and torch.cuda.is_bf16_supported() else "float32"
    return asked


@cache
def _kind(name: str) -> NeuralKind:
    return NeuralKind(name)


def __getattr__(name: str) -> NeuralKind:
    """`lstm`, `awd-lstm` and all other names of neural models: what the table of models points to."""
    if name not in NEURAL:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _kind(name)
