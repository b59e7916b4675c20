"""Lines said by heart: the ones greedy decoding writes, drawn evenly, and none of a text that was never read."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thereafter
from refusals import assert_refused
from thereafter.errors import OptionError, SourceError, ThereafterError
from thereafter.export.recalling import check_memory, draw_lines, lines_of, recite

WORDS = [first + second for first in ("am", "bro", "cel", "du") for second in ("ber", "ok", "na", "lta")]
ORDERS = {"char": 10, "word": 4, "bpe": 6}


def line(dice: random.Random, words: int = 9) -> str:
    return " ".join(dice.choice(WORDS) for _ in range(words))


@pytest.fixture(scope="module")
def text() -> str:
    """Twenty lines, no two alike; one of them five times."""
    dice = random.Random(3)
    lines = [line(dice) for _ in range(20)]
    return "\n".join([*lines, *lines[:1] * 4, "short"]) + "\n"


@pytest.mark.parametrize("tokens", list(ORDERS))
def test_what_is_verbatim_is_what_greedy_decoding_writes(tokens: str, text: str) -> None:
    lm = thereafter.train(text=text, tokens=tokens, order=ORDERS[tokens], min_count=1 if tokens == "word" else None)
    recited = check_memory(lm.trained, lines=100)
    assert recited.drawn == 20
    assert recited.shortest == 40
    by_hand = []
    for one in sorted(set(text.splitlines()) - {"short"}):
        ids = lm.tokenizer.encode(one)
        half, state = len(ids) // 2, lm.model.start(1)
        for token in ids[:half]:
            _, state = lm.model.step(np.array([token]), state)
        written: list[int] = []
        while len(written) < len(ids) - half:
            written.append(int(np.asarray(lm.model.predict(state))[0].argmax()))
            _, state = lm.model.step(np.array(written[-1:]), state)
        if written == ids[half:].tolist():
            by_hand.append(one)
    assert sorted(one.beginning + one.rest for one in recited.lines) == by_hand
    assert by_hand
    counts = Counter(text.splitlines())
    assert [one.times for one in recited.lines] == [counts[one.beginning + one.rest] for one in recited.lines]
    assert all(one.beginning and one.rest for one in recited.lines)
    assert f"{len(by_hand)} of 20 lines of text of at least 40 characters are said verbatim" in str(recited)
    assert recited.share == len(by_hand) / 20
    assert recited.to_rows()[0].keys() == {"times", "beginning", "rest"}


def test_a_network_that_overfits_says_its_lines_and_no_others(text: str, tmp_path: Path) -> None:
    book = tmp_path / "book.txt"
    book.write_text("\n".join(text.splitlines()[:3]) + "\n")
    options: dict[str, Any] = {"hidden": 32, "embed": 16, "layers": 1, "dropout": 0.0, "seed": 1, "device": "cpu"}
    options |= {"batching": "lines", "batch": 3, "rate": 0.03, "tokens_budget": 3_000, "min_count": 1}
    with pytest.warns(UserWarning, match="know it by heart"):
        lm = thereafter.train(book, model="lstm", tokens="word", valid=book, out=tmp_path / "run", **options)
    loaded = thereafter.load(tmp_path / "run")
    recited = check_memory(loaded.trained)
    assert (len(recited.lines), recited.drawn) == (3, 3)
    assert recited == check_memory(lm.trained)
    others = random.Random(9)
    unread = [line(others) for _ in range(40)]
    assert recite(lm.model, lm.tokenizer, lambda: ["\n".join(unread)], "others").lines == ()
    assert recite(lm.model, lm.tokenizer, lambda: ["zebra zebra " * 9], "unknown words").lines == ()
    assert recite(lm.model, lm.tokenizer, list, "nothing").share == 0
    book.write_text(text)
    with assert_refused(SourceError):
        check_memory(loaded.trained)


def test_lines_are_drawn_evenly_and_by_the_seed() -> None:
    lines = [f"{number:02d}" * 20 for number in range(20)]
    whole = "\n".join(lines * 3)
    assert list(lines_of([whole[:7], whole[7:50], "", whole[50:]])) == lines * 3
    assert sorted(draw_lines([whole], 50, 40, 0)) == lines
    counts = Counter(one for seed in range(200) for one in draw_lines([whole], 5, 40, seed))
    assert set(counts) == set(lines)
    assert all(25 < count < 80 for count in counts.values())  # 50 expected, standard deviation 6.1
    assert draw_lines([whole], 5, 40, 7) == draw_lines([whole, "\n"], 5, 40, 7)
    assert draw_lines([whole], 5, 41, 7) == []


def test_what_cannot_be_asked_is_one_sentence(text: str, tmp_path: Path) -> None:
    lm = thereafter.train(text=text, order=2)
    run = lm.save(tmp_path / "run")
    with assert_refused(OptionError, "lines", 0, 40):
        check_memory(lm.trained, lines=0)
    other = tmp_path / "other.txt"
    other.write_text("amber brook celna\n" * 9)
    mixed = thereafter.mixture([lm, lm], tune=other)
    with assert_refused(OptionError, "mixture"):
        check_memory(mixed.trained)
    with pytest.raises(ThereafterError):
        check_memory(thereafter.load(run).trained)  # its text was given as it is
