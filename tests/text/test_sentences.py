"""Sentences by rule: a table of cases, offsets that lose nothing, and streams that may end anywhere."""

from __future__ import annotations

import random
import time
from itertools import pairwise

import pytest

from thereafter.text.sentences import find_sentences, split_sentences

# a bar stands where a sentence ends and the next begins, in the place of the space between them
CASES = [
    "The cat sat.|The dog ran.",
    "Who is there?|Nobody.|Come in!",
    "One sentence without an end",
    "He came. . .|She left.",
    "Mr. Rochester and Mrs. Fairfax met Dr. Carter.|They talked.",
    "St. John Rivers prayed.|He rose.",
    "He wrote to Prof. Smith.|No answer came.",
    "J. R. R. Tolkien wrote it.|It is long.",
    "George W. Bush spoke.|We listened.",
    "It was I.|He knew it.",
    "We took plan B.|The others stayed.",
    "See p. 12 and pp. 14-16 of vol. 2.|There it stands.",
    "See vol. II of the work.|It is long.",
    "Room No. 5 is free.|The key is here.",
    "Did he agree?|No.|He did not.",
    "It costs 3.50 in all.|That is cheap.",
    "She was born in 1815.|He was born in 1820.",
    "They bought 5.|She bought 6.",
    '"Stop!" he cried.|Nobody stopped.',
    '"Why?" Mary asked.|"Because," he said.',
    '"Why?" I asked.|He smiled.',
    '"Why not?" Mr. Brocklehurst said.|I was silent.',
    '"Come here."|"I will not."',
    "“Come here.”|“I will not.”|She stayed.",
    "‘Is it?’ she said.|‘It is.’",
    "He said “No!”|The door closed.",
    "«Viens!»|Il partit.",
    "(He was late.)|We began.",
    "She left (it was late).|He stayed.",
    "He waited... and waited.|Then he left.",
    "Well... I think so.|You may not.",
    "Wait…|The end is near.",
    "Well . . . perhaps so.|We shall see.",
    "Really?!|You did it!!!|Good.",
    "Apples, pears, etc. were sold.|Nobody bought them.",
    "They sold apples, etc.|Nobody came.",
    "The U.S. Senate met.|It was long.",
    "He lives in the U.S.|She does not.",
    "At 5 p.m. the bell rang.|We rose.",
    "We met at 5 p.m.|The bell rang.",
    "He has a Ph.D. in law.|She has none.",
    "Use a dash, e.g. this one, i.e. the long one.|Done.",
    "Acme Inc. sold it to Smith & Co. in May.|The price was low.",
    "1. Rise early.|Then work.",
    "Visit example.com today.|It is free.",
    "Version 2.0.1 is out.|Try it.",
    "_Never!_ she wrote.|_Never._|The pen broke.",
    "the cat sat.|the dog ran.|it was late.",
    "the end .|The next one .",
    "他来了。|她走了。|真的吗？|是。",
    "「行こう。」|彼は言った。",
    "هل جاء؟|نعم.|ذهب الولد.",
    "वह आया।|वह गया।",
    "A heading\n|The text begins.|It goes on.\n|Another paragraph.",
    "  Spaces before.|And after.  ",
    "-- Who goes there?|-- A friend.",
    "He met Col. Brandon, Capt. Wentworth and Lt. Denny.|All bowed.",
    "Smith et al. found it.|Others did not.",
    "Down I sat.|Mary came.|So I am.|Mary left.",
    "On Sat. Oct. 3 it rained.|We stayed.",
    "It was art.|I like it.|I'm sure.",
    "See vol. I of it.|It is long.",
    "—And then?|—Then nothing.",
]


@pytest.mark.parametrize("case", CASES)
def test_cases(case: str):
    wide = "。" in case
    text = case.replace("\n|", "\n").replace("|", "" if wide else " ")
    assert split_sentences(text) == [part.strip() for part in case.split("|")]


def test_there_are_cases_enough():
    assert len(set(CASES)) >= 40


def test_offsets_lose_nothing_wherever_the_pieces_end():
    text = "\n\n".join(case.replace("|", " ") for case in CASES) + "\n"
    whole = list(find_sentences([text]))
    assert all(text[one.begin : one.end] == one.text for one in whole)
    between = [text[one.end : after.begin] for one, after in pairwise(whole)]
    assert not "".join(between).strip()
    draw = random.Random(1)
    for _ in range(20):
        cuts = sorted(draw.sample(range(len(text)), 9))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        assert list(find_sentences(pieces)) == whole


@pytest.mark.parametrize("run", ["!", ". ", "。", "…?", '!"', "_", "a. "])
def test_long_runs_of_marks_are_read_quickly(run: str):
    begun = time.thread_time()
    text = "So" + run * 8000 + "y"
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())
    assert time.thread_time() - begun < 2


@pytest.mark.parametrize("text", ["", "\n", "  \n \n", ".", "...", "?!", '"', "\n.\n"])
def test_nothing_is_an_error(text: str):
    assert "".join(split_sentences(text)) == text.strip()
