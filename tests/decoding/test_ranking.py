"""Ranking candidates: against the score of the same text, and what an unknown word must pay."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from small_models import WITH_TOKENS, counted, made

import thereafter
from thereafter.decoding import beam as ranking
from thereafter.errors import OptionError

CANDIDATES = ["the cat sat on the mat", "the cat sad on the mat", "the cat", "the dog ate", "zebra sat", "cat the on"]


@pytest.mark.parametrize(("name", "tokens"), WITH_TOKENS)
def test_a_rank_is_a_score(name: str, tokens: str):
    """Without a context a candidate's log probability is the score of a text that is that line."""
    lm = made(name, tokens)
    lines = [f"{candidate}\n" for candidate in CANDIDATES]
    ranked = lm.rank(lines)
    assert sorted(text for text, _ in ranked) == sorted(lines)
    means = {per: dict(lm.rank(lines, per=per)) for per in ("token", "char")}
    for text, logp in ranked:
        score = lm.score(text=text)
        assert logp == pytest.approx(-(score.nats + score.spelling_nats), rel=1e-5)
        measures = {"token": score.tokens, "char": score.chars}
        for per, size in measures.items():
            assert means[per][text] == pytest.approx(logp / size, rel=1e-5)
    assert [logp for _, logp in ranked] == sorted((logp for _, logp in ranked), reverse=True)


@pytest.mark.parametrize("tokens", ["word", "char", "byte"])
def test_after_a_context_it_is_the_rest_of_the_score(tokens: str):
    lm = counted(tokens)
    for context, candidate in [("the cat ", "sat on"), ("the cat\n", "the dog"), ("", "a cat"), ("zebra ", "sat")]:
        ((_, logp),) = lm.rank([candidate], context)
        ids = lm.tokenizer.encode(context + candidate)
        logs, _ = lm.model.log_probs(ids.reshape(1, -1), lm.model.start(1))
        own = len(lm.tokenizer.encode(candidate))
        assert logp == pytest.approx(float(np.asarray(logs)[0, -own:].sum()), rel=1e-5)


def test_the_likelier_comes_first():
    lm = counted("word")
    shuffled = random.Random(1).sample(CANDIDATES, len(CANDIDATES))
    assert [text for text, _ in lm.rank(shuffled)] == [text for text, _ in lm.rank(CANDIDATES)]
    assert lm.rank(["cat the", "the cat"])[0][0] == "the cat"
    assert lm.rank(["mat", "fish", "cat"], "sat on the")[0][0] in ("mat", "cat")
    # the mean forgives length, the sum does not
    assert lm.rank(["the cat sat on the mat", "the"])[0][0] == "the"
    assert lm.rank(["the cat sat on the mat", "le"], per="token")[0][0] == "the cat sat on the mat"


def test_no_candidate_wins_by_being_unknown():
    lm = thereafter.train(
        text="the cat sat\nthe dog sat\na b c d e f g h\n" + "the cat ran\n" * 3, tokens="word", order=2
    )
    p_unknown, p_sat = (lm.distribution("the cat")[lm.tokenizer.vocabulary.index[form]] for form in ("<unk>", "sat"))
    assert p_unknown < p_sat
    assert lm.rank(["sat", "xyzzy"], "the cat")[0][0] == "sat"
    first = lm.distribution("\n")
    assert first[0] > first[lm.tokenizer.vocabulary.index["sat"]]  # lines do begin with unknown words here
    assert lm.rank(["sat", "xyzzy"], "\n")[0][0] == "sat"
    short, long = (dict(lm.rank([word], "the"))[word] for word in ("zz", "zzzzzzzz"))
    assert short > long


def test_rows_of_one_length_are_read_together(monkeypatch: pytest.MonkeyPatch):
    lm = counted("word")
    shapes: list[tuple[int, ...]] = []
    plain = type(lm.model).log_probs

    def log_probs(self: object, tokens: np.ndarray, state: object) -> object:
        shapes.append(tokens.shape)
        return plain(self, tokens, state)  # type: ignore[arg-type]

    monkeypatch.setattr(type(lm.model), "log_probs", log_probs)
    lm.rank(["the cat", "the dog", "a b c", "a cat", "a"])
    assert sorted(shapes) == [(1, 1), (1, 3), (3, 2)]
    shapes.clear()
    monkeypatch.setattr(ranking, "_TOKENS_AT_ONCE", 4)
    lm.rank(["the cat", "the dog", "a b c d e", "a cat"])
    assert sorted(shapes) == [(1, 2), (1, 5), (2, 2)]


def test_ties_and_edges():
    lm = counted("word")
    assert lm.rank([]) == []
    assert [text for text, _ in lm.rank(["the  cat", "the cat", " the cat"])] == ["the  cat", "the cat", " the cat"]
    sharp = thereafter.train(text="a b\n" * 3, tokens="word", order=2, smoothing="mle")
    assert sharp.rank(["b b", "a b"])[-1][1] == -math.inf
    lowered = thereafter.train(text="the cat\n" * 3, tokens="word", order=2, lower=True)
    assert lowered.rank(["THE Cat"])[0][1] == lowered.rank(["the cat"])[0][1]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda lm: lm.rank("the cat"), "candidates are one text, 'the cat'; expected several"),
        (lambda lm: lm.rank(["a", " "]), "candidate 2 is ' ', which holds no tokens"),
        (lambda lm: lm.rank(["a"], per="sentences"), "did you mean 'sentence'"),
    ],
    ids=["one text", "an empty candidate", "a wrong measure"],
)
def test_mistakes(call: object, said: str):
    with pytest.raises(OptionError, match=said):
        call(counted("word"))  # type: ignore[operator]
