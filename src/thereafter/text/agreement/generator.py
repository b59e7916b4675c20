"""A seeded stream of sentences of any length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from types import MappingProxyType

from thereafter.errors import OptionError, UnknownNameError
from thereafter.text.agreement.dice import Dice
from thereafter.text.agreement.frames import FRAMES, Frame
from thereafter.text.agreement.grammar import Phrases
from thereafter.text.agreement.lexicon import lexicon
from thereafter.text.agreement.parts import PARTS, Part, part_of
from thereafter.text.agreement.sentence import Sentence

DEFAULT_SEED = 1
DEFAULT_SENTENCES = MappingProxyType({"train": 40_000, "valid": 2_000, "test": 4_000})
LONGEST = 40


def sentences(
    count: int | None,
    seed: int = DEFAULT_SEED,
    part: Part = "train",
    pairs: Iterable[str] = ("agreement",),
    max_distance: int = LONGEST,
    min_distance: int = 0,
) -> Iterator[Sentence]:
    """A stream of `count` sentences (None: without end), each with its dependency; memory does not grow with it.

    `pairs` names the kinds to mix, in equal shares: agreement, reflexive, reflexive-gender, filler-gap, either-or,
    quotes, brackets. Distances are drawn evenly from `min_distance` to `max_distance` words (from 1 for reflexives,
    quotes and brackets, from 2 for either-or and 3 for filler-gap, which need as many). A longer stream begins with
    the shorter one. Sentences of different parts are different, whatever the seeds: see `parts.part_of`.

    >>> [one] = sentences(1, seed=7, part="test", max_distance=3)
    >>> one.correct_form in one.right.split(), 0 <= one.distance <= 3
    (True, True)
    """
    if count is not None and (not isinstance(count, int) or count < 0):
        raise OptionError(f"the number of sentences is {count!r}; expected 0 or more, or None for an endless stream")
    if part not in PARTS:
        raise UnknownNameError("part of the agreement corpus", str(part), PARTS)
    stream = deal(seed, pairs, max_distance, min_distance)
    return islice((sentence for belongs, sentence in stream if belongs == part), count)


def deal(seed: int, pairs: Iterable[str], max_distance: int, min_distance: int) -> Iterator[tuple[Part, Sentence]]:
    """The endless stream of a seed, each sentence with the part it belongs to; options are checked at once."""
    kinds = _check_kinds(pairs)
    whole = isinstance(min_distance, int) and isinstance(max_distance, int)
    if not (whole and 0 <= min_distance <= max_distance <= LONGEST):
        raise OptionError(
            f"distances from {min_distance!r} to {max_distance!r} words were asked for; expected whole numbers with "
            f"0 <= min_distance <= max_distance <= {LONGEST}, for instance min_distance=0, max_distance={LONGEST}"
        )
    for kind in kinds:
        if FRAMES[kind].shortest > max_distance:
            raise OptionError(
                f"a sentence of kind {kind!r} has at least {FRAMES[kind].shortest} words between its pair, but "
                f"max_distance is {max_distance}; try max_distance={LONGEST} or leave that kind out"
            )
    return _endless(Dice(f"agreement {seed}"), kinds, min_distance, max_distance)


def _check_kinds(pairs: Iterable[str]) -> tuple[str, ...]:
    # A lone name is surely meant as a list of one, not as its characters.
    kinds = tuple(dict.fromkeys([pairs] if isinstance(pairs, str) else pairs))
    for kind in kinds:
        if kind not in FRAMES:
            raise UnknownNameError("kind of pair", str(kind), FRAMES)
    if not kinds:
        raise OptionError(f"pairs is empty; expected one or more of {', '.join(FRAMES)}")
    return kinds


def _endless(dice: Dice, kinds: tuple[str, ...], low: int, high: int) -> Iterator[tuple[Part, Sentence]]:
    known = lexicon()
    while True:
        frame = FRAMES[dice.pick(kinds)]
        distance = dice.between(max(low, frame.shortest), high)
        sentence = frame.make(Phrases(dice, known), distance)
        yield part_of(_neutral_pair(sentence, frame)), sentence


def _neutral_pair(sentence: Sentence, frame: Frame) -> tuple[str, ...]:
    """The words by which the part is decided: those of the pair replaced where the table of words cannot do it."""
    if frame.neutral is None:
        return sentence.words
    words = list(sentence.words)
    words[sentence.opener], words[sentence.closer] = frame.neutral
    return tuple(words)
