"""Default settings, chosen by the size of the text: sizes, batches, learning rates and budgets.

    a tiny text trains in a second, a book in minutes, Penn Treebank in some ten minutes on two cores

Settings that the user gives stay as they are. The chosen ones are noted in a sentence and stand in `config.toml`.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields, replace

from thereafter.base import config as toml
from thereafter.base.config import Table
from thereafter.base.kinds import KINDS
from thereafter.models.build import settings_of
from thereafter.models.settings import NeuralSettings
from thereafter.training.kinds import About
from thereafter.training.settings import TrainingSettings


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
    block = _tokens_a_step(chosen, about)
    epoch = about.tokens / block
    budgets = [chosen.epochs and chosen.epochs * epoch, chosen.tokens_budget and chosen.tokens_budget / block]
    total = min((steps for steps in budgets if steps), default=math.inf)
    every = min(epoch, total / 5, _VALIDATE_STEPS)
    if total < math.inf:
        every = max(every, total / _VALIDATIONS)
    return max(1, math.ceil(max(every, _VALIDATE_AFTER * about.valid / block)))


def _tokens_a_step(chosen: TrainingSettings, about: About) -> float:
    rows = chosen.rows
    if chosen.batching == "lines":
        return min(about.tokens, rows * max(1.0, about.longest_line / 2))
    return float(min(about.tokens, rows * (chosen.steps or 1)))


def _spell(value: object) -> str:
    """A value as a note says it: sizes with commas, floats in their shortest form."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
