"""The hidden Markov tagger: paths against brute force, probabilities against slow twins, and a treebank."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from breadth import core
from refusals import assert_refused
from thereafter.errors import EmptyCorpusError, OptionError
from thereafter.tasks.tag.chains import HiddenMarkov
from thereafter.text.conll import read_conllu

Sentences = list[tuple[list[str], list[str]]]


def drawn(tags: int = 3, count: int = 30) -> Sentences:
    """Sentences whose words say little about their tags, so that transitions matter."""
    dice = np.random.default_rng(tags)
    made: Sentences = []
    for _ in range(count):
        ids = dice.integers(0, tags, dice.integers(1, 7))
        made.append(([f"{'Ab'[dice.integers(2)]}{(i + dice.integers(2)) % 4}x" for i in ids], [f"T{i}" for i in ids]))
    return made


def joint(tagger: HiddenMarkov, words: list[str], tags: tuple[int, ...]) -> float:
    """log p(tags, words) but for p(words), from the definition."""
    border = len(tagger.tags)
    path = [border] * tagger.order + list(tags) + [border]
    total = 0.0
    for t in range(tagger.order, len(path)):
        total += math.log(tagger.transitions[tuple(path[t - tagger.order : t + 1])])
    for word, tag in zip(words, tags, strict=True):
        p = tagger.tags_of(word)[tag]
        total += math.log(p / tagger.prior[tag]) if p else -math.inf
    return total


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("tags", core([1, 2, 4], [1, 4]))
def test_viterbi_is_the_best_of_all_sequences(order: int, tags: int) -> None:
    tagger = HiddenMarkov(order).fit(drawn(tags))
    known = sorted(tagger.words)
    dice = np.random.default_rng(0)
    for length in (1, 1, 2, 2, 3, 4, 5):
        words = [str(dice.choice([*known, "new", "B1x", "zz"])) for _ in range(length)]
        path = tuple(tagger.tags.index(tag) for tag in tagger.tag(words))
        best = max(joint(tagger, words, path) for path in product(range(len(tagger.tags)), repeat=length))
        assert joint(tagger, words, path) == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("order", [1, 2])
def test_probabilities_sum_to_1_and_none_is_0(order: int) -> None:
    tagger = HiddenMarkov(order).fit(drawn())
    assert tagger.transitions.shape == (4,) * (order + 1)
    np.testing.assert_allclose(tagger.transitions.sum(-1), 1.0)
    assert (tagger.transitions > 0).all()
    assert tagger.prior.sum() == pytest.approx(1.0)
    for word in [*tagger.words, "new", "New", "x", ""]:
        assert tagger.tags_of(word).sum() == pytest.approx(1.0)


def test_known_words_follow_their_counts() -> None:
    """p(w | t) p(w)^-1, times p(w), is c(w, t) / c(t)."""
    sentences = drawn()
    tagger = HiddenMarkov().fit(sentences)
    pairs = Counter((word, tag) for words, tags in sentences for word, tag in zip(words, tags, strict=True))
    total = pairs.total()
    for word in tagger.words:
        of_word = sum(count for (other, _), count in pairs.items() if other == word)
        for k, tag in enumerate(tagger.tags):
            of_tag = sum(count for (_, other), count in pairs.items() if other == tag)
            p = math.exp(tagger.emissions([word])[0, k]) * of_word / total
            assert p == pytest.approx(pairs[word, tag] / of_tag)


def test_deleted_interpolation_is_brants_recipe() -> None:
    """The recipe as the paper prints it, trigram by trigram, with one vote for each order to begin with."""
    sentences = drawn()
    tagger = HiddenMarkov(2).fit(sentences)
    tri: Counter[tuple[str, str, str]] = Counter()
    for _, tags in sentences:
        path = ["#", "#", *tags, "#"]
        tri.update(zip(path, path[1:], path[2:], strict=False))
    bi: Counter[tuple[str, str]] = Counter()
    uni: Counter[str] = Counter()
    before_2: Counter[tuple[str, str]] = Counter()
    before_1: Counter[str] = Counter()
    for (a, b, c), count in tri.items():
        bi[b, c] += count
        uni[c] += count
        before_2[a, b] += count
        before_1[b] += count

    def share(count: int, of: int) -> float:
        return (count - 1) / (of - 1) if of > 1 else 0.0

    votes = [1, 1, 1]
    for (a, b, c), count in tri.items():
        cases = [share(uni[c], uni.total()), share(bi[b, c], before_1[b]), share(count, before_2[a, b])]
        votes[cases.index(max(cases))] += count
    assert min(votes) > 1  # or this test would show little
    names = [*tagger.tags, "#"]
    for (i, a), (j, b), (k, c) in product(enumerate(names), repeat=3):
        low = uni[c] / uni.total()
        middle = bi[b, c] / before_1[b] if before_1[b] else low
        high = tri[a, b, c] / before_2[a, b] if before_2[a, b] else middle
        expected = sum(vote * p for vote, p in zip(votes, (low, middle, high), strict=True)) / sum(votes)
        assert tagger.transitions[i, j, k] == pytest.approx(expected)


def test_unknown_words_by_their_endings_by_hand() -> None:
    # prior: N 3/4, V 1/4, whose deviation (of 2 - 1) is sqrt(2 * (1/4)^2) = sqrt(1/8) = theta
    tagger = HiddenMarkov().fit([(["ox", "fox", "ax", "nix"], ["N", "N", "N", "V"])])
    theta = math.sqrt(1 / 8)
    empty = (3 / 4 + theta * 3 / 4) / (1 + theta)  # all words are rare: nothing but the prior again
    x = (3 / 4 + theta * empty) / (1 + theta)  # ox, fox, ax, nix end in x
    ix = (0 + theta * x) / (1 + theta)  # nix alone ends in ix
    assert tagger.tags_of("six")[0] == pytest.approx(ix)
    assert tagger.tags_of("lux")[0] == pytest.approx(x)
    assert tagger.tags_of("dog")[0] == pytest.approx(empty)
    assert tagger.tags_of("Six")[0] == pytest.approx(3 / 4)  # no capital was seen: the prior
    assert tagger.tags_of("nix").tolist() == [0.0, 1.0]  # known: its own


def test_frequent_words_lend_no_endings_and_capitals_their_own() -> None:
    frequent = [(["the"], ["D"])] * 11
    tagger = HiddenMarkov().fit([*frequent, (["lithe"], ["A"]), (["Lethe"], ["P"])])
    assert tagger.tags[int(tagger.tags_of("tithe").argmax())] == "A"
    assert tagger.tags[int(tagger.tags_of("Blithe").argmax())] == "P"


def test_the_tags_before_decide_where_words_do_not() -> None:
    """x is A after A and B after B: order 1 knows. y is what stood two before: order 2 alone knows."""
    first = [(["a", "x", "x"], ["A", "A", "A"]), (["b", "x", "x"], ["B", "B", "B"])] * 5
    assert HiddenMarkov(1).fit(first).tag(["b", "x", "x", "x"]) == ["B"] * 4
    second = [(["a", "c", "y"], ["A", "C", "A"]), (["b", "c", "y"], ["B", "C", "B"])] * 5
    assert HiddenMarkov(2).fit(second).tag(["b", "c", "y"]) == ["B", "C", "B"]
    assert HiddenMarkov(2).fit(second).tag(["a", "c", "y"]) == ["A", "C", "A"]


def test_few_words_and_none() -> None:
    tagger = HiddenMarkov().fit([([], []), (["one"], ["NUM"])])
    assert tagger.tag(["two", "", "three"]) == ["NUM"] * 3
    assert tagger.tag([]) == []


def test_mistakes_are_sentences() -> None:
    with assert_refused(OptionError, 3, "1 or 2"):
        HiddenMarkov(3)
    with assert_refused(OptionError, 2, 1):
        HiddenMarkov().fit([(["a"], ["A"]), (["a", "b"], ["A"])])
    with assert_refused(EmptyCorpusError, "word"):
        HiddenMarkov().fit([([], [])])
    with assert_refused(OptionError, "fit(sentences)"):
        HiddenMarkov().tag(["a"])
    with assert_refused(OptionError, 600, 2, "order=1"):
        HiddenMarkov().fit([([str(i) for i in range(600)], [str(i) for i in range(600)])])


@pytest.mark.wide
@pytest.mark.corpus("ud-english-ewt: 92.4 % of its test words, 68.3 % of those never seen")
def test_a_treebank(data: Path) -> None:
    """ud-english-ewt, UPOS, gold words: 92.4 % of the test part are right, 68.3 % of the words never seen."""
    folder = data / "ud-english-ewt"
    train, test = (read_conllu(folder / f"en_ewt-ud-{part}.conllu.gz") for part in ("train", "test"))
    tagger = HiddenMarkov().fit((sentence.words, sentence.tags) for sentence in train)
    right: Counter[bool] = Counter()
    total: Counter[bool] = Counter()
    for sentence in test:
        for word, tag, guess in zip(sentence.words, sentence.tags, tagger.tag(sentence.words), strict=True):
            right[word in tagger.words] += tag == guess
            total[word in tagger.words] += 1
    assert total.total() == 25094
    assert right.total() / total.total() == pytest.approx(0.9239, abs=5e-4)
    assert right[False] / total[False] == pytest.approx(0.6832, abs=5e-3)
