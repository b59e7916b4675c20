"""What the ready models of pictures learn from is the built-in corpora, the whole or a short part of them."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from thereafter.data import corpora
from thereafter.ready import shipped
from thereafter.ready.tasks import CLUTTERED, GLYPH, GLYPHS, SHAPES, picture_part
from thereafter.vision.captioning.reading import read_captioned
from thereafter.vision.clips.reading import read_clips
from thereafter.vision.made_pictures import moving_rules
from thereafter.vision.pictures.glyphs import ClutteredPictures, ClutterRule, numbered_glyphs
from thereafter.vision.pictures.sources import with_pictures


@pytest.mark.wide
def test_a_short_part_of_shapes_is_the_beginning_of_the_whole(tmp_path: Path) -> None:
    part = picture_part(tmp_path, SHAPES, "train", 4_000, scale=0.001)
    short = read_captioned(with_pictures([part]))
    assert len(short) == 120
    with np.load(corpora.locate(SHAPES).parts["train"]) as arrays:
        for at in (0, 119):
            np.testing.assert_array_equal(short[at].picture.read(), arrays["pixels"][at])
            assert short[at].picture.name == arrays["names"][at]
    assert {len(one.captions) for one in short} == {5}
    whole = read_captioned(with_pictures([picture_part(tmp_path, SHAPES, "valid", 4_000)]))
    assert len(whole) == 300
    assert not {one.picture.name for one in whole} & {one.picture.name for one in short}


def test_moving_digits_follow_the_rule_of_their_corpus(tmp_path: Path) -> None:
    clips = read_clips([picture_part(tmp_path, GLYPH, "train", 20_000, scale=0.001)])
    assert len(clips) == 200
    whole = read_clips([picture_part(tmp_path, GLYPH, "train", 20_000)])
    assert len(whole) == 20_000
    np.testing.assert_array_equal(clips[7].read(), whole[7].read())
    assert len(read_clips([picture_part(tmp_path, GLYPH, "test", 20_000)])) == moving_rules(GLYPH)["test"].count


def test_still_digits_stand_among_pieces_or_alone(tmp_path: Path) -> None:
    short = ClutteredPictures(ClutterRule.read(picture_part(tmp_path, CLUTTERED, "train", 20_000, scale=0.001)))
    assert (len(short), short.shape(0), short.rule.pieces) == (200, (40, 40, 1), 4)
    parts = {
        part: ClutteredPictures(ClutterRule.read(picture_part(tmp_path, GLYPHS, part, 5_000)))
        for part in ("train", "valid", "test")
    }
    assert [len(one) for one in parts.values()] == [5_000, 1_000, 2_000]
    assert {one.shape(0) for one in parts.values()} == {(29, 29, 1)}
    rules = [one.rule for one in parts.values()]
    assert all(before.end <= after.begin for before, after in itertools.pairwise(rules))  # no digit is in two parts
    np.testing.assert_array_equal(parts["train"].pool.take(np.array([7]))[0], numbered_glyphs([7])[0])


def test_scores_of_pictures_are_said_in_words() -> None:
    assert shipped.in_words({"bleu_1": 90.0, "bleu_4": 80.25, "cider_d": 5.5}) == "BLEU-4 80.2, CIDEr-D 5.50"
    assert shipped.in_words({"nats": 283.5, "squared_error": 69.0, "least": 41.0}) == "284 nats a frame"
    assert shipped.in_words({"nats": 62.4, "pixels": 50.0, "latent": 12.4}) == "62 nats a picture"
    labels = {"digit": 0.975, "direction": 0.5, "together": 0.49}
    assert shipped.in_words(labels) == "digit 97.5 % right, direction 50.0 % right"
