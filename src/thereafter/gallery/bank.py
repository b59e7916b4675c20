"""A small generated text in which one word has two senses, which only the words before it tell apart.

Between the word that settles the sense and "bank" stand words that both senses share, so that a model has to carry it.
"""

from __future__ import annotations

import random
from pathlib import Path

WORD = "bank"
SENSES = {
    "river": (
        ("river", "stream", "lake", "water", "flood", "ferry"),
        ("rose", "froze", "ran", "moved", "came"),
        ("muddy", "steep", "green", "wet", "slippery", "grassy"),
    ),
    "savings": (
        ("savings", "loan", "money", "cash", "account", "interest"),
        ("grew", "sank", "ran", "moved", "came"),
        ("rich", "closed", "solvent", "busy", "insured", "bankrupt"),
    ),
}
_FIRST = ("the", "our", "all the", "some of the")
_LINKS = ("and", "so", "while", "until", "because", "and then", "and after that", "but all the while")


def sentences(count: int, seed: int = 0) -> list[str]:
    """`count` sentences, such as "the river rose and the bank was muddy"."""
    draw = random.Random(f"bank {seed}")
    made = []
    for _ in range(count):
        sense = draw.choice(list(SENSES))
        beginning = _beginning(draw, sense)
        made.append(f"{beginning} was {draw.choice(SENSES[sense][2])}")
    return made


def contexts(each: int, seed: int = 1) -> dict[str, list[str]]:
    """Beginnings of either sense that end with the word."""
    draw = random.Random(f"contexts {seed}")
    by_sense = {}
    for sense in SENSES:
        different: dict[str, None] = {}
        while len(different) < each:
            different[_beginning(draw, sense)] = None
        by_sense[sense] = list(different)
    return by_sense


def write(path: Path, count: int = 4000, seed: int = 0) -> Path:
    """The text as a file, a sentence a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(sentences(count, seed)) + "\n", encoding="utf-8")
    return path


def _beginning(draw: random.Random, sense: str) -> str:
    nouns, verbs, _ = SENSES[sense]
    return f"{draw.choice(_FIRST)} {draw.choice(nouns)} {draw.choice(verbs)} {draw.choice(_LINKS)} the {WORD}"
