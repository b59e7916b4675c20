"""Drawn digits: pure functions of their numbers, inside their frame, and different enough to be told apart."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import numpy as np

from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.vision.pictures.glyphs import SIDE, glyph, numbered_glyphs, ways_of, written
from thereafter.vision.rules import uniforms

MASK = 2**64 - 1


def mixed(state: int) -> int:
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
    return state ^ (state >> 31)


def uniform(seed: int, row: int, column: int) -> float:
    """SplitMix64 with Python's own integers."""
    counter = (row * 256 + column + 1) * 0x9E3779B97F4A7C15
    return (mixed((mixed(seed) + counter) & MASK) >> 11) * 2.0**-53


def test_random_numbers_are_those_of_splitmix():
    rows = [0, 1, 7, 123_456_789]
    drawn = uniforms(42, rows, 9)
    assert drawn.tolist() == [[uniform(42, row, column) for column in range(9)] for row in rows]
    many = uniforms(1, np.arange(20_000), 2)
    assert abs(many.mean() - 0.5) < 0.01
    assert abs(np.corrcoef(many.T)[0, 1]) < 0.03


def test_a_number_is_always_the_same_digit():
    some = numbered_glyphs([12, 3, 70_001])
    assert some.shape == (3, SIDE, SIDE)
    assert np.array_equal(some[1], numbered_glyphs(np.arange(70))[3])
    code = (
        "import hashlib, numpy as np; from thereafter.vision.pictures.glyphs import numbered_glyphs; "
        "print(hashlib.sha256(numbered_glyphs(np.arange(30)).tobytes()).hexdigest())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == hashlib.sha256(numbered_glyphs(np.arange(30)).tobytes()).hexdigest()


def test_glyphs_of_a_generator_follow_it():
    one, again, other = (glyph(5, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
    with assert_refused(OptionError, 0, 9, 10):
        glyph(10, np.random.default_rng(1))


def test_digits_stand_whole_in_their_frame():
    pictures = numbered_glyphs(np.arange(500)).astype(float)
    border = np.ones((SIDE, SIDE), bool)
    border[1:-1, 1:-1] = False
    assert pictures[:, border].max() == 0
    ink = pictures.sum((1, 2)) / 255
    assert 15 < ink.min() < ink.max() < 220  # of 784 pixels
    assert (pictures.max((1, 2)) == 255).all()
    for axis in (1, 2):
        centre = (pictures.sum(3 - axis) * np.arange(SIDE)).sum(1) / pictures.sum((1, 2))
        assert np.abs(centre - 13.5).max() < 5


def test_edges_are_soft():
    pictures = numbered_glyphs(np.arange(50))
    between = ((pictures > 0) & (pictures < 255)).mean()
    assert 0.05 < between < 0.3


def test_a_stroke_is_inked_as_far_as_the_pen_reaches():
    """Against a dense walk along the splines, point by point."""
    from thereafter.vision.pictures import glyphs

    drawn = np.random.default_rng(3).random((10, glyphs.draws_a_glyph()))
    digits = np.arange(10)
    begin, end = glyphs._segments(digits, drawn)
    share = np.linspace(0, 1, 200)[:, None, None, None]
    walked = (begin + share * (end - begin)).transpose(1, 0, 2, 3).reshape(10, -1, 2)
    for digit in (0, 4, 8):
        row, column = np.mgrid[:SIDE, :SIDE]
        off = np.hypot(column[..., None] - walked[digit, :, 0], row[..., None] - walked[digit, :, 1]).min(-1)
        ink = 255 * np.clip((1.7 + 2.1 * drawn[digit, 5]) / 2 + 0.5 - off, 0, 1)
        assert np.abs(glyphs.draw(digits, drawn)[digit] - ink).max() < 3


def test_splines_pass_through_their_points():
    table = written()
    for way in range(len(table.points_VP2)):
        points = table.points_VP2[way]
        ends = np.concatenate([table.begin_VSP[way] @ points, table.end_VSP[way] @ points])
        real = points[np.abs(points).sum(1) > 0]
        assert np.abs(ends[:, None] - real).sum(2).min(0).max() < 1e-12
    assert all(ways_of(digit) for digit in range(10))
    assert table.count.tolist() == [len(ways_of(digit)) for digit in range(10)]


def test_the_nearest_of_other_glyphs_is_mostly_the_same_digit():
    pictures = numbered_glyphs(np.arange(1200)).reshape(1200, -1).astype(np.float32)
    known, asked = pictures[:1000], pictures[1000:]
    off = (known**2).sum(1) - 2 * asked @ known.T
    assert (off.argmin(1) % 10 == np.arange(1000, 1200) % 10).mean() > 0.9
