"""The kinds of language model by name, what each must know how to do, their options, and a trained one as a run folder.

An option may be spelled in full, `lstm.hidden` or `training.clip`, as the tables of `config.toml` are; a plain name
goes where it is known. One that belongs to other models only is refused, and the error names them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from thereafter.base import config as toml
from thereafter.base.config import Table
from thereafter.base.kinds import KindTable
from thereafter.base.tabular import facts_html
from thereafter.errors import FormatError, MissingPackageError, OptionError, nearest
from thereafter.models.any_model import AnyModel
from thereafter.runs import folder as files
from thereafter.runs import writer
from thereafter.runs.folder import Line
from thereafter.runs.narrow import check_dtype
from thereafter.runs.writer import Destination
from thereafter.text.encoded import IdArray
from thereafter.text.sources import Texts
from thereafter.text.tokenizers import load_tokenizer
from thereafter.text.tokenizers.base import Tokenizer
from thereafter.training.settings import TextSettings, TrainingSettings

NEURAL_KIND = "kind "
"""Before the name of a kind: no attribute of `training.neural` is called so."""
MODELS = KindTable("model", lambda kind: kind.training or f"thereafter.training.neural:{NEURAL_KIND}{kind.name}")


@dataclass
class Trained:
    """A model with all that is saved beside it: its tokenizer, its configuration, what happened in training."""

    model: AnyModel
    tokenizer: Tokenizer
    config: Table
    log: list[Table] = field(default_factory=list)
    texts: Texts | None = None
    """What it was trained and validated on, where that is still at hand."""

    members: tuple[Trained, ...] = ()
    """Of a mixture: what it is made of."""

    @property
    def context(self) -> str:
        """`line` where every line starts afresh, else `stream`."""
        return str(self.config["text"]["context"])


@dataclass
class TrainingJob:
    """All that a model of any kind is trained from.

    `place` is where it writes to, and where it goes on. `figures` stand in the last line of the log whatever the kind.
    `valid` are the ids of the validation text, empty for a kind that is not trained in steps.
    """

    tokenizer: Tokenizer
    ids: IdArray
    context: str
    settings: object
    training: TrainingSettings
    place: Destination
    figures: Table
    valid: IdArray


@dataclass(frozen=True)
class About:
    """What defaults are chosen by: how much text there is, of what, and on what machine."""

    tokens: int
    valid: int
    vocabulary: int
    tokenizer: str
    context: str
    longest_line: int = 0


class ModelKind(Protocol):
    """One row of the table of models."""

    settings: type[object]
    """A dataclass with the settings of this kind and their defaults."""

    trained_in_steps: bool
    """Whether it is trained step by step: then it takes `TrainingSettings`, needs a validation text, can be resumed."""

    def complete(
        self, given: Table, training: TrainingSettings, about: About
    ) -> tuple[object, TrainingSettings, list[str]]:
        """Settings from what the user gave, every choice made, and sentences that say what was chosen."""

    def train(self, job: TrainingJob) -> AnyModel:
        """Train on encoded text; returns the model."""

    def describe(self, model: AnyModel) -> Table:
        """Figures worth a line in the log and in a summary."""

    def arrays(self, model: AnyModel) -> tuple[dict[str, NDArray[np.generic]], dict[str, str]]:
        """The weights by name, and small facts beside them."""

    def restore(self, arrays: Mapping[str, NDArray[np.generic]], facts: Mapping[str, str], config: Table) -> AnyModel:
        """The model again from what `arrays` gave."""


@dataclass
class Sorted:
    """Options by the table they belong to."""

    text: Table = field(default_factory=dict)
    model: Table = field(default_factory=dict)
    training: Table = field(default_factory=dict)

    def full_names(self, model: str) -> Table:
        """All options under their full names, for a model of this name: `hidden` of an LSTM as `lstm.hidden`."""
        tables = {"text": self.text, model: self.model, "training": self.training}
        return {f"{table}.{name}": value for table, values in tables.items() for name, value in values.items()}


def sort_options(model: str, options: Table) -> Sorted:
    """Sort options for a model of this name; OptionError for one that nothing here answers to.

    >>> sort_options("ngram", {"order": 3, "text.lower": True})
    Sorted(text={'lower': True}, model={'order': 3}, training={})
    """
    kind: ModelKind = MODELS.load(model)
    own = toml.field_names(kind.settings)
    text = toml.field_names(TextSettings)
    training = toml.field_names(TrainingSettings) if kind.trained_in_steps else {"seed"}
    tables = {"text": text, model: own, "training": training}

    def refuse(spelled: str) -> OptionError:
        table, _, name = spelled.rpartition(".")
        if table and table not in tables:
            of_model = f"; the model trained here is {model!r}" if table in MODELS else ""
            return OptionError(
                f"the option {spelled!r} is in the table {table!r}; expected {', '.join(tables)}"
                + (of_model or f"; {nearest(table, list(tables))}")
            )
        others = sorted(other for other in MODELS if other != model and name in _options_of(other))
        have = f"{', '.join(others)} {'have' if len(others) > 1 else 'has'} it"
        remedy = f"{have}; try model={others[0]!r}, or leave it out" if others else ""
        known = sorted(text | own | training)
        return OptionError(f"the model {model!r} has no option {name!r}; {remedy or nearest(name, known)}")

    chosen = sort_into_tables(options, {model: own, "training": training, "text": text}, refuse)
    return Sorted(chosen["text"], chosen[model], chosen["training"])


def sort_into_tables(
    options: Table, tables: Mapping[str, Collection[str]], refuse: Callable[[str], OptionError]
) -> dict[str, Table]:
    """Options by the table they belong to, from the names that each table has; the first of them takes a plain name.

    `refuse(spelled)` is the error for an option that stands in none.
    """
    chosen: dict[str, Table] = {table: {} for table in tables}
    for spelled, value in options.items():
        table, _, name = spelled.rpartition(".")
        candidates = [table] if table else list(tables)
        if isinstance(value, str):  # "context" alone is the text's line or stream, unless it is a number
            candidates.sort(key=lambda candidate: candidate != "text")
        place = next((candidate for candidate in candidates if name in tables.get(candidate, ())), None)
        if place is None:
            raise refuse(spelled)
        chosen[place][name] = value
    return chosen


def _options_of(model: str) -> set[str]:
    try:
        kind: ModelKind = MODELS.load(model)
    except (ModuleNotFoundError, MissingPackageError):  # torch is not here, and nobody asked for such a model
        return set()
    return toml.field_names(kind.settings) | (toml.field_names(TrainingSettings) if kind.trained_in_steps else set())


_TEXT = {"tokens": str, "context": str, "lower": bool, "letters_only": bool}


def save_trained(trained: Trained, folder: Path, dtype: str = "float32") -> Path:
    """Write a model as a run, in the place of one that is there already; `dtype` as in `runs/narrow.py`."""
    files.check_free(folder)
    name = trained.config["model"]
    kind: ModelKind = MODELS.load(name)
    check_dtype(dtype)
    if dtype != "float32" and not kind.trained_in_steps:
        raise OptionError(
            f"dtype is {dtype!r}, and the model {name!r} counts: it has tables of log probabilities and no weights to "
            "round; expected 'float32'; try leaving dtype out, or cutoffs when training"
        )
    arrays, facts = kind.arrays(trained.model)
    return writer.save(folder, trained.config, trained.tokenizer.save, arrays, facts, trained.log, dtype)


def load_trained(folder: Path) -> Trained:
    """Read a run back; n-gram tables are mapped, not copied."""
    config, log = read_config(folder)
    arrays, facts = writer.read_weights(folder, config)
    kind: ModelKind = MODELS.load(config["model"])
    tokenizer = load_tokenizer(folder / files.TOKENIZER)
    model = kind.restore(arrays, facts, config)
    if model.vocabulary_size != len(tokenizer.vocabulary):
        raise FormatError(
            f"the run {folder} mixes a model of {model.vocabulary_size:,} words with a tokenizer of "
            f"{len(tokenizer.vocabulary):,}; try training again"
        )
    return Trained(model, tokenizer, config, log)


def read_config(folder: Path) -> tuple[Table, list[Line]]:
    """The configuration and the log of a language model's run, checked."""
    config, log = files.read_config(folder)
    if "task" in config:
        raise FormatError(
            f"{folder} holds the task {config['task']!r}; expected a language model; try: thereafter predict {folder}"
        )
    model = config["model"]
    if model not in MODELS:
        raise FormatError(
            f"{folder / files.CONFIG}: no model is called {model!r}; {nearest(model, list(MODELS))}. If it is a cell "
            "of your own, register its class in this process first: thereafter.register(MyCell)"
        )
    files.check_tables(config, folder, {"source": ("name",), "text": tuple(_TEXT), model: ()})
    for name, kind in _TEXT.items():
        if not isinstance(config["text"][name], kind):
            raise FormatError(
                f"{folder / files.CONFIG}: {name} of [text] is {str(config['text'][name])[:80]!r}; expected a "
                f"{kind.__name__}; try training again"
            )
    if not isinstance(config["source"]["name"], str):
        raise FormatError(f"{folder / files.CONFIG}: name of [source] is no text; expected one; try training again")
    return config, log


class RunView(ABC):
    """What a trained language model and a trained task show alike: the configuration and the log of their run."""

    def __init__(self, config: Table, log: list[Table], *, as_written: bool) -> None:
        self.config = config
        """The complete configuration of the run."""
        self.log = log
        """The training log, one entry for each event."""
        self.as_written = as_written
        """Whether texts are read as they are, even where the training text was written in another way."""

    @abstractmethod
    def summary(self) -> Table:
        """Figures of what was trained: kind, settings, source, results of training."""

    def results(self) -> Table:
        """What the log says beside the figures of single steps and validations."""
        facts: Table = {}
        for line in self.log:
            if line.get("event") not in ("step", "validation", "guard", "resumed"):
                facts |= {name: value for name, value in line.items() if name != "event"}
        return facts

    def _repr_html_(self) -> str:
        """In a notebook: what it is and was trained on."""
        return facts_html(self.summary(), repr(self))
