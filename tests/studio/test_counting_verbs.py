"""Counting: the table is that of a brute-force count, its probabilities those of the library's own bigram model."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import thereafter
from refusals import assert_refused
from thereafter.errors import EmptyCorpusError
from thereafter.studio.panels.counting import FOUR, LONGEST, MOST_WORDS, count_pairs

SMOOTHINGS = ("mle", "add-alpha", "kneser-ney")
TOKENS = [word for line in FOUR.splitlines() for word in [*line.split(), "</s>"]]
MANY = "\n".join(f"the word{i % 40} saw word{i % 7} near word{i % 23}" for i in range(60))


def pairs_of(tokens: list[str]) -> Counter[tuple[str, str]]:
    """Pairs counted by hand: a sentence begins behind `<s>`."""
    counts: Counter[tuple[str, str]] = Counter()
    for before, word in pairwise(["</s>", *tokens]):
        counts["<s>" if before == "</s>" else before, word] += 1
    return counts


def cells(found: dict[str, Any], what: str) -> dict[tuple[str, str], float]:
    return {
        (row["word"], column): value
        for row in found["rows"]
        for column, value in zip(found["columns"], row[what] or [], strict=False)
    }


def bigrams(text: str, smoothing: str, **options: Any) -> thereafter.LanguageModel:
    return thereafter.train(text=text, tokens="word", order=2, smoothing=smoothing, min_count=1, **options)


@pytest.mark.parametrize("at", range(len(TOKENS) + 1))
def test_every_step_adds_one_to_the_pair_that_was_read(at: int):
    found = count_pairs(FOUR, at, "mle").model_dump()
    by_hand = pairs_of(TOKENS[:at])
    shown = {pair: count for pair, count in cells(found, "counts").items() if count}
    assert shown == by_hand
    assert sum(row["sum"] for row in found["rows"]) == at == found["pairs_shown"]
    if at:
        pair = (found["pair"]["before"], found["pair"]["word"])
        assert pair[1] == TOKENS[at - 1]
        assert found["pair"]["count"] == by_hand[pair] == pairs_of(TOKENS[: at - 1])[pair] + 1


def test_the_worked_example_has_eight_pairs_that_begin_with_the():
    found = count_pairs(FOUR, 10**6, "mle").model_dump()
    row = next(row for row in found["rows"] if row["word"] == "the")
    assert row["sum"] == 8
    assert cells(found, "p")["the", "cat"] == 0.25
    assert cells(found, "p")["fish", "ate"] == 0  # so "the fish ate" is impossible without smoothing
    assert cells(count_pairs(FOUR, 26, "kneser-ney").model_dump(), "p")["fish", "ate"] > 0
    assert (found["at"], found["length"], found["sentences"], found["sentences_read"]) == (26, 26, 4, 4)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("sentences", [1, 2, 4])
def test_probabilities_are_those_of_the_librarys_model_of_the_sentences_so_far(smoothing: str, sentences: int):
    lines = FOUR.splitlines()[:sentences]
    options = {"alpha": 0.3} if smoothing == "add-alpha" else {}
    lm = bigrams("\n".join(lines), smoothing, **options)
    index = lm.tokenizer.vocabulary.index
    found = count_pairs(FOUR, sum(len(line.split()) + 1 for line in lines), smoothing, alpha=0.3).model_dump()
    assert found["vocabulary"] == len(index)
    for row in found["rows"]:
        expected = lm.distribution("" if row["word"] == "<s>" else row["word"])
        assert row["p"] == pytest.approx([expected[index[column]] for column in found["columns"]], abs=1e-6)
        assert sum(row["p"]) + row["other_p"] == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_rows_sum_to_one_in_the_middle_of_a_sentence_too(smoothing: str):
    for at in range(1, 15):
        for row in count_pairs(FOUR, at, smoothing).model_dump()["rows"]:
            if row["p"] is None:
                assert smoothing == "mle"
                assert row["sum"] == 0
            else:
                assert sum(row["p"]) + row["other_p"] == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_a_drawn_sentence_is_the_librarys_with_the_probability_of_each_step(smoothing: str):
    options = {"alpha": 1.0} if smoothing == "add-alpha" else {}
    lm = bigrams(FOUR, smoothing, **options)
    for seed in range(5):
        drawn = count_pairs(FOUR, 26, smoothing, seed=seed).model_dump()["drawn"]
        expected = lm.generate("", LONGEST, stop_strings="\n", seed=seed, return_log_probs=True)[0]
        words = [step["word"] for step in drawn["steps"]]
        assert words == [lm.tokenizer.vocabulary.forms[token] for token in expected.tokens]
        assert [step["p"] for step in drawn["steps"]] == pytest.approx(np.exp(expected.log_probs).tolist(), abs=1e-6)
        assert drawn["p"] == pytest.approx(np.exp(expected.log_prob), rel=1e-5)
        assert drawn["ended"] == ("sentence" if words[-1] == "</s>" else "length")


def test_without_smoothing_a_word_that_nothing_followed_is_a_dead_end():
    drawn = count_pairs(FOUR, 2, "mle", seed=0).model_dump()["drawn"]
    assert [step["word"] for step in drawn["steps"]] == ["the", "cat"]
    assert (drawn["ended"], drawn["after"]) == ("dead end", "cat")
    assert count_pairs(FOUR, 2, "add-alpha", seed=0).model_dump()["drawn"]["ended"] != "dead end"
    assert count_pairs(FOUR, 0, "mle", seed=0).model_dump()["drawn"]["ended"] == "dead end"


def test_of_a_larger_vocabulary_the_frequent_words_are_shown_and_the_rest_is_counted():
    tokens = [word for line in MANY.splitlines() for word in [*line.split(), "</s>"]]
    by_hand = pairs_of(tokens[:200])
    found = count_pairs(MANY, 200, "kneser-ney").model_dump()
    assert found["words"] == len(set(tokens[:200]) - {"</s>"}) > MOST_WORDS
    assert len(found["rows"]) == len(found["columns"]) == MOST_WORDS + 1
    pair = (found["pair"]["before"], found["pair"]["word"])
    assert pair in cells(found, "counts")
    for row in found["rows"]:
        total = sum(count for (before, _), count in by_hand.items() if before == row["word"])
        assert sum(row["counts"]) + row["other_count"] == row["sum"] == total
        assert sum(row["p"]) + row["other_p"] == pytest.approx(1, abs=1e-5)
    shown = cells(found, "counts")
    assert found["pairs_shown"] == sum(shown.values()) == sum(by_hand[pair] for pair in shown)
    assert found["around"] == tokens[found["first"] : found["first"] + len(found["around"])]


def test_the_next_sentence_ends_where_the_line_does():
    assert [count_pairs(FOUR, at, "mle").model_dump()["next_end"] for at in (0, 6, 7, 12, 13, 25, 26)] == [
        7,
        7,
        13,
        13,
        20,
        26,
        26,
    ]


def test_blank_lines_are_no_sentences_and_no_text_is_an_error():
    assert count_pairs("a b\n\n  \nc", 99, "mle").model_dump()["around"] == ["a", "b", "</s>", "c", "</s>"]
    assert count_pairs("<b>x</b> 🙂 </s>\r\n<s>", 99, "mle").model_dump()["around"] == [
        "<b>x</b>",
        "🙂",
        "<unk>",
        "</s>",
        "<unk>",
        "</s>",
    ]
    with assert_refused(EmptyCorpusError):
        count_pairs(" \n\t\n", 3, "mle").model_dump()


def test_a_text_whose_only_follower_cannot_be_said_ends_in_words():
    drawn = count_pairs("a <unk> b", 4, "mle", seed=0).model_dump()["drawn"]
    assert (drawn["ended"], drawn["after"]) == ("dead end", "a")
