"""Numbers that come next: the task `forecast`.

A table of series is read (`series/`), cut into windows by time, and a forecaster of `series/forecasters` learns what
comes after each window. Where the settings leave them open, the season and how far a window reaches back are chosen
from the table. Simple forecasters and least squares are solved at once; networks are trained by the loop that
trains everything else. Afterwards the bands are calibrated on the validation set.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from thereafter.base import progress
from thereafter.data.files import Files, Parts
from thereafter.data.finding import FileKind
from thereafter.errors import EmptyCorpusError, OptionError
from thereafter.evaluation.bootstrap import ResampledMeans
from thereafter.series import table as tables
from thereafter.series.batches import WindowBatch, batches_of, make_batch
from thereafter.series.forecasters.network import Batches, Forecaster, ForecastNetwork, WindowFacts
from thereafter.series.forecasters.settings import COUNTS, ForecastSettings, compared_models, models
from thereafter.series.forecasters.solved import build_forecaster
from thereafter.series.forecasting import score
from thereafter.series.forecasting.answers import LEVELS, Forecast, forecasts_of, step_names
from thereafter.series.forecasting.score import ForecastScore
from thereafter.series.frames import table_of_numbers
from thereafter.series.labelled_series import is_one_series
from thereafter.series.number_heads import ENDS
from thereafter.series.reading import read_series
from thereafter.series.scales import SeriesScales, unseen_rows, unseen_windows
from thereafter.series.table import ColumnChoice, SeriesTable, Window, WindowFrame, Windows
from thereafter.series.times import Frequency
from thereafter.tasks import task as contract
from thereafter.tasks.answers import Fields, Shown
from thereafter.training.settings import TrainingSettings

TABLES = FileKind("tables", ((".csv", ".tsv", ".tab", ".txt"),))
MOST_SCORED = 20_000
"""Windows that a score is measured on; of more, evenly chosen ones."""
_EPOCHS = 12  # of a training whose length is not asked for
_LEAST_STEPS, _MOST_STEPS = 1_500, 20_000


class SeriesCodecs(TypedDict):
    """What a run keeps of its table."""

    series: SeriesScales


class Forecasting(
    contract.Locating[SeriesCodecs],
    contract.Dividing[ForecastSettings, Window, SeriesCodecs],
    contract.Preparing[Window, SeriesCodecs],
    contract.Solving[ForecastSettings, Forecaster, Window, SeriesCodecs],
    contract.Asking[Window, SeriesCodecs],
    contract.Answering[WindowBatch, Forecaster, Forecast, SeriesCodecs],
    contract.Tracing[Window, WindowBatch, Forecaster, SeriesCodecs],
    contract.Comparing[Window, Forecast, SeriesCodecs],
    contract.Baselines[Window, Forecast],
    contract.Task[ForecastSettings, Window, WindowBatch, Forecaster, Forecast, SeriesCodecs],
):
    """See `Task`. `chosen` are the settings it is configured with."""

    name = "forecast"
    typed = "--last table.csv"
    of_tables = True
    kind = "series"
    settings = ForecastSettings
    defaults: ClassVar[Mapping[str, object]] = {"batch": 64, "rate": 5e-4}
    asked: ClassVar[Mapping[str, object]] = {"horizon": None, "samples": 0, "seed": 0}
    compared: ClassVar[Mapping[str, object]] = {"split": "70/10/20"}
    file_kind: ClassVar[FileKind] = TABLES
    reads: ClassVar[Mapping[str, tuple[str, str]]] = {"body.layers": ("", "step")}
    finishes = True
    reported: ClassVar[tuple[str, ...]] = ("mse_standardised", "mae", "mase", "crps", "coverage_calibrated")
    judged = "mse_standardised"

    def kinds(self) -> Sequence[str]:
        return models()

    def peers(self) -> Sequence[str]:
        return compared_models()

    def part(self, given: Parts, part: str) -> Files | None:
        """All parts of a table are in one file, cut by time; or in files of their own, by their names."""
        if "train" in given.parts:
            if part == "train":
                self._check_split(given)
            return given.parts.get(part) or (given.parts["train"] if part == "valid" else None)
        named = given.parts.get("text") or next(iter(given.parts.values()), None)
        return named

    def has_part(self, given: Parts, part: str) -> bool:
        if "train" in given.parts:
            return part in given.parts or part == "valid"
        files = self.part(given, part)
        split = self.chosen.split or ("" if files is None else files.split)
        return part != "test" or tables.has_test(split)

    def settled(
        self, settings: ForecastSettings, given: Parts, examples: Sequence[Window] | None = None
    ) -> ForecastSettings:
        """Without a split, the last windows are the test; not where files or a corpus bring their own, nor where all
        series are too short."""
        if examples is None:
            files = self.part(given, "train")
            divided = settings.split or "train" in given.parts or (files is not None and files.split)
            return settings if divided else replace(settings, split=tables.AUTO)
        ends_S3 = all_windows(examples).ends_S3
        untested = settings.split == tables.AUTO and (ends_S3[:, 1] == ends_S3[:, 2]).all()
        return replace(settings, split="") if untested else settings

    def read(self, files: Sequence[Path]) -> Windows:
        table = self.read_table(files, columns_of(self.chosen), calendar=self.chosen.calendar)
        try:
            return self.windows_of(table)
        except (EmptyCorpusError, OptionError):  # too short to train on; a trained run cuts it as it was trained
            return tables.cut_windows(table, WindowFrame(1, 1), "all", tables.WHOLE)

    def read_table(self, files: Sequence[Path], columns: ColumnChoice, *, calendar: bool) -> SeriesTable:
        """The series of files."""
        return read_series(files, columns, calendar=calendar)

    def windows_of(self, table: SeriesTable, split: str = "") -> Windows:
        """All windows of a table, as the settings cut them."""
        return tables.cut_windows(
            table, choose_frame(self.chosen, table, self.chosen.split or split).frame, "all", tables.WHOLE
        )

    def check_split(self, split: str) -> None:
        tables.check_split(self.chosen.split or split)

    def part_of(self, examples: Sequence[Window], part: str, split: str) -> Windows:
        windows = all_windows(examples)
        split = self.chosen.split or split
        if part == "all":
            frame = choose_frame(self.chosen, windows.table, tables.WHOLE).frame
            return replace(windows, frame=frame).of_part("train", tables.WHOLE)
        if part == "whole" or (part == "test" and (self.chosen.split or split.count("/") < 2)):
            return windows.of_part("all", tables.WHOLE)  # which rows are the test is known by those that training saw
        frame = choose_frame(self.chosen, windows.table, split).frame
        return replace(windows, frame=frame).of_part(part, split)

    def _check_split(self, given: Parts) -> None:
        """Refuse to cut what is cut already."""
        has = "valid" if "valid" in given.parts else "test" if tables.has_test(self.chosen.split) else ""
        if self.chosen.split and has in given.parts:
            raise OptionError(
                f"{given.name} has a {has} part of its own (got split={self.chosen.split!r}); expected no split; try "
                "leaving it out, or reading all files as one with parts=False (--parts no)"
            )

    def notes(self, examples: Sequence[Window], split: str) -> list[str]:
        table = all_windows(examples).table
        split = self.chosen.split or split
        notes = [*table.notes, *choose_frame(self.chosen, table, split).notes]
        if split == tables.AUTO:
            horizon, rows_S = self.chosen.horizon, tables.observed_ends(table)
            if any(tables.split_ends(int(rows), tables.AUTO, horizon)[1] < rows for rows in rows_S):
                notes.append(
                    f"the last tenth of each series (at least {horizon:,} rows) is the test, which nothing is learned "
                    "from; the tenth before it validates; --split sets other parts"
                )
            else:
                expected = f"expected {4 * horizon:,} or more, or --split"
                notes.append(f"no test: the longest series has {rows_S.max():,} rows; {expected}")
        return notes

    def check(self, examples: Sequence[Window], codecs: SeriesCodecs, name: str) -> None:
        scales, windows = codecs["series"], all_windows(examples)
        if not len(windows.origin_W):
            raise EmptyCorpusError(
                f"{name} has no {scales.frame.horizon} rows in a row to forecast; try a smaller horizon (--horizon), "
                "or another split (--split 70/15/15)"
            )
        if windows.table.targets != scales.columns.target:
            raise OptionError(
                f"{name} has the targets {', '.join(windows.table.targets)}; expected "
                f"{', '.join(scales.columns.target)}"
            )

    def codecs(self, examples: Sequence[Window]) -> SeriesCodecs:
        windows = all_windows(examples)
        table, counts = windows.table, self.chosen.head == COUNTS and self.chosen.trained_in_steps
        if counts:
            check_counts(windows)
        columns = ColumnChoice(self.chosen.time, table.targets, table.series_column, table.past, table.known)
        if self.chosen.calendar:  # what the calendar adds is made again for every table
            own = columns_of(self.chosen).known
            columns = replace(columns, known=own)
        scales = SeriesScales.fit(windows, columns, calendar=self.chosen.calendar, counts=counts)
        return {"series": scales}

    def build(self, settings: ForecastSettings, codecs: SeriesCodecs) -> Forecaster:
        return build_forecaster(settings, facts_of(codecs["series"]))

    def lengths(self, examples: Sequence[Window], codecs: SeriesCodecs) -> NDArray[np.int64]:
        return np.ones(len(examples), np.int64)  # all windows are equally long

    def targets(self, examples: Sequence[Window], codecs: SeriesCodecs) -> int:
        scales = codecs["series"]
        if not scales.gaps:
            return len(examples) * scales.frame.horizon * scales.targets
        seen = make_batch(examples, scales).future_seen_BHD
        return 0 if seen is None else max(1, int(seen.sum()))

    def batch(self, examples: Sequence[Window], codecs: SeriesCodecs) -> WindowBatch:
        return make_batch(examples, codecs["series"])

    def budget(self, training: TrainingSettings, examples: int) -> TrainingSettings:
        """Some epochs, but neither too few steps to learn from a short series nor hours for a long one."""
        lasting = training.lasting(examples, _EPOCHS, least_steps=_LEAST_STEPS, most_steps=_MOST_STEPS)
        if training.has_length or lasting.epochs is None or lasting.epochs < 1:
            return lasting
        return replace(lasting, epochs=float(math.ceil(lasting.epochs)))

    def solves(self, settings: ForecastSettings) -> bool:
        return not settings.trained_in_steps

    def solve(self, net: Forecaster, examples: Sequence[Window], codecs: SeriesCodecs) -> None:
        windows, scales = all_windows(examples), codecs["series"]
        aligned = scales.of_table(windows.table)
        series = []
        for at in range(len(windows.table)):
            mean_D, deviation_D = aligned[at, :, : scales.targets]
            series.append(torch.from_numpy((windows.learned_rows(at) - mean_D) / deviation_D))
        net.solve(lambda: batches_of(windows, scales, net.device), series)

    def finish(self, net: Forecaster, examples: Sequence[Window], codecs: SeriesCodecs) -> None:
        windows = tables.thinned(all_windows(examples), MOST_SCORED // 5)
        with net.quietly(), progress.task("calibrating the bands"):
            calibrate(net, lambda: batches_of(windows, codecs["series"], net.device))

    def scored(self, examples: Sequence[Window], codecs: SeriesCodecs) -> tuple[Windows, list[str]]:
        """Windows whose rows neither training nor validation saw; all of them, with a warning, where there are none."""
        windows, scales = all_windows(examples), codecs["series"]
        windows = (
            replace(windows, frame=scales.frame).of_part("all", tables.WHOLE) if windows.part == "all" else windows
        )
        notes: list[str] = []
        if not len(windows):
            raise EmptyCorpusError(
                f"{windows.table.source} has no {scales.frame.horizon} values in a row to score forecasts of so many "
                "steps on; try more rows"
            )
        if windows.part == "all":
            unseen = unseen_windows(windows, scales, self.chosen.split)
            if len(unseen) and len(unseen) < len(windows):
                notes.append(f"scored on the {len(unseen):,} windows after the rows that the run was trained on")
            elif not len(unseen) and tables.has_test(self.chosen.split) and unseen_rows(windows.table, scales):
                raise EmptyCorpusError(
                    f"{windows.table.source} has {unseen_rows(windows.table, scales):,} rows after those that the run "
                    f"was trained on; expected {scales.frame.horizon:,} or more; try a smaller horizon (--horizon), or "
                    "another split (--split 70/15/15)"
                )
            elif not len(unseen):
                notes.append(f"{progress.WARNING}all of these rows were trained or validated on; try newer rows")
            windows = unseen if len(unseen) else windows
        if len(windows) > MOST_SCORED:
            notes.append(f"{MOST_SCORED:,} of {len(windows):,} windows are scored, evenly chosen")
        return tables.thinned(windows, MOST_SCORED), notes

    def answers_with(
        self, net: Forecaster, batch: WindowBatch, codecs: SeriesCodecs, options: Mapping[str, object]
    ) -> list[Forecast]:
        return forecasts_of(net, batch, codecs["series"], options)

    def example(self, given: object) -> Window:
        """The end of a series of numbers: a text of numbers with spaces between them, or an array."""
        if isinstance(given, Window):
            return given
        return tables.end_of(table_of_numbers(given), 0)

    def prepare(self, given: object, codecs: SeriesCodecs) -> Window:
        window, scales = self.example(given), codecs["series"]
        if scales.covariates != len(window.table.known) + len(window.table.past):
            raise OptionError(
                "the run reads other columns or the calendar beside its target, which a row of numbers does not have; "
                "try forecast with a table (--last data.csv)"
            )
        if len(window.table.targets) != scales.targets:
            raise OptionError(
                f"the series has {len(window.table.targets):,} columns; expected {scales.targets}, "
                f"{', '.join(scales.columns.target)}; try an array [T, {scales.targets}]"
            )
        return window

    def is_one(self, given: object) -> bool:
        """A list of numbers is one series; a list of series is several."""
        return isinstance(given, Window) or is_one_series(given)

    def shown(self, net: Forecaster, batch: WindowBatch, example: Window, codecs: SeriesCodecs) -> Shown:
        with net.quietly():
            expected = net.forecast(batch, torch.tensor(LEVELS))
        fields: Fields = {
            "past": (("row", "target"), batch.past_BLD[0].cpu().numpy()),
            "forecast": (("ahead", "target"), expected.mean_BHD[0].cpu().numpy()),
            "quantiles": (("ahead", "target", "level"), expected.quantiles_BHDQ[0].cpu().numpy()),
        }
        tokens = step_names(batch, net.steps_read())
        (answer,) = self.answers(net, batch, codecs)
        with net.quietly():
            net.expect(batch.ahead(min(net.reach, batch.horizon)))  # what is watched last is how the window is read
        return Shown(tokens, [], fields, {"answer": str(answer), "series": answer.series})

    def measure(self, examples: Sequence[Window], answers: Sequence[Forecast], codecs: SeriesCodecs) -> ForecastScore:
        return score.measure_forecasts(examples, answers, codecs["series"])

    def resampled(
        self, examples: Sequence[Window], answers: Sequence[Forecast], codecs: SeriesCodecs
    ) -> ResampledMeans:
        """A horizon of windows that follow each other is one example: they overlap, and err together."""
        means_WHD = np.stack([one.mean_HD for one in answers])
        horizon, deviation_W1D = means_WHD.shape[1], score.deviations_of(examples, codecs["series"])[:, None]
        actual_WHD = score.actual_values(examples, horizon) / deviation_W1D
        return score.resampled_forecasts(actual_WHD, means_WHD / deviation_W1D, block=horizon, unit="_standardised")

    def variants(self, learned: Sequence[Window]) -> Mapping[str, Mapping[str, object]]:
        """The value a season ago, where there is a season; the last value; least squares on the window."""
        seasonal = {"seasonal naive": {"model": "seasonal-naive"}} if all_windows(learned).frame.is_seasonal else {}
        return {**seasonal, "last value": {"model": "naive"}, "least squares": {"model": "linear"}}


FORECASTING = Forecasting()


# What a forecaster learns from the validation set once it is trained: the spread of points, bands, paths.
#
# Shapes: B windows, H steps, D targets, Q levels.


@torch.no_grad()
def calibrate(net: Forecaster, batches: Batches) -> None:
    """Fit `net.calibration`, and the spread of a head that gives points, to windows that were not learned from."""
    if isinstance(net, ForecastNetwork):
        net.set_spread(batches())
    generator = torch.Generator(device=net.device).manual_seed(0)

    ends_Q = torch.tensor(ENDS)

    def quantiles(batch: WindowBatch) -> Tensor:
        return net.forecast(batch, ends_Q, generator).quantiles_BHDQ

    def ranks(batch: WindowBatch) -> Tensor:
        return net.expect(batch).cdf(batch.answers()[0])

    whole = net.reach == net.facts.horizon and net.reach > 1  # its steps are drawn together
    net.calibration.fit(batches(), quantiles, ranks if whole else None)


def facts_of(scales: SeriesScales) -> WindowFacts:
    """What a network is built for."""
    frame = scales.frame
    return WindowFacts(
        scales.targets, scales.covariates, scales.known, frame.lookback, frame.horizon, frame.season, scales.gaps
    )


def check_counts(windows: Windows) -> None:
    """OptionError where a target is no count."""
    values_ND = windows.table.values_ND
    wrong = values_ND[~np.isnan(values_ND) & ((values_ND < 0) | (values_ND != np.round(values_ND)))]
    if len(wrong):
        raise OptionError(
            f"the head {COUNTS!r} is for counts, and the target has the value {wrong[0]:g}; expected 0, 1, 2, ...; "
            "try head='gaussian' or 'student-t'"
        )


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


def all_windows(examples: Sequence[Window]) -> Windows:
    """Examples as the windows of their table."""
    if isinstance(examples, Windows):
        return examples
    if not examples:
        raise EmptyCorpusError("there are no windows to forecast; expected at least one")
    table = examples[0].table
    base = tables.cut_windows(table, WindowFrame(1, 1), "all", tables.WHOLE)
    series = np.array([one.series for one in examples], np.int32)
    return replace(base, series_W=series, origin_W=np.array([one.origin for one in examples], np.int64))


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
    rows = int(tables.observed_ends(table).max(initial=0))
    learned = tables.split_ends(rows, split, horizon)[0] if rows else 0
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
