"""Tables written by rule come back exactly; what cannot be read is one sentence with a way out."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from refusals import assert_refused
from thereafter.errors import FormatError, OptionError, SourceError, ThereafterError, UnknownNameError
from thereafter.series.reading import read_series
from thereafter.series.table import ColumnChoice, SeriesTable
from thereafter.series.times import Frequency


def write(folder: Path, text: str, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def read(folder: Path, text: str, *, calendar: bool = False, **named: str) -> SeriesTable:
    many = {name: tuple(value.split(",")) for name, value in named.items() if name in ("target", "past", "known")}
    one = {name: value for name, value in named.items() if name in ("time", "series")}
    choice = ColumnChoice(**one, **many)  # type: ignore[arg-type]
    return read_series([write(folder, text)], choice, calendar=calendar)


def rows(times: list[str], values: list[object], header: str = "date,x\n", separator: str = ",") -> str:
    return header + "".join(f"{time}{separator}{value}\n" for time, value in zip(times, values, strict=True))


HOURS = [str(time) for time in pd.date_range("2016-07-01", periods=30, freq="h")]


def test_a_table_comes_back_exactly(tmp_path: Path):
    values = np.random.default_rng(0).normal(size=30).tolist()
    table = read(tmp_path, rows(HOURS, values))
    assert table.values_ND[:, 0].tolist() == values
    assert table.times_N.astype(str).tolist() == [time.replace(" ", "T") for time in HOURS]
    assert (table.frequency, table.targets, table.names) == (Frequency("h"), ("x",), ("x",))
    assert table.past_NP.shape == table.known_NK.shape == (30, 0)
    assert table.notes[0] == "time is 'date': 2016-07-01 to 2016-07-02 05:00:00, a row every hour"


FORMS = ["%Y-%m-%d", "%Y/%m/%d", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S.000", "%Y-%m-%dT%H:%M:%SZ"]
FORMS += [
    "%b-%d-%Y",
    '"%B %d, %Y"',
    "%Y-%m-%d %H:%M:%S+02:00",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d.%m.%Y",
    "%d-%b-%Y",
    "%d %B %Y",
    "%m/%d/%Y %I:%M:%S %p",
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("freq", "frequency"),
    [("D", "1 day"), ("W", "1 week"), ("MS", "1 month"), ("ME", "1 month"), ("YS", "1 year"), ("QE", "1 quarter")],
)
def test_times_in_all_forms_are_those_of_pandas(tmp_path: Path, form: str, freq: str, frequency: str):
    stamps = pd.date_range("2015-01-01", periods=40, freq=freq)
    table = read(tmp_path, rows(stamps.strftime(form).tolist(), list(range(40))))
    assert (table.times_N == stamps.to_numpy().astype("datetime64[s]")).all()
    assert str(table.frequency) == frequency
    assert (table.frequency.after(table.times_N[0], 39) == table.times_N[1:]).all()


@pytest.mark.parametrize(
    ("freq", "frequency"), [("s", "1 second"), ("90s", "90 seconds"), ("15min", "15 minutes"), ("6h", "6 hours")]
)
def test_short_steps(tmp_path: Path, freq: str, frequency: str):
    stamps = pd.date_range("2015-01-01", periods=40, freq=freq)
    table = read(tmp_path, rows([str(stamp.isoformat()) for stamp in stamps], list(range(40))))
    assert str(table.frequency) == frequency
    assert (table.times_N == stamps.to_numpy().astype("datetime64[s]")).all()


def test_weekends_are_no_gaps_where_there_are_never_any(tmp_path: Path):
    stamps = pd.bdate_range("2015-01-01", periods=40)
    keep = [k for k in range(40) if k != 17]  # a holiday is
    table = read(tmp_path, rows([str(stamps[k].date()) for k in keep], keep))
    assert table.frequency == Frequency("B")
    assert (table.times_N == stamps.to_numpy().astype("datetime64[s]")).all()
    assert (table.frequency.after(table.times_N[0], 39) == table.times_N[1:]).all()
    assert np.flatnonzero(np.isnan(table.values_ND[:, 0])).tolist() == [17]


def test_the_last_days_of_short_months(tmp_path: Path):
    stamps = [pd.Timestamp("2015-01-30 06:00") + pd.DateOffset(months=k) for k in range(24)]
    table = read(tmp_path, rows([str(stamp) for stamp in stamps], list(range(24))))
    assert str(table.frequency) == "1 month"
    assert (table.frequency.after(table.times_N[0], 23) == table.times_N[1:]).all()


@pytest.mark.parametrize("freq", ["BME", "BMS", "BQE"])
def test_work_days_of_months_are_months(tmp_path: Path, freq: str):
    stamps = pd.date_range("2015-01-01", periods=40, freq=freq)
    table = read(tmp_path, rows(stamps.strftime("%Y-%m-%d").tolist(), list(range(40))))
    assert table.frequency.unit == "M"
    assert (table.times_N == stamps.to_numpy().astype("datetime64[s]")).all()


MONTHLY = ["MS", "ME", "BMS", "BME", "QS", "QE", "BQS", "BQE", "QE-JAN", "YS", "YE", "BYS", "BYE", "2ME", "6BMS"]


@pytest.mark.parametrize("freq", MONTHLY)
def test_months_go_on_as_those_of_pandas_wherever_the_table_ends(tmp_path: Path, freq: str):
    stamps = pd.date_range("2015-01-01 06:00", periods=76, freq=freq)
    expected = stamps.to_numpy().astype("datetime64[s]")
    for end in range(40, 52):
        table = read(tmp_path, rows([str(stamp) for stamp in stamps[:end]], list(range(end))))
        assert (table.frequency.after(table.times_N[-1], 24) == expected[end : end + 24]).all(), (freq, end)


@pytest.mark.parametrize("day", [1, 15, 28, 29, 30, 31])
@pytest.mark.parametrize("months", [1, 3, 12])
def test_a_day_that_short_months_lack_comes_back_after_them(tmp_path: Path, day: int, months: int):
    stamps = [pd.Timestamp(2015, 1, day) + pd.DateOffset(months=months * k) for k in range(60)]
    expected = np.array(stamps, "datetime64[s]")
    for end in range(24, 37):
        gap = end - 5  # a month that is missing in the table gets its own day, too
        kept = [stamp for k, stamp in enumerate(stamps[:end]) if k != gap]
        table = read(tmp_path, rows([str(stamp) for stamp in kept], list(range(end - 1))))
        assert (table.times_N == expected[:end]).all()
        assert (table.frequency.after(table.times_N[-1], 24) == expected[end : end + 24]).all(), (day, end)


@pytest.mark.parametrize(
    ("header", "times", "frequency", "first"),
    [
        ("year,x\n", ["1949", "1950", "1951"], "1 year", "1949-01-01"),
        ("YEAR,x\n", ["1700.0", "1701.0", "1702.0"], "1 year", "1700-01-01"),
        ("date,x\n", ["20160701", "20160702", "20160703"], "1 day", "2016-07-01"),
        ("timestamp,x\n", ["1467331200", "1467334800", "1467338400"], "1 hour", "2016-07-01"),
        ("timestamp,x\n", ["1467331200000", "1467334800000", "1467338400000"], "1 hour", "2016-07-01"),
        ("month,x\n", ["1949-01", "1949-02", "1949-03"], "1 month", "1949-01-01"),
        ("period,x\n", ["1959Q1", "1959Q2", "1959Q3"], "1 quarter", "1959-01-01"),
        ("month,x\n", ["Jan 1949", "Feb 1949", "Mar 1949"], "1 month", "1949-01-01"),
    ],
)
def test_numbers_as_times(tmp_path: Path, header: str, times: list[str], frequency: str, first: str):
    table = read(tmp_path, rows(times, [1, 2, 4], header))
    assert str(table.frequency) == frequency
    assert str(table.times_N[0]) == f"{first}T00:00:00"
    assert table.values_ND[:, 0].tolist() == [1, 2, 4]


def test_rows_are_counted_where_there_are_no_times(tmp_path: Path):
    table = read(tmp_path, "1.5\n2.5\n3.5\n")
    assert table.values_ND.tolist() == [[1.5], [2.5], [3.5]]
    assert table.times_N.tolist() == [0, 1, 2]
    assert table.notes[0] == "no time column: the rows are counted"
    counted = read(tmp_path, "t,x\n10,1\n20,2\n40,4\n")
    assert counted.times_N.tolist() == [10, 20, 30, 40]
    assert np.array_equal(counted.values_ND[:, 0], [1, 2, np.nan, 4], equal_nan=True)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("header", ["date{}x\n", ""])
def test_separators_headers_and_gzip(tmp_path: Path, separator: str, packed: bool, header: str):
    text = rows(HOURS, list(range(30)), header.format(separator), separator)
    path = tmp_path / ("table.csv.gz" if packed else "table.csv")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    table = read_series([path])
    assert table.values_ND[:, 0].tolist() == list(range(30))
    assert table.targets == (("x",) if header else ("2",))
    assert table.names == table.targets


def test_a_missing_value_of_a_single_column_keeps_its_row(tmp_path: Path):
    table = read(tmp_path, 'x\n1\n""\nNA\n4\n\n')
    assert np.array_equal(table.values_ND[:, 0], [1, np.nan, np.nan, 4], equal_nan=True)


NAN = float("nan")
GAPS = {
    "two columns": ("a,b\n,\n1,5\n,\n\n3,7\n,\n,\n\n", [NAN, 1, NAN, 3]),
    "no names": (",\n1,5\n2,6\n,\n4,8\n", [1, 2, NAN, 4]),
    "before the names": ("\n,\na,b\n1,5\n,\n3,7\n", [1, NAN, 3]),
    "one column": ("\na\n1\n2\n\n\n5\n6\n\n\n", [1, 2, NAN, NAN, 5, 6]),
    "every line twice as high": ("a\n\n1\n\n2\n\n3\n\n4\n\n", [1, 2, 3, 4]),
}
"""A table without times, and its values."""


@pytest.mark.parametrize("case", GAPS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_rows_without_any_value_are_gaps_where_rows_are_counted(tmp_path: Path, case: str, end: str):
    text, values = GAPS[case]
    table = read(tmp_path, text.replace("\n", end), target="1" if case == "no names" else "a")
    assert np.array_equal(table.values_ND[:, 0], values, equal_nan=True)


def test_gaps_of_several_files_and_of_tables_with_times(tmp_path: Path):
    """A row without a time or without the name of its series is at no place of any series: it is none."""
    paths = [write(tmp_path, f"a,b\n{k},1\n,\n{k + 2},3\n,\n", f"{k}.csv") for k in range(3)]
    table = read_series(paths, ColumnChoice(target=("a",)))
    assert np.array_equal(table.values_ND[:, 0], [0, NAN, 2, 1, NAN, 3, 2, NAN, 4], equal_nan=True)
    timed = read(tmp_path, "date,x\n2020-01-01,1\n,\n2020-01-02,2\n\n2020-01-03,3\n,\n")
    assert timed.values_ND[:, 0].tolist() == [1, 2, 3]
    named = read(tmp_path, "s,x\nu,1\n,\nv,2\nu,\nu,3\n", time="row", series="s")
    assert np.array_equal(named.values(0)[:, 0], [1, NAN, 3], equal_nan=True)
    assert named.values(1)[:, 0].tolist() == [2]


def test_a_decimal_comma(tmp_path: Path):
    table = read(tmp_path, rows(HOURS[:3], ["1,5", "2,25", "-3"], "date;x\n", ";"))
    assert table.values_ND[:, 0].tolist() == [1.5, 2.25, -3]
    assert "numbers have a decimal comma" in table.notes


def test_missing_values_and_rows_are_masked_and_counted(tmp_path: Path):
    cells = [str(k) for k in range(30)]
    for at, cell in zip((3, 5, 7, 9, 11, 13), ("", "NA", "NaN", "null", "-", "?"), strict=True):
        cells[at] = cell
    keep = [k for k in range(30) if k not in (20, 21)]
    table = read(tmp_path, rows([HOURS[k] for k in keep], [cells[k] for k in keep]))
    assert np.flatnonzero(np.isnan(table.values_ND[:, 0])).tolist() == [3, 5, 7, 9, 11, 13, 20, 21]
    assert table.times_N.astype(str).tolist() == [time.replace(" ", "T") for time in HOURS]
    assert "2 rows are missing in the table; they are masked, never filled" in table.notes
    assert "missing values, masked: 6 in 'x'" in table.notes


def test_long_form_is_recognised_whatever_its_order(tmp_path: Path):
    days = [f"2020-01-{day:02}" for day in range(1, 11)]
    pairs = [(name, day) for name in ("b", "a", "c") for day in days]
    by_series = "series,time,value\n" + "".join(f"{name},{day},{ord(name)}{day[-2:]}\n" for name, day in pairs)
    pairs.sort(key=lambda pair: pair[1])
    by_time = "series,time,value\n" + "".join(f"{name},{day},{ord(name)}{day[-2:]}\n" for name, day in pairs)
    one, other = read(tmp_path, by_series), read(tmp_path, by_time, series="series")
    assert one.names == ("b", "a", "c")
    assert set(other.names) == {"a", "b", "c"}
    for table in (one, other):
        for series, name in enumerate(table.names):
            assert table.values(series)[:, 0].tolist() == [int(f"{ord(name)}{day[-2:]}") for day in days]
            assert table.times(series).astype("datetime64[D]").astype(str).tolist() == days
    assert "times repeat: the column 'series' names the series (3 of them)" in one.notes


def test_several_files_are_several_series(tmp_path: Path):
    paths = [write(tmp_path, rows(HOURS[k:], list(range(30 - k))), f"{name}.csv") for k, name in enumerate("uvw")]
    table = read_series(paths)
    assert table.names == ("u", "v", "w")
    assert [table.length(k) for k in range(3)] == [30, 29, 28]


def test_covariates_and_the_calendar(tmp_path: Path):
    text = "date,x,price,rain\n" + "".join(f"{time},{k},{2 * k},{3 * k}\n" for k, time in enumerate(HOURS))
    table = read(tmp_path, text, target="x", past="rain", known="price", calendar=True)
    assert table.past_NP[:, 0].tolist() == [3.0 * k for k in range(30)]
    assert table.known_NK[:, 0].tolist() == [2.0 * k for k in range(30)]
    assert table.known[:3] == ("price", "hour_sin", "hour_cos")
    hour = np.arctan2(table.known_NK[:, 1], table.known_NK[:, 2]) / (2 * np.pi) * 24
    assert np.allclose(np.round(hour) % 24, [k % 24 for k in range(30)])


def test_the_calendar_knows_no_other_row(tmp_path: Path):
    whole = read(tmp_path, rows(HOURS, list(range(30))), calendar=True)
    begin = read(tmp_path, rows(HOURS[:7], list(range(7))), calendar=True)
    assert np.array_equal(whole.known_NK[:7], begin.known_NK)


BAD = {
    "no time column": ("city,x\nRome,1\nBonn,2\nParis,3\n", {}, "has no column of times"),
    "two times": ("a,b,x\n2020-01-01,2020-01-02,1\n2020-01-02,2020-01-03,2\n", {}, "2 columns that could be the time"),
    "unknown time": ("date,x\n2020-01-01,1\n2020-01-02,2\n", {"time": "dat"}, "did you mean 'date'"),
    "unknown target": ("date,x\n2020-01-01,1\n2020-01-02,2\n", {"target": "y"}, "no column of"),
    "many targets": ("date,x,y\n2020-01-01,1,1\n2020-01-02,2,1\n", {}, "expected the name of the target"),
    "text in the target": ("date,x\n2020-01-01,1\n2020-01-02,2\n2020-01-03,many\n", {}, "line 4 of .* has 'many'"),
    "unsorted": ("date,x\n2020-01-02,1\n2020-01-01,2\n2020-01-03,3\n", {}, "line 3 of .* before that of the row above"),
    "repeated": ("date,x\n2020-01-01,1\n2020-01-02,2\n2020-01-02,3\n", {}, "line 4 of .* that an earlier row has"),
    "zones": ("t,x\n2020-01-01T00:00Z,1\n2020-01-01T01:00+02:00,2\n", {}, "several time zones"),
    "zone and none": ("t,x\n2020-01-01T00:00Z,1\n2020-01-01T01:00,2\n", {}, "several time zones"),
    "infinite": ("date,x\n2020-01-01,1\n2020-01-02,inf\n", {}, "line 3 of .* a finite number"),
    "too large": ("date,x\n2020-01-01,1\n2020-01-02,1e999\n", {}, "line 3 of .* a finite number"),
    "irregular": ("date,x\n2020-01-01,1\n2020-01-02,2\n2020-01-04 03:17,2\n", {}, "1,537 minutes|time='row'"),
    "ambiguous": ("date,x\n01/02/2020,1\n01/03/2020,2\n01/04/2020,2\n", {}, "may have the day or the month first"),
    "two orders": ("date,x\n13/02/2020,1\n02/14/2020,2\n", {}, "no calendar has"),
    "no such day": ("date,x\n2020-02-29,1\n2020-02-30,2\n2020-03-01,2\n", {"time": "date"}, "time '2020-02-30'"),
    "a missing time": ("date,x\n2020-01-01,1\n,2\n", {}, "line 3 of .* has no time"),
    "ragged": ("date,x\n2020-01-01,1\n2020-01-02,2,3\n", {}, "line 3 of .* has 3 cells"),
    "no rows": ("date,x\n", {}, "no rows"),
    "nothing": ("", {}, "no rows"),
    "an open quote": ('date,x\n"2020-01-01,1\n2020-01-02,2\n', {}, "is not a row of a table"),
    "no numbers": ("date,x\n2020-01-01,a\n2020-01-02,b\n", {}, "no column of numbers"),
    "no values": ("date,x\n2020-01-01,\n2020-01-02,\n", {"target": "x"}, "no value at all"),
    "one column twice": ("date,x\n2020-01-01,1\n2020-01-02,2\n", {"target": "x", "past": "x"}, "named twice"),
    "a nameless series": ("s,date,x\na,2020-01-01,1\n,2020-01-02,2\n", {"series": "s"}, "line 3 of .* empty cell"),
    "an underscore": ("date,x\n2020-01-01,1\n2020-01-02,2\n2020-01-03,1_000\n", {}, "'1_000'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tables_get_one_sentence(tmp_path: Path, case: str):
    text, named, message = BAD[case]
    with pytest.raises((FormatError, OptionError, SourceError, UnknownNameError), match=message) as caught:
        read(tmp_path, text, **named)
    assert "\n" not in str(caught.value)


def test_dates_of_both_orders_are_told_apart_by_the_whole_column(tmp_path: Path):
    days = pd.date_range("2020-01-01", periods=20, freq="D")
    for form, way in (("%d/%m/%Y", "day"), ("%m/%d/%Y", "month")):
        table = read(tmp_path, rows(days.strftime(form).tolist(), list(range(20))))
        assert (table.times_N == days.to_numpy().astype("datetime64[s]")).all()
        assert f"in 'date' the {way} comes first" in table.notes


REAL = {
    "co2": ("", "1 week", "1958-03-29", 2284, 59),
    "nile": ("", "1 year", "1871-01-01", 100, 0),
    "sunspots": ("", "1 year", "1700-01-01", 309, 0),
    "elec_equip": ("", "1 month", "1995-01-01", 257, 0),
    "elnino": ("JAN", "1 year", "1950-01-01", 61, 0),
    "grunfeld": ("invest", "1 year", "1935-01-01", 220, 0),
}
"""Target, frequency, first time, rows and missing values of tables that come with statsmodels."""


@pytest.mark.parametrize("name", REAL)
def test_real_tables(name: str):
    folder = Path(pytest.importorskip("statsmodels").__file__).parent / "datasets" / name
    target, frequency, first, count, missing = REAL[name]
    path = folder / f"{name}.csv"
    table = read_series([path], ColumnChoice(target=(target,) if target else ()))
    assert (str(table.frequency), str(table.times_N[0])) == (frequency, f"{first}T00:00:00")
    assert (table.rows, int(np.isnan(table.values_ND).sum())) == (count, missing)
    assert table.values_ND[:, 0].tolist()[0] == pytest.approx(pd.read_csv(path)[table.targets[0]].iloc[0])


def test_texts_beside_a_single_series_are_not_series(tmp_path: Path):
    notes = ["fine", "broken", "mended", "odd"]
    text = "date,x,note\n" + "".join(
        f"2020-01-0{day},{day},{note}\n" for day, note in zip((1, 2, 4, 3), notes, strict=True)
    )
    with assert_refused(FormatError, "--series note"):
        read(tmp_path, text)
    assert len(read(tmp_path, "date,x,note\n2020-01-01,1,fine\n2020-01-02,2,odd\n")) == 1


def test_a_number_may_name_a_column(tmp_path: Path):
    table = read(tmp_path, "2020-01-01,1,5\n2020-01-02,2,6\n", target="-1", past="2")
    assert table.values_ND[:, 0].tolist() == [5, 6]
    assert table.past_NP[:, 0].tolist() == [1, 2]


def test_counted_rows_by_name(tmp_path: Path):
    table = read(tmp_path, "date,x\n2020-01-04,1\n2020-01-02,2\n2020-01-02,3\n", time="row")
    assert table.values_ND[:, 0].tolist() == [1, 2, 3]
    assert table.times_N.tolist() == [0, 1, 2]


def test_a_repeated_time_points_to_the_column_of_the_series(tmp_path: Path):
    text = "store,date,x\n" + "".join(f"{store},2020-01-{day:02},1\n" for store in (1, 2) for day in range(1, 6))
    with assert_refused(ThereafterError, "--series store"):
        read(tmp_path, text, target="x")
    assert read(tmp_path, text, target="x", series="store").names == ("1", "2")


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="Linux alone tells what a process used at most")
def test_a_long_table_takes_little_more_memory_than_its_numbers(tmp_path: Path):
    count = 200_000
    stamps = (np.datetime64("2016-01-01T00:00:00") + 60 * np.arange(count)).astype(str).tolist()
    path = write(tmp_path, "date,x\n" + "".join(f"{stamp},{k}.5\n" for k, stamp in enumerate(stamps)))
    code = (
        "import re, sys; from thereafter.series.reading import read_series; from pathlib import Path\n"
        "def most(): return int(re.search('VmHWM: *(.*) kB', Path('/proc/self/status').read_text().expandtabs())[1])\n"
        "before = most(); rows = read_series([Path(sys.argv[1])]).rows; print(rows, most() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    rows_read, kilobytes = map(int, done.stdout.split())
    assert rows_read == count
    assert 10_000 < kilobytes < 50_000  # cells as objects would take 40 MB more
