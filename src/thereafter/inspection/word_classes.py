"""The word class of every word of `agreement`, as its lexicon has it."""

from __future__ import annotations

from functools import cache

from thereafter.text.agreement import words
from thereafter.text.agreement.lexicon import lexicon

CLASSES = (
    "noun",
    "verb",
    "auxiliary",
    "adjective",
    "adverb",
    "determiner",
    "preposition",
    "connective",
    "punctuation",
)


@cache
def word_classes() -> dict[str, str]:
    """Word to class. Words that can be of two classes there, such as `inside`, are left out."""
    known = lexicon()
    groups: dict[str, set[str]] = {
        "noun": {form for noun in known.all_nouns for form in (noun.singular, noun.plural)},
        "verb": {form for verb in known.all_verbs for form in verb},
        "auxiliary": {form for pair in words.AUXILIARIES for form in pair} | {"had", *words.MODALS},
        "adjective": {word for group in (known.adjectives, known.states) for forms in group.values() for word in forms},
        "adverb": {
            *known.often,
            *words.HERE,
            *words.INTENSIFIERS,
            *(w for forms in known.manner.values() for w in forms),
        },
        "determiner": set(words.SUBJECT_DETERMINERS),
        "preposition": {
            word
            for group in (words.BESIDE, words.WITH, words.AMONG_THINGS, words.IN_PLACES)
            for phrase in group
            for word in phrase
        },
        "connective": {"and", "but", "who", "that", "which"},
        "punctuation": {".", ","},
    }
    every = [word for group in groups.values() for word in group]
    return {word: name for name, group in groups.items() for word in group if every.count(word) == 1}
