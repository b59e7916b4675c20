"""Counts that are too few for a discount, ids that are no words, and words that an ARPA file cannot hold."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

import thereafter
from refusals import assert_refused
from thereafter.errors import FormatError, OptionError
from thereafter.ngram.model import estimate


def test_a_discount_of_nothing_falls_back():
    """n1 : n2 : n3 = 4 : 1 : 1 makes D2 = 0, which would leave nothing for unseen words."""
    text = "".join(f"a{i} b{i}\n" for i in range(8)) + "a8 b8\n" * 2 + "a9 b9\n" * 3
    lm = thereafter.train(text=text, tokens="word", order=2, min_count=1)
    assert math.isfinite(lm.score(text="a8 b0\n").perplexity)


def test_token_ids_outside_the_vocabulary_are_refused():
    with assert_refused(OptionError, 0, 1):
        estimate(np.array([0, 100_000_000, 1]), 2, order=3)


def test_arpa_keeps_what_it_can_say(tmp_path: Path):
    for tokens, context in (("word", "stream"), ("prose", "line")):
        lm = thereafter.train(text="a b\nc a\n" * 4, tokens=tokens, context=context, order=2)
        with assert_refused(OptionError, "ARPA"):
            lm.to_arpa(tmp_path / "m.arpa")
    foreign = thereafter.train(text="\\xff \\x61 a \\x20b\n" * 3, tokens="word", order=2)
    again = thereafter.read_arpa(foreign.to_arpa(tmp_path / "w.arpa"))
    assert again.tokenizer.vocabulary.forms == foreign.tokenizer.vocabulary.forms
    words = thereafter.train(text="cat sat\n" * 3, tokens="word", order=2).to_arpa(tmp_path / "c.arpa")
    with assert_refused(FormatError, "--tokens word"):
        thereafter.read_arpa(words, tokens="char")
