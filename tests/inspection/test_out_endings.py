"""What `inspect --out` writes is what the ending of the name says."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import thereafter
from refusals import assert_refused
from thereafter.cli import main
from thereafter.errors import OptionError
from thereafter.inspection.measurement import Measurement

FOUND = Measurement(
    "decay",
    {"norm": np.array([[1.0, np.nan], [0.5, 0.25]]), "layer": np.array(["l0", "l1"])},
    {"norm": ("layer", "distance"), "layer": ("layer",)},
    {"model": "rnn"},
)


def test_arrays_are_read_back(tmp_path: Path) -> None:
    again = Measurement.load(FOUND.save(tmp_path / "p.npz"))
    np.testing.assert_array_equal(again["norm"], FOUND["norm"])


def test_a_table_is_text_with_a_number_a_line(tmp_path: Path) -> None:
    rows = list(csv.reader((FOUND.save(tmp_path / "p.csv")).read_text(encoding="utf-8").splitlines()))
    assert rows[0] == ["array", "layer", "distance", "value"]
    assert rows[1:3] == [["norm", "0", "0", "1.0"], ["norm", "0", "1", "nan"]]
    assert rows[5:] == [["layer", "0", "", "l0"], ["layer", "1", "", "l1"]]


def test_json_has_everything(tmp_path: Path) -> None:
    stored = json.loads(FOUND.save(tmp_path / "p.json").read_text(encoding="utf-8"))
    assert stored["measurement"]["about"] == {"model": "rnn"}
    assert stored["arrays"] == {"norm": [[1.0, None], [0.5, 0.25]], "layer": ["l0", "l1"]}


@pytest.mark.parametrize("name", ["p.txt", "p.npy"])
def test_other_endings_are_refused(tmp_path: Path, name: str) -> None:
    with assert_refused(OptionError, ".npz", "p.npz"):
        FOUND.save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_the_command_refuses_before_it_measures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    thereafter.train(text="the cat sat on the mat\n" * 5, tokens="word", out=tmp_path / "run")

    def run(*words: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["thereafter", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            main()
        return int(stop.value.code or 0), capsys.readouterr().err

    code, err = run("inspect", "trace", tmp_path / "no run", "the cat", "--out", tmp_path / "t.xlsx")
    assert (code, "ends in '.xlsx'" in err) == (2, True)
    assert run("inspect", "trace", tmp_path / "run", "the cat", "--out", tmp_path / "t.csv")[0] == 0
    assert (tmp_path / "t.csv").read_text().startswith("array,step")
