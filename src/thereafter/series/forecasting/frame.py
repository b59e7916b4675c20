"""What is chosen from a table where the settings leave it open: the season, and how far a window reaches back."""

from __future__ import annotations

from dataclasses import dataclass

from thereafter.errors import EmptyCorpusError, OptionError
from thereafter.series.forecasters.settings import ForecastSettings
from thereafter.series.table import ColumnChoice, SeriesTable
from thereafter.series.times import Frequency
from thereafter.series.windows import WindowFrame, observed_ends, split_ends

_DAY, _WEEK = 86_400, 7 * 86_400
_SEASONS = 14  # that a window reaches back
_ROWS = 32  # that it reaches back at least, where there is no season


@dataclass(frozen=True)
class ChosenFrame:
    """A frame, and the sentences that say how it was chosen."""

    frame: WindowFrame
    notes: tuple[str, ...]


def columns_of(settings: ForecastSettings) -> ColumnChoice:
    """The columns that the settings name."""

    def names(text: str) -> tuple[str, ...]:
        return tuple(name.strip() for name in text.split(",") if name.strip())

    return ColumnChoice(
        settings.time, names(settings.target), settings.series, names(settings.past), names(settings.known)
    )


def natural_season(frequency: Frequency) -> int:
    """Rows of a day for what is measured by the hour or oftener, of a week for days, of a year for weeks, months.

    >>> natural_season(Frequency("min", 15)), natural_season(Frequency("D")), natural_season(Frequency("M", 3))
    (96, 7, 4)
    """
    seconds = frequency.seconds
    if frequency.unit == "B":
        return 5
    if frequency.unit == "M":
        return max(1, 12 // frequency.step)
    if seconds is None:
        return 1
    if seconds < _DAY:
        return _DAY // seconds if _DAY % seconds == 0 else 1
    if seconds == _DAY:
        return 7
    return 52 if seconds == _WEEK else 1


def choose_frame(settings: ForecastSettings, table: SeriesTable, split: str) -> ChosenFrame:
    """The season by the frequency, the lookback by season, horizon and the rows there are."""
    horizon, notes = settings.horizon, []
    rows = int(observed_ends(table).max(initial=0))
    learned = split_ends(rows, split, horizon)[0] if rows else 0
    if learned < horizon + 1:
        raise EmptyCorpusError(
            f"the longest series of {table.source} has {rows:,} rows, {learned:,} of them to train on; expected more "
            f"than the horizon of {horizon:,}; try a smaller horizon (--horizon)"
        )
    season = settings.season
    if not season:
        season = natural_season(table.frequency)
        season = season if learned >= 2 * season else 1
        if season > 1:
            notes.append(f"a season is {season} rows of {table.frequency}")
    most = learned - horizon
    if season > most and not settings.season:
        season = 1
        notes = []
    lookback = max(settings.lookback, settings.order) if settings.lookback or settings.order else 0
    if lookback > most:
        raise OptionError(
            f"lookback is {lookback:,}, and training has {learned:,} rows, {horizon:,} of which are to be forecast; "
            f"expected {most:,} at most"
        )
    if not lookback:
        wanted = max(_SEASONS * season, 2 * horizon) if season > 1 else max(2 * horizon, _ROWS)
        lookback = max(1, min(wanted, most * 2 // 3))
        lookback = max(season, lookback - lookback % season)
        notes.append(f"a forecast reads the {lookback:,} rows before it")
    if settings.model == "seasonal-naive" and lookback < season:
        raise OptionError(
            f"lookback is {lookback:,} and a season {season:,} rows, which 'seasonal-naive' repeats; expected "
            f"{season:,} or more; try leaving it out, or another season"
        )
    return ChosenFrame(WindowFrame(lookback, horizon, season, settings.stride), tuple(notes))
