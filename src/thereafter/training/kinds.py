"""The kinds of model that can be trained, by name, and what each must know how to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from numpy.typing import NDArray

from thereafter.models.base import SequenceModel
from thereafter.registry import Registry
from thereafter.text.sources import Source
from thereafter.text.tokenizers.base import Tokenizer

MODELS = Registry("model", {"ngram": "thereafter.training.ngram:NGRAM"})


@dataclass
class Trained:
    """A model with all that is saved beside it: its tokenizer, its configuration, what happened in training."""

    model: SequenceModel[Any]
    tokenizer: Tokenizer
    config: dict[str, Any]
    log: list[dict[str, Any]] = field(default_factory=list)

    @property
    def context(self) -> str:
        """`line` where every line starts afresh, else `stream`."""
        return str(self.config["text"]["context"])


class ModelKind(Protocol):
    """One row of the table of models."""

    settings: type[Any]
    """A dataclass with the settings of this kind and their defaults."""

    def train(self, source: Source, tokenizer: Tokenizer, ids: NDArray[Any], context: str, settings: Any) -> Any:
        """Train on encoded text; returns the model and fills nothing in."""

    def describe(self, model: Any) -> dict[str, Any]:
        """Figures worth a line in the log and in a summary."""

    def arrays(self, model: Any) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
        """The weights by name, and small facts beside them."""

    def restore(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, str], config: Mapping[str, Any]) -> Any:
        """The model again from what `arrays` gave."""
