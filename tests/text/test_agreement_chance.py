"""No local cue predicts the verb: shown by intervention, by counting, and by predictors that try."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable
from itertools import islice
from math import log, sqrt

import pytest

from breadth import core
from thereafter.text.agreement import Sentence
from thereafter.text.agreement.corpora import deal
from thereafter.text.agreement.frames import FRAMES
from thereafter.text.agreement.grammar import Dice, Phrases
from thereafter.text.agreement.lexicon import Noun, lexicon

Features = Callable[[Sentence], Iterable[Hashable]]


@pytest.fixture(scope="module")
def seen_and_held_out() -> tuple[list[Sentence], list[Sentence]]:
    stream = list(islice(deal(21, ("agreement",), 40, 0), 24_000))
    return [one for part, one in stream if part == "train"], [one for part, one in stream if part != "train"]


class Flipped(Phrases):
    """The same draws, but one noun's coin shows its other side."""

    def __init__(self, dice: Dice, flip: int) -> None:
        super().__init__(dice, lexicon())
        self.flip = flip

    def noun(self, noun: Noun) -> bool:
        plural = super().noun(noun)
        if len(self.nouns) - 1 != self.flip:
            return plural
        self.nouns[-1] = (self.nouns[-1][0], not plural)
        self.words[-1] = noun.form(not plural)
        return not plural


def made(kind: str, seed: int, flip: int = -1) -> Sentence:
    return FRAMES[kind].make(Flipped(Dice(str(seed)), flip), 5 + seed % 36)


@pytest.mark.parametrize("kind", ["agreement", "reflexive"])
def test_turning_the_subject_turns_the_closing_word_and_nothing_else(kind: str) -> None:
    for seed in range(600):
        one, other = made(kind, seed), made(kind, seed, flip=0)
        changed = [at for at, (a, b) in enumerate(zip(one.words, other.words, strict=True)) if a != b]
        assert changed == [one.subject, one.verb]
        assert (other.correct_form, other.wrong_form) == (one.wrong_form, one.correct_form)


def test_turning_an_attractor_moves_neither_subject_nor_verb() -> None:
    verbs = {form for verb in lexicon().all_verbs for form in (verb.base, verb.third)}
    for seed in range(600):
        one = made("agreement", seed)
        for which, attractor in enumerate(one.attractors):
            other = made("agreement", seed, flip=which + 1)
            changed = {at for at, (a, b) in enumerate(zip(one.words, other.words, strict=True)) if a != b}
            assert attractor.position in changed
            assert not changed & {one.subject, one.verb}
            # what else may change is a verb of an attractor's own clause, in between
            rest = changed - {attractor.position}
            assert all(one.subject < at < one.verb and one.words[at] in verbs for at in rest)


def far_from_fair(table: dict[Hashable, Counter[str]]) -> float:
    """How many standard deviations the chi-square of a table of (anything: singular or plural) lies above its mean."""
    total = sum((counts for counts in table.values()), Counter[str]())
    size = total.total()
    chi, degrees = 0.0, 0
    for counts in table.values():
        if counts.total() < 20:
            continue
        degrees += 1
        for number in ("singular", "plural"):
            expected = counts.total() * total[number] / size
            chi += (counts[number] - expected) ** 2 / expected
    return (chi - degrees) / sqrt(2 * degrees)


def test_noun_numbers_are_independent(seen_and_held_out: tuple[list[Sentence], list[Sentence]]) -> None:
    seen, held_out = seen_and_held_out
    everything = seen + held_out
    tables: dict[str, dict[Hashable, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for one in everything:
        assert one.number is not None
        neutral_verb = min(one.correct_form, one.wrong_form)
        tables["distance"][one.distance][one.number] += 1
        tables["number of attractors"][len(one.attractors)][one.number] += 1
        tables["verb"][neutral_verb][one.number] += 1
        tables["word after the subject"][one.words[one.subject + 1] if one.distance else ""][one.number] += 1
        tables["word before the subject"][one.words[one.subject - 1]][one.number] += 1
        tables["word before the verb"][one.words[one.verb - 1] if one.distance else ""][one.number] += 1
        tables["position of the verb"][one.verb][one.number] += 1
        tables["length after the verb"][len(one.words) - one.verb][one.number] += 1
        for place, attractor in enumerate(one.attractors):
            tables["attractors"][(place, attractor.number)][one.number] += 1
        for place, attractor in enumerate(reversed(one.attractors)):
            tables["attractors from the right"][(place, attractor.number)][one.number] += 1
        for left, right in zip(one.attractors, one.attractors[1:], strict=False):
            tables["neighbouring attractors"][left.number][right.number] += 1
    for what, table in tables.items():
        assert far_from_fair(table) < 3.5, what
    coins = Counter(number for one in everything for _, number in [(0, one.number), *one.attractors])
    assert abs(coins["plural"] / coins.total() - 0.5) < 3 * 0.5 / sqrt(coins.total())


def assert_chance(right: float, size: int, what: str) -> None:
    assert size > 1000, what
    assert abs(right / size - 0.5) < 3 * 0.5 / sqrt(size), f"{what}: {right / size:.4f} of {size}"


@pytest.mark.parametrize("window", core([1, 2, 3, 4, 6, 10], [1, 4, 10]))
def test_a_window_shorter_than_the_distance_is_at_chance(
    window: int, seen_and_held_out: tuple[list[Sentence], list[Sentence]]
) -> None:
    """Majority vote over the longest suffix seen before, like an n-gram that backs off; ties count half."""
    seen, held_out = seen_and_held_out
    votes: dict[tuple[str, ...], int] = defaultdict(int)
    for one in seen:
        if one.distance >= window:
            for size in range(window + 1):
                votes[one.words[one.verb - size : one.verb]] += 1 if one.number == "plural" else -1
    right, size = 0.0, 0
    for one in held_out:
        if one.distance >= window:
            suffixes = (one.words[one.verb - width : one.verb] for width in range(window, -1, -1))
            vote = next(votes[suffix] for suffix in suffixes if suffix in votes)
            right += 0.5 if vote == 0 else (vote > 0) == (one.number == "plural")
            size += 1
    assert_chance(right, size, f"window of {window}")


def naive_bayes(features: Features, seen: list[Sentence], held_out: list[Sentence]) -> float:
    """Right answers of a Bayes classifier that adds one to every count."""
    counts: dict[str, Counter[Hashable]] = {"singular": Counter(), "plural": Counter()}
    for one in seen:
        counts[str(one.number)].update(features(one))
    known = len(counts["singular"] | counts["plural"])
    totals = {number: table.total() + known for number, table in counts.items()}

    def log_odds(feature: Hashable) -> float:
        plural, singular = counts["plural"][feature] + 1, counts["singular"][feature] + 1
        return log(plural / totals["plural"]) - log(singular / totals["singular"])

    right = 0.0
    for one in held_out:
        odds = sum(map(log_odds, features(one)))
        right += 0.5 if odds == 0 else (odds > 0) == (one.number == "plural")
    return right


def between(one: Sentence) -> tuple[str, ...]:
    return one.words[one.subject + 1 : one.verb]


LOCAL: dict[str, Features] = {
    "bag of the words between": between,
    "words between with their place before the verb": lambda one: enumerate(reversed(between(one))),
    "words between, pairs, and where the verb stands": lambda one: [
        *between(one),
        *zip(between(one), between(one)[1:], strict=False),
        ("verb at", one.verb),
        ("distance", one.distance),
    ],
    "all words but subject and verb, and what follows": lambda one: [
        *one.words[: one.subject],
        *between(one),
        *one.words[one.verb + 1 :],
        ("verb", min(one.correct_form, one.wrong_form)),
        ("attractors", len(one.attractors)),
    ],
    "number of every attractor by place": lambda one: [
        (place, a.number) for place, a in enumerate(one.attractors[::-1])
    ],
}


@pytest.mark.parametrize("what", LOCAL)
def test_a_predictor_without_the_subject_is_at_chance(
    what: str, seen_and_held_out: tuple[list[Sentence], list[Sentence]]
) -> None:
    seen, held_out = ([one for one in part if one.distance] for part in seen_and_held_out)
    assert_chance(naive_bayes(LOCAL[what], seen, held_out), len(held_out), what)


def test_a_predictor_with_the_subject_is_right(
    seen_and_held_out: tuple[list[Sentence], list[Sentence]],
) -> None:
    """The same classifier, shown the noun: so it is the noun that tells, and the classifier can learn."""
    seen, held_out = seen_and_held_out
    right = naive_bayes(lambda one: [one.words[one.subject]], seen, held_out)
    assert right / len(held_out) > 0.999
