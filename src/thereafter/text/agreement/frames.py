"""The kinds of sentence: each puts two words that depend on each other at a chosen distance.

A frame is a function `(phrases, distance) -> Sentence`. The distance is drawn before the words, so how far a
dependency reaches is a matter of design and not of the grammar's habits. Between the two ends there is no
punctuation, and an `and` joins only phrases that stand there: the subject itself is never coordinated. After the
closing word nothing depends on the number, the bracket or the choice any more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from thereafter.text.agreement import words
from thereafter.text.agreement.grammar import Phrases
from thereafter.text.agreement.lexicon import Noun
from thereafter.text.agreement.sentence import Attractor, Number, Sentence

Pairs = tuple[tuple[str, str], tuple[str, str]]
"""Two pairs of words that open and close."""


def agreement(phrases: Phrases, distance: int) -> Sentence:
    """`the dog near the cats is old .`: was/were, is/are, has/have or a verb in the present, one in four each."""
    dice, lexicon = phrases.dice, phrases.lexicon
    _opening(phrases)
    noun = dice.pick(lexicon.all_nouns)
    plural = _subject(phrases, noun)
    adverb = min(phrases.dice.pick((0, 0, 0, 1, 1, 2)), distance)  # words of an adverb right before the verb
    phrases.modifiers(distance - adverb, noun.kind)
    phrases.often(adverb)

    kind = noun.kind
    living = kind in ("person", "animal")
    which = dice.between(0, len(words.AUXILIARIES))
    intransitive = dice.pick(lexicon.intransitive[kind])
    transitive = dice.pick(lexicon.transitive if living else lexicon.affecting)
    with_object = dice.chance(0.4)
    if which < len(words.AUXILIARIES):
        singular_form, plural_form = words.AUXILIARIES[which]
    else:
        verb = transitive if with_object else intransitive
        singular_form, plural_form = verb.third, verb.base
    correct, wrong = (plural_form, singular_form) if plural else (singular_form, plural_form)
    phrases.close(correct)

    if singular_form in ("is", "was"):
        _state(phrases, noun)
    elif with_object:
        if singular_form == "has":
            phrases.say(transitive.participle)
        phrases.noun_phrase(dice.between(2, 4), None if living else lexicon.animate)
    else:
        if singular_form == "has":
            phrases.say(intransitive.participle)
        phrases.adverbial(dice.between(0, 2), kind)
    return _finish(phrases, "agreement", wrong, plural)


def reflexive(phrases: Phrases, distance: int) -> Sentence:
    """`the king near the cats admired himself .`: pronoun and subject agree, the verb between them shows nothing."""
    dice, lexicon = phrases.dice, phrases.lexicon
    _opening(phrases)
    noun = dice.pick(lexicon.with_reflexive)
    plural = _subject(phrases, noun)
    _reflexive_verb(phrases, distance, noun)
    forms = (noun.reflexive, words.REFLEXIVE_PLURAL)
    phrases.close(forms[plural])
    phrases.adverbial(dice.between(0, 2), noun.kind)
    return _finish(phrases, "reflexive", forms[not plural], plural)


def reflexive_gender(phrases: Phrases, distance: int) -> Sentence:
    """`the king near the ladies admired himself .`: one man or one woman by a fair coin, and the pronoun follows."""
    dice, lexicon = phrases.dice, phrases.lexicon
    _opening(phrases)
    pair = dice.pick(lexicon.men_and_women)
    chosen = dice.between(0, 1)
    noun = pair[chosen]
    _determined(phrases, noun)
    phrases.opener = len(phrases.words)
    phrases.singular(noun)
    _reflexive_verb(phrases, distance, noun)
    phrases.close(noun.reflexive)
    phrases.adverbial(dice.between(0, 2), noun.kind)
    return _finish(phrases, "reflexive-gender", pair[1 - chosen].reflexive, plural=False)


def filler_gap(phrases: Phrases, distance: int) -> Sentence:
    """`the teacher knew what the man with the dogs saw yesterday .`, but `that the man with the dogs saw it .`

    After `what` and `who` the verb's object is missing, since the filler is the object; after `that` it must be there.
    The word after the verb tells: a time, or a pronoun. Both are drawn before it is decided which is needed.
    """
    dice, lexicon = phrases.dice, phrases.lexicon
    _opening(phrases)
    phrases.noun_phrase(dice.between(2, 3), lexicon.nouns["person"])
    phrases.say(dice.pick(words.KNOWING))
    filler, gap = dice.pick(words.FILLERS), dice.chance(0.5)
    phrases.open(filler if gap else words.COMPLEMENTIZER)
    group = dice.between(1, min(3, distance - 2))
    phrases.noun_phrase(distance - group, lexicon.animate)
    phrases.verb_group(group, dice.pick(lexicon.transitive))
    forms = (dice.pick(words.OBJECTS), dice.pick(words.WHEN))
    phrases.close(forms[gap])
    phrases.adverbial(dice.between(0, 2), "person")
    return _finish(phrases, "filler-gap", forms[not gap])


def either_or(phrases: Phrases, distance: int) -> Sentence:
    """`neither the dog near the cats nor my bird slept .`"""
    dice = phrases.dice
    _opening(phrases)
    closing, other = _opened(phrases, words.CHOICES)
    phrases.noun_phrase(distance, phrases.lexicon.animate)
    phrases.close(closing)
    phrases.noun_phrase(dice.between(2, 3), phrases.lexicon.animate)
    phrases.action(dice.between(1, 3), "animal")
    return _finish(phrases, "either-or", other)


def quotes(phrases: Phrases, distance: int) -> Sentence:
    """`the farmer said , “ my cats slept ” .`, in double or in single quotes."""
    dice = phrases.dice
    phrases.noun_phrase(dice.between(2, 3), phrases.lexicon.nouns["person"])
    phrases.say(dice.pick(words.SAYING), ",")
    closing, other = _opened(phrases, words.QUOTES)
    if distance == 1:
        phrases.say(dice.pick(words.EXCLAMATIONS))
    elif distance == 2:
        phrases.say(*dice.pick(words.EXCLAMATION_PAIRS))
    else:
        subject = dice.between(2, distance - 1)
        phrases.noun_phrase(subject, phrases.lexicon.animate)
        phrases.action(distance - subject, "animal")
    phrases.close(closing)
    return _finish(phrases, "quotes", other)


def brackets(phrases: Phrases, distance: int) -> Sentence:
    """`my dog ( that the cats like ) slept .`, in round or in square brackets."""
    dice = phrases.dice
    _opening(phrases)
    noun = dice.pick(phrases.lexicon.all_nouns)
    _subject(phrases, noun)
    closing, other = _opened(phrases, words.BRACKETS)
    phrases.modifiers(distance, noun.kind)
    phrases.close(closing)
    phrases.action(dice.between(1, 4), noun.kind)
    return _finish(phrases, "brackets", other)


class Frame(NamedTuple):
    """A way to make a sentence, and the shortest distance it can span.

    `neutral` stands for the pair of words when the part of the corpus is decided, where `neutral_forms` does not know
    them as a choice.
    """

    make: Callable[[Phrases, int], Sentence]
    shortest: int
    neutral: tuple[str, str] | None = None


FRAMES = {
    "agreement": Frame(agreement, 0),
    "reflexive": Frame(reflexive, 1),  # the verb stands between
    "either-or": Frame(either_or, 2),  # at least a determiner and a noun
    "quotes": Frame(quotes, 1),
    "brackets": Frame(brackets, 1),
    "reflexive-gender": Frame(reflexive_gender, 1, ("man", words.REFLEXIVE_PLURAL)),
    "filler-gap": Frame(filler_gap, 3, (words.COMPLEMENTIZER, words.OBJECTS[0])),  # determiner, noun and verb
}


def _opening(phrases: Phrases) -> None:
    """Sometimes a few words before all else, so that the subject has no fixed place in the line."""
    if phrases.dice.chance(0.3):
        phrases.say(*phrases.dice.pick(words.OPENINGS))


def _subject(phrases: Phrases, noun: Noun) -> bool:
    """A determiner, adjectives and the deciding noun, which is never coordinated; whether it is plural."""
    _determined(phrases, noun)
    phrases.opener = len(phrases.words)
    return phrases.noun(noun)


def _opened(phrases: Phrases, pairs: Pairs) -> tuple[str, str]:
    """Say the opening word of one of two pairs, by a fair coin; the word that closes it, and that of the other pair."""
    opened = phrases.dice.between(0, 1)
    phrases.open(pairs[opened][0])
    return pairs[opened][1], pairs[1 - opened][1]


def _determined(phrases: Phrases, noun: Noun) -> None:
    """What stands before the deciding noun."""
    phrases.say(phrases.dice.pick(words.SUBJECT_DETERMINERS))
    phrases.adjectives(phrases.dice.pick((0, 0, 0, 1, 1, 2)), noun.kind)


def _reflexive_verb(phrases: Phrases, distance: int, noun: Noun) -> None:
    """All that stands between a noun and its reflexive pronoun: modifiers, and a verb that shows nothing."""
    group = phrases.dice.between(1, min(3, distance))
    phrases.modifiers(distance - group, noun.kind)
    phrases.verb_group(group, phrases.dice.pick(phrases.lexicon.reflexive))


def _state(phrases: Phrases, noun: Noun) -> None:
    """What follows `is` or `was`: a property or a place."""
    dice = phrases.dice
    if noun.kind != "place" and dice.chance(0.3):
        phrases.prepositional(dice.between(3, 4), noun.kind)
        return
    if dice.chance(0.4):
        phrases.say(dice.pick(words.INTENSIFIERS))
    phrases.say(dice.pick(phrases.lexicon.states[noun.kind]))


def _finish(phrases: Phrases, kind: str, wrong: str, plural: bool | None = None) -> Sentence:
    """End the line and record its annotations."""
    phrases.say(".")
    opener, closer = phrases.opener, phrases.closer
    attractors = tuple(Attractor(at, _number(many)) for at, many in phrases.nouns if opener < at < closer)
    number = None if plural is None else _number(plural)
    return Sentence(tuple(phrases.words), kind, opener, closer, wrong, number, attractors)


def _number(plural: bool) -> Number:
    return "plural" if plural else "singular"
