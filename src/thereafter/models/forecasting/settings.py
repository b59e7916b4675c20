"""The options of a forecaster."""

from __future__ import annotations

from dataclasses import dataclass

from thereafter.errors import OptionError
from thereafter.kinds import KINDS
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
    """What is forecast, and by what.

    Columns, as in `series.table.ColumnChoice`: `target`, `time`, `series`, `past`, `known`, names with commas between
    them; `calendar` adds the hour, the day of the week and the like as covariates that are known ahead. `split`: the
    parts of the rows by time, "70/10/20" or numbers of rows; empty: the last tenth validates. `stride`: rows between
    the windows that are learned from.

    `model`: one of `models()`. `horizon`: steps that are forecast together; `lookback`: rows that are read for it (0:
    chosen from the horizon and the season). `season`: rows of one season (0: chosen by the frequency). `strategy`:
    "direct" gives all steps at once, "recursive" one step at a time, fed with its own predictions.
    `head`: what is learned: "squared", "absolute", "huber" (points), "gaussian", "student-t", "negative-binomial"
    (counts), "quantile". `norm`: what a window is relative to: "none", its "last" value, or "standard": its last value
    and its own spread. `order`: the order of an autoregression (0: by AIC, up to `lookback`); `ridge`: added to the
    squares of a least-squares fit, as a share of the variance of the inputs.

    Networks: `hidden` units, `layers`, `heads` of a Transformer, `dropout` on what the head sees. `segment`: rows that
    are read in one step; `skip`: a linear map from the window beside the network (Lai et al. 2018).
    """

    target: str = ""
    time: str = ""
    series: str = ""
    past: str = ""
    known: str = ""
    calendar: bool = False
    split: str = ""
    stride: int = 1
    model: str = "gru"
    horizon: int = 24
    lookback: int = 0
    season: int = 0
    strategy: str = ""
    head: str = "gaussian"
    norm: str = ""
    order: int = 0
    ridge: float = 0.01
    hidden: int = 64
    layers: int = 1
    heads: int = 4
    dropout: float = 0.0
    segment: int = 0
    skip: bool = False

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
        if self.ridge < 0:
            raise OptionError(f"ridge is {self.ridge}; expected 0 or more")
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
