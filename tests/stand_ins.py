"""Small generated files in the place of the classic corpora: the same names, parts and formats, other words.

What the tests say of a corpus by name (it is found, checked, read by its parts, trained on, refused by the wrong task)
holds for any content. So they run on these files everywhere, and on the classic ones where those are here.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import random
import textwrap
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import product
from pathlib import Path

from stand_in_pictures import captioned_file, digits_file
from thereafter.data.catalogue import CARDS, CorpusCard, CorpusFile

SYLLABLES = ("ba", "do", "ki", "lu", "me", "sto", "tra")
WORDS = ["".join(spelling) for n in (1, 2, 3) for spelling in product(SYLLABLES, repeat=n)]
NUMBER = {word: n for n, word in enumerate(WORDS)}
RANKS = [1 / rank for rank in range(1, len(WORDS) + 1)]
TAGS = {1: "DET", 2: "NOUN", 3: "VERB"}  # by the number of syllables
SIDES = {"en": "", "de": "en", "fr": "é"}  # what a word of the other language ends in
PACKED = ("wikitext-2", "multi30k", "ud-english-ewt", "eng-fra", "mnist")
"""Those that are kept as .gz, as their originals are."""
LINES = {"train": 1_000, "text": 400, "pairs": 400}


def sentence(draw: random.Random) -> list[str]:
    """Words with the long tail of language, most of them after a word that they often follow."""
    words = draw.choices(WORDS, RANKS)
    for _ in range(draw.randint(2, 14)):
        after = 3 * NUMBER[words[-1]] + draw.randint(0, 2)
        words += [WORDS[after % len(WORDS)]] if draw.random() < 0.6 else draw.choices(WORDS, RANKS)
    return words


def marked(draw: random.Random, part: str) -> str:
    """A line of a corpus that has marked its rare words and numbers itself."""
    marks = {WORDS[-1]: "<unk>", WORDS[-2]: "<unk>", WORDS[-3]: "N"}
    return " " + " ".join(marks.get(word, word) for word in sentence(draw)) + " \n"


def article(draw: random.Random, part: str) -> str:
    return f" \n = {' '.join(sentence(draw)).title()} = \n \n{marked(draw, part)}"


def speech(draw: random.Random, part: str) -> str:
    return f"{draw.choice(WORDS).upper()}:\n{' '.join(sentence(draw)).capitalize()},\n{' '.join(sentence(draw))}.\n\n"


def paragraph(draw: random.Random, part: str) -> str:
    spoken = " ".join(f"{' '.join(sentence(draw)).capitalize()}." for _ in range(draw.randint(1, 4)))
    return textwrap.fill(spoken, 70) + "\n\n"


def translated(draw: random.Random, part: str) -> str:
    """A sentence in the language of the part: the same draws give the same sentence in every one."""
    ending = SIDES[part.partition(".")[2]]
    return " ".join(word + ending for word in sentence(draw)) + ".\n"


def pair(draw: random.Random, part: str) -> str:
    words = sentence(draw)
    return f"{' '.join(words)}.\t{' '.join(word + SIDES['fr'] for word in words)} !\n"


def syllables(word: str) -> int:
    return sum(word.count(one) for one in SYLLABLES)


def tree(draw: random.Random, part: str) -> str:
    """Tagged words: their letters tell the tag."""
    words = sentence(draw)
    rows = [
        "\t".join([str(n), word, word, TAGS[syllables(word)], "_", "_", "0", "dep", "_", "_"])
        for n, word in enumerate(words, 1)
    ]
    return f"# text = {' '.join(words)}\n" + "\n".join(rows) + "\n\n"


def review(draw: random.Random, part: str) -> str:
    """A sentence and its label: one word tells it."""
    label, words = draw.randint(0, 1), sentence(draw)
    words.insert(draw.randint(0, len(words)), ("dull", "gripping")[label])
    return f"{' '.join(words)}\t{label}\n"


ENTRIES: dict[str, Callable[[random.Random, str], str]] = {
    "ptb": marked,
    "wikitext-2": article,
    "tinyshakespeare": speech,
    "time-machine": paragraph,
    "war-and-peace": paragraph,
    "multi30k": translated,
    "ud-english-ewt": tree,
    "sst2": review,
    "eng-fra": pair,
}


def transformer(draw: random.Random, minutes: int) -> str:
    """A table of loads and an oil temperature that follows the day, a row every so many minutes."""
    rows = ["date,HUFL,HULL,MUFL,MULL,LUFL,LULL,OT"]
    for at in range(1_000):
        time = datetime(2016, 7, 1) + at * timedelta(minutes=minutes)
        day = math.sin(2 * math.pi * (time.hour + time.minute / 60) / 24)
        rows.append(f"{time},{','.join(f'{5 * day + 20 + draw.gauss(0, 1):.4f}' for _ in range(7))}")
    return "\n".join(rows) + "\n"


MINUTES = {"ETTh1": 60, "ETTm1": 15}
"""Between the rows of tables of numbers, by part."""


PICTURES: dict[str, Callable[[str], bytes]] = {"mnist": digits_file, "flickr8k": captioned_file}
"""Files of pictures, by part."""


def write_corpora(folder: Path) -> dict[str, CorpusCard]:
    """Write a stand-in of every corpus that is not built in, and give the cards that describe them."""
    return {name: _written(folder / name, card) for name, card in CARDS.items() if not card.builtin}


def _written(folder: Path, card: CorpusCard) -> CorpusCard:
    folder.mkdir(parents=True)
    files: list[CorpusFile] = []
    for file in card.files:
        part = file.part.partition(".")[0]
        draw = random.Random(f"{card.name} {part}")
        if part in MINUTES:
            content = transformer(draw, MINUTES[part]).encode()
        elif card.name in PICTURES:
            content = PICTURES[card.name](file.part)
        else:
            content = "".join(ENTRIES[card.name](draw, file.part) for _ in range(LINES.get(part, 200))).encode()
        if card.name in PACKED:
            (folder / f"{file.filename}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / file.filename).write_bytes(content)
        # without an address: a stand-in can only ever be found, never fetched
        # and with shares of its own rows for those of the original
        split = "60/20/20" if file.split else ""
        sha256 = hashlib.sha256(content).hexdigest()
        files.append(replace(file, sha256=sha256, bytes=len(content), urls=(), split=split))
    return replace(card, files=tuple(files))
