"""Made series are pure functions of their seed, have what their names promise, and are corpora by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thereafter
from refusals import assert_refused
from thereafter.data import corpora
from thereafter.data.corpora import locate_source
from thereafter.data.finding import FileKind
from thereafter.errors import SourceError, UnknownNameError
from thereafter.series import made
from thereafter.series.reading import read_series
from thereafter.series.table import ColumnChoice

TABLES = FileKind("tables", ((".csv",),))
NAMES = ["noisy-sine", "seasonal", "mackey-glass", "many-seasons"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEREAFTER_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("name", NAMES)
def test_they_are_corpora_that_are_read_without_a_word(name: str):
    first, again = locate_source(name, TABLES), locate_source(name, TABLES)
    assert first.detail == again.detail
    assert (first.kind, list(first.parts)) == ("series", ["text"])
    files = first.parts["text"]
    assert files.split == corpora.card(name).split
    table = read_series(files.files)
    assert np.isfinite(table.values_ND).all()
    assert len(table) == (200 if name == "many-seasons" else 1)


def test_the_table_holds_the_values():
    table = read_series(locate_source("noisy-sine", TABLES).parts["text"].files)
    assert np.allclose(table.values_ND[:, 0], made.noisy_sine_values(), atol=1e-6)
    assert table.times_N.tolist() == list(range(1, 1001))


def test_the_noisy_sine_is_that_of_the_book():
    values = made.noisy_sine_values()
    rest = values - np.sin(0.01 * np.arange(1, 1001))
    assert len(values) == 1000
    assert abs(rest.std() - 0.2) < 0.02
    assert abs(rest.mean()) < 0.02
    assert not np.array_equal(values, made.noisy_sine_values(seed=1))
    assert np.array_equal(values, made.noisy_sine_values())


def test_the_seasonal_one_has_a_day_and_a_week():
    values = made.seasonal_values()
    assert len(values) == 17_520

    def alike(lag: int) -> float:
        return float(np.corrcoef(values[:-lag], values[lag:])[0, 1])

    assert alike(168) > alike(24) > alike(12)
    assert alike(168) > 0.9
    assert values[-8760:].mean() > values[:8760].mean() + 3


def test_the_chaotic_one_follows_its_equation():
    x = made.mackey_glass_values()
    assert (len(x), x.min() > 0.2, x.max() < 1.5) == (5000, True, True)
    slope = (x[19:] - x[17:-2]) / 2  # at 18, 19, ...; the delayed value is 17 points earlier
    assert np.abs(slope - (0.2 * x[1:-18] / (1 + x[1:-18] ** 10) - 0.1 * x[18:-1])).max() < 0.01
    other = made.mackey_glass_values(points=4_999, skipped=501)  # the same, one point later
    assert np.array_equal(other, x[1:])


def test_many_seasons_share_one():
    series = made.many_seasons_values()
    assert len(series) == 200
    assert {len(one) for one in series} == set(range(54, 67))
    profiles = np.array([[one[::-1][k::12].mean() for k in range(12)] for one in series])
    profiles = (profiles - profiles.mean(axis=1, keepdims=True)) / profiles.std(axis=1, keepdims=True)
    shared = profiles.mean(axis=0)
    assert np.mean([np.corrcoef(one, shared)[0, 1] for one in profiles]) > 0.9


def test_wave_shapes_can_be_told_apart_by_their_rule():
    parts = locate_source("wave-shapes", TABLES)
    assert (parts.kind, list(parts.parts)) == ("labelled-series", ["train", "valid", "test"])
    sizes = {}
    right = 0
    for part, files in parts.parts.items():
        rows = [line.split(",") for line in files.files[0].read_text().splitlines()]
        sizes[part] = len(rows)
        for label, *cells in rows:
            values = np.array(cells, float)
            assert len(values) == 128
            high = np.flatnonzero(np.convolve(values, np.ones(9) / 9, "same") > 1.2)
            body = values[high[0] : high[-1] + 1]
            slope = np.polyfit(np.linspace(-1, 1, len(body)), body, 1)[0]
            right += label == ("bell" if slope > 1.1 else "funnel" if slope < -1.1 else "cylinder")
    assert sizes == {"train": 120, "valid": 60, "test": 300}
    assert right > 0.85 * 480


def test_ett_alone_is_the_hourly_one(corpora_folder: Path):
    hourly, quarters = locate_source("ett", TABLES), locate_source("ett:ETTm1", TABLES)
    assert (hourly.name, hourly.kind, hourly.parts["text"].name) == ("ett:ETTh1", "series", "ett:ETTh1")
    assert hourly.parts == locate_source("ett:ETTh1", TABLES).parts == locate_source("ett", TABLES, part="ETTh1").parts
    for given, frequency in ((hourly, "1 hour"), (quarters, "15 minutes")):
        files = given.parts["text"]
        table = read_series(files.files, ColumnChoice(target=("OT",)))
        assert str(table.frequency) == frequency
        assert files.split
    with assert_refused(UnknownNameError, "ett", "ETTh2"):
        locate_source("ett:ETTh2", TABLES)


@pytest.mark.parametrize(("name", "task"), [("noisy-sine", "forecast"), ("wave-shapes", "classify")])
def test_a_language_model_points_to_the_task_that_reads_numbers(name: str, task: str):
    with assert_refused(SourceError, name, f"task='{task}'") as caught:
        thereafter.train(name)
    assert f"--task {task}" in caught.value.in_shell


@pytest.mark.corpus("ett: its rows and its split")
def test_the_real_ett(data: Path):
    for name, rows, split in (("ett", 17_420, "8640/2880/2880"), ("ett:ETTm1", 69_680, "34560/11520/11520")):
        files = locate_source(name, TABLES).parts["text"]
        table = read_series(files.files, ColumnChoice(target=("OT",)))
        assert (table.rows, files.split) == (rows, split)
        assert not np.isnan(table.values_ND).any()
