"""Corpora of moving digits: their rules by name, digits apart in every part, MNIST where it is here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from thereafter.data import corpora
from thereafter.vision.clips.moving import MovingClips, MovingRule
from thereafter.vision.clips.reading import read_clips, read_many
from thereafter.vision.made_pictures import moving_rules

NAMES = ["moving-digit", "moving-digits", "moving-glyph", "moving-glyphs"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEREAFTER_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("name", NAMES)
def test_a_corpus_of_moving_digits_is_its_rules(name: str):
    corpus, again = corpora.locate(name), corpora.locate(name)
    assert corpus == again
    assert (corpus.kind, list(corpus.parts)) == ("clips", ["train", "valid", "test"])
    rules = {part: MovingRule.read(path) for part, path in corpus.parts.items()}
    assert rules == moving_rules(name)
    assert all(path.stat().st_size < 1_000 for path in corpus.parts.values())
    assert len({rule.seed for rule in rules.values()}) == 3
    digits = [{(rule.source, at) for at in range(rule.begin, rule.end or 10_000)} for rule in rules.values()]
    assert not digits[0] & digits[1]
    assert not digits[0] & digits[2]
    assert not digits[1] & digits[2]


def test_the_rules_are_those_of_the_literature():
    one, two = moving_rules("moving-digit")["train"], moving_rules("moving-digits")["train"]
    assert (one.digits, one.frames, one.size, one.directions, one.slowest, one.fastest) == (1, 10, 64, 16, 2.0, 5.0)
    assert (two.digits, two.frames, two.size, two.directions, two.slowest, two.fastest) == (2, 20, 64, 0, 3.6, 3.6)
    assert [rule.count for rule in moving_rules("moving-digit").values()] == [200_000, 2_000, 10_000]


def test_drawn_digits_move_without_any_other_corpus(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("THEREAFTER_DATA", raising=False)
    corpus = corpora.locate("moving-glyph")
    clips = read_clips([corpus.parts["test"]])
    assert len(clips) == 1_000
    assert read_many(clips[:3]).shape == (3, 10, 64, 64)
    assert isinstance(clips, MovingClips)
    assert {*clips.columns["digit"]} == set("0123456789")
    assert clips.columns["direction"][5] == dict(clips[5].labels)["direction"]


@pytest.mark.usefixtures("corpora_folder")
def test_the_digits_of_mnist_move_as_drawn_ones_do():
    """On MNIST or the pictures that stand in for it: what is seen at the place of a digit is that digit."""
    from thereafter.vision.pictures.archives import open_idx, read_idx_labels

    parts = corpora.locate("mnist").parts
    pictures, labels = open_idx(parts["test"]), read_idx_labels(parts["test.labels"])
    begin, end = 3, min(40, len(pictures))
    clips = MovingClips(MovingRule(count=30, source="mnist:test", begin=begin, end=end, seed=4))
    paths = clips.paths(np.arange(30))
    for clip, frames in zip(clips, clips.read_many(np.arange(30)), strict=True):
        which = begin + int(paths.digit_BD[clip.row, 0])
        row, column = int(paths.row_BDT[clip.row, 0, 6]), int(paths.column_BDT[clip.row, 0, 6])
        assert np.array_equal(frames[6, row : row + 28, column : column + 28], pictures.read(which)[:, :, 0])
        assert dict(clip.labels)["digit"] == labels[which]
