"""A small English grammar on a budget: every phrase is requested with an exact number of words.

Each method appends exactly `size` words. The recursion spends the budget on nested and coordinated phrases, and
falls back to adverbs where too little is left for more.

What keeps the subject's number a secret until the verb: the number of each noun is one fair coin, and no other
draw looks at it (`Dice` makes the draws, which come out the same on every Python). Verbs whose subject is the noun
being modified (subject relatives: "the dogs that slept") stand in forms that do not show number: past, modal,
pluperfect. Only verbs of object relatives ("that the cat likes") may show number, and they agree with their own
subject, an attractor with a coin of its own.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from thereafter.text.agreement import words
from thereafter.text.agreement.lexicon import AgreementLexicon, Noun, NounClass, Verb

Item = TypeVar("Item")


class Dice:
    """Choices made from `random.Random.random` alone: of that module, only its stream is promised never to change."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        return self._random() < probability

    def fraction(self) -> float:
        return self._random()

    def between(self, lowest: int, highest: int) -> int:
        """A whole number from `lowest` to `highest`, both included."""
        return lowest + int(self._random() * (highest - lowest + 1))

    def pick(self, items: Sequence[Item]) -> Item:
        return items[int(self._random() * len(items))]

    def weighted(self, items: Sequence[tuple[Item, float]]) -> Item:
        """An item drawn in proportion to the weight beside it."""
        remaining = self._random() * sum([weight for _, weight in items])
        for item, weight in items:
            remaining -= weight
            if remaining < 0:
                return item
        return items[-1][0]  # rounding may leave a small remainder


_DEEPEST = 2  # object relatives inside object relatives: readers lose track at three
_LONGEST_VERB = 4  # `might often have slept`


class Phrases:
    """One sentence in the making: its words so far and the nouns among them."""

    def __init__(self, dice: Dice, lexicon: AgreementLexicon) -> None:
        self.dice = dice
        self.lexicon = lexicon
        self.words: list[str] = []
        self.nouns: list[tuple[int, bool]] = []  # position, plural
        self.opener = self.closer = 0  # positions of the two words that depend on each other
        # How willingly this sentence spends its budget on noun phrases: few or many attractors at one distance.
        self.richness = 0.1 + 0.9 * dice.fraction()
        self._any_noun = lexicon.all_nouns
        self._animate = lexicon.animate
        self._depth = 0

    def say(self, *more: str) -> None:
        self.words.extend(more)

    def open(self, word: str) -> None:
        """Say the first of the two words that depend on each other."""
        self.opener = len(self.words)
        self.words.append(word)

    def close(self, word: str) -> None:
        """Say the second."""
        self.closer = len(self.words)
        self.words.append(word)

    def fresh(self, items: Sequence[str]) -> None:
        """A word from the list that does not repeat the one before it."""
        word = self.dice.pick(items)
        if self.words and word == self.words[-1]:
            word = items[(items.index(word) + 1) % len(items)]
        self.words.append(word)

    # Nouns and what surrounds them

    def noun(self, noun: Noun) -> bool:
        """Say a noun in a fairly drawn number; whether it is plural."""
        plural = self.dice.chance(0.5)
        self.nouns.append((len(self.words), plural))
        self.words.append(noun.form(plural))
        return plural

    def singular(self, noun: Noun) -> None:
        """Say a noun where its number is not the choice, so that no coin is thrown for it."""
        self.nouns.append((len(self.words), False))
        self.words.append(noun.singular)

    def adjectives(self, size: int, kind: NounClass) -> None:
        for _ in range(size):
            self.fresh(self.lexicon.adjectives[kind])

    def noun_phrase(self, size: int, nouns: Sequence[Noun] | None = None) -> bool:
        """A determiner, a noun and what modifies it, or several of them joined; whether a verb must be plural."""
        if size >= 5 and self.dice.chance(0.3 * self.richness):
            first = self.dice.between(2, size - 3)
            self.noun_phrase(first, nouns)
            self.say("and")
            self.noun_phrase(size - first - 1, nouns)
            return True
        noun = self.dice.pick(nouns or self._any_noun)
        before = self.dice.between(0, min(2, size - 2)) if self.dice.chance(1.1 - self.richness) else 0
        self.say(self.dice.pick(words.DETERMINERS))
        self.adjectives(before, noun.kind)
        plural = self.noun(noun)
        self.modifiers(size - 2 - before, noun.kind)
        return plural

    def modifiers(self, size: int, kind: NounClass) -> None:
        """What may follow a noun: places, prepositional phrases and clauses, alone or one after the other."""
        if size <= 0:
            return
        if size == 1:
            self.fresh(words.PLACE_HERE if kind == "place" else words.HERE)
        elif size == 2 and kind != "place" and self.dice.chance(0.5):
            self.say(*self.dice.pick(words.HERE_PAIRS))
        elif size == 2:
            self.subject_relative(size, kind)
        else:
            rich = self.richness
            options = [(self.prepositional, 2 * rich), (self.subject_relative, 1.0)]
            if size >= 4:
                options.append((self.reduced_relative, 0.5 * rich))
                if self._depth < _DEEPEST:
                    options.append((self.object_relative, 2 * rich))
            if size >= 5:
                options += [(self.stacked, rich), (self.two_relatives, 0.5)]
            self.dice.weighted(options)(size, kind)

    def prepositional(self, size: int, kind: NounClass) -> None:
        """`near the cats`; at least 3 words."""
        noun = self.dice.pick(self._any_noun)
        if kind == "place":
            choices = words.BESIDE
        elif noun.kind == "place":
            choices = words.IN_PLACES
        else:
            choices = words.AMONG_THINGS if noun.kind == "thing" else words.WITH
        preposition = self.dice.pick(choices)
        if len(preposition) + 2 > size:
            preposition = choices[0]
        self.say(*preposition)
        self.noun_phrase(size - len(preposition), self.lexicon.nouns[noun.kind])

    def stacked(self, size: int, kind: NounClass) -> None:
        """A prepositional phrase, then a clause about the same noun; at least 5 words."""
        first = self.dice.between(3, size - 2)
        self.prepositional(first, kind)
        self.relative(size - first, kind)

    def two_relatives(self, size: int, kind: NounClass) -> None:
        """`that slept and that the cats like`; at least 5 words."""
        first = self.dice.between(2, size - 3)
        self.relative(first, kind)
        self.say("and")
        self.relative(size - first - 1, kind)

    # Clauses

    def pronoun(self, kind: NounClass) -> None:
        self.say(self.dice.pick(("who", "who", "that") if kind == "person" else ("that", "that", "which")))

    def relative(self, size: int, kind: NounClass) -> None:
        """A clause about a noun, of either sort; at least 2 words."""
        if size >= 4 and self._depth < _DEEPEST and self.dice.chance(0.6 * self.richness):
            self.object_relative(size, kind)
        else:
            self.subject_relative(size, kind)

    def subject_relative(self, size: int, kind: NounClass) -> None:
        """`that slept`: the noun acts, in a form that hides its number; at least 2 words."""
        self.pronoun(kind)
        self.action(size - 1, kind)

    def reduced_relative(self, size: int, kind: NounClass) -> None:
        """`admired by the cats`; at least 4 words."""
        self.say(self.dice.pick(self.lexicon.transitive).participle, "by")
        self.noun_phrase(size - 2, self._animate)

    def object_relative(self, size: int, kind: NounClass) -> None:
        """`that the cats like`: others act on the noun, with a verb in their own number; at least 4 words."""
        self.pronoun(kind)
        self._depth += 1
        self.clause(size - 1)
        self._depth -= 1

    def clause(self, size: int) -> None:
        """A subject and a transitive verb whose object is elsewhere; at least 3 words."""
        subject = self.dice.between(2, min(size - 1, 7))
        plural = self.noun_phrase(subject, self._animate)
        remaining = size - subject
        verb = self.dice.pick(self.lexicon.transitive)
        if remaining < _LONGEST_VERB or (remaining == _LONGEST_VERB and self.dice.chance(0.5)):
            self.verb_group(remaining, verb, plural)
            return
        group = self.dice.between(1, min(2, remaining - 3))
        self.verb_group(group, verb, plural)
        remaining -= group
        if remaining >= 4 and self.dice.chance(0.5):
            self.say("and")
            self.clause(remaining - 1)
        else:
            self.prepositional(remaining, "place")  # beside, not with: the verb is what happens there

    # Verbs

    def verb_group(self, size: int, verb: Verb, plural: bool | None = None) -> None:
        """A verb and its helpers, 1 to 4 words; given a number, the verb may stand in the present and show it."""
        shape = self.dice.between(0, 2)  # drawn for every size, so that the number moves no later draw
        present = plural is not None and self.dice.chance(0.6)
        if size <= 3 and (present or size == 1 or shape == 0):
            self.often(size - 1)
            self.say(verb.form(plural) if present and plural is not None else verb.past)
        elif size == 2:
            self.say(*(("had", verb.participle) if shape == 1 else (self.dice.pick(words.MODALS), verb.base)))
        elif size == 3:
            often = self.dice.pick(self.lexicon.often)
            self.say(
                *(("had", often, verb.participle) if shape == 1 else (self.dice.pick(words.MODALS), often, verb.base))
            )
        else:
            self.say(self.dice.pick(words.MODALS), self.dice.pick(self.lexicon.often), "have", verb.participle)

    def often(self, size: int) -> None:
        """An adverb before a verb, in 0 to 2 words."""
        if size == 1:
            self.fresh(self.lexicon.often)
        elif size == 2:
            self.say(*self.dice.pick(words.OFTEN_PAIRS))

    def action(self, size: int, kind: NounClass) -> None:
        """A verb phrase that does not show the number of who acts; at least 1 word."""
        living = kind in ("person", "animal")
        if size >= 3 and self.dice.chance(self.richness):
            group = self.dice.between(1, min(3, size - 2))
            if size - group >= 3 and self.dice.chance(0.4):
                self.verb_group(group, self.dice.pick(self.lexicon.intransitive[kind]))
                self.prepositional(size - group, kind)
            elif living:
                self.verb_group(group, self.dice.pick(self.lexicon.transitive))
                self.noun_phrase(size - group)
            else:
                self.verb_group(group, self.dice.pick(self.lexicon.affecting))
                self.noun_phrase(size - group, self._animate)
        elif size >= 6 or (size >= 3 and self.dice.chance(0.3)):
            first = self.dice.between(1, min(5, size - 2))
            self.action(first, kind)
            self.say(self.dice.pick(("and", "and", "but")))
            self.action(size - first - 1, kind)
        else:
            group = self.dice.between(max(1, size - 2), min(size, 3))
            self.verb_group(group, self.dice.pick(self.lexicon.intransitive[kind]))
            self.adverbial(size - group, kind)

    def adverbial(self, size: int, kind: NounClass) -> None:
        """How or when, in 0 to 2 words without a noun."""
        manner = self.lexicon.manner[kind]
        if size == 1:
            self.fresh(manner)
        elif size == 2 and kind in ("person", "animal") and self.dice.chance(0.7):
            self.say(self.dice.pick(words.INTENSIFIERS), self.dice.pick(manner))
        elif size == 2:
            self.say(*self.dice.pick(words.AGAIN_PAIRS))
