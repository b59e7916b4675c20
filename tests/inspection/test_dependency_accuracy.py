"""Any long dependency by distance: the instrument of agreement over reflexives and over fillers with their gaps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import thereafter
from thereafter import instruments
from thereafter.cli import app
from thereafter.inspection.measurement import Measurement
from thereafter.text.agreement import sentence_corpus


def bigram(name: str, **options: object) -> thereafter.LanguageModel:
    text = "".join(f"{one.text}\n" for one in sentence_corpus(name).sentences(1500, seed=1, part="train"))
    return thereafter.train(text=text, tokens="word", order=2, **options)


@pytest.mark.parametrize("name", ["reflexives", "filler-gap"])
def test_a_bigram_is_at_chance_at_every_distance(name: str) -> None:
    verdicts = instruments.agreement(bigram(name), name, count=1500, longest=12)
    assert verdicts.kind == "dependency"  # the pictures of agreement speak of verbs
    assert verdicts.about["corpus"] == name
    assert verdicts["distance"].max() == 12
    assert verdicts["total_distance"].sum() == 1500
    share = verdicts["right_distance"].sum() / 1500
    assert abs(share - 0.5) < 4 * 0.5 / np.sqrt(1500)
    # a filler has no number, so that no noun in between can have the same
    assert ("no number" in verdicts["congruence"]) == (name == "filler-gap")


def test_by_distance_on_the_command_line(tmp_path: Path) -> None:
    bigram("filler-gap", out=tmp_path / "run")
    asked = ["inspect", "agreement", str(tmp_path / "run"), "--corpus", "filler-gap", "--count", "200"]
    ended = CliRunner().invoke(app, [*asked, "--longest", "6", "--out", str(tmp_path / "far.npz")])
    assert ended.exit_code == 0, ended.output
    assert "asked whether the verb's object is missing; chance is 50 %" in ended.output
    rows = [line.split() for line in ended.output.splitlines() if "%" in line and "-" in line]
    assert [row[0] for row in rows] == ["3-5", "6-10"]
    assert sum(int(row[2]) for row in rows) == 200
    assert Measurement.load(tmp_path / "far.npz")["total_distance"].sum() == 200
    wrong = CliRunner().invoke(app, ["inspect", "agreement", str(tmp_path / "run"), "--corpus", "filler"])
    assert wrong.exit_code != 0
