"""A comparison's verdicts about agreement as measurements, and drawn from its folder."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from refusals import assert_refused
from thereafter.errors import FormatError
from thereafter.figures import catalogue


def trial(name: str, seed: int, right: int) -> dict[str, object]:
    tallies = {"distance": {"0": [right, 10], "7": [5, 10]}, "attractors": {"0": [right, 10], "1": [5, 10]}}
    return {"name": name, "seed": seed, "agreement": {**tallies, "congruence": {"congruent": [right + 5, 20]}}}


@pytest.fixture
def compared(tmp_path: Path) -> Path:
    rows = [{"trials": [trial("lstm", 0, 8), trial("lstm", 1, 10)]}, {"trials": [trial("ngram", 0, 6)]}]
    (tmp_path / "compare.json").write_text(json.dumps({"source": "agreement", "rows": rows}), encoding="utf-8")
    return tmp_path


def test_every_trial_is_a_measurement(compared: Path):
    for path in (compared, compared / "compare.json"):
        found = catalogue.measure_comparison(path, catalogue.agreements_of)
        assert [one.about["model"] for one in found] == ["lstm", "lstm", "ngram"]
        np.testing.assert_array_equal(found[0]["right_distance"], [8, 5])
        np.testing.assert_array_equal(found[2]["distance"], [0, 7])
        assert found[0].about["text"] == "20 test sentences of agreement"


def test_the_folder_is_drawn_with_its_seeds(compared: Path):
    (figure,) = catalogue.draw("agreement", [compared])
    assert "2 seeds" in figure.caption
    table = list(zip(*figure.table.values(), strict=True))
    assert any("lstm" in row and 0.9 in row for row in table), table  # (8 + 10) / 20 at distance 0


def test_another_file_is_refused(tmp_path: Path):
    (tmp_path / "compare.json").write_text('{"rows": 3}', encoding="utf-8")
    with assert_refused(FormatError, "comparison"):
        catalogue.measure_comparison(tmp_path, catalogue.agreements_of)
    (tmp_path / "compare.json").write_text('{"rows": [], "source": "book.txt"}', encoding="utf-8")
    with assert_refused(FormatError, "agreement"):
        catalogue.measure_comparison(tmp_path, catalogue.agreements_of)
