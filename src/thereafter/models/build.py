"""The neural models by name: their settings, and the model itself with fresh weights.

Importing this file imports no torch: settings can be looked at, checked and completed without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from thereafter.errors import OptionError
from thereafter.models import settings as kinds
from thereafter.registry import Registry

if TYPE_CHECKING:
    from thereafter.models.neural import NeuralModel

NEURAL = Registry(
    "neural model",
    {
        "average": "thereafter.models.average:AverageModel",
        "window": "thereafter.models.window:WindowModel",
        "rnn": "thereafter.models.recurrent:RnnModel",
        "gru": "thereafter.models.recurrent:GruModel",
        "lstm": "thereafter.models.recurrent:LstmModel",
        "awd-lstm": "thereafter.models.recurrent:LstmModel",
        "mingru": "thereafter.models.recurrent:MinGruModel",
        "minlstm": "thereafter.models.recurrent:MinLstmModel",
        "transformer": "thereafter.models.transformer:TransformerModel",
    },
)

SETTINGS: dict[str, type[kinds.NeuralSettings]] = {
    "average": kinds.AverageSettings,
    "window": kinds.WindowSettings,
    "rnn": kinds.RnnSettings,
    "gru": kinds.GruSettings,
    "lstm": kinds.LstmSettings,
    "awd-lstm": kinds.AwdLstmSettings,
    "mingru": kinds.MinGruSettings,
    "minlstm": kinds.MinLstmSettings,
    "transformer": kinds.TransformerSettings,
}


def build(
    name: str,
    settings: kinds.NeuralSettings | None = None,
    *,
    vocabulary_size: int,
    context: str = "stream",
    line_end: int | None = None,
    counts: Sequence[int] | None = None,
) -> NeuralModel:
    """A model with fresh weights, drawn from torch's global generator, in training mode.

    `settings` are of the type `SETTINGS[name]` (None: its defaults); the model keeps them completed as `.settings`.
    `counts`: how often each token was seen; an adaptive head sorts the words by them, and takes ids as ranks without.
    """
    made: type[NeuralModel] = NEURAL.load(name)  # raises, with the nearest names
    settings = SETTINGS[name]() if settings is None else settings
    if not isinstance(settings, SETTINGS[name]):
        raise OptionError(
            f"settings of the model {name!r} are {type(settings).__name__}; expected {SETTINGS[name].__name__}"
        )
    return made(
        settings.complete(vocabulary_size),
        vocabulary_size=vocabulary_size,
        context=context,
        line_end=line_end,
        counts=counts,
    )
