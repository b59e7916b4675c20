"""Texts without spaces and texts from right to left, through training and scoring."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thereafter
from thereafter.text.tokenizers import TOKENIZERS
from thereafter.text.tokenizers.base import join_ids

CHINESE = ["我", "爱", "猫", "狗", "跑", "看", "他们", "山上", "大", "小"]


def chinese(sentences: int) -> str:
    dice = random.Random(5)
    return "".join("".join(dice.choices(CHINESE, k=9)) + "。\n" for _ in range(sentences))


def test_chinese_is_known_and_the_user_hears_of_other_tokens() -> None:
    lm = thereafter.train(text=chinese(300), order=2)
    score = lm.score(text=chinese(20))
    assert score.unknown == 0
    assert score.tokens == len(chinese(20))
    notes = [str(note) for line in lm.log for note in line.get("notes", [])]
    assert any("--tokens bpe" in note and "of the text is in a script" in note for note in notes)


def test_no_note_where_tokens_were_chosen_or_words_have_spaces() -> None:
    for options in ({"text": chinese(300), "tokens": "prose"}, {"text": "the cat sat on the mat.\n" * 90 + chinese(3)}):
        lm = thereafter.train(order=2, **options)
        notes = [str(note) for line in lm.log for note in line.get("notes", [])]
        assert not any("--tokens bpe" in note for note in notes)


MIXED = st.text(
    alphabet=st.sampled_from(list("abc 12.,\nשלום עולםمرحبا بالعالم\u200f\u200e\u0651\u05b0漢字かなกำลัง한국어é")),
    max_size=80,
)


@pytest.mark.parametrize("which", [name for name in TOKENIZERS if name != "word"])
@settings(max_examples=20)
@given(text=MIXED, border=st.integers(0, 80))
def test_mixed_scripts_come_back_whole_and_in_pieces(which: str, text: str, border: int) -> None:
    options = {} if which in ("byte", "unigram") else {"min_count": 1}
    tokenizer = TOKENIZERS.load(which).fit(lambda: [text, "\n"], **options)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert join_ids(tokenizer.encode_stream([text[:border], text[border:]])).tolist() == ids.tolist()
