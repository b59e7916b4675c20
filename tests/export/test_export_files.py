"""Exporting as a user does it: what is refused, what is checked, what is left behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from step_models import toy

import thereafter
from refusals import assert_refused
from thereafter.errors import ExportError, MissingPackageError, OptionError, StorageError, UnknownNameError
from thereafter.export import export as exporting
from thereafter.export.check import STEPS, Checked, check, difference, refuse
from thereafter.export.plan import RecurrentPlan, arrays_of, plan_of
from thereafter.export.targets import TARGETS, target_of

TEXT = "the cat sat on the mat. a dog ran after the cat!\nand then it rained, for days and days.\n" * 30


@pytest.fixture(scope="module")
def lstm() -> thereafter.LanguageModel:
    return thereafter.train(text=TEXT, model="lstm", tokens="char", hidden=16, layers=1, epochs=1, seed=1)


@pytest.fixture(scope="module")
def ngram() -> thereafter.LanguageModel:
    return thereafter.train(text=TEXT, model="ngram", tokens="prose", order=3)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_step_and_a_sequence_are_written_and_checked(lstm: thereafter.LanguageModel, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    exported = lstm.export(tmp_path / "m.onnx")
    assert files(tmp_path) == ["m-sequence.onnx", "m.onnx"]
    assert exported.checked.steps == STEPS
    assert exported.checked.largest <= 1e-4
    assert exported.checked.bits == pytest.approx(exported.checked.bits_exported, rel=1e-5)
    assert "valid" in exported.checked.text or "last" in exported.checked.text
    assert exported.size == sum(path.stat().st_size for path in tmp_path.iterdir())
    assert exported.to_rows()[0]["largest_difference"] == exported.checked.largest


@pytest.mark.parametrize("spelled", ["prose", "char", "byte", "word"])
def test_arpa_files_are_read_again(spelled: str, tmp_path: Path) -> None:
    lm = thereafter.train(text=TEXT, model="ngram", tokens=spelled, order=3)
    exported = lm.export(tmp_path / "m.arpa.gz", "arpa")
    assert files(tmp_path) == ["m.arpa.gz"]
    assert exported.checked.largest <= 1e-4


class Spoiled:
    """A target whose file differs from its model in one weight."""

    def __init__(self, by: float) -> None:
        self.real: Any = target_of("onnx")
        self.by = by

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def write(self, plan: RecurrentPlan, path: Path, *, int8: bool) -> Any:
        embedding = plan.embedding.copy()
        embedding[3] += self.by
        return self.real.write(replace(plan, embedding=embedding), path, int8=int8)


@pytest.mark.parametrize("int8", [False, True])
def test_a_file_that_differs_is_not_left(
    int8: bool, lstm: thereafter.LanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(exporting, "target_of", lambda name: Spoiled(10.0 if int8 else 1e-2))
    (tmp_path / "m.onnx").write_text("an older file")
    with assert_refused(ExportError):
        lstm.export(tmp_path / "m.onnx", int8=int8)
    assert files(tmp_path) == ["m.onnx"]
    assert (tmp_path / "m.onnx").read_text() == "an older file"


def test_the_check_sees_every_kind_of_difference() -> None:
    ours = np.array([[-1.0, -np.inf]])
    assert difference(ours, ours) == 0
    assert difference(ours, np.array([[-1.0, -228.0]])) == 0
    assert difference(ours, np.array([[-1.5, -np.inf]])) == 0.5
    assert difference(ours, np.array([[np.nan, -np.inf]])) == np.inf
    assert difference(ours, ours[:, :1]) == np.inf
    for largest in (2e-4, float("nan"), float("inf")):
        with assert_refused(ExportError):
            refuse(Checked(1000, largest, 1.0, 1.0, "x"), 1e-4, "m.onnx")
    for bits in (1.02, float("nan")):
        with assert_refused(ExportError, "bits per byte"):
            refuse(Checked(1000, 0.5, 1.0, bits, "x"), None, "m.onnx")
    refuse(Checked(1000, 0.5, 1.0, 1.009, "x"), None, "m.onnx")


def test_an_empty_text_cannot_check() -> None:
    class Never:
        name: ClassVar[str] = "nobody"

        def start(self, rows: int) -> Any: ...
        def step(self, token_B: Any) -> Any: ...
        def close(self) -> None: ...

    with pytest.raises(ExportError, match="empty"):
        check(toy("rnn"), Never(), np.empty(0, np.int32), "x", 1)


def test_hostile_wishes_are_one_sentence_each(
    lstm: thereafter.LanguageModel, ngram: thereafter.LanguageModel, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    with assert_refused(UnknownNameError, "onnx"):
        lstm.export(tmp_path / "m", "onxx")
    with assert_refused(ExportError, "folder"):
        lstm.export(tmp_path / "folder", "onnx")
    with pytest.raises(StorageError):
        lstm.export(tmp_path / "file" / "m.onnx", "onnx")
    with assert_refused(ExportError, "name"):
        lstm.export(tmp_path / "m\0.onnx", "onnx")
    with assert_refused(ExportError, "n-grams"):
        lstm.export(tmp_path / "m.arpa", "arpa")
    with assert_refused(ExportError, "int8"):
        ngram.export(tmp_path / "m.arpa", "arpa", int8=True)
    with assert_refused(ExportError, "--to arpa"):
        ngram.export(tmp_path / "m.onnx", "onnx")
    mixture = thereafter.mixture([ngram, ngram])
    with assert_refused(ExportError):
        mixture.export(tmp_path / "m.onnx", "onnx")
    (tmp_path / "other.txt").write_text("")
    with pytest.raises(thereafter.errors.ThereafterError):
        lstm.export(tmp_path / "m.onnx", "onnx", check=tmp_path / "other.txt")
    assert files(tmp_path) == ["file", "folder", "other.txt"]


def test_the_text_of_the_check_is_not_the_training_text(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    learned, other = tmp_path / "learned.txt", tmp_path / "other.txt"
    learned.write_text(TEXT)
    other.write_text("a cat ran.\n" * 200)
    lm = thereafter.train(learned, model="window", tokens="char", valid=other, epochs=1, hidden=8, embed=4)
    with assert_refused(OptionError):
        lm.export(tmp_path / "m.onnx", check=learned)
    exported = lm.export(tmp_path / "m.onnx", check=other)
    assert exported.checked.steps == STEPS == 200
    assert exported.checked.text.endswith("other.txt")


def test_a_missing_package_names_the_line_that_gets_it(
    lstm: thereafter.LanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with assert_refused(MissingPackageError, "thereafter[export]"):
        lstm.export(tmp_path / "m.onnx")
    assert files(tmp_path) == []


def test_who_ran_the_file_is_who_is_named(
    lstm: thereafter.LanguageModel, ngram: thereafter.LanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from thereafter.cli.export import lines
    from thereafter.export.c import target as c_target
    from thereafter.export.html import target as html_target

    monkeypatch.setattr(c_target, "compiler", lambda: None)
    monkeypatch.setattr(html_target, "browser_path", lambda: None)
    for to, program in (("c", "C compiler"), ("html", "Chromium")):
        exported = lstm.export(tmp_path / f"m.{to}", to)
        assert exported.program == exported.to_rows()[0]["checked_by"] == "our own numpy interpreter"
        assert any("checked by our own numpy interpreter: 200 steps" in line for line in lines(exported))
        assert "was not run" in str(exported.facts["note"])
        with pytest.raises(ExportError, match=f"there is no {program} here"):
            ngram.export(tmp_path / f"n.{to}", to)
    assert ngram.export(tmp_path / "m.arpa", "arpa").program == "our reader of ARPA files"


def test_every_target_that_is_there_has_an_ending_and_a_program() -> None:
    for name in TARGETS:
        try:
            target = target_of(name)
        except ExportError:
            continue
        assert isinstance(target.ending, str)
        assert target.program


def test_plans_hold_every_parameter() -> None:
    for case in ("lstm", "transformer", "window", "lstm adaptive"):
        lm = toy(case)
        numbers = sum(array.size for array in arrays_of(plan_of(lm)))
        assert numbers >= lm.model.facts.parameters


@pytest.mark.wide
def test_a_check_takes_as_many_steps_as_requested_and_passes_the_end_of_a_context(tmp_path: Path) -> None:
    small: Any = {"model": "transformer", "tokens": "char", "hidden": 8, "heads": 2, "layers": 1, "tokens_budget": 400}
    lm = thereafter.train(text=TEXT, context=180, **small)
    for to in ("c", "run"):
        assert lm.export(tmp_path / f"few.{to}", to, check_steps=7).checked.steps == 7
    assert lm.export(tmp_path / "past.c", "c").checked.steps == 230
    assert lm.export(tmp_path / "int8.c", "c", int8=True).checked.steps == 1000
    with assert_refused(OptionError, "check_steps", 0, 1, "--check-steps", 200):
        lm.export(tmp_path / "none.c", "c", check_steps=0)


def test_the_command_prints_what_the_check_has_seen(lstm: thereafter.LanguageModel, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    from typer.testing import CliRunner

    from thereafter.cli import app

    run = lstm.save(tmp_path / "run")
    out = tmp_path / "m.onnx"
    (tmp_path / "other.txt").write_text("a cat ran.\n" * 9)
    given = ["export", str(run), "--to", "onnx", "--out", str(out), "--check", str(tmp_path / "other.txt")]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 0, result.output
    assert "checked by ONNX Runtime: 200 steps over the 99 tokens of " in result.output
    assert "other.txt, read again and again, largest difference in log p" in result.output
    assert "size: " in result.output
    assert "state: 128 bytes a row" in result.output
    assert out.is_file()
    help_text = CliRunner().invoke(app, ["export", "--help"]).output
    assert "Example: thereafter export" in help_text


@pytest.mark.parametrize(("to", "name"), [("html", "page"), ("c", "model"), ("c", "model.h"), ("onnx", "model.txt")])
def test_a_name_that_a_program_would_not_take_is_refused(
    to: str, name: str, lstm: thereafter.LanguageModel, tmp_path: Path
) -> None:
    with pytest.raises(ExportError, match=rf"expected a name that ends in \.{to}; try .*{name}\.{to}"):
        lstm.export(tmp_path / name, to=to)
    assert not list(tmp_path.iterdir())


def test_files_of_an_export_are_replaced_together_and_named(
    ngram: thereafter.LanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from thereafter.cli.export import lines
    from thereafter.export import export

    assert ngram.export(tmp_path / "m.c", "c").replaced == ()
    older = {name: (tmp_path / name).read_bytes() for name in ("m.c", "m.h")}
    again = ngram.export(tmp_path / "m.c", "c")
    assert "replaced: m.c, m.h" in lines(again)
    real = export.moved

    def fails(written: Path, place: Path) -> Path:
        if place.suffix == ".h":
            raise OSError(28, "No space left on device")
        return real(written, place)

    monkeypatch.setattr(export, "moved", fails)
    other = thereafter.train(text=TEXT, model="ngram", tokens="char", order=2)
    with assert_refused(StorageError):
        other.export(tmp_path / "m.c", "c")
    assert {name: (tmp_path / name).read_bytes() for name in files(tmp_path)} == older
    (tmp_path / "n.h").write_text("mine: init() once, thereafter step()")
    with assert_refused(ExportError, "n.h"):
        ngram.export(tmp_path / "n.c", "c")
    assert files(tmp_path) == ["m.c", "m.h", "n.h"]
    assert (tmp_path / "n.h").read_text().startswith("mine")


@pytest.mark.parametrize("to", ["onnx", pytest.param("torch", marks=pytest.mark.wide)])
def test_second_files_are_known_as_exports(to: str, tmp_path: Path) -> None:
    lm = thereafter.train(text=TEXT, model="rnn", tokens="char", hidden=4, embed=4, epochs=0.01, min_count=1)
    ending = {"onnx": ".onnx", "torch": ".pt2"}[to]
    lm.export(tmp_path / f"before{ending}", to)  # the name that replaced files have had on their way
    assert len(lm.export(tmp_path / f"before{ending}", to).replaced) == 2


def test_what_a_killed_export_has_left_is_removed_by_the_next(ngram: thereafter.LanguageModel, tmp_path: Path) -> None:
    import os

    for name in (".export-dead", ".export-young"):
        (tmp_path / name / "files").mkdir(parents=True)
    os.utime(tmp_path / ".export-dead", (0, 0))
    ngram.export(tmp_path / "m.arpa", "arpa")
    assert files(tmp_path) == [".export-young", "m.arpa"]


def test_a_short_text_is_not_said_to_be_long(ngram: thereafter.LanguageModel, tmp_path: Path) -> None:
    from thereafter.cli.export import lines

    (tmp_path / "short.txt").write_text("a cat")
    exported = ngram.export(tmp_path / "m.arpa", "arpa", check=tmp_path / "short.txt")
    assert exported.to_rows()[0]["tokens"] == exported.checked.tokens < 10
    words = f"200 steps over the {exported.checked.tokens} tokens of "
    assert any(words in line and "again and again" in line for line in lines(exported))
