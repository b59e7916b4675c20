"""The models of a comparison: their names, which options go to which of them, and sizes that match.

A name is `lstm`, `ngram-3`, `unigram` or `lstm:char`:

>>> Entry.parse("ngram-3:char", "word")
Entry(name='ngram-3:char', model='ngram', tokens='char', order=3)

Models of the same number of parameters, whatever their kind, have all widths scaled by one factor until the count fits.
n-grams are left as they are: their tables follow from the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from thereafter.base import config as toml
from thereafter.base.config import Table
from thereafter.base.kinds import KINDS
from thereafter.comparing.budget import SharedText
from thereafter.errors import OptionError, UnknownNameError
from thereafter.models.settings import NeuralSettings, TransformerSettings
from thereafter.text.encoded import encode_source
from thereafter.text.tokenizers import TOKENIZERS
from thereafter.training import protocol
from thereafter.training.kinds import MODELS, ModelKind, Sorted, sort_options
from thereafter.training.settings import TrainingSettings

ORDERS = {"unigram": 1, "bigram": 2, "trigram": 3}


def ladder() -> tuple[str, ...]:
    """The generations of language models, oldest first."""
    return ("unigram", *(name for name, kind in KINDS.items() if kind.compared))


@dataclass(frozen=True)
class Entry:
    """One model of a comparison: as it was named, its kind, its tokenizer, and the order of an n-gram."""

    name: str
    model: str
    tokens: str
    order: int | None = None

    @classmethod
    def parse(cls, spelled: str, tokens: str) -> Entry:
        """Read a name; `tokens` is the tokenizer where it names none."""
        name = spelled.strip()
        base, colon, asked = name.partition(":")
        if colon and asked not in TOKENIZERS:
            raise UnknownNameError("tokenizer", asked, TOKENIZERS)
        tokens = asked or tokens
        if base in ORDERS:
            return cls(name, "ngram", tokens, ORDERS[base])
        stem, _, order = base.rpartition("-")
        if stem == "ngram":
            if not order.isascii() or not order.isdigit() or not int(order):
                raise OptionError(f"the model {name!r} has no order that can be read; try ngram-3, 1 or more")
            return cls(name, "ngram", tokens, int(order))
        if base not in MODELS:
            raise UnknownNameError("model", base, [*MODELS, *ORDERS])
        return cls(name, base, tokens)

    @property
    def kind(self) -> ModelKind:
        kind: ModelKind = MODELS.load(self.model)
        return kind

    @property
    def stem(self) -> str:
        """What its files are called."""
        order = "" if self.order is None else f"-{self.order}"
        return f"{self.model}{order}-{self.tokens}"


def parse_entries(models: str | Iterable[str], tokens: str) -> list[Entry]:
    """Entries from names, or from one text with commas; the same model twice is taken once."""
    names = models.split(",") if isinstance(models, str) else [part for name in models for part in name.split(",")]
    entries = {entry.stem: entry for entry in reversed([Entry.parse(name, tokens) for name in names if name.strip()])}
    if not entries:
        raise OptionError(f"there are no models to compare; expected some of {', '.join([*ORDERS, *MODELS])}")
    return list(reversed(entries.values()))


def deal_options(entries: Sequence[Entry], options: Table) -> dict[str, Table]:
    """Options for each entry, by its stem, all spelled in full.

    `lstm.hidden` and `lstm.rate` go to the LSTMs, `training.rate` to all that are trained in steps, `text.min_count` to
    all, and a plain `hidden` to every model that has it. One that goes to none of them is refused. An option for
    one kind of model overrules the same one for all.
    """
    dealt: dict[str, Table] = {
        entry.stem: {} if entry.order is None else {"ngram.order": entry.order} for entry in entries
    }
    for name, value in sorted(options.items(), key=lambda option: option[0].rpartition(".")[0] in MODELS):
        table = name.rpartition(".")[0]
        taken, refused = False, None
        for entry in entries:
            others = table in MODELS and table != entry.model
            if others or (entry.order is not None and name in ("order", "ngram.order")):
                continue
            try:
                taken_as = _sort_option(entry.model, name, value)
            except OptionError as error:
                refused = refused or error
                continue
            dealt[entry.stem] |= taken_as.full_names(entry.model)
            taken = True
        if not taken:
            raise refused or OptionError(
                f"the option {name!r} is for no model that is compared ({', '.join(entry.name for entry in entries)}); "
                "leave it out"
            )
    return dealt


def _sort_option(model: str, name: str, value: object) -> Sorted:
    """Where an option belongs; in `lstm.rate` it is one of training, for LSTMs alone."""
    table, _, plain = name.rpartition(".")
    kind: ModelKind = MODELS.load(model)
    own = toml.field_names(kind.settings)
    if table == model and plain in toml.field_names(TrainingSettings) and plain not in own:
        name = f"training.{plain}"
    return sort_options(model, {name: value})


PARAMETERS = "parameters"
_REFERENCE = "lstm"
_LARGEST = 64.0  # the most a model is widened
_HALVINGS = 24


def read_match(match: str | int | None) -> str | int | None:
    """`parameters`, or a number of them: 2000000, or with k or M behind it."""
    if match is None or match == PARAMETERS:
        return match
    try:
        spelled = str(match).replace("_", "").replace(",", "")
        factor = {"k": 1_000, "m": 1_000_000}.get(spelled[-1:].lower(), 1)
        count = round(float(spelled[:-1] if factor > 1 else spelled) * factor)
    except (ValueError, OverflowError):
        count = 0
    if count < 1:
        raise OptionError(f"match is {match!r}; expected 'parameters', or how many; try match='parameters' or 2M")
    return count


def count_parameters(name: str, vocabulary_size: int, settings: NeuralSettings) -> int:
    """How many numbers such a model learns; the model is built without memory for its weights."""
    import torch

    from thereafter.models.build import build

    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        return build(name, settings, vocabulary_size=vocabulary_size).parameters_count()


def scale(settings: NeuralSettings, factor: float) -> NeuralSettings:
    """The same settings with all widths times a factor, rounded to what such a model can have."""
    unit = 2 * settings.heads if isinstance(settings, TransformerSettings) else 2

    def width(size: int) -> int:
        return max(1, round(size * factor / unit)) * unit

    wider: Table = {
        name: tuple(map(width, value)) if isinstance(value, tuple) else width(value)
        for name, value in settings.widths().items()
    }
    return replace(settings, **wider)


def match_settings(settings: NeuralSettings, target: int, count: Callable[[NeuralSettings], int]) -> NeuralSettings:
    """The settings scaled so that `count` comes as near to the target as it can."""
    counted: dict[NeuralSettings, int] = {}

    def at(factor: float) -> int:
        one = scale(settings, factor)
        if one not in counted:
            counted[one] = count(one)
        return counted[one]

    low, high = 0.0, 1.0
    while at(high) < target and high < _LARGEST:
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle) < target else (low, middle)
    at(low)
    return min(counted, key=lambda one: abs(counted[one] - target))


def reference(entries: Sequence[Entry]) -> str | None:
    """The stem of the model whose parameters the others are matched to: an LSTM if there is one, else the first."""
    neural = [entry.stem for entry in entries if entry.kind.trained_in_steps]
    return next((stem for stem in neural if stem.startswith(f"{_REFERENCE}-")), neural[0] if neural else None)


def match_entries(entries: Sequence[Entry], dealt: dict[str, Table], text: SharedText, match: str | int) -> list[str]:
    """Add to the options of all neural models those that give them as many parameters; returns a note about it."""
    neural = {entry.stem: entry for entry in entries if entry.kind.trained_in_steps}
    sizes = {stem: _sizes(entry, dealt[stem], text) for stem, entry in neural.items()}
    counts = {stem: partial(count_parameters, neural[stem].model, sizes[stem][1]) for stem in neural}
    matched_to = reference(entries)
    if isinstance(match, int):
        target = match
    elif matched_to is None:
        raise OptionError("match='parameters' is for neural models, and there is none to compare; leave it out")
    else:
        target = counts[matched_to](sizes[matched_to][0])
    sizes_reached = []
    for stem, entry in neural.items():
        one = match_settings(sizes[stem][0], target, counts[stem])
        dealt[stem] |= {f"{entry.model}.{name}": value for name, value in one.widths().items() if value}
        sizes_reached.append(f"{entry.name} {counts[stem](one):,}")
    return [f"matched to {target:,} parameters: " + ", ".join(sizes_reached)]


def _sizes(entry: Entry, options: Table, text: SharedText) -> tuple[NeuralSettings, int]:
    """The settings a model would have on a text, and its vocabulary."""
    from thereafter.training.neural import complete_model

    tables: dict[str, Table] = {"text": {}, entry.model: {}, "training": {}}
    for name, value in options.items():
        table, _, key = name.rpartition(".")
        tables[table][key] = value
    settings = replace(text.settings, **{**tables["text"], "tokens": entry.tokens})
    tokenizer, ids = protocol.tokenize(text.parts["train"], entry.tokens, settings)
    training = toml.build(TrainingSettings, tables["training"], "training")
    context = protocol.choose_context(entry.kind, tokenizer, text.texts, settings, training)
    valid = encode_source(tokenizer, text.parts["valid"])
    about = protocol.measure(entry.kind, tokenizer, ids, valid, context, text.texts.name)
    return complete_model(entry.model, tables[entry.model], about)[0], about.vocabulary
