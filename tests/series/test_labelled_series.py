"""Series with labels, read in every form that they come in."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import numpy as np
import pytest

from refusals import assert_refused
from thereafter.errors import FormatError, OptionError, SourceError, ThereafterError
from thereafter.series.labelled import form_of, holds_series, read_labelled_series, read_questions
from thereafter.series.labelled_series import LabelColumns, LabelledSeries, series_of, with_channels

LONG = """series,time,x,y,label
a,1,0.5,1,up
a,2,0.7,,up
b,1,3.5,4,down
b,2,3.1,5,down
b,3,2.9,6,down
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def shapes(series: list[LabelledSeries]) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(one.name, one.label, one.values_TC.shape) for one in series]


# ---- long


def test_a_long_table_gives_a_series_for_each_name(tmp_path: Path):
    series = read_labelled_series([write(tmp_path / "long.csv", LONG)])
    assert shapes(series) == [("a", "up", (2, 2)), ("b", "down", (3, 2))]
    assert series[0].channels == ("x", "y")
    np.testing.assert_array_equal(series[0].values_TC, [[0.5, 1], [0.7, np.nan]])
    np.testing.assert_array_equal(series[1].values_TC, [[3.5, 4], [3.1, 5], [2.9, 6]])


def test_rows_of_several_series_may_be_mixed_and_times_are_dates(tmp_path: Path):
    rows = ["when\tcase\tvalue\tclass"]
    rows += [
        f"2024-01-{day:02}\t{name}\t{day * sign}\t{name}" for day in (1, 2, 3) for name, sign in (("p", 1), ("q", -1))
    ]
    path = tmp_path / "long.tsv.gz"
    path.write_bytes(gzip.compress(("\n".join(rows) + "\n").encode()))
    series = read_labelled_series([path])
    assert shapes(series) == [("p", "p", (3, 1)), ("q", "q", (3, 1))]
    assert series[1].values_TC[:, 0].tolist() == [-1, -2, -3]


def test_columns_can_be_named(tmp_path: Path):
    text = "who,kind,u,v,note\na,1,0.5,1,so\na,1,0.6,2,so\nb,2,0.7,3,so\nb,2,0.7,3,no\n"
    path = write(tmp_path / "named.csv", text)
    series = read_labelled_series([path], LabelColumns("kind", "who", "", ("v",)))
    assert shapes(series) == [("a", "1", (2, 1)), ("b", "2", (2, 1))]
    with assert_refused(FormatError, "wh", "who, kind"):
        read_labelled_series([path], LabelColumns("kind", "wh"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("b,3,2.9,6,down", "b,3,2.9,6,up", r"line 6 of .* gives the series 'b' the label 'up', and line 4 'down'"),
        ("b,3,2.9,6,down", "b,3,cold,6,down", r"has text in x; expected numbers.*channels=a,b"),
        ("b,3,2.9,6,down", "b,3,inf,6,down", r"line 6 of .* has 'inf' in the column 'x'; expected a finite number"),
        ("b,3,2.9,6,down", "b,2,2.9,6,down", r"line 6 of .* has the time '2', which is not after.*try sorting"),
        ("b,3,2.9,6,down", "b,three,2.9,6,down", r"line 6 of .* has 'three' for the time in the column 'time'"),
        ("b,3,2.9,6,down", ",3,2.9,6,down", r"line 6 of .* has '' for the series in the column 'series'"),
        ("b,3,2.9,6,down", "b,3,2.9,6,", r"line 6 of .* has '' for the label in the column 'label'"),
        ("label", "outcome", r"has no column of labels: it has series, time, x, y, outcome.*label=COLUMN"),
        ("series,time", "number,time", ""),
    ],
)
def test_a_long_table_is_refused_with_line_and_remedy(tmp_path: Path, old: str, new: str, message: str):
    path = write(tmp_path / "long.csv", LONG.replace(old, new))
    if not message:  # the one column of words is the series
        assert len(read_labelled_series([path])) == 2
        return
    with pytest.raises(FormatError, match=message) as refused:
        read_labelled_series([path])
    assert "\n" not in str(refused.value)


def test_text_further_down_than_the_first_rows_is_refused_with_its_line(tmp_path: Path):
    rows = "".join(f"s{k // 5},{k % 5},{k}.5,{'ab'[k // 5 % 2]}\n" for k in range(2000))
    path = write(tmp_path / "long.csv", "series,step,x,label\n" + rows + "s1999,1,oops,a\n")
    with assert_refused(FormatError, 2002, "oops", "x"):
        read_labelled_series([path])


# ---- wide


def test_wide_rows_as_the_archive_has_them(tmp_path: Path):
    path = write(tmp_path / "TRAIN.tsv", "1\t0.5\t-0.25\tNaN\t4\n-1\t1\t2\t3\tNaN\n1\t1\t2\t3\t5\n-1\t1\t2\t3\t6\n")
    series = read_labelled_series([path])
    assert shapes(series) == [("1", "1", (4, 1)), ("2", "-1", (3, 1)), ("3", "1", (4, 1)), ("4", "-1", (4, 1))]
    np.testing.assert_array_equal(series[0].values_TC[:, 0], [0.5, -0.25, np.nan, 4])


def test_wide_rows_of_several_lengths_and_separators(tmp_path: Path):
    expected = [("up", [1, 2, 3]), ("down", [4.5, 3, 2, 1])]
    for separator in ("\t", ",", ";", "  "):
        rows = "\n".join(separator.join([label, *map(str, values)]) for label, values in expected)
        path = write(tmp_path / "rows.txt", rows)
        series = read_labelled_series([path])
        assert [(one.label, one.values_TC[:, 0].tolist()) for one in series] == expected
    old = "  1.0000000e+00  2.0e+00  3.0e+00  4.0e+00\n  2.0000000e+00  2.0e+00  3.0e+00  4.0e+00\n"
    assert [one.label for one in read_labelled_series([write(tmp_path / "old.txt", old)])] == ["1", "2"]


def test_a_wide_table_with_names_above(tmp_path: Path):
    series = read_labelled_series([write(tmp_path / "t.csv", "v1,v2,v3,target\n1,2,3,a\n4,5,6,b\n7,8,,a\n")])
    assert [(one.label, one.values_TC[:, 0].tolist()) for one in series] == [
        ("a", [1, 2, 3]),
        ("b", [4, 5, 6]),
        ("a", [7, 8]),
    ]


def test_a_bad_wide_row_is_refused_with_its_line(tmp_path: Path):
    good = "up\t1\t2\t3\n" * 5
    for bad, message in (
        ("down\t1\tx\t3\n", r"line 6 of .* has 'x' as value 2; expected a number, or NaN"),
        ("\t1\t2\t3\n", r"line 6 of .* begins with ''; expected the label"),
        ("down\tNaN\tNaN\tNaN\n", r"line 6 of .* has a series without values"),
        ("down\t1\tinf\t3\n", r"line 6 of .* has an infinite value"),
    ):
        path = write(tmp_path / "rows.tsv", good + bad)
        with pytest.raises(FormatError, match=message):
            read_labelled_series([path])


# ---- files


def test_a_folder_for_each_label(tmp_path: Path):
    files = [
        write(tmp_path / "walk" / "one.csv", "t,x,y\n0,1,2\n1,3,4\n"),
        write(tmp_path / "run" / "two.csv", "t,x,y\n0,5,6\n"),
    ]
    series = read_labelled_series(files)
    assert shapes(series) == [("one", "walk", (2, 2)), ("two", "run", (1, 2))]
    assert series[0].channels == ("x", "y")


def test_a_step_without_values_keeps_its_place(tmp_path: Path):
    for label in ("up", "down"):
        write(tmp_path / label / "one.csv", "x,y\n1,2\n,\n3,4\n,\n\n")
    (one, _) = read_labelled_series(sorted(tmp_path.rglob("*.csv")))
    np.testing.assert_array_equal(one.values_TC, [[1, 2], [np.nan, np.nan], [3, 4]])


@pytest.mark.parametrize("header", ["file,label\n", ""])
def test_labels_beside_the_files(tmp_path: Path, header: str):
    table = write(tmp_path / "labels.csv", header + "one.csv,high\nsub/two,low\n")
    files = [table, write(tmp_path / "one.csv", "1\n2\n3\n"), write(tmp_path / "sub" / "two.csv", "4\n5\n")]
    series = read_labelled_series(files)
    assert shapes(series) == [("one", "high", (3, 1)), ("two", "low", (2, 1))]
    assert series[0].channels == ("value",)
    write(table, header + "one.csv,high\n")
    with assert_refused(SourceError, "two.csv", "labels.csv"):
        read_labelled_series(files)
    write(table, header + "onne.csv,high\nsub/two,low\n")
    with assert_refused(SourceError, "onne.csv"):
        read_labelled_series(files)


def test_channels_must_be_the_same_everywhere(tmp_path: Path):
    files = [write(tmp_path / "a" / "1.csv", "x,y\n1,2\n"), write(tmp_path / "b" / "2.csv", "x,z\n1,2\n")]
    with assert_refused(FormatError, "x, z", "x, y"):
        read_labelled_series(files)


# ---- recognised by content


def test_series_are_recognised_by_content_and_texts_are_not(tmp_path: Path):
    wide = write(tmp_path / "reviews.tsv", "up\t1\t2\t3\ndown\t3\t2\t1\n")
    assert holds_series([wide])
    assert form_of([wide]) == "wide"
    assert form_of([write(tmp_path / "long.csv", LONG)]) == "long"
    texts = {
        "tsv": "a gripping film\t1\na dull film\t0\n" * 5,
        "named": "text,label\nso good,pos\nso bad,neg\n",
        "stars": "id,text,stars,label\n1,so good,5,pos\n2,so bad,1,neg\n3,bad,1,neg\n",
        "numbers": "id,stars,label\n1,5,pos\n2,1,neg\n3,1,neg\n",
        "two": "1\t2\n3\t4\n",
        "json": '{"text": "so long", "label": "1"}\n',
        "prose": "It was the best of times, it was the worst of times.\n",
        "empty": "",
    }
    for name, text in texts.items():
        assert not holds_series([write(tmp_path / f"{name}.csv", text)]), name
    binary = tmp_path / "binary.csv"
    binary.write_bytes(bytes(range(256)) * 4)
    assert not holds_series([binary])
    assert not holds_series([tmp_path / "missing.csv"])
    plain = write(tmp_path / "plain.csv", "1,2\n3,4\n")
    assert not holds_series([plain])
    with assert_refused(ThereafterError, "plain.csv"):
        read_labelled_series([plain])


# ---- questions


def test_questions_in_every_form(tmp_path: Path):
    labels, one = ["down", "up"], ("value",)
    rows = write(tmp_path / "rows.tsv", "up\t1\t2\t3\ndown\t3\t2\t1\n")
    assert [q.values_TC[:, 0].tolist() for q in read_questions([rows], LabelColumns(), one, labels)] == [
        [1, 2, 3],
        [3, 2, 1],
    ]
    bare = write(tmp_path / "bare.tsv", "1\t2\t3\n3\t2\t1\t0\n")
    assert [len(q) for q in read_questions([bare], LabelColumns(), one, labels)] == [3, 4]
    long = write(tmp_path / "long.csv", LONG.replace(",label", "").replace(",up", "").replace(",down", ""))
    assert [len(q) for q in read_questions([long], LabelColumns(), ("x", "y"), labels)] == [2, 3]
    single = write(tmp_path / "single.csv", "t,x,y\n0,1,2\n1,3,4\n")
    (question,) = read_questions([single], LabelColumns(), ("x", "y"), labels)
    assert question.values_TC.tolist() == [[1, 2], [3, 4]]
    column = write(tmp_path / "column.csv", "1\n2\n3\n")
    (question,) = read_questions([column], LabelColumns(), one, labels)
    assert question.values_TC[:, 0].tolist() == [1, 2, 3]
    assert all(not q.label for q in read_questions([rows], LabelColumns(), one, labels))


def test_series_from_python():
    assert series_of([1, 2.5, None]).values_TC.tolist()[:2] == [[1], [2.5]]
    assert series_of(np.ones((4, 3), np.float32)).values_TC.shape == (4, 3)
    assert series_of("1, 2, NA").values_TC.shape == (3, 1)
    for wrong in (
        "",
        "nan nan",
        [None],
        "one two",
        "1 2; 3",
        np.ones((2, 2, 2)),
        [],
        ["a"],
        3.0,
        np.array([1, np.inf]),
        object(),
    ):
        with pytest.raises(OptionError, match=r"expected"):
            series_of(wrong)
    named = LabelledSeries(np.array([[1.0, 2.0]]), channels=("y", "x"))
    assert with_channels(named, ("x", "y")).values_TC.tolist() == [[2, 1]]
    with assert_refused(OptionError, "y, x", "z"):
        with_channels(named, ("z",))


STRANGE = ["", "NaN", "up", "2024-01-01", "inf", "a,b", '"', "1e400", "\u0660", "é", ";", "-", "1 000", "0x1f"]


def table_at_random(draw: random.Random) -> str:
    """A table in one of the forms, with strange cells here and there, and rows that are cut off."""
    rows: list[list[str]] = []
    if draw.random() < 0.5:
        rows.append(["series", "step", "x", "y", "label"])
        for number in range(draw.randint(1, 4)):
            rows += [[f"s{number}", str(t), f"{draw.gauss(0, 1):.2f}", "3", "ab"[number % 2]] for t in range(3)]
    else:
        rows += [["ab"[k % 2], *(f"{draw.gauss(0, 1):.2f}" for _ in range(5))] for k in range(draw.randint(1, 6))]
    for _ in range(draw.choice((0, 0, 1, 2, 5))):
        row = draw.choice(rows)
        row[draw.randrange(len(row))] = draw.choice(STRANGE)
    if draw.random() < 0.2:
        draw.choice(rows).pop()
    return "\n".join(draw.choice("\t,;").join(row) if draw.random() < 0.01 else ",".join(row) for row in rows)


def test_tables_made_at_random_are_read_or_refused_in_a_sentence(tmp_path: Path):
    draw, read = random.Random(1), 0
    for number in range(300):
        path = write(tmp_path / f"{number}.csv", table_at_random(draw))
        holds, refusal = holds_series([path]), ""
        try:
            series = read_labelled_series([path])
            assert holds
            assert all(one.label and one.values_TC.ndim == 2 for one in series)
            read += 1
            read_questions([path], LabelColumns(), series[0].channels, ["a", "b"])
        except ThereafterError as refused:
            refusal = str(refused)
        assert "\n" not in refusal
    assert 100 < read < 250
