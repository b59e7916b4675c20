"""Reflexives, and fillers with their gaps: what a sentence says of itself is true, and no local cue gives it away."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from itertools import islice
from math import sqrt
from pathlib import Path

import pytest

from breadth import core
from refusals import assert_refused
from thereafter.data import corpora
from thereafter.errors import UnknownNameError
from thereafter.text import agreement
from thereafter.text.agreement import CORPORA, PARTS, Sentence, sentence_corpus, sentences, write_corpus
from thereafter.text.agreement.corpora import deal
from thereafter.text.agreement.frames import FRAMES
from thereafter.text.agreement.grammar import Dice, Phrases
from thereafter.text.agreement.lexicon import lexicon

NAMES = ("reflexives", "filler-gap")
NAMED = pytest.mark.parametrize("name", NAMES)
# written out by hand: the truth must not come from the lexicon that the generator uses
MEN = {"man", "boy", "king", "prince", "father", "brother", "son", "uncle", "nephew", "waiter", "actor", "monk"}
WOMEN = {"woman", "girl", "queen", "princess", "mother", "sister", "daughter", "aunt", "niece", "waitress", "nun"}
OBJECTS = {"him", "them", "it", "me", "us", "you"}
TIMES = {"yesterday", "today", "tonight", "recently", "earlier", "afterwards"}


@pytest.fixture(scope="module")
def by_part() -> dict[str, dict[str, list[Sentence]]]:
    """Sentences of each corpus to learn from, and others to be asked."""
    dealt_out = {}
    for name in NAMES:
        stream = list(islice(deal(3, CORPORA[name].pairs, CORPORA[name].max_distance, 0), 10_000))
        dealt_out[name] = {
            "seen": [one for part, one in stream if part == "train"],
            "new": [one for part, one in stream if part != "train"],
        }
    return dealt_out


def test_a_pronoun_follows_the_gender_and_number_of_its_noun(by_part: dict[str, dict[str, list[Sentence]]]) -> None:
    pairs: Counter[tuple[str, str]] = Counter()
    for one in by_part["reflexives"]["seen"]:
        noun = one.words[one.subject]
        if noun in MEN:
            assert one.correct_form == "himself"
        elif noun in WOMEN:
            assert one.correct_form == "herself"
        elif one.number == "plural":
            assert one.correct_form == "themselves"
        assert one.correct_form != one.wrong_form
        assert one.distance >= 1
        pairs[one.correct_form, one.wrong_form] += 1
    assert {form for pair in pairs for form in pair} == {"himself", "herself", "itself", "themselves"}
    for (
        right,
        wrong,
    ), count in pairs.items():  # as often one way as the other, so that a liking for a form wins nothing
        both = count + pairs[wrong, right]
        assert abs(count - both / 2) < 4 * 0.5 * sqrt(both), (right, wrong)
    gender = sum(pairs[pair] for pair in (("himself", "herself"), ("herself", "himself")))
    assert gender > 0.4 * pairs.total()


def test_men_and_women_are_counterparts() -> None:
    pairs = [(man.singular, woman.singular) for man, woman in lexicon().men_and_women]
    assert ("king", "queen") in pairs
    assert ("waiter", "waitress") in pairs
    assert ("uncle", "aunt") in pairs
    assert {man for man, _ in pairs} >= MEN
    assert {woman for _, woman in pairs} >= WOMEN


def test_a_filler_leaves_the_object_out_and_that_does_not(by_part: dict[str, dict[str, list[Sentence]]]) -> None:
    gaps = 0
    for one in by_part["filler-gap"]["seen"]:
        opener = one.words[one.opener]
        assert opener in ("what", "who", "that")
        gap = opener != "that"
        assert one.correct_form in (TIMES if gap else OBJECTS)
        assert one.wrong_form in (OBJECTS if gap else TIMES)
        assert one.distance >= 3
        gaps += gap
    size = len(by_part["filler-gap"]["seen"])
    assert abs(gaps - size / 2) < 4 * 0.5 * sqrt(size)


class OtherCoin(Dice):
    """The same draws, but one of them falls on the other side."""

    def __init__(self, seed: str, flip: int) -> None:
        super().__init__(seed)
        self.flip, self.drawn = flip, 0
        plain = self._random

        def draw() -> float:
            value = plain()
            self.drawn += 1
            return 1 - 1e-9 - value if self.drawn == self.flip else value

        self._random = draw


@pytest.mark.parametrize("kind", ["reflexive-gender", "filler-gap"])
def test_turning_the_opener_turns_the_closing_word_and_nothing_else(kind: str) -> None:
    """The openers' coin is one draw; turned over, it changes the two words of the pair and moves no other draw."""
    for seed in range(60):
        one, *others = (
            FRAMES[kind].make(Phrases(OtherCoin(str(seed), flip), lexicon()), 5 + seed % 15) for flip in range(15)
        )
        changed = [
            [at for at, (a, b) in enumerate(zip(one.words, other.words, strict=True)) if a != b]
            for other in others
            if len(other.words) == len(one.words)
            and (other.correct_form, other.wrong_form) == (one.wrong_form, one.correct_form)
        ]
        assert [one.opener, one.closer] in changed


def right_by_suffix(window: int, seen: list[Sentence], new: list[Sentence]) -> tuple[float, int]:
    """Right answers of an n-gram: the form seen more often after the longest suffix that tells; ties count half."""
    counts: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for one in seen:
        for size in range(window + 1):
            counts[one.words[one.closer - size : one.closer]][one.correct_form] += 1
    right, total = 0.0, 0
    for one in new:
        if one.distance < window:
            continue
        verdict = 0
        for size in range(window, -1, -1):
            after = counts.get(one.words[one.closer - size : one.closer], Counter[str]())
            verdict = after[one.correct_form] - after[one.wrong_form]
            if verdict:
                break
        right += 0.5 if not verdict else verdict > 0
        total += 1
    return right, total


@NAMED
@pytest.mark.parametrize("window", core([0, 1, 2, 4, 8], [0, 2, 8]))
def test_an_n_gram_shorter_than_the_distance_is_at_chance(
    name: str, window: int, by_part: dict[str, dict[str, list[Sentence]]]
) -> None:
    right, total = right_by_suffix(window, by_part[name]["seen"], by_part[name]["new"])
    assert total > 900
    assert abs(right / total - 0.5) < 3.5 * 0.5 / sqrt(total), right / total


@NAMED
def test_what_stands_between_says_nothing(name: str, by_part: dict[str, dict[str, list[Sentence]]]) -> None:
    """Every word between votes for the forms it was seen with; the same vote of the opener alone is right."""

    def right(words_of: str) -> float:
        def words(one: Sentence) -> tuple[str, ...]:
            return (
                one.words[one.opener : one.opener + 1]
                if words_of == "opener"
                else one.words[one.opener + 1 : one.closer]
            )

        votes: dict[str, Counter[str]] = defaultdict(Counter)
        for one in by_part[name]["seen"]:
            for word in words(one):
                votes[word][one.correct_form] += 1
        score = 0.0
        for one in by_part[name]["new"]:
            vote = sum(votes[word][one.correct_form] - votes[word][one.wrong_form] for word in words(one))
            score += 0.5 if not vote else vote > 0
        return score / len(by_part[name]["new"])

    assert abs(right("between") - 0.5) < 3.5 * 0.5 / sqrt(len(by_part[name]["new"]))
    assert right("opener") > 0.95


@NAMED
def test_parts_share_no_sentence_and_counterparts_are_in_one_part(name: str) -> None:
    corpus = sentence_corpus(name)
    cores = {
        part: {
            (*one.words[: one.opener], *one.words[one.opener + 1 : one.closer], *one.words[one.closer + 1 :])
            for seed in (1, 2)
            for one in sentences(300, seed=seed, part=part, pairs=corpus.pairs[-1], max_distance=4)
        }
        for part in PARTS
    }
    assert not cores["train"] & (cores["valid"] | cores["test"])
    assert not cores["valid"] & cores["test"]


@NAMED
def test_it_is_a_built_in_corpus_of_lines_that_stand_alone(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("THEREAFTER_CACHE", str(tmp_path))
    few = {"train": 150, "valid": 20, "test": 20}
    monkeypatch.setattr(
        agreement, "write_corpus", lambda folder, **options: write_corpus(folder, **(options | {"sizes": few}))
    )
    there = corpora.locate(name)
    assert (there.tokens, there.independent_lines) == ("word", True)
    texts = [path.read_text() for path in there.parts.values()]
    assert [text.count("\n") for text in texts] == list(few.values())
    assert hashlib.sha256("".join(texts).encode()).hexdigest() in there.detail
    known = list(agreement.read_sentences(there.parts["test"].with_suffix(".jsonl")))
    assert [one.text for one in known] == texts[2].splitlines()
    assert {one.kind for one in known} == set(CORPORA[name].pairs)


def test_an_unknown_corpus_gets_the_nearest_name() -> None:
    with assert_refused(UnknownNameError, "reflexives"):
        sentence_corpus("reflexive")
