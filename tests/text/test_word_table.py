"""The compiled pass over words equals its readable twin: ids, unknown forms, lines, characters, bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thereafter.text.sources import Source
from thereafter.text.tokenizers import word
from thereafter.text.tokenizers.word import WordTokenizer

FORMS = ["a", "b", "ab", "ba", "<unk>", "<s>", "</s>", "\x00", "a\x00b", "cat", "é", "z"]
SPACES = [" ", "\n", "\t", "\x0b", "\x0c", "\x1c", "\x1f", "  ", "\n\n"]
texts = st.lists(st.sampled_from(FORMS + SPACES) | st.text(st.characters(max_codepoint=127), max_size=3), max_size=40)


@given(taught=texts, read=texts, inside=st.booleans())
def test_both_ways_measure_alike(taught: list[str], read: list[str], inside: bool):
    tokenizer = WordTokenizer.fit(Source.of_text("".join(taught)).chunks, min_count=1)
    text = "".join(read).replace("\r", "").replace("é", "e")
    plain = tokenizer.measure(text, inside)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word, "WORTH_COMPILING", 0)
        quick = tokenizer.measure(text, inside)
        np.testing.assert_array_equal(tokenizer.ids_of(text), plain.ids)
    np.testing.assert_array_equal(quick.ids, plain.ids)
    assert quick.ids.dtype == plain.ids.dtype
    assert [getattr(quick, name) for name in ("lines", "chars", "bytes", "unknown", "unknown_forms")] == [
        getattr(plain, name) for name in ("lines", "chars", "bytes", "unknown", "unknown_forms")
    ]
