"""The options of a forecaster."""

from __future__ import annotations

import math
from dataclasses import dataclass

from thereafter.base.kinds import KINDS
from thereafter.errors import OptionError
from thereafter.models.settings import check_choice, check_share, check_size

SIMPLE = ("naive", "seasonal-naive", "drift")
"""Forecasters without weights: what every other one has to beat."""
SOLVED = ("ar", "linear")
"""Forecasters that least squares solves at once."""
STRATEGIES = ("direct", "recursive")
NORMS = ("none", "last", "standard")
_LEFT_OUT = ("drift", "mingru", "minlstm", "diagonal")
COUNTS = "negative-binomial"
"""The head over counts: its series are not standardised."""


def cells() -> dict[str, str]:
    """The recurrent forecasters, each with the name of its cell."""
    return {name: kind.cell_name for name, kind in KINDS.items() if kind.cell and kind.compared} | {
        "minlstm": "minlstm",
        "diagonal": "diagonal",
    }


def models() -> tuple[str, ...]:
    """All kinds of forecaster, the simplest first."""
    return (*SIMPLE, *SOLVED, "window", *cells(), "transformer")


def compared_models() -> tuple[str, ...]:
    """Those that are compared where none are named: of cells that are trained alike the best known ones."""
    return tuple(name for name in models() if name not in _LEFT_OUT)


@dataclass(frozen=True)
class ForecastSettings:
    """What is forecast, and by what. Columns are chosen as in `series.table.ColumnChoice`."""

    target: str = ""
    """The column to forecast; several, separated by commas."""
    time: str = ""
    """The column of the time stamps; row: rows are counted. Default: found in the table."""
    series: str = ""
    """The column that names the series, for a table with many of them."""
    past: str = ""
    """Columns that are known only up to now, read with the target.

    Several are separated by commas."""
    known: str = ""
    """Columns that are known ahead, such as holidays or prices.

    Several are separated by commas."""
    calendar: bool = False
    """Read the hour, the day of the week and the like of each row.

    They are columns that are known ahead."""
    split: str = ""
    """The parts of the rows by time: "70/10/20", or numbers of rows. Default: the last tenth tests, the tenth
    before it validates."""
    stride: int = 1
    """Rows between two windows that are learned from."""
    model: str = "gru"
    """The kind of forecaster: `models()`."""
    horizon: int = 24
    """Steps that are forecast (default 24)."""
    lookback: int = 0
    """Rows that a forecast reads. Default: chosen from season and horizon.

    0: it is chosen."""
    season: int = 0
    """Rows of one season (0: chosen by the frequency)."""
    strategy: str = ""
    """All steps at once (direct), or one step at a time, fed with its own predictions (recursive). Default: direct;
    recursive for ar."""
    head: str = "gaussian"
    """What is learned: points ("squared", "absolute", "huber"), a distribution ("gaussian", "student-t",
    "negative-binomial" for counts) or quantiles ("quantile")."""
    norm: str = ""
    """What a window is relative to: nothing (none), its last value (last), or its last value and its own spread
    (standard). Default: what suits the model."""
    order: int = 0
    """The order of an autoregression (0: chosen by AIC, up to `lookback`)."""
    ridge: float = 0.01
    """What is added to the squares of a least-squares fit, as a share of the variance of the inputs."""
    hidden: int = 64
    """Units a layer of a network."""
    layers: int = 1
    """Layers of a network."""
    heads: int = 4
    """Attention heads of a Transformer."""
    dropout: float = 0.0
    """The share of what the head of a network sees that is dropped while training."""
    segment: int = 0
    """Rows that a network reads in one step (0: chosen)."""
    skip: bool = False
    """Whether a linear map from the window stands beside the network (Lai et al. 2018)."""

    def __post_init__(self) -> None:
        check_choice("model", self.model, models())
        if self.strategy:
            check_choice("strategy", self.strategy, STRATEGIES)
        if self.norm:
            check_choice("norm", self.norm, NORMS)
        for name in ("stride", "horizon", "hidden", "layers", "heads"):
            check_size(name, vars(self)[name])
        for name in ("lookback", "season", "order", "segment"):
            if vars(self)[name] < 0:
                raise OptionError(f"{name} is {vars(self)[name]}; expected 1 or more, or 0 to choose it")
        if not 0 <= self.ridge < math.inf:
            raise OptionError(f"ridge is {self.ridge}; expected a finite number, 0 or more; try 0.01")
        check_share("dropout", self.dropout)
        if self.model == "transformer" and self.hidden % self.heads:
            raise OptionError(f"hidden is {self.hidden}, which {self.heads} heads do not divide; try hidden=64")

    @property
    def trained_in_steps(self) -> bool:
        """Whether it is a network, trained by gradients."""
        return self.model not in (*SIMPLE, *SOLVED)

    @property
    def recursive(self) -> bool:
        """Whether one step is predicted at a time."""
        return self.strategy == "recursive" or (self.strategy == "" and self.model == "ar")
