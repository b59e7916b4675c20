"""`classify` on series of numbers: one label for a whole series, of one or several channels."""

from __future__ import annotations

import csv
import json
import os
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from toys import Shell, labelled, labelled_series

import thereafter
from refusals import assert_refused
from thereafter.data.codecs import ChannelScaler
from thereafter.errors import FormatError, OptionError, SourceError
from thereafter.layers.blocks import POOLINGS, Pooling
from thereafter.series.classifying.network import encoders
from thereafter.series.classifying.task import CLASSIFYING_SERIES
from thereafter.tasks.finding import task_for

QUICK: dict[str, Any] = {"hidden": 8, "epochs": 8, "batch": 8, "rate": 0.02, "dropout": 0.0, "seed": 1}


def long_table(path: Path, count: int = 40, seed: int = 1) -> Path:
    """Series of two channels and several lengths in long form, with gaps: the label is which channel is the higher."""
    draw = random.Random(seed)
    rows = ["id,step,left,right,label"]
    for number in range(count):
        higher = draw.choice(("left", "right"))
        for step in range(draw.randint(3, 8)):
            low, high = draw.gauss(10, 0.3), draw.gauss(11, 0.3)
            left, right = (high, low) if higher == "left" else (low, high)
            shown = "" if draw.random() < 0.1 else f"{right:.3f}"
            rows.append(f"s{number},{step},{left:.3f},{shown},{higher}")
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is sent to the user, line by line."""
    lines: list[str] = []
    monkeypatch.setattr("thereafter.base.progress.note", lines.append)
    return lines


@pytest.fixture(scope="module")
def slopes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that tells rising series from falling ones."""
    folder = tmp_path_factory.mktemp("slopes")
    run = folder / "run"
    thereafter.train(labelled_series(folder / "train.tsv", 120), task="classify", out=run, **QUICK)
    return run


# ---- which task


def test_classify_goes_to_series_where_the_source_holds_them(tmp_path: Path):
    series, texts = labelled_series(tmp_path / "reviews.tsv"), labelled(tmp_path / "series.tsv")
    assert task_for("classify", series).name == "classify-series"
    assert task_for("classify", [series]).name == "classify-series"
    assert task_for("classify", "wave-shapes").name == "classify-series"
    assert task_for("classify", "wave-shapes:test").name == "classify-series"
    assert task_for("classify", texts).name == "classify"
    assert task_for("classify", tmp_path / "missing.tsv").name == "classify"
    assert task_for("classify", "-").name == "classify"
    assert task_for("classify", "\0").name == "classify"
    assert task_for("classify", ["-"]).name == "classify"
    assert task_for("tag", series).name == "tag"


def test_a_pipe_is_left_as_it_is(tmp_path: Path):
    pipe = tmp_path / "pipe.tsv"
    os.mkfifo(pipe)
    assert task_for("classify", pipe).name == "classify"  # would wait for ever if it were opened


def test_what_was_chosen_is_printed(tmp_path: Path, shell: Shell, notes: list[str]):
    source = labelled_series(tmp_path / "train.tsv", 40)
    thereafter.train(source, task="classify", **QUICK | {"epochs": 1})
    assert notes[0] == "the source holds labelled-series: the task 'classify-series' is taken for 'classify'"
    options = [f"--set={name}={value}" for name, value in (QUICK | {"epochs": 1}).items()]
    lines, code = shell("train", source, "--task", "classify", "--out", tmp_path / "run", *options)
    assert code == 0
    assert lines[0].startswith("task       classify-series, ")


def test_series_are_refused_by_other_tasks_and_texts_by_this_one(tmp_path: Path):
    with assert_refused(SourceError, "wave-shapes", "labelled-series", "tag"):
        thereafter.train("wave-shapes", task="tag")
    with pytest.raises(FormatError, match=r"series with labels are a table"):
        thereafter.train(labelled(tmp_path / "texts.tsv"), task="classify-series")


# ---- learning


def test_slopes_are_learned_and_scored(slopes: Path, tmp_path: Path):
    model = thereafter.load(slopes)
    test = labelled_series(tmp_path / "test.tsv", 60, seed=2)
    score = model.score(test)
    assert score.accuracy > 0.9
    assert 0 <= score.macro_f1 <= 1
    rows = dict(model.baselines(test))
    assert list(rows) == ["nearest neighbour (DTW, band 10 %)", "most frequent label"]
    assert rows["nearest neighbour (DTW, band 10 %)"].accuracy > 0.8
    assert 0.3 < rows["most frequent label"].accuracy < 0.7


@pytest.mark.parametrize(
    "encoder",
    [name if name in ("gru", "conv") else pytest.param(name, marks=pytest.mark.wide) for name in encoders()],
)
def test_every_encoder_and_pooling_learns(encoder: str, tmp_path: Path):
    pooling = POOLINGS[encoders().index(encoder) % len(POOLINGS)]
    pooling = "mean" if encoder == "conv" and pooling == "last" else pooling
    source = labelled_series(tmp_path / "train.tsv", 60)
    options = QUICK | {"encoder": encoder, "pooling": pooling, "layers": 2, "epochs": 6}
    assert thereafter.train(source, task="classify", **options).score(source).accuracy > 0.8


def test_several_channels_and_gaps_in_long_form(tmp_path: Path):
    model = thereafter.train(long_table(tmp_path / "train.csv", 80), task="classify", **QUICK)
    assert model.codecs["channels"].names == ("left", "right")
    assert model.codecs["channels"].gaps
    test = long_table(tmp_path / "test.csv", 40, seed=2)
    assert model.score(test).accuracy > 0.9
    assert model.predict(np.array([[11.0, 10.0]] * 5)) == "left"
    assert model.predict("10 11; 10.2 NaN; 10.1 11.3") == "right"
    assert model.predict([np.array([[11.0, 10.0]] * 5), np.array([[10.0, 11.0]] * 3)]) == ["left", "right"]
    with assert_refused(OptionError, "left", "right"):
        model.predict([1.0, 2.0])
    table = model.tabulate(test).to_rows()
    assert len(table) == 40
    assert table[0].keys() == {"number", "series", "label", "probability", "p_left", "p_right"}
    assert table[3]["series"] == "s3"


def test_a_data_frame_is_a_table_too(tmp_path: Path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(long_table(tmp_path / "train.csv", 40))
    model = thereafter.train(frame, task="classify", **QUICK)
    assert model.task.name == "classify-series"
    assert model.codecs["channels"].names == ("left", "right")
    assert model.score(frame).accuracy > 0.9
    first = frame[frame["id"] == "s0"]
    assert model.predict(first[["left", "right"]]) == first["label"].iloc[0]


def test_a_folder_of_files_learns_too(tmp_path: Path):
    draw = random.Random(1)
    for number in range(24):
        slope = number % 2 * 2 - 1
        path = tmp_path / "series" / ("down", "up")[number % 2] / f"{number}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x\n" + "".join(f"{slope * step + draw.gauss(0, 0.2):.3f}\n" for step in range(6)))
    model = thereafter.train(tmp_path / "series", task="classify", **QUICK)
    assert model.task.name == "classify-series"
    assert model.score(tmp_path / "series").accuracy > 0.9


def test_each_label_is_held_out_where_the_file_is_sorted(tmp_path: Path):
    path = labelled_series(tmp_path / "sorted.tsv", 60)
    path.write_text("\n".join(sorted(path.read_text().splitlines())) + "\n")
    examples = CLASSIFYING_SERIES.read([path])
    learned, heldout, how = CLASSIFYING_SERIES.hold_out(examples, 0.1)
    assert {one.label for one in learned} == {one.label for one in heldout} == {"up", "down"}
    assert len(learned) + len(heldout) == 60
    assert 5 <= len(heldout) <= 7
    assert how == ", of each label its share,"
    assert len(CLASSIFYING_SERIES.hold_out(examples[:3], 0.1)[1]) == 1


def test_a_label_that_training_never_saw_is_refused(slopes: Path, tmp_path: Path):
    path = tmp_path / "other.tsv"
    path.write_text("up\t1\t2\t3\nflat\t1\t1\t1\n")
    with assert_refused(FormatError, 2, "flat", "down", "up"):
        thereafter.load(slopes).score(path)
    path.write_text("up\t1\t2\t3\nup\t1\t1\t1\nup\t1\t1\t2\n")
    with assert_refused(OptionError, 1):
        thereafter.train(path, task="classify", **QUICK)


def test_options_are_checked():
    with assert_refused(OptionError, "last", "conv", "pooling=max"):
        thereafter.train("wave-shapes", task="classify", encoder="conv", pooling="last")
    with assert_refused(OptionError, "encoder", "gruu"):
        thereafter.train("wave-shapes", task="classify", encoder="gruu")


# ---- answers


def test_questions_from_python(slopes: Path):
    model = thereafter.load(slopes)
    up, down = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.0, -0.2, -0.4, -0.6, -0.8, -1.0]
    assert model.predict(up) == "up"
    assert model.predict(np.array(down)) == "down"
    assert model.predict([up, down, tuple(up)]) == ["up", "down", "up"]
    assert model.predict([np.array(up), "0 -0.3 -0.5 -0.7 -1"]) == ["up", "down"]
    assert model.predict([0.0, None, 0.4, 0.6, float("nan"), 1.0]) == "up"
    assert model.predict(torch.tensor(up)) == "up"
    with assert_refused(OptionError, "[2, 6, 1]", "list(array)"):
        model.predict(np.zeros((2, 6, 1)))


def test_questions_from_a_file(slopes: Path, tmp_path: Path, shell: Shell):
    path = tmp_path / "ask.tsv"
    path.write_text("0\t0.2\t0.4\t0.6\t0.8\t1\n0\t-0.2\t-0.4\t-0.6\t-0.8\n")
    lines, code = shell("predict", slopes, "--in", path)
    assert (lines, code) == (["up", "down"], 0)
    lines, code = shell("predict", slopes, "--in", path, "--json")
    rows = json.loads("\n".join(lines))
    assert [row["label"] for row in rows] == ["up", "down"]
    assert all(row["p_up"] + row["p_down"] == pytest.approx(1) for row in rows)
    _, code = shell("predict", slopes, "--in", path, "--out", tmp_path / "labels.csv")
    assert code == 0
    with open(tmp_path / "labels.csv", newline="") as file:
        assert [row["series"] for row in csv.DictReader(file)] == ["1", "2"]
    with pytest.raises(OptionError, match="which reads tables of numbers; encodings, licences and markup are for text"):
        thereafter.load(slopes).tabulate(path, wrapped=True)


def test_an_explanation_names_the_steps_that_matter(slopes: Path, tmp_path: Path):
    model = thereafter.load(slopes)
    values = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    explained = model.explain(values)
    assert explained.label == "up"
    assert sum(explained.probabilities.values()) == pytest.approx(1)
    assert len(explained.evidence) == len(values)
    assert sum(explained.weights) == pytest.approx(1, abs=1e-5)
    assert "step     6" in str(explained)
    assert json.loads(json.dumps(explained.as_dict()))["steps"][5]["values"] == [1.0]
    trace = model.trace(values)
    assert trace["l0.update"].shape == trace["l0_reverse.update"].shape == (6, 8)
    assert trace.about["answer"] == "up"
    np.testing.assert_allclose(trace["evidence"], explained.evidence, atol=1e-6)


def test_networks_are_compared_with_intervals(tmp_path: Path):
    source, valid = labelled_series(tmp_path / "train.tsv", 30), labelled_series(tmp_path / "valid.tsv", 40, seed=2)
    models = {"gru": {"encoder": "gru"}, "conv": {"encoder": "conv"}}
    options = {key: value for key, value in QUICK.items() if key != "seed"} | {"epochs": 1}
    comparison = thereafter.compare(source, task="classify", models=models, valid=valid, seeds=2, **options)
    assert comparison.task == "classify-series"
    assert set(comparison.figures("conv")) >= {"accuracy", "macro_f1"}
    assert comparison.differences


# ---- parts


def test_pooling_is_what_it_says():
    torch.manual_seed(1)
    h_BTH, lengths_B = torch.randn(3, 5, 4), torch.tensor([5, 2, 1])
    for kind in POOLINGS:
        pool = Pooling(kind, 4, 2)
        v_BH, share_BT = pool(h_BTH, lengths_B)
        torch.testing.assert_close(share_BT.sum(1), torch.ones(3))
        for row, length in enumerate(lengths_B.tolist()):
            inside = h_BTH[row, :length]
            alone, _ = pool(inside[None], torch.tensor([length]))
            torch.testing.assert_close(alone[0], v_BH[row])
            assert not share_BT[row, length:].any()
            expected = {
                "last": torch.cat((inside[-1, :2], inside[0, 2:])),
                "mean": inside.mean(0),
                "max": inside.amax(0),
                "attention": (share_BT[row, :length, None] * inside).sum(0),
                "concat": torch.cat((inside[-1, :2], inside[0, 2:], inside.amax(0), inside.mean(0))),
            }[kind]
            torch.testing.assert_close(v_BH[row], expected)


def test_channels_are_scaled_each_by_itself():
    values = [np.array([[1.0, 7.0], [3.0, np.nan]]), np.array([[5.0, 7.0]])]
    scaler = ChannelScaler.fit(values, ["a", "b"])
    assert scaler.means == (3.0, 7.0)
    assert scaler.deviations == (pytest.approx(np.std([1, 3, 5])), 1.0)
    assert scaler.gaps
    assert np.isnan(scaler.encode(values[0])[1, 1])
    for damaged in ({"names": []}, {"means": ["x", 1.0]}, {"deviations": [0.0, 1.0]}, {"gaps": 1}, {"means": [1.0]}):
        with pytest.raises(FormatError, match="channels of this run are damaged"):
            ChannelScaler.from_json(scaler.to_json() | damaged)
    with pytest.raises(OptionError, match="expected at least one"):
        ChannelScaler.fit([], ["a"])


# ---- the guide


def test_the_guide_does_what_it_shows(capsys: pytest.CaptureFixture[str]):
    page = (Path(__file__).resolve().parents[2] / "docs" / "series-labels.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(block, "docs/series-labels.md", "exec"), names)  # noqa: S102, our own page
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["cylinder", "['cylinder', 'cylinder']"]
    assert lines[2].startswith("accuracy ")
