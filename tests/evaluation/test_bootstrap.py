"""The paired bootstrap against plain loops, and against the tests of significance of sacreBLEU."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from thereafter.errors import OptionError
from thereafter.evaluation.bootstrap import (
    RESAMPLES,
    SEED,
    Floats,
    interval,
    p_value,
    paired_difference,
    resample_sums,
)
from thereafter.tasks.labelling import ResampledClasses, measure_classes
from thereafter.tasks.tag.measures import ResampledTags, measure_tagging
from thereafter.tasks.translate.measures import ResampledTranslations, measure_translation

WORDS = ["the", "a", "cat", "dog", "sat", "ran", "on", "under", "mat", "log", "quickly", "today", ",", "."]


def draw(seed: int, shape: tuple[int, ...]) -> Floats:
    return np.random.default_rng(seed).gamma(2.0, 1.0, shape)


# ---- the draws


def test_resamples_are_those_of_a_plain_loop():
    statistics_NS = draw(1, (37, 3))
    places = np.random.default_rng(SEED).choice(37, size=(50, 37), replace=True)
    wanted = np.array([statistics_NS[row].sum(axis=0) for row in places])
    np.testing.assert_allclose(resample_sums(statistics_NS, resamples=50), wanted, rtol=1e-12)


def test_a_long_text_in_several_passes_has_the_same_draws(monkeypatch: pytest.MonkeyPatch):
    statistics_NS = draw(2, (101, 2))
    whole = resample_sums(statistics_NS, resamples=30)
    monkeypatch.setattr("thereafter.evaluation.bootstrap._CELLS", 700)
    np.testing.assert_allclose(resample_sums(statistics_NS, resamples=30), whole, rtol=1e-12)


@pytest.mark.parametrize(("lines", "block"), [(12, 4), (23, 5), (7, 7)])
def test_blocks_are_neighbours_and_the_first_line_follows_the_last(lines: int, block: int):
    statistics_NS = draw(3, (lines, 2))
    starts = np.random.default_rng(SEED).integers(lines, size=(40, round(lines / block)))
    wanted = [
        sum(statistics_NS[(start + step) % lines] for start in row for step in range(block)) for row in starts.tolist()
    ]
    np.testing.assert_allclose(resample_sums(statistics_NS, resamples=40, block=block), wanted, rtol=1e-12)


def test_the_seed_decides():
    statistics_NS = draw(4, (40, 1))
    assert np.array_equal(resample_sums(statistics_NS), resample_sums(statistics_NS))
    assert not np.array_equal(resample_sums(statistics_NS), resample_sums(statistics_NS, seed=1))


@pytest.mark.parametrize(("examples", "block"), [(0, 1), (5, 6), (5, 0)])
def test_what_cannot_be_drawn_is_refused(examples: int, block: int):
    with pytest.raises(OptionError, match=f"got {examples} examples, blocks of {block}"):
        resample_sums(np.ones((examples, 1)), block=block)


# ---- the interval


def test_the_interval_leaves_out_a_fortieth_at_either_end():
    assert interval(np.random.default_rng(0).permutation(1000.0 + np.arange(1000))) == (1025.0, 1974.0)


def test_a_difference_is_about_the_same_draws():
    one_N, other_N = draw(6, (200,)), draw(7, (200,))
    sums_RS = resample_sums(np.stack([one_N, other_N], axis=1))
    result = paired_difference(one_N.sum(), other_N.sum(), sums_RS[:, 0], sums_RS[:, 1], examples=200)
    places = np.random.default_rng(SEED).integers(200, size=(RESAMPLES, 200))
    differences = sorted(float(one_N[row].sum() - other_N[row].sum()) for row in places)
    assert result.value == pytest.approx(one_N.sum() - other_N.sum())
    assert (result.low, result.high) == pytest.approx((differences[25], differences[974]))
    sign = math.copysign(1, result.value)
    assert result.reversed == sum(sign * value < 0 for value in differences) / 1000
    assert result.clear == (differences[25] > 0 or differences[974] < 0)


def test_a_model_is_as_good_as_itself():
    values_R = draw(8, (1000,))
    result = paired_difference(1.5, 1.5, values_R, values_R, examples=50)
    assert (result.value, result.low, result.high, result.reversed, result.clear) == (0.0, 0.0, 0.0, 0.5, False)


def test_the_interval_covers_the_truth_as_often_as_it_says():
    """Of independent lines with a known mean difference of 0.1: 95 % of the intervals hold it, within chance."""
    covered, random = 0, np.random.default_rng(9)
    for _ in range(200):
        differences_N = random.normal(0.1, 1.0, 100)
        low, high = interval(resample_sums(differences_N[:, None], resamples=400)[:, 0] / 100)
        covered += low <= 0.1 <= high
    assert 0.89 <= covered / 200 <= 0.98


def test_blocks_widen_the_interval_where_neighbours_are_alike():
    smooth_N = np.convolve(np.random.default_rng(10).normal(size=1009), np.ones(10), "valid")
    alone, together = (interval(resample_sums(smooth_N[:, None], block=block)[:, 0]) for block in (1, 30))
    assert together[1] - together[0] > 2 * (alone[1] - alone[0])


# ---- translations, as sacreBLEU resamples them


def sentences(seed: int, count: int, noise: float = 0.0) -> list[str]:
    random, other = np.random.default_rng(0), np.random.default_rng(seed)
    texts = []
    for _ in range(count):
        words = random.choice(WORDS, size=random.integers(4, 14)).tolist()
        texts.append(" ".join(str(other.choice(WORDS)) if other.random() < noise else word for word in words))
    return texts


def test_translations_are_resampled_as_sacrebleu_does_it():
    references = sentences(0, 80)
    systems = {"one": sentences(1, 80, 0.3), "other": sentences(2, 80, 0.35)}
    metrics = {"bleu": BLEU(tokenize="13a", force=True), "chrf": CHRF()}
    _, oracle = PairedTest(list(systems.items()), metrics, [references], test_type="bs", n_samples=RESAMPLES)()
    ours = {name: ResampledTranslations.of(answers, references) for name, answers in systems.items()}
    scores = {name: one.figures(resample_sums(one.statistics_NS)) for name, one in ours.items()}
    whole = {name: one.figures(one.statistics_NS.sum(axis=0, keepdims=True)) for name, one in ours.items()}
    for figure, label in (("bleu", "BLEU"), ("chrf", "chrF2")):
        for number, name in enumerate(systems):
            wanted = oracle[label][number]
            low, high = interval(scores[name][figure])
            assert whole[name][figure][0] == pytest.approx(wanted.score)
            assert scores[name][figure].mean() == pytest.approx(wanted.mean, rel=1e-6)
            assert (high - low) / 2 == pytest.approx(wanted.ci, rel=1e-5)
        difference = whole["one"][figure][0] - whole["other"][figure][0]
        assert p_value(scores["one"][figure] - scores["other"][figure], difference) == oracle[label][1].p_value


@pytest.mark.parametrize("lowercase", [False, True])
def test_translations_as_a_whole_are_measured_as_ever(lowercase: bool):
    references, answers = sentences(0, 30), [text.title() for text in sentences(3, 30, 0.2)]
    one = ResampledTranslations.of(answers, references, lowercase=lowercase)
    figures = one.figures(one.statistics_NS.sum(axis=0, keepdims=True))
    measured = measure_translation(answers, references, lowercase=lowercase)
    assert (figures["bleu"][0], figures["chrf"][0]) == pytest.approx((measured.bleu, measured.chrf))
    exact = sum(a.lower() == b.lower() if lowercase else a == b for a, b in zip(answers, references, strict=True))
    assert figures["exact"][0] == pytest.approx(exact / 30)


# ---- labels and tags, against their own measures of every resample


def test_labels_of_every_resample_are_measured_as_ever():
    random, labels = np.random.default_rng(11), ["neg", "pos", "rare", "never"]
    gold = random.choice(labels[:3], 60, p=[0.5, 0.45, 0.05]).tolist()
    predicted = [label if random.random() < 0.7 else str(random.choice(labels[:2])) for label in gold]
    one = ResampledClasses.of(gold, predicted, labels)
    figures = one.figures(resample_sums(one.statistics_NS, resamples=40))
    for row, places in enumerate(np.random.default_rng(SEED).integers(60, size=(40, 60)).tolist()):
        measured = measure_classes([gold[k] for k in places], [predicted[k] for k in places], labels)
        assert figures["accuracy"][row] == pytest.approx(measured.accuracy)
        assert figures["macro_f1"][row] == pytest.approx(measured.macro_f1)


@pytest.mark.parametrize("names", [["DET", "NOUN", "VERB"], ["O", "B-PER", "I-PER", "B-LOC"]])
def test_tags_of_every_resample_are_measured_as_ever(names: list[str]):
    random = np.random.default_rng(12)
    gold = [random.choice(names, random.integers(1, 9)).tolist() for _ in range(40)]
    predicted = [[tag if random.random() < 0.8 else str(random.choice(names)) for tag in one] for one in gold]
    one = ResampledTags.of(gold, predicted)
    figures = one.figures(resample_sums(one.statistics_NS, resamples=30))
    assert ("span_f1" in figures) == ("O" in names)
    for row, places in enumerate(np.random.default_rng(SEED).integers(40, size=(30, 40)).tolist()):
        measured = measure_tagging([gold[k] for k in places], [predicted[k] for k in places])
        assert figures["accuracy"][row] == pytest.approx(measured.accuracy)
        if measured.spans is not None:
            assert figures["span_f1"][row] == pytest.approx(measured.spans.overall.f1)
