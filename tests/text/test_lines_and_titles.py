"""Lines of a text that comes in pieces, and titles with their points: one rule each for all who cut text."""

from __future__ import annotations

import pytest

from thereafter.text.pretokenised_words import split_words
from thereafter.text.reading import lines_of
from thereafter.text.sentences import split_sentences


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize("text", ["", "a", "a\n", "\n", "a\n\nb\u2028c\n", "\n\na b"])
def test_lines_of_chunks_are_those_of_the_whole(text: str, size: int) -> None:
    chunks = [text[at : at + size] for at in range(0, len(text), size)]
    whole = text.split("\n")
    assert list(lines_of(chunks)) == (whole if whole[-1] else whole[:-1])
    ended = [f"{line}\n" for line in whole[:-1]] + [last for last in whole[-1:] if last]
    assert list(lines_of(chunks, ends=True)) == ended
    assert "".join(ended) == text


def test_a_title_keeps_its_point_in_words_and_in_sentences() -> None:
    text = "Mme. Curie met Cpl. Jones. She bowed."
    assert split_sentences(text) == ["Mme. Curie met Cpl. Jones.", "She bowed."]
    assert split_words(text)[:6] == ["Mme.", "Curie", "met", "Cpl.", "Jones", "."]
