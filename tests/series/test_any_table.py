"""500 tables made at random, half of them wild: each is read into consistent arrays, or refused in a sentence."""

from __future__ import annotations

import ast
import gzip
import random
import re
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from refusals import assert_refused, assert_remedies_parse
from thereafter.errors import FormatError, ThereafterError
from thereafter.series.reading import read_series
from thereafter.series.table import ColumnChoice, SeriesTable

FORMS = ["%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y %H:%M", "%Y-%m", "%Y"]
FORMS += ["%Y%m%d", "%s", "%d-%b-%Y", "%Y-%m-%dT%H:%M:%SZ", "%H:%M", "%d/%m/%y", "%A"]
STEPS = [timedelta(seconds=1), timedelta(minutes=15), timedelta(hours=1), timedelta(days=1), timedelta(days=7)]
STEPS += [timedelta(days=31), timedelta(days=365), timedelta(hours=7, minutes=3)]
BAD_CELLS = [
    "",
    "NA",
    "-",
    "inf",
    "-Infinity",
    "1e999",
    "text",
    "1_0",
    "１",
    "1,5",
    '"',
    "\0",
    "ü",
    "nan",
    "1 2",
    "0x1",
]
BAD_CELLS += ["2020-02-30", "NaT", "now", "99999999999999999999", "=A1", "\t", "'", "1;2", "--1", "1e", "+", "\r", "𝟙"]
NAMES = ["date", "time", "x", "y", "value", "", "x", "t", "series", "year", "price", "1", "row", "Temperatur °C", "a b"]


def stamps(draw: random.Random, rows: int) -> list[str]:
    form = draw.choice(FORMS)
    begin = datetime(draw.randint(1900, 2100), draw.randint(1, 12), draw.randint(1, 28))
    step = draw.choice(STEPS)
    times = [begin + k * step for k in range(rows)]
    if draw.random() < 0.2:
        times = [time + draw.choice(STEPS) * draw.choice([0, 0, 0, 0, 1]) for time in times]
    if draw.random() < 0.15:
        draw.shuffle(times)
    if draw.random() < 0.15 and rows > 2:
        times[draw.randrange(rows)] = times[draw.randrange(rows)]
    zone = draw.choice(["", "", "", "", "+02:00", None])
    written = [
        str(int((time - datetime(1970, 1, 1)).total_seconds())) if form == "%s" else time.strftime(form)
        for time in times
    ]
    return [stamp + (draw.choice(["", "Z", "+01:00"]) if zone is None else zone) for stamp in written]


def numbers(draw: random.Random, rows: int) -> list[str]:
    scale = 10.0 ** draw.randint(-5, 12)
    whole = draw.random() < 0.3
    return [str(draw.randint(-50, 50)) if whole else repr(draw.gauss(0, 1) * scale) for _ in range(rows)]


def column(draw: random.Random, rows: int) -> list[str]:
    kind = draw.random()
    if kind < 0.25:
        return stamps(draw, rows)
    if kind < 0.8:
        return numbers(draw, rows)
    if kind < 0.9:
        return [draw.choice(["a", "b", "c", "Bonn, am Rhein"]) for _ in range(rows)]
    return [str(k + 1) for k in range(rows)]


def table(draw: random.Random) -> tuple[bytes, ColumnChoice]:
    """The bytes of a table, and the columns to ask for; a tame one has at most one fault."""
    if draw.random() < 0.5:
        return tame_table(draw)
    rows, width = draw.choice([0, 1, 2, 3, 10, 40, 120]), draw.randint(1, 5)
    columns = [stamps(draw, rows)] + [column(draw, rows) for _ in range(width - 1)]
    draw.shuffle(columns)
    body = [list(row) for row in zip(*columns, strict=True)]
    spoil(draw, body, draw.choice([0, 0, 0, 1, 3]))
    if draw.random() < 0.1 and rows > 4:
        del body[draw.randrange(1, rows - 1)]
    if draw.random() < 0.06 and body:
        draw.choice(body).append("more")
    names = [draw.choice(NAMES) for _ in range(width)]
    raw = written(draw, [names] if draw.random() < 0.75 else [], body, draw.choice(",,,;\t|"))
    if draw.random() < 0.1:
        raw = gzip.compress(raw)
        raw = raw[: draw.randint(1, len(raw))] if draw.random() < 0.3 else raw
    return raw, choice(draw, names)


def tame_table(draw: random.Random) -> tuple[bytes, ColumnChoice]:
    rows = draw.choice([3, 10, 40, 120])
    step, form = draw.choice([(STEPS[2], "%Y-%m-%d %H:%M"), (STEPS[3], "%Y-%m-%d"), (STEPS[4], "%d.%m.%Y")])
    times = [(datetime(2020, 1, 1) + k * step).strftime(form) for k in range(rows)]
    body = [list(row) for row in zip(times, numbers(draw, rows), numbers(draw, rows), strict=True)]
    if draw.random() < 0.5:
        spoil(draw, body, 1)
    if draw.random() < 0.3 and rows > 3:
        del body[draw.randrange(1, rows - 1)]
    return written(draw, [["when", "a", "b"]], body, draw.choice(",;\t")), ColumnChoice(target=("a",), past=("b",))


def spoil(draw: random.Random, body: list[list[str]], times: int) -> None:
    for _ in range(times if body else 0):
        row = draw.choice(body)
        row[draw.randrange(len(row))] = draw.choice(BAD_CELLS)


def written(draw: random.Random, header: list[list[str]], body: list[list[str]], separator: str) -> bytes:
    end = draw.choice(["\n", "\n", "\r\n", "\n\n"])
    quoted = draw.random() < 0.2
    text = end.join(separator.join(f'"{cell}"' if quoted else cell for cell in row) for row in header + body)
    encoding = draw.choice(["utf-8", "utf-8", "utf-8-sig", "utf-16", "cp1252"])
    return (text + draw.choice(["", end])).encode(encoding, "replace")


def choice(draw: random.Random, names: list[str]) -> ColumnChoice:
    def some(share: float) -> str:
        return draw.choice([*names, "1", "-1", "nothing", "row"]) if draw.random() < share else ""

    target, past, known = some(0.6), some(0.1), some(0.1)
    return ColumnChoice(
        some(0.2), (target,) if target else (), some(0.1), (past,) if past else (), (known,) if known else ()
    )


def assert_read_or_refused(series: SeriesTable) -> None:
    """All that a table promises."""
    rows = len(series.times_N)
    assert series.values_ND.shape == (rows, len(series.targets))
    assert series.past_NP.shape == (rows, len(series.past))
    assert series.known_NK.shape == (rows, len(series.known))
    assert series.bounds_S1[0] == 0
    assert series.bounds_S1[-1] == rows
    assert len(series.bounds_S1) == len(series.names) + 1
    assert not np.isinf(series.values_ND).any()
    assert series.values_ND.dtype == series.known_NK.dtype == np.float64
    assert series.times_N.dtype in (np.dtype("datetime64[s]"), np.dtype(np.int64))
    assert (series.frequency.unit == "row") == (series.times_N.dtype == np.int64)
    for number in range(len(series)):
        times = series.times(number)
        assert (np.diff(times.astype(np.int64)) > 0).all()
        if len(times) > 1 and "work days" not in series.notes[0]:
            assert (series.frequency.after(times[0], len(times) - 1) == times[1:]).all()


def refusal(path: Path, columns: ColumnChoice, *, calendar: bool) -> str:
    """What a table is refused with; empty where it was read."""
    try:
        assert_read_or_refused(read_series([path], columns, calendar=calendar))
    except ThereafterError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("seed", range(5))
def test_a_table_is_read_or_refused(tmp_path: Path, seed: int):
    draw = random.Random(seed)
    path = tmp_path / "table.csv"
    refusals = []
    for number in range(100):
        raw, columns = table(draw)
        path.write_bytes(raw)
        try:
            refusals.append(refusal(path, columns, calendar=draw.random() < 0.3))
        except Exception as error:
            raise AssertionError(f"table {number} of seed {seed}: {raw[:200]!r} {columns}") from error
    assert not any("\n" in message or len(message) > 800 for message in refusals)
    assert 20 < refusals.count("") < 70
    for message in refusals:
        assert_remedies_parse(message)


@pytest.mark.parametrize("names", [("a b", "c'd"), ("", "y"), ("$x", "")])
def test_a_column_is_named_as_a_shell_reads_it(tmp_path: Path, names: tuple[str, str]):
    path = tmp_path / "table.csv"
    path.write_text(f"{names[0]},{names[1]}\n" + "1.5,2.5\n2.5,1.5\n" * 4)
    with assert_refused(FormatError, names[1] or "2") as caught:
        read_series([path])
    option = re.search(r"\(target=('.*?'|\".*?\")\)", str(caught.value))
    assert option
    assert read_series([path], ColumnChoice(target=(ast.literal_eval(option[1]),), time="row")).values_ND.shape == (
        8,
        1,
    )
