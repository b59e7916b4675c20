"""Labelled texts from tsv, csv and jsonl: which column is what, and the sentence for every kind of bad data."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import assert_refused
from thereafter.errors import EmptyCorpusError, FormatError, SourceError
from thereafter.text.labelled import LabelledText, read_labelled, require_known_labels

TWO = [LabelledText("a fine film", "1"), LabelledText("a bad film", "0")]


@pytest.fixture
def write(tmp_path: Path):
    def written(text: str | bytes, name: str = "data.tsv") -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return written


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", "a fine film\t1\na bad film\t0"),
        ("a.tsv", "1\ta fine film\n\n0\ta bad film\n"),
        ("a.tsv", "sentence\tlabel\na fine film\t1\na bad film\t0\n"),
        ("a.tsv", "id\tLabel\tReview\n7\t1\ta fine film\n8\t0\ta bad film\n"),
        ("a.csv", '"a fine film",1\n"a bad film",0\n'),
        ("a.csv", "class;text\n1;a fine film\n0;a bad film\n"),
        ("a.jsonl", '{"text": "a fine film", "label": 1}\n{"label": "0", "text": "a bad film", "by": null}\n'),
        ("a.jsonl", '{"what": "a fine film", "how": 1}\n{"what": "a bad film", "how": 0}\n'),
        ("a.txt", "a fine film\t1\na bad film\t0"),
        ("a.txt", "a fine film,1\na bad film,0"),
        ("a.txt", '{"text": "a fine film", "label": 1}\n{"text": "a bad film", "label": 0}\n'),
    ],
)
@pytest.mark.parametrize("how", ["plain", "gzip", "utf-16", "crlf"])
def test_text_and_label_are_found(write, name: str, text: str, how: str) -> None:
    data = (
        text.replace("\n", "\r\n").encode() if how == "crlf" else text.encode("utf-16" if how == "utf-16" else "utf-8")
    )
    path = write(gzip.compress(data), name + ".gz") if how == "gzip" else write(data, name)
    assert read_labelled(path) == TWO


def test_lines_are_those_of_the_file(write) -> None:
    path = write('text,label\n"two\nlines",1\n\nb,0\n', "a.csv")
    assert [(one.text, one.line) for one in read_labelled(path)] == [("two\nlines", 2), ("b", 5)]
    assert [one.line for one in read_labelled(write("a b\t1\n\nc d\t0"))] == [1, 3]


@given(
    st.lists(
        st.tuples(
            st.text(min_size=1).filter(lambda text: bool(text.strip())), st.sampled_from(["yes", "no", "so, so"])
        ),
        min_size=1,
        max_size=8,
    )
)
def test_any_text_survives_csv_and_jsonl(tmp_path_factory, rows: list[tuple[str, str]]) -> None:
    folder = tmp_path_factory.mktemp("rows")
    made = io.StringIO(newline="")
    csv.writer(made).writerows([("text", "label"), *rows])
    (folder / "a.csv").write_bytes(made.getvalue().encode())
    (folder / "a.jsonl").write_text("".join(json.dumps({"text": a, "label": b}) + "\n" for a, b in rows))
    expected = [LabelledText(text.strip(), label) for text, label in rows]
    assert read_labelled(folder / "a.jsonl") == expected
    # a line end inside a quoted cell is a line end of the file, and those are normalised
    normal = [LabelledText(text.replace("\r\n", "\n").replace("\r", "\n").strip(), label) for text, label in rows]
    assert read_labelled(folder / "a.csv") == normal


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (["good one\tpos", "1984\tneg"], [("good one", "pos"), ("1984", "neg")]),  # a text that is a number
        (["a b\treview", "c d\tnews", "e f\treview"], [("a b", "review"), ("c d", "news"), ("e f", "review")]),
        (["what\tgold", "a b\t1", "c d\t0", "e f\t1"], [("a b", "1"), ("c d", "0"), ("e f", "1")]),
        (["x\tsentence", "0\ta b", "1\tc d"], [("a b", "0"), ("c d", "1")]),
        (["en\t0\ta b c", "en\t1\td e f", "en\t1\tg h i"], [("a b c", "0"), ("d e f", "1"), ("g h i", "1")]),
        (["a b c\tpos"], [("a b c", "pos")]),
        (["a b c\tpos", "d e f\tpos"], [("a b c", "pos"), ("d e f", "pos")]),
    ],
)
def test_names_or_not_and_which_column_is_the_label(write, rows: list[str], expected: list[tuple[str, str]]) -> None:
    assert [(one.text, one.label) for one in read_labelled(write("\n".join(rows)))] == expected


@pytest.mark.parametrize(
    ("value", "label"), [(1, "1"), (True, "true"), (0.5, "0.5"), ("né", "né"), (-3, "-3"), (" a ", "a")]
)
def test_labels_of_json_are_strings(write, value: Any, label: str) -> None:
    assert read_labelled(write(json.dumps({"text": "x", "label": value}), "a.jsonl"))[0].label == label


MANY = "\n".join(f"sentence {n}\tphrase {n}" for n in range(30))
BAD: dict[str, tuple[str, str, str]] = {
    "ragged tsv": ("a.tsv", "a b\t1\nc d\n", "line 2 of .*a.tsv has 1 column and line 1 has 2"),
    "tab in a text": ("a.tsv", "a b\t1\n\nc\td\t1\n", "line 3 of .* has 3 columns and line 1 has 2; .* separator"),
    "ragged csv": ("a.csv", 'text,label\n"a\nb",1\nc, d,1\n', "line 4 of .* has 3 columns and line 1 has 2"),
    "open quote": ("a.csv", 'text,label\nx,1\n"a,1\nb,0\n', "row at line 3 of .* is not csv .*unexpected end"),
    "bad quote": ("a.csv", 'text,label\n"a"b,1\n', "row at line 2 of .* is not csv"),
    "huge cell": (
        "a.csv",
        'text,label\n"' + "a" * ((16 << 20) + 1) + '",1\n',
        "row at line 2 .* is not csv .*limit",
    ),
    "empty text": ("a.tsv", "a b\t1\n \t0\n", "line 2 of .* has an empty cell for a text in column 1"),
    "empty label": ("a.csv", "text,label\na,1\nb,\n", "line 3 .* an empty cell for a label in the column 'label'"),
    "one column": ("a.tsv", "a b\nc d\n", "line 1 of .*a.tsv has 1 column, expected a text and a label"),
    "no label": (
        "a.tsv",
        MANY,
        "no column that looks like labels.* 30 different values in 30 rows.* names it",
    ),
    "unclear": ("a.tsv", "a b\tx\tp\nc d\ty\tq\n", "no column is clearly the label, from line 1 of .* names it"),
    "not JSON": ("a.jsonl", '{"text": "a", "label": 1}\n{"text": \n', "line 2 of .* is not JSON .* such as"),
    "deep JSON": ("a.jsonl", "[" * 100_000, "line 1 of .* is not JSON"),
    "NaN": ("a.jsonl", '{"text": "a", "label": NaN}', "line 1 of .* is not JSON .NaN is not a JSON value"),
    "not an object": ("a.jsonl", '["a", 1]', "line 1 of .* is a JSON list, expected an object"),
    "key missing": (
        "a.jsonl",
        '{"text": "a", "label": 1}\n{"label": 1}',
        "line 2 .* nothing for a text in .*'text'",
    ),
    "text no string": ("a.jsonl", '{"text": ["a"], "label": 1}', "line 1 of .* has the list .* for a text"),
    "label no name": ("a.jsonl", '{"text": "a", "label": {"b": 1}}', "line 1 of .* has the dict .* for a label"),
    "half a pair": ("a.jsonl", '{"text": "\\ud800", "label": 1}', "line 1 of .* a lone surrogate"),
}


@pytest.mark.parametrize(("name", "text", "sentence"), BAD.values(), ids=BAD)
def test_bad_rows_are_a_sentence_with_the_line(write, name: str, text: str, sentence: str) -> None:
    with pytest.raises(FormatError, match=sentence):
        read_labelled(write(text, name))


def test_files_that_are_not(write, tmp_path: Path) -> None:
    for name, text in (("a.tsv", ""), ("a.csv", "text,label\n"), ("a.jsonl", "\n \n")):
        with pytest.raises(EmptyCorpusError, match=f"{name} holds no rows"):
            read_labelled(write(text, name))
    with assert_refused(SourceError, "nothing.tsv"):
        read_labelled(tmp_path / "nothing.tsv")


def test_a_label_that_training_never_has(write) -> None:
    path = write("a b\t1\n\nc d\t2\n")
    require_known_labels(read_labelled(path), {"1", "2"}, path)
    with assert_refused(FormatError, 3, "2", 0, 1):
        require_known_labels(read_labelled(path), {"0", "1"}, path)


@pytest.mark.corpus("sst2: sentences and positive ones of each part")
@pytest.mark.parametrize(("part", "texts", "positive"), [("train", 6920, 3610), ("dev", 872, 444), ("test", 1821, 909)])
def test_sst2_has_the_counts_of_its_card(data: Path, part: str, texts: int, positive: int) -> None:
    if not (data / "sst2").is_dir():
        pytest.skip("SKIPPED LOUDLY: no sst2 in the folder of corpora")
    read = read_labelled(data / "sst2" / f"{part}.tsv")
    assert (len(read), sum(one.label == "1" for one in read), {one.label for one in read}) == (
        texts,
        positive,
        {"0", "1"},
    )


def test_a_run_knows_its_labels_by_their_column(write) -> None:
    rows = ["id,opinion,words,stars", "1,pos,a good film,3", "1,neg,a bad film,5", "2,pos,a good one,4"]
    pairs = [("a good film", "pos"), ("a bad film", "neg"), ("a good one", "pos")]
    labels = ("pos", "neg", "none")
    for listed in (rows, rows[1:], [rows[0].replace("stars", "rank"), *rows[1:]]):
        read = read_labelled(write("\n".join(listed) + "\n", "reviews.csv"), labels=labels)
        assert [(one.text, one.label) for one in read] == pairs
    assert read_labelled(write("\n".join(rows) + "\n", "reviews.csv"))[0].label == "3"
    new = write("a good film,pos\na strange film,maybe\n", "new.csv")
    assert [one.label for one in read_labelled(new, labels=labels)] == ["pos", "maybe"]  # said by `check`
