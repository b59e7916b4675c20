"""Claims about forecasts are read off the numbers of a figure, whichever way they come out."""

from __future__ import annotations

from pathlib import Path

from thereafter.figures.figure import Figure
from thereafter.figures.style import canvas
from thereafter.gallery import tasks
from thereafter.gallery.models import Models


def errors(far: float) -> Figure:
    table = {"model": ["AR", "AR", "last value", "last value"], "steps": [1, 64, 1, 64], "rmse": [1.0, far, 2.0, 2.0]}
    return Figure("errors", "", "", canvas(), table)


def test_quality_is_lost_or_not():
    assert tasks.far_is_worse(errors(2.0)).endswith("over that of one step: AR 2.0.")
    assert tasks.far_is_worse(errors(2.0)).startswith("As the book says")
    assert "here it does not show" in tasks.far_is_worse(errors(1.1))


def test_faults_that_were_planted_are_counted():
    table = {"time": ["a", "b", "c"], "unusual": [True, True, False]}
    claim = tasks.faults_are_marked(("a", "c"))
    assert claim(Figure("points", "", "", canvas(), table)) == (
        "Planted were 2 faults, 1 of which are marked; 1 other point is marked."
    )


def test_planted_faults_of_the_gallery_are_marked(tmp_path: Path):
    picture = next(one for one in tasks.PICTURES if one.name == "unusual-points")
    figure = picture.build(Models(tmp_path))
    assert picture.claim is not None
    assert "Planted were 3 faults, 3 of which are marked" in picture.claim(figure)
    first = Models(tmp_path).forecaster("ar-faulty", tmp_path / "texts" / "series" / "faulty.csv", model="ar",
                                        horizon=1, lookback=72, split=tasks.SPLIT)  # fmt: skip
    assert first.config["forecast"]["model"] == "ar"
    assert len(list(tmp_path.glob("ar-faulty-*"))) == 1  # trained once


def test_gates_come_from_the_model_that_ships(tmp_path: Path):
    picture = next(one for one in tasks.PICTURES if one.name == "series-gates")
    figure = picture.build(Models(tmp_path))
    assert len(figure.words("time")) == 48
    assert all(0 < value < 1 for value in figure.numbers("forget gate"))
