"""The words the sentences are made of: nouns and verbs with their forms, and which of these agree with which number.

Three rules keep the ground truth honest, and a test checks each. Every noun has two different forms. No noun form
is also another word, so the nouns of a sentence can be read off its text. No determiner, adjective or adverb marks
number, so a noun's own form is the only place where its number can be seen.

The twin of a sentence is the same with every number turned round: what differs between what a model does with the two
shows what it knows about number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal, NamedTuple

from thereafter.text.agreement import words
from thereafter.text.agreement.sentence import Number

NounClass = Literal["person", "animal", "thing", "place"]
Words = tuple[str, ...]


class Noun(NamedTuple):
    """A noun in both numbers; `reflexive` is its pronoun in the singular, empty where the noun leaves gender open."""

    singular: str
    plural: str
    kind: NounClass
    reflexive: str = ""

    def form(self, plural: bool) -> str:
        return self.plural if plural else self.singular


class Verb(NamedTuple):
    """A verb: `base` agrees with plurals, `third` with singulars; `past` and `participle` agree with everything."""

    base: str
    third: str
    past: str
    participle: str

    def form(self, plural: bool) -> str:
        """The present tense in one number."""
        return self.base if plural else self.third


@dataclass(frozen=True)
class AgreementLexicon:
    """All open-class words, sorted by what they can sensibly be combined with."""

    nouns: dict[NounClass, tuple[Noun, ...]]
    intransitive: dict[NounClass, tuple[Verb, ...]]
    transitive: tuple[Verb, ...]
    affecting: tuple[Verb, ...]
    reflexive: tuple[Verb, ...]
    adjectives: dict[NounClass, Words]
    states: dict[NounClass, Words]
    manner: dict[NounClass, Words]
    often: Words

    @cached_property
    def all_nouns(self) -> tuple[Noun, ...]:
        return tuple(noun for group in self.nouns.values() for noun in group)

    @cached_property
    def animate(self) -> tuple[Noun, ...]:
        return self.nouns["person"] + self.nouns["animal"]

    @cached_property
    def with_reflexive(self) -> tuple[Noun, ...]:
        """Nouns whose reflexive pronoun in the singular is settled by the noun itself."""
        return tuple(noun for noun in self.animate if noun.reflexive)

    @cached_property
    def men_and_women(self) -> tuple[tuple[Noun, Noun], ...]:
        """Nouns for a man and their counterparts for a woman: king and queen, waiter and waitress."""
        men, women = (
            [noun for noun in self.nouns["person"] if noun.reflexive == pronoun] for pronoun in ("himself", "herself")
        )
        return tuple(zip(men, women, strict=True))

    @cached_property
    def all_verbs(self) -> tuple[Verb, ...]:
        groups = [*self.intransitive.values(), self.transitive, self.affecting, self.reflexive]
        return tuple(dict.fromkeys(verb for group in groups for verb in group))


def add_s(word: str) -> str:
    """The regular plural of a noun, which is spelt like the regular third person of a verb.

    >>> [add_s(word) for word in ("dog", "fox", "puppy", "monkey", "watch")]
    ['dogs', 'foxes', 'puppies', 'monkeys', 'watches']
    """
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def add_ed(word: str) -> str:
    """The regular past tense, for verbs that double no letter.

    >>> [add_ed(word) for word in ("walk", "dance", "cry", "play")]
    ['walked', 'danced', 'cried', 'played']
    """
    if word.endswith("e"):
        return word + "d"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ied"
    return word + "ed"


def _nouns(entries: str, kind: NounClass, reflexive: str = "") -> tuple[Noun, ...]:
    """Nouns from a list in which `mouse/mice` writes an irregular plural out."""
    forms = (entry.partition("/") for entry in entries.split())
    return tuple(Noun(singular, plural or add_s(singular), kind, reflexive) for singular, _, plural in forms)


def _verbs(entries: str) -> tuple[Verb, ...]:
    """Verbs from a list in which `sing/sang/sung` writes past and participle out."""
    result = []
    for entry in entries.split():
        base, *rest = entry.split("/")
        past, participle = rest if rest else (add_ed(base), add_ed(base))
        result.append(Verb(base, add_s(base), past, participle))
    return tuple(result)


def _by_class(living: Words, thing: Words, place: Words) -> dict[NounClass, Words]:
    """Words by the class of the noun that they go with."""
    return {"person": living, "animal": living, "thing": thing, "place": place}


@cache
def lexicon() -> AgreementLexicon:
    """The lexicon, built at first use."""
    any_adjective = tuple(words.ADJECTIVES.split())
    states = (words.LIVING_STATES, words.THING_STATES, words.PLACE_STATES)
    return AgreementLexicon(
        nouns={
            "person": _nouns(words.PEOPLE, "person")
            + _nouns(words.MEN, "person", "himself")
            + _nouns(words.WOMEN, "person", "herself"),
            "animal": _nouns(words.ANIMALS, "animal", "itself"),
            "thing": _nouns(words.THINGS, "thing"),
            "place": _nouns(words.PLACES, "place"),
        },
        intransitive={
            "person": _verbs(words.LIVING_VERBS + " " + words.HUMAN_VERBS),
            "animal": _verbs(words.LIVING_VERBS),
            "thing": _verbs(words.THING_VERBS),
            "place": _verbs(words.PLACE_VERBS),
        },
        transitive=_verbs(words.TRANSITIVE_VERBS),
        affecting=_verbs(words.AFFECTING_VERBS),
        reflexive=_verbs(words.REFLEXIVE_VERBS),
        adjectives=_by_class((*any_adjective, *words.LIVING_ADJECTIVES.split()), any_adjective, any_adjective),
        states=_by_class(*(tuple(listed.split()) for listed in states)),
        manner=_by_class(tuple(words.MANNER.split()), words.THING_MANNER, words.THING_MANNER),
        often=tuple(words.OFTEN.split()),
    )


@cache
def neutral_forms() -> dict[str, str]:
    """Every word that carries a choice of number, of bracket or of `or`/`nor`, mapped to one form that does not.

    Texts that differ in such choices alone become equal, which is how the parts of the corpus are kept apart.
    """
    table = {noun.plural: noun.singular for noun in lexicon().all_nouns}
    table.update((verb.base, verb.third) for verb in lexicon().all_verbs)
    table.update((plural, singular) for singular, plural in words.AUXILIARIES)
    table.update((word, words.REFLEXIVE_PLURAL) for word in ("himself", "herself", "itself"))
    for (opener, closer), (other_opener, other_closer) in (words.CHOICES, words.QUOTES, words.BRACKETS):
        table.update({other_opener: opener, other_closer: closer})
    return table


def verb_number(word: str, after: str = "") -> Number | None:
    """The number of the subject a verb form agrees with; None for forms that agree with any, and for other words.

    `after` is the word before: what follows a modal is an infinitive.

    >>> verb_number("is"), verb_number("walk"), verb_number("walked"), verb_number("walk", after="would")
    ('singular', 'plural', None, None)
    """
    return None if after in words.MODALS else verb_numbers().get(word)


@cache
def verb_numbers() -> dict[str, Number]:
    """Every verb form of the sentences that shows a number, with that number."""
    pairs = [*words.AUXILIARIES, *((verb.third, verb.base) for verb in lexicon().all_verbs)]
    table: dict[str, Number] = {singular: "singular" for singular, _ in pairs}
    table.update((plural, "plural") for _, plural in pairs)
    return table


def twin(sentence: Sequence[str]) -> tuple[str, ...]:
    """The words of a sentence with the number of every noun and verb turned round.

    >>> " ".join(twin("the teachers near the farmer are old .".split()))
    'the teacher near the farmers is old .'
    """
    before = ("", *sentence[:-1])
    return tuple(
        word if after in words.MODALS else _other_numbers().get(word, word)
        for after, word in zip(before, sentence, strict=True)
    )


@cache
def _other_numbers() -> dict[str, str]:
    nouns = [(noun.singular, noun.plural) for noun in lexicon().all_nouns]
    verbs = [(verb.third, verb.base) for verb in lexicon().all_verbs]
    pairs = [*nouns, *verbs, *words.AUXILIARIES]
    return {form: other for pair in pairs for form, other in (pair, pair[::-1])}
