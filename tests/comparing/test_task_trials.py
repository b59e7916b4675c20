"""Networks of a task compared: from the command line, and again from the same folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thereafter
from refusals import assert_refused
from thereafter.cli import main
from thereafter.errors import OptionError

SMALL: dict[str, Any] = {"hidden": 4, "epochs": 1}


@pytest.fixture
def tagged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lines = [f"the\tDET\n{noun}\tNOUN\n{verb}\tVERB\n\n" for noun in ("cow", "dog", "cat") for verb in ("ran", "sat")]
    path = tmp_path / "tagged.tsv"
    path.write_text("".join(lines * 4), encoding="utf-8")
    return path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    """The exit code of `thereafter compare ...`, what it printed, and what it wrote to standard error."""

    def command(*spelled: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["thereafter", "compare", *spelled])
        with pytest.raises(SystemExit) as ended:
            main()
        return (int(ended.value.code or 0), *capfd.readouterr())

    return command


def test_the_command_line_compares_what_the_door_compares(tagged: Path, run: Any):
    code, shown, _ = run(
        "tagged.tsv", "--task", "tag", "--models", "gru:cell=gru,two:cell=lstm:layers=2", "--seeds", "2",
        "--set", "hidden=4", "--epochs", "1", "--out", "kept", "--json",
    )  # fmt: skip
    assert code == 0, shown
    figures = json.loads(shown)
    models = {"gru": {"cell": "gru"}, "two": {"cell": "lstm", "layers": 2}}
    compared = thereafter.compare(tagged, task="tag", models=models, seeds=2, **SMALL)
    assert [(one["name"], one["seed"], one["figures"]) for one in figures["trials"]] == [
        (one.name, one.seed, dict(one.figures)) for one in compared.trials
    ]
    code, table, _ = run(
        "tagged.tsv", "--task", "tag", "--models", "gru:cell=gru", "--set", "hidden=4", "--epochs", "1"
    )
    assert code == 0
    assert "gru" in table
    assert "saved  runs/compare-tagged" in table
    assert (tagged.parent / "runs" / "compare-tagged" / "compare.json").is_file()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--match", "parameters"], "match"),
        (["--tokens", "char"], "tokens"),
        (["--models", "gru"], "NAME:OPTION=VALUE"),
        (["--models", "a:hiden=3"], "hidden"),
    ],
)
def test_what_a_task_cannot_be_told_is_said_in_a_sentence(tagged: Path, options: list[str], sentence: str, run: Any):
    code, _, shown = run("tagged.tsv", "--task", "tag", *options)
    assert code != 0
    assert sentence in shown
    assert "Traceback" not in shown


def test_a_folder_of_other_trainings_is_not_gone_on_with(tagged: Path):
    def again(**options: Any) -> Any:
        return thereafter.compare(str(tagged), task="tag", seeds=1, out="kept", **{**SMALL, **options})

    first = again()
    assert again().trials == first.trials
    with assert_refused(OptionError, "hidden"):
        again(hidden=5)
    with assert_refused(OptionError, "epochs"):
        again(epochs=2)
    other = tagged.with_name("other.tsv")
    other.write_text(tagged.read_text(encoding="utf-8") * 2, encoding="utf-8")
    with assert_refused(OptionError, "other.tsv"):
        thereafter.compare(str(other), task="tag", seeds=1, out="kept", **SMALL)


def test_all_runs_are_checked_before_one_is_trained(tagged: Path):
    thereafter.compare(str(tagged), task="tag", models={"b": {"layers": 1}}, out="kept", **SMALL)
    with assert_refused(OptionError, "layers"):
        thereafter.compare(
            str(tagged), task="tag", models={"a": {"layers": 1}, "b": {"layers": 2}}, out="kept", **SMALL
        )
    assert not (tagged.parent / "kept" / "runs" / "a-0").exists()


def test_numbers_of_numpy_are_numbers(tagged: Path):
    options = {"hidden": np.int64(4), "epochs": 1}
    first = thereafter.compare(str(tagged), task="tag", out="kept", **options)
    assert thereafter.compare(str(tagged), task="tag", out="kept", **SMALL).trials == first.trials


@pytest.mark.parametrize("name", ["a/b", "../b", "", ".b"])
def test_a_name_is_a_name_of_a_folder(tagged: Path, name: str):
    with assert_refused(OptionError, repr(name)):
        thereafter.compare(str(tagged), task="tag", models={name: {}}, **SMALL)


def test_standard_input_is_refused_and_an_empty_choice_is_no_choice():
    with assert_refused(OptionError, "-"):
        thereafter.compare("-", task="tag", **SMALL)
    with assert_refused(OptionError):
        thereafter.compare(text="the cat sat .\n" * 9, models=[])


@pytest.mark.parametrize(
    ("task", "line", "figures"),
    [
        ("classify", "{label}\tthe film was {word}\n", {"accuracy", "macro_f1"}),
        ("translate", "the {word} film ran {label}\tle film {word} {label} .\n", {"exact", "bleu", "chrf"}),
    ],
)
def test_differences_are_those_of_the_figures(tmp_path: Path, task: str, line: str, figures: set[str]):
    words = [
        (word, label) for label, several in (("good", "fine great"), ("poor", "dull bad")) for word in several.split()
    ]
    path = tmp_path / "examples.tsv"
    path.write_text("".join(line.format(word=w, label=k) for w, k in words * 120), encoding="utf-8")
    models = {"two": {"hidden": 2}, "twelve": {"hidden": 12}}
    compared = thereafter.compare(path, task=task, models=models, seeds=1, epochs=2)
    assert {one.figure for one in compared.differences} == figures
    by_name = {trial.name: trial.figures for trial in compared.trials}
    for one in compared.differences:
        assert one.difference.value == pytest.approx(by_name[one.better][one.figure] - by_name[one.other][one.figure])
        assert one.difference.low <= one.difference.value <= one.difference.high
        assert str(one) in compared.table()
