"""thereafter: a workbench for sequence models, from counted n-grams to Transformers.

    import thereafter
    lm = thereafter.train("book.txt", model="ngram", order=5)
    lm.score("other.txt"); lm.next("the cat sat on the"); lm.generate("the cat", seed=1)

Nothing heavy is imported before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from thereafter.base.spinning import spin_briefly
from thereafter.base.version import __version__ as __version__

spin_briefly()

if TYPE_CHECKING:
    from thereafter import figures as figures
    from thereafter import instruments as instruments
    from thereafter import nn as nn
    from thereafter.api import LanguageModel as LanguageModel
    from thereafter.api import compare as compare
    from thereafter.api import load as load
    from thereafter.api import mixture as mixture
    from thereafter.api import read_arpa as read_arpa
    from thereafter.api import resume as resume
    from thereafter.api import surprisal as surprisal
    from thereafter.api import train as train
    from thereafter.comparing.compare import Comparison as Comparison
    from thereafter.decoding.generation import Generated as Generated
    from thereafter.errors import ThereafterError as ThereafterError
    from thereafter.evaluation.scores import Score as Score
    from thereafter.inspection.measurement import Measurement as Measurement
    from thereafter.inspection.surprisal import Surprisals as Surprisals
    from thereafter.inspection.trace import Trace as Trace
    from thereafter.models.build import register as register
    from thereafter.task_model import TaskModel as TaskModel
    from thereafter.task_model import backtest as backtest
    from thereafter.training.logs import logging_to as logging_to
    from thereafter.training.watching import watching as watching


_DOOR = {
    "train": "thereafter.api",
    "load": "thereafter.api",
    "read_arpa": "thereafter.api",
    "mixture": "thereafter.api",
    "register": "thereafter.models.build",
    "resume": "thereafter.api",
    "compare": "thereafter.api",
    "surprisal": "thereafter.api",
    "TaskModel": "thereafter.task_model",
    "backtest": "thereafter.task_model",
    "LanguageModel": "thereafter.api",
    "Comparison": "thereafter.comparing.compare",
    "Generated": "thereafter.decoding.generation",
    "Score": "thereafter.evaluation.scores",
    "Surprisals": "thereafter.inspection.surprisal",
    "Measurement": "thereafter.inspection.measurement",
    "Trace": "thereafter.inspection.trace",
    "ThereafterError": "thereafter.errors",
    "logging_to": "thereafter.training.logs",
    "watching": "thereafter.training.watching",
}

__all__ = [
    "Comparison",
    "Generated",
    "LanguageModel",
    "Measurement",
    "Score",
    "Surprisals",
    "TaskModel",
    "ThereafterError",
    "Trace",
    "__version__",
    "backtest",
    "compare",
    "figures",
    "instruments",
    "load",
    "logging_to",
    "mixture",
    "nn",
    "read_arpa",
    "register",
    "resume",
    "surprisal",
    "train",
    "watching",
]


def __getattr__(name: str) -> object:
    if name in ("figures", "instruments", "nn"):
        return import_module(f"thereafter.{name}")
    if name not in _DOOR:
        raise AttributeError(f"module 'thereafter' has no attribute {name!r}")
    return getattr(import_module(_DOOR[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
