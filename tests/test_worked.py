"""Worked numbers of books and articles that teach this: the rows on counting, text and scores.

Where a text's own arithmetic slips, the right value is asserted and the slip is named.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import thereafter
from thereafter.ngram.model import estimate
from thereafter.text.sources import Source
from thereafter.text.tokenizers.byte_level import CharTokenizer
from thereafter.training.blocks import Blocks, partition, stream

FOUR_SENTENCES = "the cat sat on the mat\nthe cat ate the fish\nthe dog sat on the mat\nthe dog ate the bone\n"

# A text with exactly the counts of Ruwen Qin's module “Recurrent Neural Networks”: words 50, 20, 10, 5;
# pairs 15, 8, 3; triples 5, 2.
THE, TIME, TRAVELER, ARRIVED = range(4)
TRAVELLER_TEXT = np.array(
    [TIME, TIME]
    + [THE, TIME] * 10
    + [THE, TIME, TRAVELER, TIME, TRAVELER] * 3
    + [THE, TIME, TRAVELER, ARRIVED] * 2
    + [THE, TRAVELER, ARRIVED, THE, TRAVELER]
    + [THE] * 33
    + [ARRIVED, ARRIVED]
)


def made_of(probabilities: list[float]) -> thereafter.Score:
    nats = -sum(map(math.log, probabilities))
    return thereafter.Score("given", len(probabilities), 1, 0, 1, 1, nats, 0.0, 2, "word", "line")


@pytest.fixture
def bigrams() -> thereafter.LanguageModel:
    return thereafter.train(text=FOUR_SENTENCES, tokens="word", order=2, smoothing="mle", min_count=1)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (1, 9.5784e-4),  # the text prints 9.58e-5
        (2, 0.0211765),
        (3, 0.0147059),  # the text prints 0.0145
    ],
)
def test_module_the_time_traveler_arrived(order: int, expected: float):
    sentence = np.array([[THE, TIME, TRAVELER, ARRIVED]])
    unigram = estimate(TRAVELLER_TEXT, 4, order=1, smoothing="mle")
    model = estimate(TRAVELLER_TEXT, 4, order=order, smoothing="mle")
    first, _ = unigram.log_probs(sentence[:, :1], unigram.start(1))
    # The text opens with P(the), not with P(the | <s>), so the rest is scored from "the" on.
    _, state = model.log_probs(sentence[:, :1], model.start(1))
    rest, _ = model.log_probs(sentence[:, 1:], state)
    assert math.exp(first.sum() + rest.sum()) == pytest.approx(expected, rel=1e-5)


def test_module_partition_for_every_length_step_and_offset():
    """m pairs of n tokens from the offset d on, the targets one ahead; before the first token stands <s>."""
    for total in range(6, 40):
        blocks = Blocks(np.arange(total), -1, torch.device("cpu"))
        for n in range(1, 6):
            for epoch in range(n + 1):
                plan = partition(total, total, n, epoch=epoch)
                pairs, d = blocks.cut(plan, 0), int(plan.starts_R.min())
                m = (total - d) // n
                assert 0 <= d < n
                assert pairs.inputs_BT.shape == pairs.targets_BT.shape == (m, n)
                assert torch.equal(pairs.targets_BT, pairs.inputs_BT + 1)
                assert np.array_equal(np.sort(pairs.targets_BT[:, 0].numpy()), d + n * np.arange(m))


def test_module_cross_entropy_and_perplexity_of_seventy_percent():
    score = made_of([0.70])
    assert score.nats == pytest.approx(0.356675, abs=5e-7)
    assert score.perplexity == pytest.approx(1.428571, abs=5e-7)


def test_lecture_hello_gives_four_pairs():
    tokenizer = CharTokenizer.fit(Source.of_text("hello").chunks, min_count=1)
    ids = tokenizer.encode("hello")
    block = Blocks(ids, tokenizer.start_id, torch.device("cpu")).cut(stream(len(ids), batch=1, steps=10), 0)
    read, targets = block.inputs_BT[0, 1:].tolist(), block.targets_BT[0, 1:].tolist()  # the first is read after <s>
    pairs = [(tokenizer.decode([x]), tokenizer.decode([y])) for x, y in zip(read, targets, strict=True)]
    assert pairs == [("h", "e"), ("e", "l"), ("l", "l"), ("l", "o")]


def test_article_cat_follows_the_in_two_of_eight(bigrams: thereafter.LanguageModel):
    """The text says 10 and 0.20; "the" begins 8 pairs, and with 8 its row sums to 1."""
    assert dict(bigrams.next("the", k=10))["cat"] == pytest.approx(2 / 8)
    assert bigrams.distribution("the").sum() == pytest.approx(1)
    counts = {piece: round(8 * p) for piece, p in bigrams.next("the", k=5)}
    assert counts == {"cat": 2, "dog": 2, "mat": 2, "fish": 1, "bone": 1}


def test_article_the_fish_never_ate(bigrams: thereafter.LanguageModel):
    """The text says 0.05; "fish" is followed by nothing, so the plain bigram model says 0."""
    assert bigrams.score(text="the fish ate").perplexity == math.inf
    assert dict(bigrams.next("the fish", k=20))["ate"] == 0.0
    smoothed = thereafter.train(text=FOUR_SENTENCES, tokens="word", order=2, min_count=1)
    assert smoothed.score(text="the fish ate").perplexity < math.inf


def test_article_three_probabilities():
    score = made_of([0.07, 0.002, 0.05])
    assert score.nats / score.tokens == pytest.approx(3.956533, abs=5e-7)
    assert score.perplexity == pytest.approx(52.2758, abs=5e-5)
    assert -score.nats == pytest.approx(-11.8696, abs=5e-5)
