"""What the ready task models learn from: examples drawn from small grammars, the same on every machine.

- Pairs: English noun phrases, chained by a verb and prepositions, with their French. In French an adjective follows its
  noun and articles and adjectives agree with it, so a translator has to look ahead, and a little to the side.
- Tagged sentences: many of the words are nouns in one place and verbs in another, so a tagger has to look around.
- Reviews: praise and blame, turned round by "not" and "never"; after "but" it is the second half that counts.
"""

from __future__ import annotations

import random
from collections.abc import Callable

VERSION = 1
"""Goes up when a grammar changes, so that what was learned from the old one is learned again."""
SHORTEST, LONGEST = 2, 20
"""Words of an English sentence."""

_NOUNS = (
    *(("cat", "chat", "m"), ("dog", "chien", "m"), ("horse", "cheval", "m"), ("book", "livre", "m")),
    *(("wall", "mur", "m"), ("garden", "jardin", "m"), ("boat", "bateau", "m"), ("house", "maison", "f")),
    *(("table", "table", "f"), ("car", "voiture", "f"), ("cow", "vache", "f"), ("flower", "fleur", "f")),
    *(("chair", "chaise", "f"), ("river", "rivière", "f")),
)
_ADJECTIVES = (
    *(("red", "rouge", "rouge"), ("green", "vert", "verte"), ("black", "noir", "noire"), ("white", "blanc", "blanche")),
    *(("blue", "bleu", "bleue"), ("round", "rond", "ronde"), ("slow", "lent", "lente"), ("quick", "rapide", "rapide")),
    *(("strong", "fort", "forte"), ("tired", "fatigué", "fatiguée")),
)
_VERBS = (("sees", "voit"), ("follows", "suit"), ("finds", "trouve"), ("watches", "regarde"), ("hides", "cache"))
_RESTS = (("sleeps", "dort"), ("waits", "attend"), ("falls", "tombe"), ("stays", "reste"))
_PLACES = (
    *(("behind", "derrière"), ("under", "sous"), ("with", "avec"), ("on", "sur"), ("without", "sans")),
    ("against", "contre"),
)
Pair = tuple[list[str], list[str]]


def pair(rng: random.Random, length: int) -> tuple[str, str]:
    """An English sentence of so many words, and its French."""
    phrases = rng.choice([count for count in range(1, length) if _fits(count, length)])
    free = length - (3 * phrases - 1)
    rests = phrases == 1 and free > 0 and (free == 2 or rng.random() < 0.5)
    coloured = set(rng.sample(range(phrases), free - rests))
    source, target = list[str](), list[str]()
    for at in range(phrases):
        if at:
            english, french = rng.choice(_VERBS if at == 1 else _PLACES)
            source.append(english)
            target.append(french)
        here = _phrase(rng, at in coloured)
        source += here[0]
        target += here[1]
    if rests:
        english, french = rng.choice(_RESTS)
        source.append(english)
        target.append(french)
    return " ".join(source), " ".join(target)


def _fits(phrases: int, length: int) -> bool:
    """A phrase has two words or three, and there is one word between two; a single one may have a verb after it."""
    return 3 * phrases - 1 <= length <= 4 * phrases - 1 + (phrases == 1)


def _phrase(rng: random.Random, coloured: bool) -> Pair:
    english, french, gender = rng.choice(_NOUNS)
    article = "le" if gender == "m" else "la"
    if not coloured:
        return ["the", english], [article, french]
    quality, *forms = rng.choice(_ADJECTIVES)
    return ["the", quality, english], [article, french, forms[gender == "f"]]


_BOTH = (
    *("fish", "walk", "talk", "watch", "play", "dream", "hope", "help", "plan", "drink"),
    *("cook", "dance", "smile", "work", "answer", "visit"),
)
_THINGS = ("teacher", "river", "garden", "child", "city", "letter", "train", "forest")
_ACTS = ("see", "eat", "build", "bring", "choose", "sing", "forget", "write")
_WHO = ("they", "we", "you", "i")
_WHOSE = ("the", "every", "this", "my")
_MAY = ("can", "will", "must", "may")
_HOW = ("quickly", "slowly", "quietly", "gladly", "often", "never", "badly", "early")
_WHAT = ("long", "quiet", "old", "bright", "early", "kind", "small", "cold")
_NEAR = ("near", "behind", "with", "before", "after", "in")


def tagged(rng: random.Random) -> list[tuple[str, str]]:
    """A sentence as words with their tags."""
    by_name = rng.random() < 0.5
    words = _thing(rng) if by_name else [(rng.choice(_WHO), "PRON")]
    if by_name or rng.random() < 0.2:
        words.append((rng.choice(_MAY), "AUX"))  # verbs have one form here: "the cook can watch"
    if rng.random() < 0.3:
        words.append((rng.choice(_HOW), "ADV"))
    words.append((rng.choice(_BOTH + _ACTS), "VERB"))
    if rng.random() < 0.6:
        words += _thing(rng)
    if rng.random() < 0.5:
        words += [(rng.choice(_NEAR), "ADP"), *_thing(rng)]
    if rng.random() < 0.3:
        words.append((rng.choice(_HOW), "ADV"))
    return [*words, (".", "PUNCT")]


def _thing(rng: random.Random) -> list[tuple[str, str]]:
    quality = [(rng.choice(_WHAT), "ADJ")] if rng.random() < 0.4 else []
    return [(rng.choice(_WHOSE), "DET"), *quality, (rng.choice(_BOTH + _THINGS), "NOUN")]


_ABOUT = ("film", "story", "music", "ending", "cast", "plot", "book", "dialogue", "hero", "first half")
_GOOD = ("good", "great", "moving", "clever", "funny", "warm", "fresh", "gripping", "beautiful", "sharp")
_BAD = ("bad", "dull", "boring", "flat", "clumsy", "cold", "stale", "silly", "ugly", "weak")
_MUCH = ("", "", "very ", "really ", "quite ")
_TURNED = ("not ", "never ", "hardly ", "not at all ")


def review(rng: random.Random) -> tuple[str, str]:
    """A short review and its label, "good" or "bad"."""
    label = rng.choice(("good", "bad"))
    if rng.random() < 0.5:
        return f"{_opinion(rng, label)} .", label
    if rng.random() < 0.5:
        other = "bad" if label == "good" else "good"
        return f"{_opinion(rng, other)} , but {_opinion(rng, label)} .", label
    return f"{_opinion(rng, label)} and {_opinion(rng, label)} .", label


def _opinion(rng: random.Random, label: str) -> str:
    turned = rng.random() < 0.35
    words = _GOOD if (label == "good") != turned else _BAD
    return f"the {rng.choice(_ABOUT)} was {rng.choice(_TURNED) if turned else rng.choice(_MUCH)}{rng.choice(words)}"


def pairs_file(rng: random.Random, count: int) -> str:
    """Pairs of all lengths alike, a line each, with a tab."""
    lengths = [SHORTEST + at % (LONGEST - SHORTEST + 1) for at in range(count)]
    return "".join("\t".join(pair(rng, length)) + "\n" for length in lengths)


def tagged_file(rng: random.Random, count: int) -> str:
    """Tagged sentences in two columns, an empty line between them."""
    return "\n".join("".join(f"{word}\t{tag}\n" for word, tag in tagged(rng)) for _ in range(count))


def reviews_file(rng: random.Random, count: int) -> str:
    """Reviews with their labels, under a heading."""
    return "text\tlabel\n" + "".join("\t".join(review(rng)) + "\n" for _ in range(count))


FILES: dict[str, tuple[str, Callable[[random.Random, int], str]]] = {
    "translate": ("pairs.{part}.tsv", pairs_file),
    "tag": ("tagged.{part}.conll", tagged_file),
    "classify": ("reviews.{part}.tsv", reviews_file),
}
"""For each task the name of its files, and what fills them."""
