"""Neural models as kinds of model: settings, training, validation, and what is saved of them.

Shapes: B rows, T steps, L tokens of the lead-in, N = tokens of a block in one list.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from thereafter.base import config as toml
from thereafter.base.config import Table
from thereafter.base.devices import device_for, precision_for
from thereafter.base.kinds import KINDS
from thereafter.errors import FormatError, OptionError
from thereafter.models.build import NEURAL, build, settings_of
from thereafter.models.neural import NeuralModel
from thereafter.models.settings import NeuralSettings
from thereafter.models.state import NeuralState
from thereafter.text.encoded import IdArray
from thereafter.training import defaults
from thereafter.training.blocks import Blocks, Plan, TextBatch, TextEpochs, lines, partition, stream
from thereafter.training.control import perplexity
from thereafter.training.fit import MOST_PLACES, choose_rows, fit
from thereafter.training.kinds import NEURAL_KIND, About, TrainingJob
from thereafter.training.learner import Course, Loss
from thereafter.training.loop import Loop
from thereafter.training.settings import AUTO, TrainingSettings
from thereafter.training.weights import check_counts, check_layered, restored, weights_of

_LONGER = 25  # steps that a block of drawn length has beyond the mean, seldom more: five deviations (`blocks.py`)


class NeuralKind:
    """See `kinds.ModelKind`."""

    trained_in_steps = True

    def __init__(self, name: str) -> None:
        self.name = name
        self.settings = settings_of(name)

    def complete(
        self, given: Table, training: TrainingSettings, about: About
    ) -> tuple[NeuralSettings, TrainingSettings, list[str]]:
        check_layered(training, KINDS[self.name].recurrent, f"the model {self.name!r}")
        model, sizes = defaults.complete_model(self.name, given, about)
        device = device_for(training.device)
        precision = precision_for(training.precision, device)
        searched = training.batch == AUTO
        usual = replace(training, batch=None) if searched else training
        chosen, rest = defaults.complete_training(self.name, model, usual, about, device, precision)
        if (chosen.batching == "lines") != (about.context == "line"):
            raise OptionError(
                f"batching is {chosen.batching!r} and context is {about.context!r}; lines go with the context 'line', "
                "stream and partition with 'stream'; try leaving one of the two out"
            )
        notes = []
        if searched:
            rows, note = self._largest_batch(model, chosen, about)
            usual, notes = replace(training, batch=rows), [note]
            chosen, rest = defaults.complete_training(self.name, model, usual, about, device, precision)
        choices = f"for {about.tokens:,} {about.tokenizer} tokens: " + ", ".join(sizes + rest)
        return model, chosen, [choices, *notes] if sizes + rest else notes

    def _largest_batch(self, model: NeuralSettings, chosen: TrainingSettings, about: About) -> tuple[int, str]:
        """The most rows that fit into the memory of a GPU, elsewhere the default, and the note on it."""
        steps, lines = chosen.steps or 1, chosen.batching == "lines"
        most = defaults.most_rows(chosen.batching or "", steps, about)
        most = min(most, max(1, MOST_PLACES // steps))
        longest = steps + _LONGER if chosen.jitter else steps

        def begin(device: torch.device) -> TextLearner:
            return TextLearner(
                build(self.name, model, vocabulary_size=about.vocabulary, context=about.context).to(device)
            )

        def batches(rows: int) -> list[TextBatch]:
            shape, device = (rows, longest), torch.device(chosen.device)
            ids_BT = torch.randint(about.vocabulary, shape, device=device)
            inside_BT = torch.ones(shape, dtype=torch.bool, device=device) if lines else None
            return [TextBatch(ids_BT, ids_BT, inside_BT, rows * longest)]

        return choose_rows(begin, batches, chosen, chosen.rows, most)

    def train(self, job: TrainingJob) -> NeuralModel:
        def begin(device: torch.device) -> tuple[NeuralModel, Course[TextBatch]]:
            assert isinstance(job.settings, NeuralSettings)
            vocabulary = job.tokenizer.vocabulary
            model = build(
                self.name,
                job.settings,
                vocabulary_size=len(vocabulary),
                context=job.context,
                line_end=job.tokenizer.line_end_id,
                counts=vocabulary.counts,
            ).to(device)
            blocks = Blocks(job.ids, job.tokenizer.start_id, device)
            epochs = TextEpochs(blocks, _plans(job), job.training.steps if job.training.jitter else None)
            heldout = Validation(job.valid, model, device)
            return model, Course(TextLearner(model), epochs, heldout, self.arrays(model)[1], model.weights_by_layer())

        def last_line(model: NeuralModel, loop: Loop[TextBatch]) -> Table:
            at = loop.at
            return {
                **job.figures,
                **self.describe(model),
                "validation": at.best,
                "validation_perplexity": perplexity(at.best),
                "best_step": at.best_step,
                "steps": at.step,
                "epochs": at.epoch,
                "seen": at.seen,
                "tokens_per_second": round(at.seen / max(1e-9, at.elapsed())),
                "seconds_training": round(at.elapsed(), 3),
            }

        return fit(begin, job.training, job.place, last_line)

    def describe(self, model: NeuralModel) -> Table:
        return {"parameters": model.parameters_count()}

    def arrays(self, model: NeuralModel) -> tuple[dict[str, NDArray[np.generic]], dict[str, str]]:
        facts = {"vocabulary_size": model.vocabulary_size, "context": model.context, "line_end": model.line_end}
        weights = {name: tensor.cpu().numpy() for name, tensor in weights_of(model).items()}
        return weights, {"neural": json.dumps(facts)}

    def restore(
        self, arrays: Mapping[str, NDArray[np.generic]], facts: Mapping[str, str], config: Table
    ) -> NeuralModel:
        try:
            known = json.loads(facts["neural"])
            size, line_end = int(known["vocabulary_size"]), known["line_end"]
            if size < 1 or not (line_end is None or 0 <= int(line_end) < size):
                raise ValueError(f"{size} words with the line end {line_end!r}")
            settings = toml.build(self.settings, config[self.name], self.name)
            check_counts(settings, len(arrays))
            context, last = str(known["context"]), None if line_end is None else int(line_end)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
            raise FormatError(f"the weights are incomplete or damaged ({error}); try training again") from error
        made = partial(build, self.name, settings, vocabulary_size=size, context=context, line_end=last)
        return restored(made, arrays).eval()


class TextLearner:
    """A language model as `learner.Learner`: its targets are the tokens of a text, so that a loss is a perplexity."""

    unit = "tok"

    def __init__(self, model: NeuralModel) -> None:
        self._model = model

    @property
    def module(self) -> NeuralModel:
        return self._model

    def fresh(self, rows: int) -> NeuralState:
        return self._model.fresh(rows)

    def loss(self, batch: TextBatch, state: NeuralState) -> Loss:
        return Loss(*self._model.loss(batch.inputs_BT, batch.targets_BT, state, batch.mask_BT))

    def trained(self, share: float) -> None:
        self._model.trained = share

    def describe(self, loss: float) -> str:
        return f"ppl {perplexity(loss):.1f}"

    def figures(self, loss: float) -> dict[str, float]:
        return {"perplexity": perplexity(loss)}


def _plans(job: TrainingJob) -> Callable[[int], Plan]:
    """The order of each epoch."""
    s, ids = job.training, job.ids
    batch, steps, line_end = s.rows, s.steps or 1, job.tokenizer.line_end_id
    if s.batching == "lines" and line_end is not None:
        return lambda epoch: lines(ids, line_end, batch, steps, seed=s.seed, epoch=epoch)
    if s.batching == "partition":
        return lambda epoch: partition(len(ids), batch, steps, seed=s.seed, epoch=epoch)
    return lambda epoch: stream(len(ids), batch, steps, jitter=bool(s.jitter), seed=s.seed, epoch=epoch)


def __getattr__(name: str) -> NeuralKind:
    """`kind lstm` and the like for every neural kind: what the table of models points to."""
    kind = name.removeprefix(NEURAL_KIND)
    if kind == name or kind not in NEURAL:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return NeuralKind(kind)


_ROW = 4000  # a row has at least this many tokens, so that what its lead-in lacks does not count; fewer are one row
_ROWS = 32
_STEPS, _LONGEST = 64, 1024  # tokens of a row at a time; of a line
_LEAD = 128  # tokens of the beginning of the text, and as many of those before a row


class Validation:
    """A text that training does not see, as `learner.Heldout`: mean -log p of a token, as `LanguageModel.score` has it.

    It is cut into a few rows that are read side by side, which is much faster than one by one; the layout depends on
    nothing but the text. No row begins in mid text from a state that has read nothing: training knows such a state only
    at the beginning of a text, and an LSTM that meets an ordinary word in it may be lost for the rest of the row. So
    every row after the first reads `<s>`, the beginning of the text and the tokens before its own, none of which count
    (docs/comparing.md has the figures).
    """

    def __init__(self, ids: IdArray, model: NeuralModel, device: torch.device) -> None:
        self.model = model
        rows = min(_ROWS, max(1, len(ids) // _ROW))
        if model.context == "line" and model.line_end is not None:
            self._plan = lines(ids, model.line_end, _ROWS, len(ids), shuffle=False)
        else:
            self._plan = stream(len(ids), rows, _STEPS)
        self._blocks = Blocks(ids, model.vocabulary_size, device)
        self._lead_BL = _lead_in(ids, self._plan, model.vocabulary_size).to(device)
        self.tokens = len(ids)

    def measure(self) -> float:
        """Nats a token. Draws no random numbers and leaves the model as it was."""
        model, plan = self.model, self._plan
        was_training = model.training
        model.eval()
        try:
            with torch.inference_mode():
                total = torch.zeros((), dtype=torch.float64, device=model.device)
                state = self._first_state() if plan.carried else model.fresh(1)
                for k in range(len(plan)):
                    block = self._blocks.cut(plan, k)
                    state = state if plan.carried else model.fresh(block.rows)
                    for begin in range(0, plan.width(k), _LONGEST):
                        # lines of a block are sorted by their length, and the shorter ones have ended
                        rows = int((plan.lengths_R[plan.rows(k)] > begin).sum()) if begin else block.rows
                        state = state if rows == state.rows else state.select(np.arange(state.rows - rows, state.rows))
                        part = (slice(block.rows - rows, None), slice(begin, begin + _LONGEST))
                        f_BTH, state = model.features(block.inputs_BT[part], state)
                        f_NH, targets_N = f_BTH.flatten(0, 1), block.targets_BT[part].flatten()
                        if block.mask_BT is not None:
                            mask_N = block.mask_BT[part].flatten()
                            f_NH, targets_N = f_NH[mask_N], targets_N[mask_N]
                        total -= model.head.log_prob_of(f_NH, targets_N).sum(dtype=torch.float64)
                return float(total) / self.tokens
        finally:
            model.train(was_training)

    def _first_state(self) -> NeuralState:
        """The state of each row before its first block: the first row has read nothing, the others their lead-in."""
        first = self.model.fresh(1)
        if not len(self._lead_BL):
            return first
        _, state = self.model.features(self._lead_BL, self.model.fresh(len(self._lead_BL)))
        return self.model.stack([first, state])


def _lead_in(ids: IdArray, plan: Plan, start_id: int) -> torch.Tensor:
    """What the rows after the first read before their first block, [B - 1, 1 + 2 L]."""
    starts_B = plan.starts_R[plan.rows(0)][1:] if plan.carried else np.empty(0, dtype=np.int64)
    before_BL = np.asarray(ids)[starts_B[:, None] - 1 - _LEAD + np.arange(_LEAD)]
    begin_BL = np.tile(np.append(start_id, ids[:_LEAD]), (len(starts_B), 1))
    return torch.from_numpy(np.concatenate([begin_BL, before_BL], axis=1).astype(np.int64))
