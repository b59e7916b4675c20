"""A column of a table as a text: `reviews.csv:text`."""

from __future__ import annotations

import csv
import gzip
import json
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

import thereafter
from refusals import assert_refused
from thereafter.cli import app
from thereafter.errors import FormatError, OptionError, SourceError, UnknownNameError
from thereafter.text.form import Forming
from thereafter.text.labelled import read_column
from thereafter.text.sources import Source, resolve

ROWS = [("1", "so long, and\nthanks", "5"), ("2", 'for "all"', "4"), ("3", "", "3"), ("4", "the fish é漢", "5")]
TEXT = 'so long, and thanks\nfor "all"\n\nthe fish é漢\n'


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    path = tmp_path / "reviews.csv"
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("id", "Text", "stars"), *ROWS])
    return path


def text_of(path: Path, column: str) -> str:
    return "".join(read_column(path, column))


def test_by_name_and_by_number(reviews: Path) -> None:
    for column in ("Text", "text", "2", "-2"):
        assert text_of(reviews, column) == TEXT
        assert resolve(f"{reviews}:{column}").parts["text"].text() == TEXT
    assert text_of(reviews, "stars") == text_of(reviews, "-1") == "5\n4\n3\n5\n"


def test_tsv_jsonl_and_gzip(tmp_path: Path) -> None:
    tsv = tmp_path / "a.tsv"
    tsv.write_text("so long\t1\nfish\t0\n", encoding="utf-8")
    assert text_of(tsv, "1") == "so long\nfish\n"
    jsonl = tmp_path / "a.jsonl"
    jsonl.write_text("".join(json.dumps({"text": text, "id": id}) + "\n" for id, text, _ in ROWS), encoding="utf-8")
    assert text_of(jsonl, "text") == TEXT
    zipped = tmp_path / "b.csv.gz"
    zipped.write_bytes(gzip.compress(b"text,label\nso long,1\n"))
    assert resolve(f"{zipped}:text").parts["text"].text() == "so long\n"


def test_tables_of_western_europe_are_read_and_said(tmp_path: Path) -> None:
    for name, content in (("r.csv", "text,n\ncaf\xe9 cr\xe8me,1\n"), ("r.jsonl", '{"text": "caf\xe9 cr\xe8me"}\n')):
        (tmp_path / name).write_bytes(content.encode("latin-1"))
        source = resolve(f"{tmp_path / name}:text", forming=Forming()).parts["text"]
        assert source.text() == text_of(tmp_path / name, "text") == "café crème\n"
        assert "Windows-1252" in source.forms[0].reason


def test_long_cells_are_cells(tmp_path: Path) -> None:
    (tmp_path / "long.csv").write_text("text,n\n" + "so long " * 40_000 + ",1\n", encoding="utf-8")
    assert text_of(tmp_path / "long.csv", "text") == "so long " * 40_000 + "\n"


def test_wrong_columns_list_the_right_ones(reviews: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with assert_refused(UnknownNameError, "Text"):
        text_of(reviews, "Texts")
    with assert_refused(UnknownNameError, "Text", "id", "stars"):
        text_of(reviews, "zzz")
    with assert_refused(FormatError, 3, "id", "Text", "stars"):
        text_of(reviews, "4")
    with assert_refused(FormatError, 1, 3):
        text_of(reviews, "0")
    monkeypatch.chdir(tmp_path)  # an error shows a long name without its end
    with assert_refused(SourceError, "absent.csv:text"):
        resolve("absent.csv:text")


def test_several_tables_and_names_that_are_none(reviews: Path, tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text("text\nmore\n", encoding="utf-8")
    assert resolve([f"{reviews}:text", f"{tmp_path}/more.csv:text"]).parts["text"].text() == TEXT + "more\n"
    assert resolve(f"{tmp_path}/*.csv:text").parts["text"].text() == "more\n" + TEXT
    with assert_refused(SourceError, "columns"):
        resolve([f"{reviews}:text", f"{tmp_path}/more.csv:1"])
    with assert_refused(SourceError, "columns"):
        resolve([f"{reviews}:text", f"{tmp_path}/more.csv"])
    odd = tmp_path / "odd.csv:text"
    odd.write_text("a file of that name\n", encoding="utf-8")
    assert resolve(str(odd)).parts["text"].text() == "a file of that name\n"
    with pytest.raises(SourceError):
        resolve(f"{tmp_path}/notes.txt:text")


def test_the_column_is_part_of_the_source(reviews: Path) -> None:
    whole, texts, stars = (resolve(f"{reviews}{column}").parts["text"] for column in ("", ":text", ":stars"))
    assert len({source.fingerprint() for source in (whole, texts, stars)}) == 3
    assert whole.text() == reviews.read_text(encoding="utf-8")
    formed = resolve(f"{reviews}:text", forming=Forming()).parts["text"]
    assert formed.text() == TEXT
    assert [form.reason for form in formed.forms] == ["the column text of a table, one row per line"]
    assert isinstance(formed, Source)


def test_a_long_table_comes_in_pieces_and_counts_its_bytes(tmp_path: Path) -> None:
    dice = random.Random(3)
    rows = [" ".join(dice.choices(["so", "long", "and,", 'th"anks'], k=9)) for _ in range(30_000)]
    path = tmp_path / "long.csv"
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text",), *([row] for row in rows)])
    read: list[float] = []
    pieces = list(read_column(path, "text", advance=read.append))
    assert len(pieces) > 1
    assert "".join(pieces) == "".join(row + "\n" for row in rows)
    assert sum(read) == path.stat().st_size


def test_train_score_and_resume_know_columns(tmp_path: Path) -> None:
    path = tmp_path / "reviews.tsv"
    lines = [f"the {noun} {verb} here ." for noun in ("cat", "dog", "fish") for verb in ("sat", "ran")] * 6
    path.write_text("text\tlabel\n" + "".join(f"{line}\t1\n" for line in lines), encoding="utf-8")
    lm = thereafter.train(f"{path}:text", order=3)
    score = lm.score(f"{path}:text")
    assert score.lines == len(lines)
    assert score.bytes == sum(len(line) + 1 for line in lines)
    options = {"hidden": 8, "layers": 1, "epochs": 1, "out": tmp_path / "run", "device": "cpu"}
    neural = thereafter.train(f"{path}:text", model="rnn", **options)
    again = thereafter.resume(tmp_path / "run")
    assert again.score(f"{path}:text").nats == pytest.approx(neural.score(f"{path}:text").nats)


def test_the_command_line_takes_columns_and_documents(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<nav>menu</nav>" + "<p>the cat sat on the mat.</p>" * 30, encoding="utf-8")
    table = tmp_path / "t.csv"
    table.write_text("text,n\n" + "the cat sat on the mat.,1\n" * 30, encoding="utf-8")
    bytes_of = {}
    for name, source, more in (("page", page, []), ("raw", page, ["--keep-markup"]), ("column", f"{table}:text", [])):
        out = str(tmp_path / name)
        done = CliRunner().invoke(app, ["train", str(source), "--order", "3", "--out", out, *more])
        assert done.exit_code == 0, done.output
        bytes_of[name] = thereafter.load(out).score(source).bytes
    assert bytes_of["page"] == bytes_of["column"] == 30 * len("the cat sat on the mat.\n")
    assert bytes_of["raw"] == page.stat().st_size
    wrong = CliRunner().invoke(app, ["train", f"{table}:texts", "--out", str(tmp_path / "wrong")])
    assert wrong.exit_code != 0


def test_a_task_takes_no_column(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text("text\tlabel\n" + "so long\t1\nfish\t0\n" * 20, encoding="utf-8")
    with pytest.raises((SourceError, OptionError)):
        thereafter.train(f"{path}:text", task="classify", epochs=1)


def test_half_of_a_surrogate_pair_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "tweets.jsonl"
    path.write_text('{"text": "so long", "by": "\\udc00"}\n{"text": "and \\ud83d thanks", "by": "a"}\n')
    for given in (f"{path}:text", f"{path}:by"):
        line = 2 if given.endswith("text") else 1
        lm = thereafter.train(text="so long and thanks\n" * 3, tokens="word")
        for ask in (lm.score, lm.surprisal, thereafter.train):
            with pytest.raises(FormatError, match=rf"line {line} of .*tweets\.jsonl has a lone surrogate, .* remove"):
                ask(given)
    emoji = tmp_path / "emoji.jsonl"
    emoji.write_text('{"text": "\\ud83d\\ude00"}\n')
    assert text_of(emoji, "text") == "\U0001f600\n"
