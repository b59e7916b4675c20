"""The tasks over clips: which of them a source is for, what they refuse, what stands beside them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from toys import Shell

import thereafter
from refusals import assert_refused
from tasks.toy_clips import WAYS, bare_clips, labelled_clips, question_files, square_clip
from thereafter.comparing.task_trials import compare_task
from thereafter.errors import FormatError, OptionError
from thereafter.tasks.finding import task_for
from thereafter.tasks.lexicon import ColumnLexicons
from thereafter.training.settings import TrainingSettings
from thereafter.vision.clips.clip import ClipCodec
from thereafter.vision.clips.labels import VIDEO
from thereafter.vision.clips.next_frames import NEXT_FRAMES, FrameBatch, FrameCopier, NextFrames
from thereafter.vision.clips.reading import clip_of, read_clips
from thereafter.vision.measures import CopyCounts, copied, frame_nats

SMALL: dict[str, Any] = {"hidden": 8, "epochs": 2, "batch": 8, "rate": 0.01, "seed": 1}
LABELS: dict[str, Any] = SMALL | {"width": 4, "stages": 2}
FRAMES: dict[str, Any] = SMALL | {"layers": 1, "kernel": 3, "patch": 2}


# ---- which task


def test_clips_without_labels_are_for_next_frames(tmp_path: Path) -> None:
    with_labels, without = labelled_clips(tmp_path / "a"), bare_clips(tmp_path / "b")
    assert task_for("video", with_labels).name == "video"
    assert task_for("video", without).name == "next-frames"
    assert task_for("video", "moving-glyph").name == "video"
    assert task_for("video", "moving-glyphs").name == "next-frames"
    assert task_for("video", tmp_path / "not-there.npz").name == "video"  # reading it says what is wrong
    np.save(tmp_path / "c.npy", np.zeros((3, 4, 8, 8), np.uint8))
    assert task_for("video", tmp_path / "c.npy").name == "next-frames"


# ---- labels of clips


def test_a_square_is_told_by_its_size(tmp_path: Path) -> None:
    options = LABELS | {"width": 8, "hidden": 16, "rate": 0.02, "epochs": 8}
    model: Any = thereafter.train(labelled_clips(tmp_path / "squares", 100), task="video", **options)
    score = model.score(labelled_clips(tmp_path / "others", 60, seed=2))
    assert score.as_dict()["size"] > 0.9
    clip = square_clip("large", "E", 6, random.Random(3))
    answer = model.predict(clip)
    assert answer.labels["size"] == "large"
    assert answer == model.predict([clip])[0] == model.predict(clip.astype(np.float32) / 255)
    for spread in answer.probabilities.values():
        assert sum(spread.values()) == pytest.approx(1.0, abs=1e-5)
    explained = model.explain(clip)
    assert explained.beliefs["way"].shape == (6, len(WAYS))
    np.testing.assert_allclose(
        explained.beliefs["size"][-1], [answer.probabilities["size"][name] for name in ("large", "small")], rtol=1e-5
    )
    assert len(str(explained).splitlines()) == 7
    assert len(json.loads(json.dumps(explained.as_dict()))["frames"]) == 6
    recorded = model.trace(clip)
    assert recorded["frames"].shape == (6, 12, 12)
    assert recorded["belief.way"].shape == (6, len(WAYS))
    assert recorded["l0.forget"].shape == (6, 16)


def test_clips_of_other_sizes_and_labels_are_refused_in_a_sentence(tmp_path: Path) -> None:
    model: Any = thereafter.train(labelled_clips(tmp_path / "squares", 40), task="video", **LABELS)
    with assert_refused(FormatError, 9, 7, 12):
        model.predict(np.zeros((3, 9, 7), np.uint8))
    with assert_refused(FormatError, "bare.npz"):
        model.score(bare_clips(tmp_path / "bare", 5))
    frames = np.zeros((2, 6, 12, 12), np.uint8)
    np.savez(tmp_path / "odd.npz", frames=frames, size=np.array(["small", "huge"]), way=np.array(["E", "W"]))
    with assert_refused(FormatError, "huge"):
        model.score(tmp_path / "odd.npz")
    np.savez(tmp_path / "less.npz", frames=frames, size=np.array(["small", "large"]))
    with assert_refused(FormatError, "size", "way"):
        model.score(tmp_path / "less.npz")
    with pytest.raises(OptionError, match="expected the path of a clip"):
        model.predict(" ")


def test_what_is_held_out_leaves_every_label_to_learn_from(tmp_path: Path) -> None:
    for count in (12, 40, 400):
        clips = read_clips([labelled_clips(tmp_path / "squares", count)])
        learned, heldout, _ = VIDEO.hold_out(clips, 0.1)
        assert len(learned) + len(heldout) == count
        assert 1 <= len(heldout) <= 0.15 * count + 1
        assert {label for one in heldout for label in one.labels} <= {label for one in learned for label in one.labels}


# ---- the frames that come next


def test_copying_is_what_the_measures_say(tmp_path: Path) -> None:
    source = bare_clips(tmp_path / "squares", 50)
    model: Any = thereafter.train(source, task="next-frames", model="copy", read=4)
    clips = read_clips([source])
    frames = np.stack([clip.read() for clip in clips])
    learned, heldout = frames[:45], frames[45:]
    counts = CopyCounts(2)
    counts.add(learned[:, 3], learned[:, 4:])
    np.testing.assert_allclose(model.net.smoothing_K, counts.smoothing(), rtol=1e-5)
    expected = frame_nats(heldout[:, 4:], copied(heldout[:, 3], counts.smoothing()))
    np.savez(tmp_path / "heldout.npz", frames=heldout)
    score = model.score(tmp_path / "heldout.npz")
    assert score.nats == pytest.approx(expected.mean(), rel=1e-4)
    assert [step.nats for step in score.steps] == pytest.approx(expected.mean(0).tolist(), rel=1e-4)
    np.testing.assert_allclose(
        model.predict(heldout[0]).frames_KHW, copied(heldout[:1, -1], counts.smoothing())[0], atol=1e-5
    )


def test_a_copy_goes_on_beyond_its_last_step() -> None:
    net = FrameCopier(2)
    batch = FrameBatch(torch.zeros(1, 3, 4, 4, dtype=torch.uint8))
    assert net.logits(batch, 5).shape == (1, 5, 4, 4)
    with pytest.raises(OptionError, match="has no loss"):
        net.nats(batch)


def test_frames_ahead_are_predicted_saved_and_read_again(tmp_path: Path) -> None:
    model: Any = thereafter.train(bare_clips(tmp_path / "squares", 40), task="video", **FRAMES)
    assert (model.codecs["clips"].read, model.codecs["clips"].ahead) == (3, 3)
    path = question_files()[0]
    answer = model.predict(path, ahead=5)
    assert isinstance(answer, NextFrames)
    assert answer.frames_KHW.shape == (5, 12, 12)
    assert ((answer.frames_KHW >= 0) & (answer.frames_KHW <= 1)).all()
    saved = answer.save(tmp_path / "next.npz")
    np.testing.assert_array_equal(clip_of(saved).read(), answer.pixels_KHW)
    with assert_refused(OptionError, ".npz"):
        answer.save(tmp_path / "next.png")
    with assert_refused(OptionError, "ahead", -1):
        model.predict(path, ahead=-1)
    with assert_refused(OptionError, "ahead", 4097, 1, 4096):
        model.predict(path, ahead=4097)
    with assert_refused(OptionError, 1, 3):
        model.predict(np.zeros((1, 12, 12), np.uint8))
    with assert_refused(OptionError, 2, 3):
        model.predict(np.zeros((2, 12, 12), np.uint8))
    explained = model.explain(question_files()[3])
    assert (len(explained.read_THW), len(explained.came_KHW)) == (3, 3)
    assert len(json.loads(json.dumps(explained.as_dict()))["steps"]) == 3
    recorded = model.trace(path)
    assert recorded["next"].shape == (3, 12, 12)
    rows = answer.rows()
    lit = answer.frames_KHW[0].astype(float)
    assert rows[0]["row"] == pytest.approx((lit.sum(1) @ np.arange(12)) / lit.sum(), abs=0.3)


def test_lengths_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    source = bare_clips(tmp_path / "squares", 10)
    with assert_refused(OptionError, 6, 5, 3):
        thereafter.train(source, task="next-frames", read=5, ahead=3, **FRAMES)
    for asked in ({"read": 9}, {"ahead": 6}):
        with assert_refused(OptionError, 6, *asked.values(), 1, 5):
            thereafter.train(source, task="next-frames", **asked, **FRAMES)
    np.savez(tmp_path / "still.npz", frames=np.zeros((9, 1, 12, 12), np.uint8))
    with assert_refused(OptionError, 1, 2):
        thereafter.train(tmp_path / "still.npz", task="next-frames", **FRAMES)
    model: Any = thereafter.train(source, task="next-frames", read=2, ahead=4, **FRAMES)
    np.savez(tmp_path / "short.npz", frames=np.zeros((2, 5, 12, 12), np.uint8))
    with assert_refused(FormatError, 5, 6, 2, 4):
        model.score(tmp_path / "short.npz")


# ---- beside them


def test_baselines_stand_beside_clips(tmp_path: Path) -> None:
    others = labelled_clips(tmp_path / "others", 30, seed=2)
    rows = dict(thereafter.train(labelled_clips(tmp_path / "a", 40), task="video", **LABELS).baselines(others))
    assert list(rows) == ["most frequent labels", "last frame alone"]
    assert rows["most frequent labels"].as_dict()["size"] < 0.8
    frames = bare_clips(tmp_path / "b", 40)
    ahead = dict(thereafter.train(frames, task="next-frames", **FRAMES).baselines(frames))
    assert list(ahead) == ["last frame again", "dense LSTM of that size"]
    copied_rows = thereafter.train(frames, task="next-frames", model="copy").baselines(frames)
    assert copied_rows == []


@pytest.mark.wide
def test_networks_over_clips_are_compared_with_intervals(tmp_path: Path) -> None:
    options = FRAMES | {"epochs": 1}
    del options["seed"]
    comparison = compare_task(bare_clips(tmp_path / "b", 250), "video", models=["copy", "conv-lstm"], **options)
    assert comparison.task == "next-frames"
    assert comparison.solved == ("copy",)
    assert {one.figure for one in comparison.differences} == {"nats", "squared_error"}
    assert comparison.advice()
    labels = {name: value for name, value in LABELS.items() if name != "seed"} | {"epochs": 1}
    models = {"all": {"sees": "all"}, "last": {"sees": "last"}}
    comparison = compare_task(labelled_clips(tmp_path / "a", 250), "video", models=models, **labels)
    assert {one.figure for one in comparison.differences} == {"size", "way", "together"}


def test_the_command_line_answers_for_every_clip_of_a_file(tmp_path: Path, shell: Shell) -> None:
    run, source = tmp_path / "run", labelled_clips(tmp_path / "squares", 40)
    thereafter.train(source, task="video", out=run, **LABELS)
    several = labelled_clips(tmp_path / "several", 3, seed=4)
    lines, code = shell("predict", run, several)
    assert code == 0
    assert [line.split("\t")[0] for line in lines] == ["1", "2", "3"]
    assert all("size " in line and "way " in line for line in lines)
    alone, _ = shell("predict", run, question_files()[0])
    assert alone[0].startswith("size ")
    table, _ = shell("predict", run, "--in", several, "--csv")
    assert "number,clip,size,p_size,way,p_way" in table
    named, code = shell("predict", run, several, question_files()[0], "--csv")
    assert code == 0
    assert [line.split(",")[0] for line in named if line[0].isdigit()] == ["1", "1", "1", "2"]


def test_the_command_line_takes_the_options_of_the_task_that_is_meant(tmp_path: Path, shell: Shell) -> None:
    run, source = tmp_path / "run", bare_clips(tmp_path / "squares", 20)
    lines, code = shell("train", source, "--task", "video", "--model", "copy", "--out", run)
    assert code == 0
    assert any(line.startswith("task       next-frames, 0 parameters") for line in lines)


def test_the_command_line_saves_predicted_frames_and_draws_them(tmp_path: Path, shell: Shell) -> None:
    clips = bare_clips(tmp_path / "bare", 24)
    run = thereafter.train(clips, task="next-frames", model="copy").save(tmp_path / "run")
    lines, code = shell("predict", run, "--in", clips, "--out", tmp_path / "ahead.npz", "--horizon", "2")
    assert code == 0
    assert lines[-1].endswith("ahead.npz: frames [24, 2, 12, 12]")
    assert len(read_clips([tmp_path / "ahead.npz"])) == 24
    figure = tmp_path / "ahead.html"
    lines, _ = shell("predict", run, "--in", clips, "--explain", "--out", tmp_path / "came.npz", "--figure", figure)
    assert "the first of 24 clips of" in lines[-1]
    assert "observed" in figure.read_text(encoding="utf-8")
    with np.load(tmp_path / "came.npz") as saved, np.load(clips) as given:
        assert np.array_equal(np.concatenate([saved["read"], saved["came"]], axis=1), given["frames"])
        assert saved["predicted"].shape == saved["came"].shape
        assert saved["nats"].shape == saved["came"].shape[:2]
    assert shell("predict", run, question_files()[-1], "--figure", figure)[1] == 0
    assert shell("predict", run, "--figure", figure)[1] == 2
    assert shell("predict", run, "--in", clips, "--out", tmp_path / "a.npz", "--csv")[1] == 2


def test_the_command_line_saves_what_is_believed_of_clips(tmp_path: Path, shell: Shell) -> None:
    run = thereafter.train(labelled_clips(tmp_path / "squares", 40), task="video", **LABELS).save(tmp_path / "run")
    several = question_files()
    lines, _ = shell("predict", run, *several, "--out", tmp_path / "belief.npz", "--figure", tmp_path / "belief.html")
    assert "belief.way [4, 9, 4]" in lines[0]
    assert "What is believed after each frame" in (tmp_path / "belief.html").read_text(encoding="utf-8")
    with np.load(tmp_path / "belief.npz") as saved:
        assert saved["labels.size"].tolist() == ["large", "small"]
        assert np.allclose(np.nansum(saved["belief.size"], -1)[0], [1, 1, 1, 1, 1, 0, 0, 0, 0], atol=1e-5)


# ---- codecs and budgets


def test_budgets_of_many_clips_are_steps() -> None:
    asked = TrainingSettings(batch=64)
    many, few = VIDEO.budget(asked, 200_000), NEXT_FRAMES.budget(asked, 640)
    assert many.epochs == pytest.approx(4_000 / 3_125)
    assert few.epochs == 20
    assert VIDEO.budget(TrainingSettings(batch=64, epochs=3.0), 200_000).epochs == 3.0
    assert many.validate_every is not None
    assert many.validate_every < 4_000


def test_what_is_not_asked_for_is_small_enough_for_a_cpu() -> None:
    """docs/video.md has the time of a step."""
    clips = ClipCodec(64, 64, 10, 10)
    labels = ColumnLexicons({"digit": list("0123456789")})
    assert VIDEO.build(VIDEO.settings(), {"clips": clips, "labels": labels}).parameters_count() < 200_000
    assert NEXT_FRAMES.build(NEXT_FRAMES.settings(), {"clips": clips}).parameters_count() < 200_000
    assert VIDEO.defaults["batch"] == 16
    assert NEXT_FRAMES.defaults["batch"] == 8


@pytest.mark.parametrize(
    "damaged",
    [{}, {"height": 0, "width": 4, "read": 0, "ahead": 0}, {"height": "8", "width": 8, "read": 1, "ahead": 1}],
)
def test_damaged_codecs_of_clips_are_refused(damaged: dict[str, object]) -> None:
    with pytest.raises(FormatError, match="are damaged"):
        ClipCodec.from_json(damaged)
    with pytest.raises(FormatError, match="are damaged"):
        ColumnLexicons.from_json({"columns": damaged})
