"""The panel Moving digits without a browser: clips are those of the rule, beliefs and next frames the library's."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray
from serving_studio import Served

from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.ready import tasks as ready_tasks
from thereafter.studio.panels import moving as opening
from thereafter.studio.panels import moving as verbs
from thereafter.studio.panels.pictures import PixelsAnswer
from thereafter.task_model import TaskModel, load_task, train_task
from thereafter.vision.clips.clip import ClipCodec
from thereafter.vision.clips.labels import ClipExplained
from thereafter.vision.clips.moving import NAMES, MovingClips, MovingRule
from thereafter.vision.clips.next_frames import FramesExplained
from thereafter.vision.made_pictures import moving_rules
from thereafter.vision.pictures.glyphs import SIDE, numbered_glyphs

CODEC = ClipCodec(64, 64)
SEVEN = opening.written_digit(7).ink


@pytest.fixture(scope="module")
def watcher(ready_folder: Path) -> TaskModel:
    return load_task(ready_folder / ready_tasks.TASKS / "moving-glyph")


@pytest.fixture(scope="module")
def foreseer(tmp_path_factory: pytest.TempPathFactory) -> TaskModel:
    """A network of the next frames that has hardly learned: small frames, two steps."""
    folder = tmp_path_factory.mktemp("rules")
    for seed, part in enumerate(("train", "valid")):
        rule = MovingRule(count=8, frames=6, size=36, slowest=2, fastest=4, seed=seed)
        (folder / f"{part}.json").write_text(rule.to_json(), encoding="utf-8")
    options = {"hidden": 4, "layers": 1, "kernel": 3, "read": 4, "epochs": 1.0, "batch": 4, "device": "cpu"}
    return train_task("next-frames", folder / "train.json", options, valid=folder / "valid.json")


@pytest.fixture
def next_run(server: Served, foreseer: TaskModel) -> Iterator[str]:
    """The same as a run of the user's."""
    foreseer.save(server.runs / "next")
    yield "runs:next"
    shutil.rmtree(server.runs / "next")


def frames(answer: PixelsAnswer) -> NDArray[np.uint8]:
    shape = (answer.count, answer.height, answer.width)
    return np.frombuffer(base64.b64decode(answer.data), np.uint8).reshape(shape)


def ask(server: Served, path: str = "video", **asked: Any) -> httpx.Response:
    return httpx.post(f"{server.address}/api/tasks/{path}", json=asked, timeout=60)


def test_a_made_clip_is_that_of_the_rule_and_goes_on_where_more_frames_are_asked_for():
    test = MovingClips(moving_rules("moving-glyph")["test"])
    opened = opening.open_made(12, CODEC, 10)
    assert np.array_equal(opened.frames_THW, test[12].read())
    assert opened.labels == dict(test[12].labels)
    assert np.array_equal(opening.open_made(12, CODEC, 20).frames_THW[:10], opened.frames_THW)
    assert opening.open_made(len(test) + 12, CODEC, 10).name == "clip 12"
    two = opening.open_made(3, CODEC, 20, digits=2)
    assert np.array_equal(two.frames_THW, MovingClips(moving_rules("moving-glyphs")["test"])[3].read())
    assert two.labels == {}


@pytest.mark.parametrize("direction", range(16))
def test_a_drawn_digit_begins_where_it_was_sent(direction: int):
    opened = opening.open_drawn(SEVEN, direction, 4.0, CODEC, 3)
    middles = []
    for frame_HW in opened.frames_THW.astype(float):
        y, x = np.indices(frame_HW.shape)
        middles.append(np.array([(x * frame_HW).sum(), -(y * frame_HW).sum()]) / frame_HW.sum())
    moved = middles[2] - middles[0]
    angle = np.degrees(np.arctan2(moved[1], moved[0])) % 360
    assert abs((angle - 22.5 * direction + 180) % 360 - 180) < 10  # positions are rounded to pixels
    assert np.hypot(*moved) == pytest.approx(8, abs=1)
    assert opened.labels == {"direction": NAMES[direction]}


def test_a_drawing_becomes_as_large_as_training_digits_wherever_it_is():
    small = np.zeros((SIDE, SIDE), int)
    small[2:8, 3:6] = 15
    digit = opening.as_digit("".join(f"{level:x}" for level in small.ravel()))
    rows, columns = np.flatnonzero(digit.any(1)), np.flatnonzero(digit.any(0))
    assert (len(rows), len(columns)) == (19, 10)
    assert abs(rows.mean() - 13.5) <= 0.5
    assert abs(columns.mean() - 13.5) <= 0.5
    assert digit.max() == 255
    dot = opening.as_digit("0" * 400 + "f" + "0" * 383)
    assert (dot > 0).sum() == 19 * 19


def test_a_written_digit_is_the_glyph_of_its_number():
    for number in (0, 7, 19):
        answer = opening.written_digit(number)
        glyph = numbered_glyphs([8_000 + number])[0]
        levels = np.array([int(one, 16) for one in answer.ink]).reshape(SIDE, SIDE)
        assert answer.digit == number % 10
        assert np.abs(17 * levels - glyph).max() <= 9


def test_beliefs_are_those_of_explain_after_every_frame(watcher: TaskModel):
    opened = opening.open_made(5, CODEC, 10)
    answer = verbs.watch(watcher, opened)
    own = watcher.explain(opened.frames_THW)
    assert isinstance(own, ClipExplained)
    assert np.array_equal(frames(answer.frames), opened.frames_THW)
    assert [one.column for one in answer.beliefs] == ["digit", "direction"]
    for one in answer.beliefs:
        belief = np.array(one.belief, float)
        assert belief == pytest.approx(own.beliefs[one.column], abs=1e-5)
        assert belief.sum(1) == pytest.approx(1, abs=1e-3)
        assert (one.answer, one.true) == (own.answer.labels[one.column], opened.labels[one.column])
    digit, direction = answer.beliefs
    assert digit.turns is None
    assert direction.turns == [NAMES.index(label) / 16 for label in direction.labels]


def test_next_frames_are_those_of_explain_beside_what_came(foreseer: TaskModel):
    codec = verbs.codec_of(foreseer, "next-frames")
    opened = opening.open_made(1, codec, codec.read + codec.ahead)
    answer = verbs.foresee(foreseer, opened)
    own = foreseer.explain(opened.frames_THW)
    assert isinstance(own, FramesExplained)
    assert np.array_equal(frames(answer.read), opened.frames_THW[:4])
    came, predicted = frames(answer.came), frames(answer.predicted)
    assert np.array_equal(came, opened.frames_THW[4:])
    assert np.array_equal(predicted, own.predicted.pixels_KHW)
    assert answer.nats == pytest.approx(own.judged.nats_K)
    wrong = ((predicted / 255 - came / 255) ** 2).sum((1, 2))
    assert answer.errors == pytest.approx(wrong, rel=0.02)
    copied = ((opened.frames_THW[3] / 255 - came / 255) ** 2).sum((1, 2))
    assert answer.copied == pytest.approx(copied)


def test_over_the_wire_the_same_and_what_cannot_be_shown_gets_a_sentence(
    server: Served, watcher: TaskModel, next_run: str
):
    answer = ask(server, model="ready:moving-glyph", number=3).json()
    own = watcher.explain(opening.open_made(3, CODEC, 10).frames_THW)
    assert [one["answer"] for one in answer["beliefs"]] == list(own.answer.labels.values())
    drawn = ask(server, model="ready:moving-glyph", source="drawn", ink=SEVEN, direction=4, speed=2.5).json()
    assert [one["true"] for one in drawn["beliefs"]] == [None, "N"]
    ahead = ask(server, "next-frames", model=next_run, source="drawn", ink=SEVEN, direction=4).json()
    assert (ahead["came"]["count"], ahead["read"]["count"], ahead["digits"]) == (2, 4, 1)
    held_out = ask(server, "next-frames", model=next_run, source="held-out", number=9).json()
    assert held_out["name"] == "clip 1"
    digit = httpx.get(f"{server.address}/api/tasks/video/digit?number=7").json()
    assert digit == {"digit": 7, "ink": SEVEN}
    empty = ask(server, model="ready:moving-glyph", source="drawn", ink="0" * 784)
    assert "nothing is drawn yet" in empty.json()["error"]
    assert ask(server, model="ready:moving-glyph", source="drawn", ink="f" * 783).status_code == 422
    assert "expected one trained to video" in ask(server, model="ready:tagger").json()["error"]
    other = ask(server, "next-frames", model="ready:moving-glyph")
    assert "trained to video; expected one trained to next-frames" in other.json()["error"]


def test_frames_in_which_no_digit_can_move_are_refused():
    for codec in (ClipCodec(64, 48), ClipCodec(30, 30)):
        with assert_refused(OptionError, codec.width, codec.height):
            opening.open_made(0, codec, 10)
