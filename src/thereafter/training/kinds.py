"""The kinds of model that can be trained, by name, and what each must know how to do."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from thereafter.base.config import Table
from thereafter.base.kinds import KindTable
from thereafter.models.any_model import AnyModel
from thereafter.runs.journal import Journal
from thereafter.text.chunks import IdArray
from thereafter.text.sources import Texts
from thereafter.text.tokenizers.base import Tokenizer
from thereafter.training.settings import TrainingSettings

if TYPE_CHECKING:
    from thereafter.runs.checkpoint import Snapshot
    from thereafter.runs.writer import RunWriter

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

    `valid` are the ids of the validation text, `run` is where the training is saved as it goes, `snapshot` is where it
    goes on; each None where there is none. `figures` stand in the last line of the log whatever the kind. `initial`:
    the weights of a run that the training begins with, empty where it begins with fresh ones.
    """

    tokenizer: Tokenizer
    ids: IdArray
    context: str
    settings: object
    training: TrainingSettings
    journal: Journal
    figures: Table
    valid: IdArray | None = None
    run: RunWriter | None = None
    snapshot: Snapshot | None = None
    initial: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)
    began: float = field(default_factory=time.perf_counter)

    def done(self, figures: Table) -> None:
        """Write the last line of the log."""
        seconds = {"seconds_training": round(time.perf_counter() - self.began, 3)}
        self.journal.write({"event": "trained", **self.figures, **seconds, **figures})


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
