"""Cluttered digits against a picture painted pixel by pixel; rules as files; corpora by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from thereafter.data import corpora
from thereafter.errors import FormatError, OptionError
from thereafter.vision.made_pictures import clutter_rules
from thereafter.vision.pictures.codec import PictureCodec
from thereafter.vision.pictures.glyphs import SIDE, ClutteredPictures, ClutterRule, is_clutter_rule, numbered_glyphs
from thereafter.vision.pictures.labelled_pictures import holds_labelled_pictures, read_labelled_pictures
from thereafter.vision.rules import uniforms

RULE = ClutterRule(count=40, seed=3, begin=5, end=65)


def painted(rule: ClutterRule, number: int) -> NDArray[np.uint8]:
    """One picture, pixel by pixel."""
    u = uniforms(rule.seed, [number], 3 + 5 * rule.pieces)[0].tolist()
    digits = rule.end - rule.begin
    which = int(u[0] * digits)
    picture = np.zeros((rule.size, rule.size), np.uint8)

    def put(what: NDArray[np.uint8], column: int, row: int) -> None:
        for y in range(len(what)):
            for x in range(len(what)):
                picture[row + y, column + x] = max(picture[row + y, column + x], what[y, x])

    room = rule.size - SIDE + 1
    put(numbered_glyphs([rule.begin + which])[0], int(u[1] * room), int(u[2] * room))
    for piece in range(rule.pieces):
        v = u[3 + 5 * piece :]
        other = numbered_glyphs([rule.begin + (which + 1 + int(v[0] * (digits - 1))) % digits])[0]
        left, top = (int(v[at] * (SIDE - rule.piece + 1)) for at in (1, 2))
        column, row = (int(v[at] * (rule.size - rule.piece + 1)) for at in (3, 4))
        put(other[top : top + rule.piece, left : left + rule.piece], column, row)
    return picture


def test_cluttered_pictures_are_those_of_their_rule() -> None:
    pictures, rows = ClutteredPictures(RULE), [7, 0, 39, 7]
    stacked = pictures.stack(rows)
    assert stacked.shape == (4, 60, 60, 1)
    for row, one in zip(rows, stacked, strict=True):
        np.testing.assert_array_equal(one[..., 0], painted(RULE, row))
        np.testing.assert_array_equal(pictures.read(row), one)
        assert pictures.labels()[row] == str((RULE.begin + int(uniforms(3, [row], 1)[0, 0] * 60)) % 10)


def test_digits_and_pieces_reach_every_corner_and_never_leave() -> None:
    bare = ClutteredPictures(ClutterRule(count=3000, pieces=0, end=40, size=31))
    seen = bare.stack(np.arange(3000))[..., 0] > 0
    alone = numbered_glyphs(range(40)) > 0
    assert set(seen.sum((1, 2)).tolist()) <= set(alone.sum((1, 2)).tolist())  # no digit is cut off
    drawn = uniforms(0, np.arange(3000), 3)[:, 1:]
    assert {tuple(place) for place in (drawn * 4).astype(int).tolist()} == {(x, y) for x in range(4) for y in range(4)}


def test_a_rule_of_clutter_is_a_file_of_labelled_pictures(tmp_path: Path) -> None:
    path = tmp_path / "rule.json"
    path.write_text(RULE.to_json())
    assert ClutterRule.from_json(path.read_bytes()) == RULE
    assert is_clutter_rule(path)
    assert holds_labelled_pictures([path])
    examples = read_labelled_pictures([path])
    assert [one.label for one in examples] == ClutteredPictures(RULE).labels()
    codec = PictureCodec.fit([one.picture for one in examples])
    assert (codec.height, codec.width, codec.channels) == (60, 60, 1)
    batch = codec.batch([examples[at].picture for at in (3, 1)])
    np.testing.assert_array_equal(batch[:, 0], ClutteredPictures(RULE).stack([3, 1])[..., 0])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ('{"format": "moving digits"}', "not a rule of cluttered digits"),
        ('{"format": "cluttered digits", "sise": 60}', "did you mean.*size"),
        ('{"format": "cluttered digits", "size": 20}', "size is 20; expected a whole number"),
        ('{"format": "cluttered digits", "pieces": true}', "pieces is True"),
        ('{"format": "cluttered digits", "begin": 4, "end": 5}', "at least two"),
        ('{"format": "cluttered digits", "source": "cifar"}', "expected one of mnist:train"),
    ],
)
def test_a_wrong_rule_of_clutter_is_refused_in_a_sentence(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "rule.json"
    path.write_text(content)
    with pytest.raises(FormatError, match=message) as refused:
        read_labelled_pictures([path])
    assert str(path) in str(refused.value)
    with pytest.raises(OptionError):
        ClutterRule(count=0)


@pytest.mark.parametrize("name", ["cluttered-digits", "cluttered-glyphs"])
def test_a_corpus_of_cluttered_digits_is_its_rules(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEREAFTER_CACHE", str(tmp_path / "cache"))
    corpus = corpora.locate(name)
    assert (corpus.kind, list(corpus.parts)) == ("pictures", ["train", "valid", "test"])
    rules = {part: ClutterRule.from_json(path.read_bytes()) for part, path in corpus.parts.items()}
    assert rules == clutter_rules(name)
    assert {(rule.size, rule.pieces, rule.piece) for rule in rules.values()} == {(60, 4, 8)}
    assert len({(rule.source, rule.begin) for rule in rules.values()}) == 3


@pytest.mark.usefixtures("corpora_folder")
def test_cluttered_mnist_shows_digits_of_mnist() -> None:
    pictures = ClutteredPictures(ClutterRule(count=20, pieces=0, source="mnist:test", end=50))
    taken = {one.tobytes() for one in pictures.pool.take(np.arange(50))}
    places = (uniforms(0, np.arange(20), 3)[:, 1:] * 33).astype(int)
    for one, (column, row) in zip(pictures.stack(np.arange(20)), places, strict=True):
        assert one[row : row + SIDE, column : column + SIDE, 0].tobytes() in taken
