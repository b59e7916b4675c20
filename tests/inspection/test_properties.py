"""Properties of a text: each against a text marked by hand, strings and comments against Python's own tokenizer."""

from __future__ import annotations

import io
import json.decoder
import textwrap
import tokenize
from pathlib import Path

import numpy as np
import pytest

from refusals import assert_refused
from thereafter.errors import OptionError, UnknownNameError
from thereafter.inspection import properties as p
from thereafter.text.tokenizers import TOKENIZERS


def marked(values: np.ndarray) -> str:
    return "".join("x" if value else "." for value in values)


@pytest.mark.parametrize("module", [json.decoder, textwrap, tokenize], ids=lambda module: module.__name__)
def test_strings_and_comments_are_those_of_pythons_own_tokenizer(module):
    text = Path(module.__file__).read_text(encoding="utf-8")
    starts = np.concatenate([[0], np.cumsum([len(line) for line in text.splitlines(keepends=True)])])
    inside, remark = np.zeros(len(text), bool), np.zeros(len(text), bool)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        begin, end = (int(starts[row - 1]) + column for row, column in (token.start, token.end))
        if token.type == tokenize.STRING:
            first = begin + len(token.string) - len(token.string.lstrip("rRbBuUfF"))
            inside[first : end - 1] = True  # the last quote has closed it
        elif token.type == tokenize.COMMENT:
            remark[begin:end] = True
    np.testing.assert_array_equal(p.quotes(text), inside)
    np.testing.assert_array_equal(p.comment(text), remark)
    np.testing.assert_array_equal(p.quotes_or_comment(text), inside | remark)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a='b\nc", "..xx.."),  # not closed: to the end of its line
        ("'\\'b'", "xxxx."),
        ("'''a\n'b''' c", "xxxxxxxxx..."),
        ('"""a', "xxxx"),
        ("''", "x."),
        ("'''''' a", "xxxxx..."),
        ("# it's\nb", "........"),
        ("'#' # a", "xx....."),
    ],
)
def test_broken_and_nested_strings(text: str, expected: str):
    assert marked(p.quotes(text)) == expected


def test_lines_brackets_words():
    text = "def f(a,\n        b[0]):\n\n\tif a: # (\n"
    assert p.line_position(text)[:12].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 2, 3]
    depth = p.indentation(text)
    assert depth[:9].tolist() == [0] * 9
    assert depth[9:17].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert depth[17] == 8
    assert depth[text.index("\n\n") + 1] == 8  # a blank line keeps the last
    assert depth[text.index("\t")] == 8
    brackets = p.bracket_depth(text)
    assert brackets[text.index("0")] == 2
    assert brackets[text.index(":")] == 0
    assert brackets[-1] == 0  # that in the comment is none
    assert p.bracket_depth(")(").tolist() == [0, 1]
    assert marked(p.after_keyword("if x: iffy(in 'if a')")) == "..x..........x......."
    assert marked(p.word_boundary("to be_1.")) == "..x....x"


def test_speech_and_the_users_own():
    assert marked(p.speech('he said "no" and "yes\n\nthen')) == "........xxx......xxxx......"
    assert marked(p.of_regex("b+").of("abba")) == ".xx."
    upper = p.of_function(lambda text: [c.isupper() for c in text], "upper")
    assert marked(upper.of("aBc")) == ".x."
    with assert_refused(OptionError):
        p.of_regex("(")
    with assert_refused(OptionError):
        p.of_function(lambda text: [1.0]).of("abc")
    with assert_refused(OptionError, "finite"):
        p.of_function(lambda text: [float("nan")] * len(text)).of("abc")
    with assert_refused(UnknownNameError, "quotes"):
        p.named("quote")


@pytest.mark.parametrize("name", list(p.PROPERTIES))
def test_every_property_takes_every_text(name: str):
    for text in ("", "\n", "'", "é漢\t😀\n(", '"""', "#", "   "):
        assert p.named(name).of(text).shape == (len(text),)


@pytest.mark.parametrize("name", list(TOKENIZERS))
def test_a_token_ends_where_its_text_does(name: str):
    text = "the  cat 'sat' été\n\n on the cat <unk> zebra\nthe cat sat 'été' on\n"
    tokenizer = TOKENIZERS.load(name).fit(lambda: [text])
    ids, ends = p.token_ends(text, tokenizer)
    assert ids.tolist() == tokenizer.encode(text).tolist()
    assert (np.diff(ends) >= 0).all()
    assert ends[-1] == len(text) - 1
    known = [(step, tokenizer.piece(int(i)).strip(" ")) for step, i in enumerate(ids) if i != tokenizer.unknown_id]
    for step, piece in known:
        if "\ufffd" not in piece and piece:
            assert text[: ends[step] + 1].endswith(piece)
