"""Neural models as kinds of model: settings, training, validation, and what is saved of them.

Settings that a user leaves open are chosen by the size of the text: sizes, batches, learning rates and budgets.

    a tiny text trains in a second, a book in minutes, Penn Treebank in some ten minutes on two cores

Those that are given stay as they are. The chosen ones are noted in a sentence and stand in `config.toml`.

Shapes: B rows, T steps, L tokens of the lead-in, N = tokens of a block in one list.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
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
from thereafter.models.quiet import NeuralState
from thereafter.models.settings import NeuralSettings
from thereafter.text.encoded import IdArray
from thereafter.training.blocks import Blocks, Plan, TextBatch, TextEpochs, lines, plans, stream
from thereafter.training.control import Counters, perplexity
from thereafter.training.fit import MOST_PLACES, choose_rows, fit
from thereafter.training.kinds import NEURAL_KIND, About, TrainingJob
from thereafter.training.learner import Course, Loss
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
        model, sizes = complete_model(self.name, given, about)
        device = device_for(training.device)
        precision = precision_for(training.precision, device)
        searched = training.batch == AUTO
        usual = replace(training, batch=None) if searched else training
        chosen, rest = complete_training(self.name, model, usual, about, device, precision)
        if (chosen.batching == "lines") != (about.context == "line"):
            raise OptionError(
                f"batching is {chosen.batching!r} and context is {about.context!r}; lines go with the context 'line', "
                "stream and partition with 'stream'; try leaving one of the two out"
            )
        notes = []
        if searched:
            rows, note = self._largest_batch(model, chosen, about)
            usual, notes = replace(training, batch=rows), [note]
            chosen, rest = complete_training(self.name, model, usual, about, device, precision)
        choices = f"for {about.tokens:,} {about.tokenizer} tokens: " + ", ".join(sizes + rest)
        return model, chosen, [choices, *notes] if sizes + rest else notes

    def _largest_batch(self, model: NeuralSettings, chosen: TrainingSettings, about: About) -> tuple[int, str]:
        """The most rows that fit into the memory of a GPU, elsewhere the default, and the note on it."""
        steps, lines = chosen.steps or 1, chosen.batching == "lines"
        most = most_rows(chosen.batching or "", steps, about)
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
            epochs = TextEpochs(
                blocks,
                plans(job.ids, job.training, job.tokenizer.line_end_id),
                job.training.steps if job.training.jitter else None,
            )
            heldout = Validation(job.valid, model, device)
            return model, Course(TextLearner(model), epochs, heldout, self.arrays(model)[1], model.weights_by_layer())

        def last_line(model: NeuralModel, at: Counters) -> Table:
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


@dataclass(frozen=True)
class Tier:
    """Sizes that suit texts of up to so many tokens."""

    tokens: float
    hidden: int
    layers: int
    blocks: int
    """A Transformer's layers."""
    span: int
    """A Transformer's context."""
    batch: int
    rate: float


TIERS = (
    Tier(5_000, 48, 1, 2, 32, 4, 1e-2),
    Tier(50_000, 96, 1, 2, 64, 8, 6e-3),
    Tier(500_000, 192, 1, 3, 128, 16, 4e-3),
    Tier(20_000_000, 256, 1, 4, 256, 20, 3e-3),
    Tier(math.inf, 512, 2, 6, 256, 64, 2e-3),
)

_TOKENS_ON = {"cpu": 10_000_000, "cuda": 100_000_000}  # trained on in all, where no budget is given
_EPOCHS = 30  # at most
_LONGEST_LINE = 512
_VALIDATIONS = 25
_VALIDATE_AFTER = 8  # training sees so many times the validation text between two validations: some 4 % of the time
_VALIDATE_STEPS = 2000
_SINGLE_CHARACTERS = ("char", "byte")  # tokenizers with a few dozen or hundred forms
_OPEN = (None, "auto")  # settings that are chosen here


def tier_of(tokens: int) -> Tier:
    """The sizes that suit a text."""
    return next(tier for tier in TIERS if tokens <= tier.tokens)


def complete_model(name: str, given: Table, about: About) -> tuple[NeuralSettings, list[str]]:
    """The model's settings: given ones as they are, sizes by the text, the rest by the kind of model."""
    kind = settings_of(name)
    own = {field.name: field.default for field in fields(kind)}
    chosen = {key: value for key, value in _sizes(name, given, about).items() if key in own and key not in given}
    settings = toml.build(kind, {**chosen, **given}, name).complete(about.vocabulary)
    notes = [f"{key} {_spell(value)}" for key, value in chosen.items() if value != own[key]]
    return settings, notes


def _sizes(name: str, given: Table, about: About) -> Table:
    tier = tier_of(about.tokens)
    if name == "awd-lstm":
        return _awd_sizes(given, tier)
    if name == "transformer":
        return {"hidden": tier.hidden // 4 * 4, "layers": tier.blocks, "context": tier.span}
    if name in ("average", "window"):
        return {"embed": min(tier.hidden, 256 if name == "average" else 64), "hidden": tier.hidden}
    sizes: Table = {"hidden": tier.hidden, "layers": tier.layers}
    if about.tokenizer in _SINGLE_CHARACTERS and tier.hidden >= 256:
        # A few dozen forms need no long vectors, and what the head saves can be spent on the layer. Two layers leave
        # the plateau of character frequencies much later than one, of whatever size.
        sizes |= {"hidden": 2 * tier.hidden, "layers": 1, "embed": 64, "tied": False, "dropout": 0.1}
    return sizes


def _awd_sizes(given: Table, tier: Tier) -> Table:
    """The paper's sizes for texts such as the paper's; `sizes` follows `hidden`, `layers` and `embed` where given."""
    if "sizes" in given:
        return {}
    small = tier.layers == 1
    hidden = int(given.get("hidden", 2 * tier.hidden if small else 1150))
    embed = int(given.get("embed") or min(hidden, tier.hidden if small else 400))
    layers = int(given.get("layers", 3))
    return {"sizes": (hidden,) * (layers - 1) + (embed,), "embed": embed}


def complete_training(
    name: str, model: NeuralSettings, given: TrainingSettings, about: About, device: str, precision: str
) -> tuple[TrainingSettings, list[str]]:
    """The training's settings with every choice made, and the choices in words, such as "batch 16"."""
    tier = tier_of(about.tokens)
    awd = name == "awd-lstm"
    optimizer = given.optimizer or ("nt-asgd" if awd else "adamw")
    # a Transformer's state is all it has read: fresh pieces cost it less than a carried past
    whole = "partition" if name == "transformer" else "stream"
    batching = given.batching or ("lines" if about.context == "line" else whole)
    steps = given.steps or _steps(name, model, batching, about)
    few = 20 if awd else 16 if about.tokenizer in _SINGLE_CHARACTERS and KINDS[name].recurrent else tier.batch
    batch = given.rows if given.batch else min(few, most_rows(batching, steps, about))
    plain_sgd = optimizer in ("sgd", "nt-asgd")
    rate = {"sgd": 20.0, "nt-asgd": 30.0}.get(optimizer, _adam_rate(name, model, tier))
    schedule = given.schedule or {"sgd": "plateau", "nt-asgd": "constant"}.get(optimizer, "cosine")
    chosen = given.completed(
        device,
        precision,
        batching=batching,
        steps=steps,
        batch=batch,
        jitter=awd and batching == "stream",
        optimizer=optimizer,
        rate=rate,
        weight_decay=1.2e-6 if plain_sgd else 0.01,
        clip=0.25 if plain_sgd else 1.0,
        schedule=schedule,
        warmup={"cosine": 0.05, "one-cycle": 0.3}.get(schedule, 0.0),
        patience=0 if schedule in ("cosine", "one-cycle") else 10,
    )
    if (given.epochs, given.tokens_budget, given.minutes) == (None, None, None):
        chosen = replace(chosen, epochs=float(min(_EPOCHS, max(1, round(_TOKENS_ON[device] / about.tokens)))))
    chosen = replace(chosen, validate_every=given.validate_every or _validate_every(chosen, about))
    names = ("batching", "batch", "steps", "optimizer", "rate", "schedule", "epochs", "device", "precision")
    before, after = asdict(given), asdict(chosen)
    return chosen, [
        f"{name} {_spell(after[name])}" for name in names if after[name] is not None and before[name] in _OPEN
    ]


def most_rows(batching: str, steps: int, about: About) -> int:
    """The most rows of a batch that a text of this length gives."""
    return max(1, about.tokens // (2 * steps) if batching != "lines" else about.tokens // 8)


def _steps(name: str, model: NeuralSettings, batching: str, about: About) -> int:
    if batching == "lines":
        return max(1, min(about.longest_line, _LONGEST_LINE))
    if name == "awd-lstm" and about.tokens > 50_000:
        return 70
    small = 16 if about.tokens <= 5_000 else 32 if about.tokens <= 50_000 else 0
    span = model.attends_to or small or (64 if about.tokenizer in _SINGLE_CHARACTERS else 35)
    return max(1, min(span, about.tokens))


def _adam_rate(name: str, model: NeuralSettings, tier: Tier) -> float:
    """Wide layers and attention want smaller steps; an LSTM, whose gates begin half shut, larger ones.

    With the steps of a GRU an LSTM of 256 units stays at chance in four of five trainings on sentences whose verb
    agrees with a distant subject; with twice as large ones it never does (docs/claims.md).
    """
    rate = min(tier.rate, 3e-3 * (256 / model.widest) ** 0.75)
    return float(f"{rate * KINDS[name].adam_rate:.1g}")


def _validate_every(chosen: TrainingSettings, about: About) -> int:
    """Once an epoch; more often in long ones, less often in many short ones, and never so that it takes the time."""
    rows, steps = chosen.rows, chosen.steps or 1
    block = min(about.tokens, rows * (max(1.0, about.longest_line / 2) if chosen.batching == "lines" else steps))
    epoch = about.tokens / block
    budgets = [chosen.epochs and chosen.epochs * epoch, chosen.tokens_budget and chosen.tokens_budget / block]
    total = min((steps for steps in budgets if steps), default=math.inf)
    every = min(epoch, total / 5, _VALIDATE_STEPS)
    if total < math.inf:
        every = max(every, total / _VALIDATIONS)
    return max(1, math.ceil(max(every, _VALIDATE_AFTER * about.valid / block)))


def _spell(value: object) -> str:
    """A value as a note says it: sizes with commas, floats in their shortest form."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
