"""Agreement of a verb with a subject far back: verdicts against sums worked out another way, and readers whose score is
known beforehand."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import thereafter
from breadth import core
from refusals import assert_refused
from thereafter.errors import EmptyCorpusError
from thereafter.evaluation import agreement
from thereafter.evaluation.agreement import Tally, Verdicts, measure_agreement, verdicts
from thereafter.models.build import build, settings_of
from thereafter.text.agreement import Sentence, sentences

TRAIN = "".join(f"{one.text}\n" for one in sentences(400, seed=5, max_distance=12))
TEST = list(sentences(60, seed=5, part="test", max_distance=12))


class Reader:
    """A model that reads words and answers with a rule: which of the forms after them it holds for right."""

    def __init__(self, tokenizer: Any, rule: Callable[[list[str]], str]) -> None:
        self.words = tokenizer.vocabulary.forms
        self.vocabulary_size = len(self.words)
        self.rule = rule
        self.seen: list[list[str]] = []

    def start(self, batch: int) -> list[list[str]]:
        return [[] for _ in range(batch)]

    def log_probs(self, tokens_BT: np.ndarray, state: list[list[str]]) -> tuple[np.ndarray, list[list[str]]]:
        read = [before + [self.words[token] for token in row] for before, row in zip(state, tokens_BT, strict=True)]
        self.seen += read
        return np.zeros(tokens_BT.shape), read

    def read(self, tokens_BT: np.ndarray, state: list[list[str]]) -> list[list[str]]:
        return self.log_probs(tokens_BT, state)[1]

    def predict(self, state: list[list[str]]) -> np.ndarray:
        logp = np.full((len(state), self.vocabulary_size), -9.0)
        for row, read in zip(logp, state, strict=True):
            chosen = self.rule(read)
            row[[word == chosen for word in self.words]] = -1.0
        return logp


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    every = TRAIN + "".join(f"{one.right}\n{one.wrong}\n" for one in TEST)
    return thereafter.train(text=every, tokens="word", order=1, min_count=1).tokenizer


def by_prefix(pick: Callable[[Sentence], str]) -> Callable[[list[str]], str]:
    known = {one.prefix: pick(one) for one in TEST}
    return lambda read: known[tuple(word for word in read if word != "</s>")]


def test_a_reader_that_knows_is_always_right_and_its_opposite_never(tokenizer: Any):
    right = measure_agreement(
        Reader(tokenizer, by_prefix(lambda one: one.correct_form)), tokenizer, TEST, context="line"
    )
    wrong = measure_agreement(Reader(tokenizer, by_prefix(lambda one: one.wrong_form)), tokenizer, TEST, context="line")
    assert right.overall == Tally(60, 60)
    assert wrong.overall == Tally(0, 60)
    assert {words: tally.total for words, tally in right.distance.items()} == Counter(one.distance for one in TEST)
    assert {nouns: tally.total for nouns, tally in right.groups["attractors"].items()} == Counter(
        len(one.attractors) for one in TEST
    )
    assert all(tally.accuracy == 1 for tally in right.distance.values())


def test_a_reader_that_follows_the_last_noun_is_right_where_it_is_congruent(tokenizer: Any):
    def pick(one: Sentence) -> str:
        return one.wrong_form if one.congruent is False else one.correct_form

    measured = measure_agreement(Reader(tokenizer, by_prefix(pick)), tokenizer, TEST, context="line")
    congruence = measured.groups["congruence"]
    assert congruence["congruent"].accuracy == 1
    assert congruence["incongruent"].accuracy == 0
    assert congruence["no attractor"].accuracy == 1
    assert congruence["incongruent"].total > 5


def test_who_cannot_tell_is_half_right(tokenizer: Any):
    measured = measure_agreement(Reader(tokenizer, lambda read: "<unk>"), tokenizer, TEST, context="line")
    assert measured.overall == Tally(30, 60)


def test_forms_outside_the_vocabulary_are_ties():
    lm = thereafter.train(text="a b c\n" * 5, tokens="word", order=2)
    assert set(verdicts(lm.model, lm.tokenizer, TEST, context="line")) == {0.5}


def test_each_sentence_starts_afresh(tokenizer: Any):
    line, stream = (Reader(tokenizer, lambda read: "<unk>") for _ in range(2))
    verdicts(line, tokenizer, TEST, context="line")
    verdicts(stream, tokenizer, TEST, context="stream")
    wanted = Counter(one.prefix for one in TEST)
    assert Counter(map(tuple, line.seen)) == wanted
    assert Counter(map(tuple, stream.seen)) == {("</s>", *prefix): count for prefix, count in wanted.items()}


def one_by_one(lm: thereafter.LanguageModel, one: Sentence, begin: str) -> float:
    """The verdict from log p of whole texts: for tokens smaller than words, summed over all ways the word can end."""
    tokenizer, totals = lm.tokenizer, []
    for text in (one.right, one.wrong):
        ids = tokenizer.encode(begin + text)
        ends: list[list[int]] = [[]]
        if tokenizer.name not in ("word", "prose"):
            ends = [[token] for token in range(len(tokenizer.vocabulary)) if not tokenizer.piece(token)[0].isalpha()]
        logs = []
        for end in ends:
            whole = np.array([[*ids, *end]])
            logs.append(float(np.asarray(lm.model.log_probs(whole, lm.model.start(1))[0], dtype=float).sum()))
        totals.append(np.logaddexp.reduce(logs))
    return 0.5 if totals[0] == totals[1] else float(totals[0] > totals[1])


@pytest.mark.parametrize(
    ("tokens", "context"),
    core(
        product(("word", "prose", "char", "bpe"), ("line", "stream")),
        [("word", "stream"), ("prose", "line"), ("char", "line"), ("bpe", "stream")],
    ),
)
def test_verdicts_equal_those_of_whole_texts(tokens: str, context: str, monkeypatch: pytest.MonkeyPatch):
    size = {"vocabulary": 280} if tokens == "bpe" else {}
    lm = thereafter.train(text=TRAIN, tokens=tokens, order=4, context=context, **size)
    few = TEST[:15]
    begin = "\n" if context == "stream" else ""
    monkeypatch.setattr(agreement, "MOST_ROWS", 2)
    got = verdicts(lm.model, lm.tokenizer, few, context=context)
    assert got.tolist() == [one_by_one(lm, one, begin) for one in few]
    assert 0 < got.mean() < 1


@pytest.mark.parametrize("tokens", ["word", "char"])
def test_a_neural_model_is_judged_alike_in_batches_and_alone(tokens: str):
    import torch

    counted = thereafter.train(text=TRAIN, tokens=tokens, order=1)
    tokenizer = counted.tokenizer
    with torch.random.fork_rng():
        torch.manual_seed(1)
        net = build("gru", settings_of("gru")(hidden=8), vocabulary_size=len(tokenizer.vocabulary), context="stream")
    few = TEST[:10]
    together = verdicts(net, tokenizer, few, context="stream")
    assert together.tolist() == [float(verdicts(net, tokenizer, [one], context="stream")[0]) for one in few]


def test_a_word_is_not_as_likely_as_all_that_begin_with_it():
    """In characters "sleep" begins "sleeps": without the end of the word the shorter form would always win."""
    lm = thereafter.train(text="the dog sleeps here\nthe dogs sleep here\n" * 20, tokens="char", order=9)
    words = ("the", "dog", "sleeps", "here")
    one = Sentence(words, "agreement", 1, 2, "sleep", "singular", ())
    assert verdicts(lm.model, lm.tokenizer, [one], context="stream").tolist() == [1.0]


def test_sentences_are_prepared_as_the_text_was():
    lm = thereafter.train(text=TRAIN.upper(), tokens="word", order=3)
    few = TEST[:30]
    plain = verdicts(lm.model, lm.tokenizer, few, context="line")
    prepared = verdicts(lm.model, lm.tokenizer, few, context="line", prepare=str.upper)
    assert set(plain) == {0.5}
    assert set(prepared) != {0.5}


def test_it_goes_through_json_and_adds_up():
    groups = {"attractors": {0: Tally(4.5, 7)}, "congruence": {"congruent": Tally(4.5, 7)}}
    counted = Verdicts({0: Tally(3, 4), 7: Tally(1.5, 3)}, groups)
    assert Verdicts.from_dict(json.loads(json.dumps(counted.as_dict()))) == counted
    assert counted.overall == Tally(4.5, 7)
    assert counted.between(1, 40).accuracy == 0.5
    assert np.isnan(counted.between(8, 40).accuracy)


def test_no_sentences_is_an_error(tokenizer: Any):
    with assert_refused(EmptyCorpusError):
        measure_agreement(Reader(tokenizer, lambda read: ""), tokenizer, [], context="line")
