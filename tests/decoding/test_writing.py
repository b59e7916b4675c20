"""Text as it comes: joined it is the whole, nothing is taken back, and a stop string is never said."""

from __future__ import annotations

import numpy as np
import pytest

from thereafter.decoding.writing import Written
from thereafter.text.tokenizers import TOKENIZERS
from thereafter.text.tokenizers.base import Tokenizer
from thereafter.text.tokenizers.byte_level import ByteTokenizer

TEXT = "the cat sat,\n\n  12 naïve cafés and 日本語 😀 in the\ncat the café\n" * 3


def fitted(name: str) -> Tokenizer:
    kind: type[Tokenizer] = TOKENIZERS.load(name)
    return kind.fit(lambda: [TEXT])


def said(written: Written, tokens: list[int]) -> list[str]:
    pieces = []
    for token in tokens:
        piece, written = written.add(token)
        pieces.append(piece)
    return [*pieces, written.end()]


@pytest.mark.parametrize("name", list(TOKENIZERS))
@pytest.mark.parametrize("prompt", ["", "the", "the ", "on\n", "é"])
def test_joined_it_is_what_the_tokenizer_says_of_the_whole(name: str, prompt: str):
    tokenizer = fitted(name)
    rng = np.random.default_rng(1)
    for tokens in (tokenizer.encode(TEXT).tolist(), *rng.integers(0, len(tokenizer.vocabulary), (20, 40)).tolist()):
        pieces = said(Written(tokenizer, last=prompt[-1:]), tokens)
        assert prompt + "".join(pieces) == tokenizer.continuation(prompt, tokens)


@pytest.mark.parametrize("name", ["byte", "bpe"])
def test_no_piece_holds_part_of_a_character(name: str):
    tokenizer = fitted(name)
    for text in (TEXT, "\ufffd\ufffd!", "a\ufffd"):
        pieces = said(Written(tokenizer), tokenizer.encode(text).tolist())
        assert "".join(pieces) == text
    whole = said(Written(ByteTokenizer()), list("日x".encode()))
    assert whole == ["", "", "日", "x", ""]
    assert said(Written(ByteTokenizer()), list("日".encode()[:2])) == ["", "", "\ufffd"]


def test_invalid_bytes_are_said_as_soon_as_they_are_certain():
    # four lone continuation bytes, then the beginning of a character that never comes
    assert said(Written(ByteTokenizer()), [0x80, 0x80, 0x80, 0x80, 0xE2, 0x61]) == [
        *("", "\ufffd", "\ufffd", "\ufffd", "\ufffd"),
        "\ufffda",
        "",
    ]


def cut(text: str, stops: tuple[str, ...]) -> str:
    """One character at a time: as soon as a stop string is there, the text ends where the first of them begins."""
    for end in range(len(text) + 1):
        found = [text[:end].find(stop) for stop in stops if stop in text[:end]]
        if found:
            return text[: min(found)]
    return text


@pytest.mark.parametrize(
    "stops", [("b",), ("ab",), ("b", "aab"), ("aab",), ("abab", "ba"), ("bab", "abaa", "bb"), ("aaaa",)], ids=str
)
def test_stop_strings_against_reading_one_character_at_a_time(stops: tuple[str, ...]):
    rng = np.random.default_rng(2)
    for _ in range(60):
        text = "".join(rng.choice(["a", "b"], 14, p=[0.7, 0.3]))
        assert "".join(said(Written(ByteTokenizer(), stops), list(text.encode()))) == cut(text, stops)


def test_a_stop_string_across_tokens_and_inside_one():
    tokenizer = fitted("prose")
    tokens = tokenizer.encode(" the cat sat,").tolist()
    assert len(tokens) == 4
    for stop, expected in {
        "cat sat": " the ",
        "at s": " the c",
        "h": " t",
        ",": " the cat sat",
        " ": "",
        "dog": " the cat sat,",
    }.items():
        assert "".join(said(Written(tokenizer, (stop,)), tokens)) == expected
    assert "".join(said(Written(tokenizer, ("at", "c")), tokens)) == " the "  # both in one token: the first of them


def test_what_may_become_a_stop_string_is_held_back_and_given_up():
    pieces = said(Written(ByteTokenizer(), ("end.",)), list(b"the end of endings"))
    assert "".join(pieces) == "the end of endings"
    assert pieces[4:8] == ["", "", "", "end "]
    assert said(Written(ByteTokenizer(), ("end.",)), list(b"en"))[-1] == "en"


def test_a_stop_string_may_be_part_of_a_longer_character_sequence():
    pieces = said(Written(ByteTokenizer(), ("é!",)), list("né né! x".encode()))
    assert "".join(pieces) == "né n"
