"""The number of words: which verb forms agree with one subject and which with several, and a sentence's twin.

The twin of a sentence is the same with every number turned round: what differs between what a model does with the two
is what it knows of number.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from thereafter.text.agreement import words
from thereafter.text.agreement.lexicon import lexicon
from thereafter.text.agreement.sentence import Number


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
    return {one: other for pair in pairs for one, other in (pair, pair[::-1])}
