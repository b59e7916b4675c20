"""Figures of classification and the Naive Bayes row, against scikit-learn."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from breadth import core
from refusals import assert_refused
from thereafter.errors import EmptyCorpusError, OptionError
from thereafter.tasks.classify import NaiveBayes
from thereafter.tasks.labelling import ClassScore, measure_classes
from thereafter.text.labelled import read_labelled

sklearn = pytest.importorskip("sklearn.metrics")
naive_bayes = pytest.importorskip("sklearn.naive_bayes")

CLASSES = ["neg", "neutral", "pos", "10", "9"]


def drawn(seed: int) -> tuple[list[str], list[str]]:
    """Labels and predictions; some classes are on one side only."""
    draw = random.Random(seed)
    gold_classes, given_classes = (draw.sample(CLASSES, draw.randint(1, 5)) for _ in range(2))
    size = draw.randint(1, 60)
    return draw.choices(gold_classes, k=size), draw.choices(given_classes, k=size)


@pytest.mark.filterwarnings("ignore:A single label was found")  # that a matrix is 1 by 1 is no fault here
@pytest.mark.parametrize("seed", core(range(60), range(10)))
def test_all_figures_equal_scikit_learn(seed: int) -> None:
    gold, given = drawn(seed)
    ours = measure_classes(gold, given)
    assert ours.accuracy == pytest.approx(sklearn.accuracy_score(gold, given), abs=1e-12)
    assert ours.macro_f1 == pytest.approx(sklearn.f1_score(gold, given, average="macro", zero_division=0), abs=1e-12)
    np.testing.assert_array_equal(ours.confusion, sklearn.confusion_matrix(gold, given, labels=sorted({*gold, *given})))
    table = sklearn.precision_recall_fscore_support(gold, given, zero_division=0)
    scores = list(ours.per_class.values())
    for name, column in zip(("precision", "recall", "f1", "support"), table, strict=True):
        assert [getattr(score, name) for score in scores] == pytest.approx(column.tolist(), abs=1e-12)


@pytest.mark.parametrize("seed", core(range(10), range(3)))
def test_classes_that_are_named_but_never_occur_equal_scikit_learn(seed: int) -> None:
    gold, given = drawn(seed)
    labels = [*CLASSES, "never"]
    ours = measure_classes(gold, given, labels)
    assert ours.labels == tuple(labels)
    np.testing.assert_array_equal(ours.confusion, sklearn.confusion_matrix(gold, given, labels=labels))
    expected = sklearn.f1_score(gold, given, labels=labels, average="macro", zero_division=0)
    assert ours.macro_f1 == pytest.approx(expected, abs=1e-12)


def test_a_quotient_over_nothing_is_nothing() -> None:
    never = ClassScore()
    assert (never.precision, never.recall, never.f1) == (0.0, 0.0, 0.0)
    assert ClassScore(0, 3, 0).f1 == 0.0


def test_mistakes_by_frequency_json_and_one_line() -> None:
    gold, given = list("aaabbbbc"), list("abbaabbb")
    classes = measure_classes(gold, given)
    assert classes.confusions() == [("a", "b", 2), ("b", "a", 2), ("c", "b", 1)]
    assert classes.confusions(1) == [("a", "b", 2)]
    assert classes.macro_f1 == pytest.approx((1 / 3 + 4 / 9 + 0) / 3)
    stored = json.loads(json.dumps(classes.as_dict()))
    assert stored["confusion"] == [[1, 2, 0], [2, 2, 0], [0, 1, 0]]
    assert stored["classes"]["c"]["recall"] == 0.0
    assert str(classes) == "accuracy 37.50 % (3 of 8), macro F1 25.93 % over 3 classes"


def test_what_does_not_fit_is_a_sentence() -> None:
    with assert_refused(OptionError, 1, 2):
        measure_classes(["a"], ["a", "b"])
    with assert_refused(OptionError, "a", "b"):
        measure_classes(["a"], ["b"], ["a"])
    with pytest.raises(EmptyCorpusError):
        measure_classes([], [])


@pytest.mark.parametrize("alpha", [1.0, 0.3])
@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("seed", core(range(5), [0]))
def test_naive_bayes_equals_scikit_learn_on_counts(seed: int, alpha: float, binary: bool) -> None:
    draw = random.Random(seed)
    words = [f"w{n}" for n in range(25)]

    def texts(number: int) -> list[list[str]]:
        return [draw.choices(words, k=draw.randint(0, 12)) for _ in range(number)]

    train, test = texts(40), [*texts(30), ["w1", "unseen"], []]
    labels = ["c", "a", "b", *draw.choices("abc", k=37)]
    ours = NaiveBayes.fit(train, labels, alpha, binary=binary)
    columns = list(ours.words)
    counts, new = (np.array([[text.count(word) for word in columns] for text in part]) for part in (train, test))
    if binary:
        counts, new = counts.clip(max=1), new.clip(max=1)
    theirs = naive_bayes.MultinomialNB(alpha=alpha).fit(counts, labels)
    assert ours.labels == tuple(theirs.classes_)
    np.testing.assert_allclose(ours.scores(test), theirs.predict_joint_log_proba(new), rtol=1e-12)
    assert ours.predict(test) == theirs.predict(new).tolist()


def test_naive_bayes_by_hand() -> None:
    bayes = NaiveBayes.fit([["a", "a", "b"], ["b"]], ["x", "y"])
    # x has 3 words, y has 1, the vocabulary 2: p(a|x) = 3/5, p(a|y) = 1/3
    np.testing.assert_allclose(np.exp(bayes.scores([["a"]])), [[0.5 * 3 / 5, 0.5 * 1 / 3]])
    assert bayes.predict([]) == []


def test_naive_bayes_refuses_what_it_cannot_learn_from() -> None:
    with assert_refused(OptionError, "alpha", 0):
        NaiveBayes.fit([["a"]], ["x"], alpha=0)
    with assert_refused(OptionError, 1, 2):
        NaiveBayes.fit([["a"]], ["x", "y"])
    with assert_refused(EmptyCorpusError, "words"):
        NaiveBayes.fit([[]], ["x"])


@pytest.mark.corpus("sst2: 1,493 and 1,496 of its 1,821 test sentences")
@pytest.mark.parametrize(("binary", "right"), [(False, 1493), (True, 1496)])
def test_naive_bayes_on_sst2_is_the_known_row(data: Path, binary: bool, right: int) -> None:
    """82.0 % by counts (scikit-learn's model gives the same on the same words), 82.2 % with every word once a text."""
    if not (data / "sst2").is_dir():
        pytest.skip("SKIPPED LOUDLY: no sst2 in the folder of corpora")
    train, test = (read_labelled(data / "sst2" / f"{part}.tsv") for part in ("train", "test"))
    bayes = NaiveBayes.fit([one.text.split() for one in train], [one.label for one in train], binary=binary)
    classes = measure_classes([one.label for one in test], bayes.predict(one.text.split() for one in test))
    assert (classes.right, classes.total) == (right, 1821)
