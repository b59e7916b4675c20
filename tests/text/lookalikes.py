"""Texts as people have them, made by rule: prose of every shape, and texts whose lines must stay."""

from __future__ import annotations

import random
import textwrap

_SUBJECTS = ["the old captain", "my sister", "a stranger from the north", "nobody", "the whole village", "our landlord"]
_VERBS = [
    "waited for",
    "wrote about",
    "had forgotten",
    "could see",
    "spoke of",
    "remembered",
    "walked along",
    "listened to",
]
_OBJECTS = [
    "the harbour",
    "a letter",
    "the long winter",
    "that quiet room",
    "two horses",
    "the road to town",
    "her voice",
]
_LINKS = ["and", "but", "while", "because", "although", "until"]
_CHINESE = "天地玄黄宇宙洪荒日月盈昃辰宿列张寒来暑往秋收冬藏闰余成岁律吕调阳云腾致雨露结为霜"
_ARABIC = [
    "كان",
    "الرجل",
    "ينظر",
    "إلى",
    "البحر",
    "ثم",
    "عاد",
    "في",
    "المساء",
    "وقال",
    "لهم",
    "إن",
    "الطريق",
    "طويل",
    "جدا",
]


def sentence(rng: random.Random, links: int = 2) -> str:
    """A sentence of several clauses."""
    clauses = [_clause(rng) for _ in range(rng.randint(1, links + 1))]
    joined = clauses[0] + "".join(f" {rng.choice(_LINKS)} {clause}" for clause in clauses[1:])
    return joined[0].upper() + joined[1:] + rng.choice("....?!")


def paragraphs(count: int, seed: int = 0) -> list[str]:
    """Paragraphs of prose, one a string."""
    rng = random.Random(seed)
    return [" ".join(sentence(rng) for _ in range(rng.randint(3, 8))) for _ in range(count)]


def wrapped(texts: list[str], width: int = 72, indent: str = "", between: str = "\n\n") -> str:
    """The paragraphs as a typewriter has them."""
    return between.join(textwrap.fill(text, width, initial_indent=indent, break_on_hyphens=False) for text in texts)


def gutenberg(body: str, title: str = "A BOOK", *, old: bool = False) -> str:
    """A book as Project Gutenberg gives it: header, credits, body, licence; `old` has the marks of earlier years."""
    name = "THIS" if old else "THE"
    header = textwrap.fill(
        "This eBook is for the use of anyone anywhere at no cost and with almost no restrictions whatsoever. You may "
        "copy it, give it away or re-use it under the terms of the Project Gutenberg License included with it.",
        72,
    )
    licence = "\n\n".join([textwrap.fill("Section 1. General terms of use and redistribution. " * 30, 72)] * 6)
    begin, end = (f"***{gap}{word} OF {name} PROJECT GUTENBERG EBOOK {title} ***" for gap, word in
                  (("" if old else " ", "START"), ("" if old else " ", "END")))  # fmt: skip
    credits = "Produced by A. N. Other and the\nOnline Distributed Proofreading Team\n\n\n" if old else ""
    last = "End of Project Gutenberg's A Book, by A. N. Other\n\n" if old else ""
    return (
        f"The Project Gutenberg eBook of A Book\n\n{header}\n\nTitle: A Book\n\n{begin}\n\n\n\n{credits}{body}\n\n\n\n"
        f"{last}{end}\n\n{licence}\n"
    )


def verse(seed: int = 1) -> str:
    """Stanzas of four short lines."""
    rng = random.Random(seed)
    lines = [f"{_clause(rng)}{rng.choice(',;. ')}".strip().capitalize() for _ in range(96)]
    return "\n\n".join("\n".join(lines[at : at + 4]) for at in range(0, 96, 4)) + "\n"


def blank_verse(seed: int = 2) -> str:
    """A long poem without stanzas, lines of nearly one length that go on in a sentence."""
    rng = random.Random(seed)
    lines = []
    while len(lines) < 200:
        line = f"{rng.choice(_LINKS)} {_clause(rng)}"
        if 36 < len(line) < 48:
            lines.append(line + rng.choice(",,;."))
    return "\n".join(lines) + "\n"


def play(seed: int = 3) -> str:
    """Speeches in verse under the names of their speakers."""
    rng = random.Random(seed)
    speeches = []
    for _ in range(40):
        name = rng.choice(["FIRST LORD", "DUKE", "CLOWN"])
        speeches.append(f"{name}:\n" + "\n".join(_clause(rng).capitalize() + "," for _ in range(rng.randint(2, 6))))
    return "\n\n".join(speeches) + "\n"


def dialogue(seed: int = 4) -> str:
    """A conversation, one speech a line."""
    rng = random.Random(seed)
    return "\n".join(f"“{sentence(rng, 1)}” said {rng.choice(['Anna', 'Paul', 'she'])}." for _ in range(80)) + "\n"


def dictionary(seed: int = 5) -> str:
    """Headwords with short definitions."""
    rng = random.Random(seed)
    words = sorted("".join(rng.choices("abcdefghilmnoprstu", k=rng.randint(4, 9))) for _ in range(120))
    return "\n".join(f"{word}, n. {_clause(rng)}; see {rng.choice(words)}." for word in words) + "\n"


def code() -> str:
    """A source file of the standard library."""
    return textwrap.__loader__.get_source("textwrap")  # type: ignore[union-attr]


def log(seed: int = 6) -> str:
    """Lines of even length with a time each."""
    rng = random.Random(seed)
    levels = ["INFO ", "WARN ", "ERROR"]
    return (
        "\n".join(
            f"2026-11-16 10:{at // 60:02d}:{at % 60:02d}.{rng.randint(0, 999):03d} {rng.choice(levels)} "
            f"worker-{rng.randint(0, 9)} request {rng.randint(10**7, 10**8)} done in {rng.randint(100, 999)} ms. ok"
            for at in range(300)
        )
        + "\n"
    )


def chat(seed: int = 7) -> str:
    """Short messages under nicknames."""
    rng = random.Random(seed)
    return "\n".join(f"<{rng.choice(['ann', 'bob'])}> {_clause(rng)}" for _ in range(150)) + "\n"


def subtitles(seed: int = 8) -> str:
    """Numbered cues with times, one or two short lines each."""
    rng = random.Random(seed)
    cues = []
    for number in range(1, 60):
        start = f"00:{number // 60:02d}:{number % 60:02d},000"
        text = "\n".join(_clause(rng).capitalize() for _ in range(rng.randint(1, 2)))
        cues.append(f"{number}\n{start} --> {start[:-3]}900\n{text}")
    return "\n\n".join(cues) + "\n"


def sentence_a_line(seed: int = 9) -> str:
    """One sentence a line."""
    rng = random.Random(seed)
    return "".join(sentence(rng) + "\n" for _ in range(200))


def equal_lines(seed: int = 10) -> str:
    """Lower-case sentences of nearly one length, one a line: the shape of many made corpora."""
    rng = random.Random(seed)
    lines = []
    while len(lines) < 200:
        line = f"{_clause(rng)} {rng.choice(_LINKS)} {_clause(rng)}"
        if 60 <= len(line) <= 66:
            lines.append(line)
    return "\n".join(lines) + "\n"


def numbered_list(seed: int = 11) -> str:
    """A list with a number an item."""
    rng = random.Random(seed)
    return "\n".join(f"{number}. {sentence(rng, 1)}" for number in range(1, 90)) + "\n"


def letters_of_a_genome(seed: int = 12) -> str:
    """Lines of 70 letters without a space."""
    rng = random.Random(seed)
    return ">chr1\n" + "\n".join("".join(rng.choices("acgt", k=70)) for _ in range(200)) + "\n"


def table(seed: int = 13) -> str:
    """Columns of numbers."""
    rng = random.Random(seed)
    rows = ("".join(f"{rng.uniform(-99, 99):12.4f}" for _ in range(6)) for _ in range(150))
    return "\n".join(rows) + "\n"


def chinese(width: int | None = None, seed: int = 14) -> str:
    """Paragraphs of Chinese, a line each, or hard-wrapped after `width` characters."""
    rng = random.Random(seed)
    texts = []
    for _ in range(30):
        clauses = ("".join(rng.choices(_CHINESE, k=rng.randint(4, 9))) for _ in range(rng.randint(12, 30)))
        texts.append("".join(clause + rng.choice("，，。") for clause in clauses))
    if width is None:
        return "\n".join(texts) + "\n"
    return "\n\n".join("\n".join(text[at : at + width] for at in range(0, len(text), width)) for text in texts) + "\n"


def arabic(width: int | None = None, seed: int = 15) -> str:
    """Paragraphs of Arabic, a line each, or hard-wrapped."""
    rng = random.Random(seed)
    texts = []
    for _ in range(30):
        sentences = (" ".join(rng.choices(_ARABIC, k=rng.randint(5, 12))) for _ in range(rng.randint(4, 9)))
        texts.append(" ".join(one + "." for one in sentences))
    return "\n".join(texts) + "\n" if width is None else wrapped(texts, width) + "\n"


def _clause(rng: random.Random) -> str:
    return f"{rng.choice(_SUBJECTS)} {rng.choice(_VERBS)} {rng.choice(_OBJECTS)}"
