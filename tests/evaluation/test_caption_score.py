"""The score of captions, the best constant sentence by trying each, the nearest picture by all distances."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from breadth import core
from refusals import assert_refused
from thereafter.errors import EmptyCorpusError, OptionError, ShapeError
from thereafter.evaluation.bootstrap import interval, resample_sums
from thereafter.vision.captioning.measures import (
    bleu_of_sums,
    bleu_statistics,
    caption_words,
    cider_of_each,
    count_captions,
    measure_captions,
)
from thereafter.vision.captioning.reading import CaptionedPicture, read_captions
from thereafter.vision.captioning.task import CAPTIONING, ResampledCaptions
from thereafter.vision.measures import constant_caption, nearest_captions
from thereafter.vision.pictures.picture import Picture, StackedPictures

WORDS = ["a", "dog", "the", "man", "red", "runs", "in", "of", "ball", "on"]


def several(seed: int, pictures: int = 30) -> list[list[str]]:
    draw = random.Random(seed)
    base = [draw.choices(WORDS, k=draw.randint(3, 9)) for _ in range(5)]
    return [
        [
            " ".join(draw.choice(WORDS) if draw.random() < 0.2 else word for word in draw.choice(base)).capitalize()
            + " ."
            for _ in range(draw.randint(1, 5))
        ]
        for _ in range(pictures)
    ]


def test_a_score_has_both_measures_and_says_what_of() -> None:
    references = several(1)
    answers = [one[0] for one in references[1:] + references[:1]]
    score = measure_captions(answers, references)
    words = [caption_words(text) for text in answers], [[caption_words(text) for text in one] for one in references]
    counted = count_captions(*words)
    bleus = bleu_of_sums(bleu_statistics(counted).sum(axis=0)[None])[0].tolist()
    assert [score.bleu_1, score.bleu_2, score.bleu_3, score.bleu_4] == bleus
    assert score.cider_d == cider_of_each(counted).mean()
    assert (score.captions, score.distinct) == (30, len({tuple(one) for one in words[0]}))
    assert score.references == pytest.approx(np.mean([len(one) for one in references]))
    assert score.length == pytest.approx(np.mean([len(one) for one in words[0]]))
    assert json.loads(json.dumps(score.as_dict(), allow_nan=False))["cider_d"] == score.cider_d
    assert f"BLEU-4 {score.bleu_4:.1f}, CIDEr-D {score.cider_d:.3f} over 30 pictures" in str(score)
    assert "runs of letters" in str(score)
    assert score.to_rows() == [score.as_dict()]


def test_captions_are_resampled_picture_by_picture() -> None:
    references = several(2, pictures=60)
    answers = [one[-1] for one in references[1:] + references[:1]]
    score = measure_captions(answers, references)
    one = ResampledCaptions.of(answers, references)
    whole = one.figures(one.statistics_NS.sum(axis=0, keepdims=True))
    assert list(whole) == ["bleu_1", "bleu_2", "bleu_3", "bleu_4", "cider_d"]
    for name, values_R in whole.items():
        assert values_R[0] == pytest.approx(score.as_dict()[name])
    drawn_R = np.random.default_rng(4).integers(60, size=60)  # one resample, measured as a test set of its own
    figures = one.figures(one.statistics_NS[drawn_R].sum(axis=0, keepdims=True))
    again = measure_captions([answers[row] for row in drawn_R], [references[row] for row in drawn_R])
    assert figures["bleu_4"][0] == pytest.approx(again.bleu_4)
    low, high = interval(one.figures(resample_sums(one.statistics_NS))["cider_d"])
    assert low < score.cider_d < high


def test_the_task_of_captions_has_intervals() -> None:
    references, pixels = several(5), StackedPictures("made", np.zeros((30, 2, 2), np.uint8))
    examples = [
        CaptionedPicture(Picture(pixels, row, str(row)), tuple(captions)) for row, captions in enumerate(references)
    ]
    answers = [one[0] for one in references]
    resampled = CAPTIONING.resampled(examples, answers, CAPTIONING.codecs(examples))
    assert resampled is not None
    assert np.array_equal(resampled.statistics_NS, ResampledCaptions.of(answers, references).statistics_NS)


def test_capitals_and_full_stops_count_nothing() -> None:
    one = measure_captions(["A DOG runs in the ball!"], [["a dog runs in the ball ."]])
    assert one.bleu_4 == pytest.approx(100)


@pytest.mark.parametrize("seed", core(range(4), [0]))
def test_no_training_caption_scores_better_than_the_constant(seed: int) -> None:
    references = several(seed)
    words = [[caption_words(text) for text in one] for one in references]
    scores = {}
    for text in (text for one in references for text in one):
        counted = count_captions([caption_words(text)] * len(words), words)
        scores[text] = bleu_of_sums(bleu_statistics(counted).sum(axis=0)[None])[0].tolist()[::-1]
    best = constant_caption(references)
    assert scores[best] == pytest.approx(max(scores.values()))
    assert best == next(text for text, score in scores.items() if score == pytest.approx(max(scores.values())))


def test_of_constants_without_four_words_in_common_the_lower_orders_decide() -> None:
    assert constant_caption([["red"], ["a dog"], ["a man", "dog"]]) == "a dog"
    assert constant_caption([["."]]) == "."


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_the_nearest_picture_gives_its_first_caption(dtype: type[np.generic], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thereafter.vision.measures._ROWS", 16)  # so that there are several blocks
    rng = np.random.default_rng(3)
    train = rng.integers(0, 256, (70, 3, 4, 4)).astype(dtype)
    train[50] = train[20]  # of two that are alike the first counts
    test = np.concatenate([rng.integers(0, 256, (30, 3, 4, 4)).astype(dtype), train[[50, 69]]])
    captions = [[f"picture {row}", "another"] for row in range(70)]
    distances = ((test[:, None].astype(np.float64) - train) ** 2).sum(axis=(2, 3, 4))
    wanted = [f"picture {row}" for row in distances.argmin(axis=1)]
    assert nearest_captions(train, test, captions) == wanted
    assert wanted[-2:] == ["picture 20", "picture 69"]


def test_pictures_that_cannot_be_compared_are_a_sentence() -> None:
    with assert_refused(ShapeError, "(2, 3)", "(2, 4)"):
        nearest_captions(np.zeros((2, 3)), np.zeros((2, 4)), [["a"], ["b"]])
    with assert_refused(OptionError):
        nearest_captions(np.zeros((2, 3)), np.zeros((2, 3)), [["a"]])
    with pytest.raises(EmptyCorpusError):
        nearest_captions(np.zeros((2, 3)), np.zeros((0, 3)), [["a"], ["b"]])
    with pytest.raises(EmptyCorpusError):
        constant_caption([])
    with assert_refused(OptionError, 0):
        measure_captions(["a"], ["a"])


@pytest.mark.wide
@pytest.mark.corpus("flickr8k: one sentence for its 1,000 test pictures")
def test_the_best_constant_sentence_of_flickr8k_is_known(data: Path) -> None:
    """The best BLEU-4 of 30,000 sentences on the training part; other sentences give other figures."""
    folder, captions = data / "flickr8k", dict[str, list[str]]()
    for name, caption in read_captions(folder / "Flickr8k.token.txt"):
        captions.setdefault(name, []).append(caption)
    train, test = (
        [captions[name] for name in (folder / f"Flickr_8k.{part}Images.txt").read_text().split()]
        for part in ("train", "test")
    )
    constant = constant_caption(train)
    assert constant == "A man in a boat in front of a sunset ."
    score = measure_captions([constant] * 1000, test)
    assert score.line() == "BLEU-1 43.7, BLEU-4 9.1, CIDEr-D 0.045"
