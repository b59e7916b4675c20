"""Words of several forms of one text meet at the same borders: against alignments that are known by construction."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

import thereafter
from breadth import core
from thereafter.evaluation.text_units import align_units, match_blocks, words_alone

WORDS = "the wretch fled over hills and a river I saw it was known to Raymond whose sketch sold 1,234 days ago".split()  # noqa: SIM905


def two_forms(count: int, seed: int) -> tuple[list[str], list[list[str]]]:
    """Words as people write them, and what a corpus makes of each."""
    rng = random.Random(seed)
    written, formed = [], []
    for _ in range(count):
        word = rng.choice(WORDS)
        if word[0].isdigit():
            written.append(word)
            formed.append(["N"])
            continue
        mark = rng.choice(["", "", "", ",", ".", "!"])
        quoted = rng.random() < 0.1
        clitic = "n't" if rng.random() < 0.1 else ""
        written.append(("“" if quoted else "") + word + clitic.replace("'", "’") + mark + ("”" if quoted else ""))
        formed.append(
            ['"'] * quoted + [word.lower()] + [clitic] * bool(clitic) + ([mark] if mark != "!" else []) + ['"'] * quoted
        )
    return written, [[part for part in parts if part] for parts in formed]


@pytest.mark.parametrize("seed", core(range(5), range(2)))
def test_every_word_finds_what_was_made_of_it(seed: int) -> None:
    written, formed = two_forms(400, seed)
    plain = " ".join(written)
    form = " ".join(part for parts in formed for part in parts)
    one, other = align_units([words_alone(plain), words_alone(form)], reference=0)
    assert one.texts == other.texts
    expected = np.cumsum([0, *(len(parts) for parts in formed)])
    whole = 0
    for begin, end, other_begin, other_end in zip(
        one.first_U1[:-1], one.first_U1[1:], other.first_U1[:-1], other.first_U1[1:], strict=True
    ):
        assert other_begin == expected[begin]
        assert other_end == expected[end]
        whole += end - begin == 1
    assert whole > 0.95 * len(written)


@pytest.mark.parametrize("seed", core(range(5), range(2)))
def test_blocks_are_equal_parts_in_order(seed: int) -> None:
    rng = random.Random(seed)
    one = "".join(rng.choices("abcdAB‘'\n", k=rng.randint(0, 300)))
    other = "".join(c for c in one if rng.random() < 0.9)
    other = other[:40] + "".join(rng.choices("xyz", k=rng.randint(0, 90))) + other[40:]
    at = other_at = 0
    for begin, other_begin, size in match_blocks(one, other):
        assert begin >= at
        assert other_begin >= other_at
        at, other_at = begin + size, other_begin + size
        same = one[begin:at].lower().replace("‘", "'") == other[other_begin:other_at].lower().replace("‘", "'")
        assert same
    assert (at, other_at) == (len(one), len(other))


def test_a_very_long_line_has_its_words() -> None:
    written, formed = two_forms(20_000, 7)  # a line of a hundred thousand characters
    one, _ = align_units(
        [words_alone(" ".join(written)), words_alone(" ".join(" ".join(parts) for parts in formed))], reference=0
    )
    assert len(one) > 0.95 * len(written)
    nothing = list(match_blocks("a" * 100_000, "b" * 100_000))
    assert nothing[-1] == (100_000, 100_000, 0)


CORPUS = "Raymond is selling this sketch .\nHe did n't see the cat , but she does .\nThe cat is here .\n" * 60
TEXT = "She didn't see it. He is selling this, but the cat is here.\nRaymond does. The end"


def test_a_model_with_a_sentence_a_line_stands_beside_the_others() -> None:
    lines = thereafter.train(text=CORPUS, tokens="word", order=3)
    assert lines.style is not None
    assert lines.style.sentence_lines
    stream = thereafter.train(text=CORPUS.replace(" .\n", ". ").replace(" ,", ","), order=3)
    for by in ("word", "sentence", "line"):
        for models in ([lines, stream], [stream, lines], [stream, lines, lines]):
            table = thereafter.surprisal(models, text=TEXT, by=by)
            for number, lm in enumerate(models):
                nats = table.bits(number).sum() * math.log(2)
                assert nats == pytest.approx(lm.score(text=TEXT).nats, rel=1e-9)
            if by == "word":
                assert [text for text in table.texts if text != "\n"] == TEXT.split()
    alone = lines.surprisal(text=TEXT)
    assert [text for text in alone.texts if text != "\n"] == TEXT.split()
    cells = dict(zip(alone.texts, (row["tokens"] for row in alone.to_rows()), strict=True))
    assert cells["it."] == "it|.|</s>" or cells["it."].startswith("<unk>|.")
    assert alone.lines.tolist()[-1] == 2
