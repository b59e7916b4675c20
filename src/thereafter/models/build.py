"""The neural models by name: their settings, and the model itself with fresh weights.

Importing this file imports no torch: settings can be looked at, checked and completed without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from thereafter.base.kinds import KindTable
from thereafter.errors import OptionError
from thereafter.models.settings import NeuralSettings

if TYPE_CHECKING:
    from thereafter.models.neural import NeuralModel

NEURAL = KindTable("neural model", lambda kind: kind.model)
"""The classes."""
SETTINGS = KindTable("neural model", lambda kind: kind.settings)
"""The dataclasses of their options."""


def settings_of(name: str) -> type[NeuralSettings]:
    """The options of a kind of model, with their defaults."""
    settings: type[NeuralSettings] = SETTINGS.load(name)
    return settings


def build(
    name: str,
    settings: NeuralSettings | None = None,
    *,
    vocabulary_size: int,
    context: str = "stream",
    line_end: int | None = None,
    counts: Sequence[int] | None = None,
) -> NeuralModel:
    """A model with fresh weights, drawn from torch's global generator, in training mode.

    `settings` are of the type `settings_of(name)` (None: its defaults); the model keeps them completed as `.settings`.
    `counts`: how often each token was seen; an adaptive head sorts the words by them, and takes ids as ranks without.
    """
    made: type[NeuralModel] = NEURAL.load(name)  # raises, with the nearest names
    own = settings_of(name)
    settings = own() if settings is None else settings
    if not isinstance(settings, own):
        raise OptionError(f"settings of the model {name!r} are {type(settings).__name__}; expected {own.__name__}")
    return made(
        settings.complete(vocabulary_size),
        vocabulary_size=vocabulary_size,
        context=context,
        line_end=line_end,
        counts=counts,
    )
