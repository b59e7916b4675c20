"""Data frames and arrays come back from their tables to the bit, without importing pandas or polars."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timedelta
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.series.frames import spool_frame
from thereafter.series.reading import read_series
from thereafter.series.table import ColumnChoice, SeriesTable

DRAWN = np.random.default_rng(0).normal(size=(50, 3)) * 10.0 ** np.random.default_rng(1).integers(-300, 300, (50, 3))
HOURS = pd.date_range("2016-07-01", periods=50, freq="h")


def read(source: object, columns: ColumnChoice | None = None) -> SeriesTable:
    files = spool_frame(source)  # the table is there as long as this object
    return read_series(files.files, columns)


def test_frames_are_known_by_their_type():
    for other in ("sales.csv", ["a.csv"], None, [1.0, 2.0], HOURS):
        with pytest.raises(OptionError):
            spool_frame(other)


def test_arrays_come_back_to_the_bit():
    table = read(DRAWN, ColumnChoice(target=("x1", "x2", "x3")))
    assert np.array_equal(table.values_ND, DRAWN)
    small = np.random.default_rng(2).normal(size=50).astype(np.float32)
    single = read(small)
    assert np.array_equal(single.values_ND[:, 0], small.astype(np.float64))
    assert single.targets == ("value",)


def test_missing_values_of_an_array_stay_where_they_are():
    values = np.array([1.0, np.nan, np.nan, 4.0, np.nan])
    assert np.array_equal(read(values).values_ND[:, 0], values, equal_nan=True)


@pytest.mark.parametrize("kind", ["numpy", "pandas", "polars"])
def test_rows_without_any_value_stay_where_they_are(kind: str):
    """In the first row, at the borders of the blocks in which tables are written and read, and many in a row."""
    values = np.arange(50_000.0).reshape(25_000, 2)
    for begin, end in ((0, 3), (19_998, 20_002), (21_000, 24_000)):
        values[begin:end] = np.nan
    frame: object = values
    if kind == "pandas":
        frame = pd.DataFrame(values, columns=["x1", "x2"])
    elif kind == "polars":
        cells = [[None if value != value else value for value in column] for column in values.T.tolist()]
        frame = polars_frame({"x1": cells[0], "x2": cells[1]})
    for targets in (("x1", "x2"), ("x2",)):
        table = read(frame, ColumnChoice(target=targets))
        assert np.array_equal(table.values_ND, values[:, 2 - len(targets) :], equal_nan=True)
        assert table.times_N.tolist() == list(range(25_000))


def test_a_temporary_table_goes_with_its_files():
    files = spool_frame(np.zeros(3))
    path = files.files[0]
    assert path.is_file()
    del files
    assert not path.exists()


def test_an_index_of_times_is_a_column():
    frame = pd.DataFrame(DRAWN[:, :2], columns=["a", "b"], index=HOURS)
    files = spool_frame(frame)
    assert files.files[0].read_text().splitlines()[0] == "time,a,b"
    table = read_series(files.files, ColumnChoice(target=("b",), past=("a",)))
    assert np.array_equal(table.values_ND[:, 0], DRAWN[:, 1])
    assert np.array_equal(table.past_NP[:, 0], DRAWN[:, 0])
    assert (table.times_N == HOURS.to_numpy().astype("datetime64[s]")).all()
    assert str(table.frequency) == "1 hour"


@pytest.mark.parametrize("freq", ["M", "Q", "Y"])
def test_periods_are_times(freq: str):
    series = pd.Series(DRAWN[:, 0], index=pd.period_range("1959-01", periods=50, freq=freq))
    table = read(series, ColumnChoice(time="time"))
    assert np.array_equal(table.values_ND[:, 0], DRAWN[:, 0])
    assert (table.times_N == series.index.to_timestamp().to_numpy().astype("datetime64[s]")).all()
    assert table.targets == ("value",)


def test_columns_of_all_kinds():
    frame = pd.DataFrame(
        {
            "when": HOURS.tz_localize("UTC"),
            "count": pd.array([1, None, *range(48)], dtype="Int64"),
            0: DRAWN[:, 0],
            "shop": ["a, b"] * 50,
            "open": [True, False] * 25,
        }
    )
    table = read(frame, ColumnChoice(target=("count", "x0"), known=("open",)))
    assert np.isnan(table.values_ND[1, 0])
    assert np.array_equal(table.values_ND[:, 1], DRAWN[:, 0])
    assert table.known_NK[:2, 0].tolist() == [1, 0]
    assert table.times_N[0] == np.datetime64("2016-07-01T00:00:00")


def test_two_levels_of_an_index_are_a_long_table():
    index = pd.MultiIndex.from_product([["u", "v"], HOURS[:25]], names=["shop", None])
    table = read(pd.DataFrame({"x": DRAWN[:, 0]}, index=index))
    assert table.names == ("u", "v")
    assert np.array_equal(table.values_ND[:, 0], DRAWN[:, 0])


class Listed:
    """What of a series of polars is used."""

    def __init__(self, values: list[object]) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, part: slice) -> Listed:
        return Listed(self.values[part])

    def to_list(self) -> list[object]:
        return self.values


def polars_frame(columns: dict[str, list[object]]) -> object:
    """What of a polars frame is used, for machines without polars."""

    class DataFrame:
        __module__ = "polars.dataframe.frame"

        def __init__(self, content: dict[str, list[object]]) -> None:
            self.content = content
            self.columns = list(content)
            self.height = len(next(iter(content.values())))

        def slice(self, offset: int, length: int) -> DataFrame:
            return DataFrame({name: cells[offset : offset + length] for name, cells in self.content.items()})

        def get_column(self, name: str) -> Listed:
            return Listed(self.content[name])

    return DataFrame(columns)


def test_polars_frames_come_back_to_the_bit():
    times = [datetime(2016, 7, 1) + k * timedelta(hours=1) for k in range(50)]
    cells: list[object] = [None, *DRAWN[1:, 0].tolist()]
    frame = polars_frame({"time": list(times), "x": cells})
    table = read(frame)
    assert np.array_equal(table.values_ND[1:, 0], DRAWN[1:, 0])
    assert np.isnan(table.values_ND[0, 0])
    assert (table.times_N == HOURS.to_numpy().astype("datetime64[s]")).all()


@pytest.mark.skipif(find_spec("polars") is None, reason="polars is not installed: its stand-in is checked")
def test_polars_itself():
    code = (
        "import polars; from datetime import datetime, timedelta; from thereafter.series.frames import spool_frame\n"
        "from thereafter.series.reading import read_series\n"
        "times = [datetime(2016, 7, 1) + k * timedelta(hours=1) for k in range(50)]\n"
        "frame = polars.DataFrame({'time': times, 'x': [k / 7 for k in range(50)]})\n"
        "for files in (spool_frame(frame), spool_frame(frame['x'])):\n"
        "    table = read_series(files.files)\n"
        "    print(table.values_ND[:, 0].tolist() == [k / 7 for k in range(50)], table.frequency)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["True 1 hour", "True 1 row"]


@pytest.mark.parametrize(("freq", "first"), [("h", "2016-03-25T23:00:00"), ("D", "2016-03-26T00:00:00")])
@pytest.mark.parametrize("as_index", [False, True])
def test_summer_time_is_no_second_zone(freq: str, first: str, as_index: bool):
    stamps = pd.date_range("2016-03-26", periods=50, freq=freq, tz="Europe/Berlin")
    frame = pd.DataFrame({"x": DRAWN[:, 0]}, index=stamps)
    table = read(frame if as_index else frame.reset_index(names="when"))
    assert str(table.times_N[0]) == first
    assert table.frequency.unit == freq
    assert np.array_equal(table.values_ND[:, 0], DRAWN[:, 0])


@pytest.mark.parametrize("array", [np.zeros((2, 2, 2)), np.zeros(0), np.array(["a"]), np.array(1.0)])
def test_other_arrays_are_refused(array: np.ndarray):
    with assert_refused(OptionError, "[T]", "[T, D]"):
        spool_frame(array)


def test_neither_package_is_imported():
    code = (
        "import sys, numpy; from thereafter.series.frames import spool_frame; "
        "spool_frame(numpy.zeros(2)); print({'pandas', 'polars'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
