"""Moving digits against a walk step by step; labels against the centre of mass; rules as files."""

from __future__ import annotations

import hashlib
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from refusals import assert_refused
from thereafter.errors import FormatError, OptionError, ShapeError
from thereafter.vision.clips.moving import NAMES, MovingClips, MovingRule, corners, headings, move
from thereafter.vision.pictures.glyphs import SIDE, numbered_glyphs

ONE = MovingRule(count=400, seed=5, end=200)
TWO = MovingRule(digits=2, frames=20, directions=0, slowest=3.6, fastest=3.6, count=50, seed=6, end=200)


class Dots:
    """A pool of one bright pixel in the lower left corner: where it is seen is where the digit is."""

    side = SIDE
    digits = np.arange(10)

    def __len__(self) -> int:
        return 10

    def take(self, rows_B: NDArray[np.int64]) -> NDArray[np.uint8]:
        pictures = np.zeros((len(rows_B), SIDE, SIDE), np.uint8)
        pictures[:, -1, 0] = 255
        return pictures


def walked(start: float, step: float, frames: int, room: float) -> list[float]:
    """Places of a point that goes in steps and turns round at 0 and at `room`."""
    places, at = [start], start
    for _ in range(frames - 1):
        rest = abs(step)
        while rest > 0:
            wall = (room - at) if step > 0 else at
            if rest < wall:
                at += math.copysign(rest, step)
                break
            at = room if step > 0 else 0.0
            step, rest = -step, rest - wall
        places.append(at)
    return places


@given(st.floats(0, 36), st.floats(0, 36), st.floats(-36, 36), st.floats(-36, 36))
def test_places_are_those_of_a_walk_that_bounces(x: float, y: float, right: float, up: float):
    column, row = corners(np.array([x, y]), np.array([right, up]), 30, 36)
    for place, start, step in ((column, x, right), (36 - row, y, up)):
        exact = np.array(walked(start, step, 30, 36))
        assert place.min() >= 0
        assert place.max() <= 36
        assert np.abs(place - exact).max() <= 0.5 + 1e-9


def test_clips_are_digits_painted_at_their_places():
    clips = MovingClips(TWO)
    rows = [3, 0, 49]
    paths = clips.paths(rows)
    expected = np.zeros((3, 20, 64, 64), np.uint8)
    for b in range(3):
        for d in range(2):
            digit = numbered_glyphs([paths.digit_BD[b, d]])[0]
            for t in range(20):
                row, column = paths.row_BDT[b, d, t], paths.column_BDT[b, d, t]
                window = expected[b, t, row : row + SIDE, column : column + SIDE]
                np.maximum(window, digit, out=window)
    assert np.array_equal(clips.read_many(rows), expected)
    assert (expected == 0).any()
    assert not clips.columns
    assert clips[3].labels == ()
    lengths = np.hypot(np.diff(paths.column_BDT), np.diff(paths.row_BDT))
    assert lengths.max() < 3.6 + math.sqrt(2)


def test_the_speed_of_two_digits_is_that_of_srivastava():
    clips = MovingClips(TWO, pool=Dots())
    frames = clips.read_many(np.arange(50))
    assert set(np.unique((frames > 0).sum((2, 3)))) <= {1, 2}
    paths = clips.paths(np.arange(50))
    first = np.hypot(*(np.diff(part[..., :2])[..., 0] for part in (paths.column_BDT, paths.row_BDT)))
    assert first.mean() == pytest.approx(3.6, abs=0.1)  # the first step meets no wall


def test_labels_are_what_a_dot_does_in_the_frames():
    """The direction, measured where the centre of mass goes until it first meets a wall."""
    rule = MovingRule(count=600, seed=9, slowest=4.0, fastest=5.0)
    clips = MovingClips(rule, pool=Dots())
    frames = clips.read_many(np.arange(600)) > 0
    row, column = frames.any(3).argmax(2), frames.any(2).argmax(2)
    x, y = column, 63 - row
    checked = 0
    for n, clip in enumerate(clips):
        (_, digit), (_, direction) = clip.labels
        assert digit == str(clips.paths([n]).digit_BD[0, 0])
        turns = [t for t in range(2, 10) for z in (x[n], y[n]) if (z[t] - z[t - 1]) * (z[1] - z[0]) < 0]
        last = min(turns, default=10) - 2
        dx, dy = x[n, last] - x[n, 0], y[n, last] - y[n, 0]
        if math.hypot(dx, dy) > 8:
            turn = math.atan2(dy, dx) / (2 * math.pi)
            assert NAMES[round(turn * 16) % 16] == direction, (n, dx, dy)
            checked += 1
    assert checked > 250
    assert set(clips.columns["direction"]) == set(NAMES)


def test_the_first_step_shows_the_direction_and_never_meets_a_wall():
    clips = MovingClips(ONE)
    paths = clips.paths(np.arange(400))
    right = np.diff(paths.column_BDT[:, 0])[:, 0]
    up = -np.diff(paths.row_BDT[:, 0])[:, 0]
    ways = headings(paths.direction_BD[:, 0] / 16)
    assert (right * ways[:, 0] >= 0).all()
    assert (up * ways[:, 1] >= 0).all()
    assert (np.hypot(right, up) > 0).all()


def test_centres_of_mass_move_as_the_digits_do():
    clips = MovingClips(ONE)
    frames = clips.read_many(np.arange(40)).astype(float)
    mass = frames.sum((2, 3))
    column = (frames.sum(2) * np.arange(64)).sum(2) / mass
    row = (frames.sum(3) * np.arange(64)).sum(2) / mass
    paths = clips.paths(np.arange(40))
    assert np.allclose(np.diff(column), np.diff(paths.column_BDT[:, 0]))
    assert np.allclose(np.diff(row), np.diff(paths.row_BDT[:, 0]))
    assert np.allclose(mass, mass[:, :1])


def test_labels_of_digits_are_those_of_the_pictures_they_show():
    clips = MovingClips(MovingRule(count=100, seed=1, begin=40, end=60))
    digit = clips.paths(np.arange(100)).digit_BD[:, 0]
    assert digit.min() >= 0
    assert digit.max() < 20
    assert clips.columns["digit"] == [str((40 + one) % 10) for one in digit]
    frame, path = clips[7].read()[0], clips.paths([7])
    row, column = path.row_BDT[0, 0, 0], path.column_BDT[0, 0, 0]
    assert np.array_equal(frame[row : row + SIDE, column : column + SIDE], numbered_glyphs([40 + digit[7]])[0])


@pytest.mark.parametrize("directions", [0, 4, 8, 16])
def test_directions_are_counted_counter_clockwise_from_the_right(directions: int):
    rule = MovingRule(count=200, seed=2, directions=directions)
    clips = MovingClips(rule, pool=Dots())
    assert list(clips.columns) == (["digit", "direction"] if directions else ["digit"])
    names = {0: (), 4: ("E", "N", "W", "S"), 8: ("E", "NE", "N", "NW", "W", "SW", "S", "SE"), 16: NAMES}[directions]
    assert rule.direction_names == names
    assert set(clips.columns.get("direction", [])) == set(names)


def test_headings_are_unit_vectors_that_point_there():
    ways = headings(np.arange(16) / 16)
    assert np.allclose(np.hypot(*ways.T), 1)
    for name, (x, y) in zip(NAMES, ways, strict=True):
        assert (("E" in name) - ("W" in name)) == np.sign(x)
        assert (("N" in name) - ("S" in name)) == np.sign(y)


def test_a_batch_is_what_its_clips_are_alone():
    clips = MovingClips(ONE)
    batch = clips.read_many([5, 399, 5])
    assert batch.dtype == np.uint8
    assert np.array_equal(batch[1], clips[-1].read())
    assert np.array_equal(batch[0], batch[2])
    assert clips[5] == clips[5]
    assert clips[5] != clips[6]
    assert len({*clips[:10], *clips[5:10]}) == 10

    with pytest.raises(IndexError):
        clips[400]


def test_clips_are_the_same_in_every_process():
    code = (
        "import hashlib; from thereafter.vision.clips.moving import MovingClips, MovingRule; "
        "clips = MovingClips(MovingRule(count=400, seed=5, end=200)); "
        "print(hashlib.sha256(clips.read_many([1, 17, 300]).tobytes()).hexdigest(), clips[17].labels)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    clips = MovingClips(ONE)
    here = hashlib.sha256(clips.read_many([1, 17, 300]).tobytes()).hexdigest()
    assert done.stdout.strip() == f"{here} {clips[17].labels}"


def test_a_digit_of_ones_own_is_moved_as_it_is_told():
    digit = np.full((1, SIDE, SIDE), 9, np.uint8)
    frames = move(digit, [[0, 0]], [[3, 0]], frames=30, size=40)
    edges = [int(np.flatnonzero(frame.any(0))[0]) for frame in frames]
    assert edges == [round(place) for place in walked(0, 3, 30, 12)]
    assert frames[:, 12:].any()
    assert not frames[:, :12].any()  # y up: it lies on the floor
    with assert_refused(ShapeError, 28, 20):
        move(digit, [[0, 0]], [[1, 0]], size=20)


def test_rules_come_back_from_their_files(tmp_path: Path):
    for rule in (ONE, TWO, MovingRule(source="mnist:test", begin=5, end=9)):
        (tmp_path / "rule.json").write_text(rule.to_json())
        assert MovingRule.read(tmp_path / "rule.json") == rule


BAD: list[tuple[dict[str, object], str]] = [
    ({"digits": 0}, "digits is 0; expected a whole number from 1 to 8"),
    ({"digits": True}, "digits is True"),
    ({"frames": 2.5}, "frames is 2.5"),
    ({"frames": 10**6}, "frames is 1000000; expected a whole number from 1 to 1000"),
    ({"size": 20}, "size is 20"),
    ({"count": -1}, "count is -1"),
    ({"count": 10**12}, "count is 1000000000000"),
    ({"directions": 7}, "directions is 7; expected 4, 8, 16, or 0 for any angle"),
    ({"directions": []}, "directions is []"),
    ({"source": "cifar"}, "source is 'cifar'; expected one of mnist:train, mnist:test, glyphs"),
    ({"slowest": "fast"}, "slowest is 'fast'; expected a number"),
    ({"fastest": float("nan")}, "fastest is nan"),
    ({"slowest": 6}, "slowest=6 to fastest=5.0"),
    ({"fastest": 40}, "fastest=40; expected 0 < slowest <= fastest <= 36"),
    ({"begin": 9, "end": 9}, "begin=9 to end=9 are none"),
    ({"frames": 1000, "size": 512}, "1000 x 512 x 512 pixels"),
    ({"speed": 3}, "an entry 'speed'"),
    ({"format": "something"}, "not a rule of moving digits"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=[str(change) for change, _ in BAD])
def test_a_wrong_rule_says_what_is_wrong(change: dict[str, object], message: str, tmp_path: Path):
    path = tmp_path / "rule.json"
    path.write_text(json.dumps({**json.loads(MovingRule().to_json()), **change}))
    with pytest.raises(FormatError) as raised:
        MovingRule.read(path)
    assert message in str(raised.value)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("content", [b"", b"[]", b"3", b"{", b"\xff\xfe", b"[" * 100_000, b" " * 200_000])
def test_what_is_no_rule_is_refused(content: bytes, tmp_path: Path):
    (tmp_path / "rule.json").write_bytes(content)
    with assert_refused(FormatError, "rule.json"):
        MovingRule.read(tmp_path / "rule.json")
    with pytest.raises(FormatError, match="could not be read"):
        MovingRule.read(tmp_path / "none.json")


def test_more_digits_than_there_can_be_are_refused():
    with assert_refused(OptionError, 10000000):
        MovingClips(MovingRule(end=10**7))
