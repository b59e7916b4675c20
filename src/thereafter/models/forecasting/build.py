"""The forecaster that the settings name."""

from __future__ import annotations

from thereafter.errors import OptionError
from thereafter.models.forecasting.autoregression import Autoregression
from thereafter.models.forecasting.forecaster import Forecaster, WindowFacts
from thereafter.models.forecasting.linear import Linear
from thereafter.models.forecasting.network import ForecastNetwork
from thereafter.models.forecasting.settings import COUNTS, SIMPLE, ForecastSettings
from thereafter.models.forecasting.simple import Simple


def build(settings: ForecastSettings, facts: WindowFacts) -> Forecaster:
    """A forecaster with fresh weights."""
    if settings.model in SIMPLE:
        return Simple(settings, facts)
    if settings.model == "ar":
        return Autoregression(settings, facts)
    if settings.model == "linear":
        return Linear(settings, facts)
    return ForecastNetwork(settings, facts, norm=_norm(settings), segment=_segment(settings, facts))


def _norm(settings: ForecastSettings) -> str:
    if settings.head == COUNTS:
        if settings.norm not in ("", "none"):
            raise OptionError(
                f"norm is {settings.norm!r} and the head {COUNTS!r}, whose counts are not shifted; try leaving norm out"
            )
        if settings.skip:
            raise OptionError(f"skip is on and the head is {COUNTS!r}, whose counts are not shifted; try skip=false")
        return "mean"
    return settings.norm or "standard"


def _segment(settings: ForecastSettings, facts: WindowFacts) -> int:
    """A season at a step where nothing else is asked for: fewer steps to learn over, and a day looks like a day."""
    if settings.recursive or settings.model == "window":
        if settings.segment > 1:
            why = "one row at a time" if settings.recursive else "all rows at once"
            raise OptionError(f"segment is {settings.segment}, and this forecaster reads {why}; try segment=1")
        return 1
    if settings.segment:
        return settings.segment
    return facts.season if facts.season > 1 and facts.lookback % facts.season == 0 else 1
