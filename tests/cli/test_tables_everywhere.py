"""Every command that prints a table prints it as CSV and as JSON too, with the same rows.

The commands are those of the application itself: one that is in neither list below fails, so that none is forgotten.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.core import TyperCommand, TyperGroup

import thereafter
from thereafter.cli import app, main
from thereafter.text.agreement import sentences
from thereafter.text.memory import TASKS, text_of

OLD_RUNS = Path(__file__).resolve().parents[1] / "old_runs"
TEXT = "the dogs near the old house are here"

NO_TABLE = {
    "arpa": "writes a file",
    "gallery": "writes pictures, each with its numbers as a file",
    "generate": "prints text; its --json has the tokens of each sample, which no table holds",
    "lm-eval": "hands over to lm-evaluation-harness, which prints its own tables",
    "serve": "answers over HTTP until it is interrupted",
    "studio": "opens a page",
    "train": "reports on a run, whose log.jsonl and config.toml have all figures",
    "data get": "reports where files were put",
    "data path": "prints paths, one a line, for other commands",
}
"""Commands that print no table, and why."""

COMMANDS = {
    "backtest": ["sine", "noisy.csv"],
    "compare": ["book.txt", "--models", "unigram,ngram-2", "--out", "compared"],
    "export": ["ngram", "--to", "arpa", "--out", "model.arpa"],
    "figure": [],
    "kernels": [],
    "neighbours": ["lstm", "the", "-k", "3"],
    "next": ["ngram", "the", "-k", "3"],
    "predict": [str(OLD_RUNS / "tag" / "finished"), "the cat sat"],
    "rank": ["ngram", "the cat sat", "the cat, sat"],
    "score": ["ngram", "book.txt"],
    "surprisal": ["ngram", "--text", "the cat sat on the mat"],
    "data list": [],
    "inspect agreement": ["lstm", "--count", "30", "--longest", "4"],
    "inspect ahead": ["sine", "noisy.csv", "--steps", "1,4"],
    "inspect describe": ["flow.npz"],
    "inspect dynamics": ["lstm", "--text", TEXT],
    "inspect gradients": ["lstm", "--text", TEXT, "--distance", "3", "--rows", "1"],
    "inspect jacobians": ["lstm", "--text", TEXT, "--steps", "3"],
    "inspect memory": ["recall", "--task", "remember-first", "--longest", "3", "--count", "3"],
    "inspect pairs": ["lstm", "pairs.tsv"],
    "inspect probe": ["lstm", "--property", "class", "--count", "3"],
    "inspect trace": ["ngram", "the cat sat", "--out", "trace.npz"],
    "inspect units": ["lstm", "lines.txt", "--property", "line-position", "--top", "2"],
}
"""Commands that print a table, with arguments that make them print one."""


def leaves(command: TyperCommand | TyperGroup, path: tuple[str, ...] = ()) -> Iterator[tuple[str, TyperCommand]]:
    if isinstance(command, TyperGroup):
        context = typer.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert isinstance(inner, TyperCommand | TyperGroup)
            yield from leaves(inner, (*path, name))
    else:
        yield " ".join(path), command


def all_commands() -> dict[str, TyperCommand]:
    root = typer.main.get_command(app)
    assert isinstance(root, TyperGroup)
    return dict(leaves(root))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with texts and small models."""
    folder = tmp_path_factory.mktemp("tables")
    book = "the cat sat on the mat\nthe dog, sat on the log\nthe cat saw the dog\n" * 30
    texts = {
        "book.txt": book,
        "lines.txt": "\n".join(one.text for one in sentences(300)) + "\n",
        "pairs.tsv": "the dogs are here\tthe dogs is here\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    thereafter.train(text=book, tokens="prose", order=2, out=folder / "ngram")
    thereafter.train(
        text=text_of(TASKS["remember-first"], count=200, longest=4), tokens="word", order=3, out=folder / "recall"
    )
    noisy = "t,x\n" + "".join(f"{row},{row % 7}.5\n" for row in range(80))
    (folder / "noisy.csv").write_text(noisy, encoding="utf-8")
    split = {"forecast.split": "60/10/30"}
    sine = folder / "sine"
    thereafter.train(folder / "noisy.csv", task="forecast", model="ar", horizon=1, lookback=4, out=sine, **split)
    options = {"hidden": 8, "layers": 1, "tied": False, "tokens_budget": 2000, "seed": 0}
    thereafter.train(text=texts["lines.txt"], model="lstm", tokens="word", out=folder / "lstm", **options)
    from thereafter import instruments

    instruments.gradients(thereafter.load(folder / "lstm"), text=TEXT, distance=3, rows=1).save(folder / "flow.npz")
    return folder


def output(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["thereafter", *words])
        with pytest.raises(SystemExit) as stop:
            main()
    printed = capsys.readouterr()
    assert not stop.value.code, printed.err
    return printed.out


def as_cell(value: object) -> str:
    """A value of JSON as a cell of CSV has it."""
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def test_no_command_is_forgotten():
    names = set(all_commands())
    assert names == COMMANDS.keys() | NO_TABLE.keys()
    assert not COMMANDS.keys() & NO_TABLE.keys()
    options = {
        name: {option for one in command.params for option in one.opts} for name, command in all_commands().items()
    }
    assert not [name for name in COMMANDS if not {"--csv", "--json"} <= options[name]]
    assert not [name for name in NO_TABLE if "--csv" in options[name]]


@pytest.mark.parametrize("name", COMMANDS)
def test_csv_and_json_hold_the_same_rows(
    name: str, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(place)
    words = [*name.split(), *COMMANDS[name]]
    table = list(csv.DictReader(io.StringIO(output(capsys, *words, "--csv"))))
    if name == "export":
        (place / "model.arpa").unlink()  # else the second export says what it has replaced
    stored = json.loads(output(capsys, *words, "--json"))
    assert table
    assert all(None not in row and None not in row.values() for row in table)  # as many cells as heads
    if name == "compare":  # has everything as JSON: the trials and texts behind each row
        assert [row["model"] for row in table] == [row["name"] for row in stored["rows"]]
        bits = [float(row["bits_per_byte"]) for row in table]
        assert bits == [row["bits_per_byte"]["mean"] for row in stored["rows"]]
        return
    rows = [stored] if name == "score" else stored  # a score is one row
    assert [list(row) for row in table] == [list(row) for row in rows]
    for one, other in zip(table, rows, strict=True):
        for head, value in other.items():
            assert one[head] == as_cell(value) or (value is None and one[head] in ("", "nan", "inf", "-inf"))


@pytest.mark.parametrize("name", ["score", "rank", "inspect units"])
def test_both_at_once_are_refused_before_anything_is_read(name: str, capsys: pytest.CaptureFixture[str]):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["thereafter", *name.split(), "no run", "no text", "--csv", "--json"])
        with pytest.raises(SystemExit) as stop:
            main()
    assert stop.value.code == 2
    assert "got both --csv and --json" in capsys.readouterr().err


def test_a_task_is_scored_as_a_table(place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(place)
    run, examples = str(OLD_RUNS / "tag" / "finished"), str(OLD_RUNS / "texts" / "tags.tsv")
    table = list(csv.DictReader(io.StringIO(output(capsys, "score", run, examples, "--csv"))))
    stored = json.loads(output(capsys, "score", run, examples, "--json"))
    assert float(table[0]["f1"]) == stored["accuracy"]
    assert {row["name"] for row in table if row["by"] == "tag"} == stored["tags"].keys()


def test_a_saved_file_says_what_it_holds(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(place)
    shown = output(capsys, "inspect", "describe", "flow.npz")
    assert shown.splitlines()[0].split() == ["name", "axes", "shape", "meaning"]
    assert "mean norm of d loss / d state" in shown
    output(capsys, "inspect", "describe", "flow.npz", "--array", "norm", "--out", "norm.csv")
    with (place / "norm.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["layer"] for row in rows} == {"words", "l0"}
    assert {row["distance"] for row in rows} == {"0", "1", "2", "3"}


def test_the_saturation_of_gates_is_a_table_of_its_own(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(place)
    printed = output(capsys, "inspect", "dynamics", "lstm", "--text", TEXT, "--table", "saturation", "--csv")
    rows = list(csv.DictReader(io.StringIO(printed)))
    assert {row["gate"] for row in rows} >= {"l0.forget", "l0.input", "l0.output"}
