"""Tagging from end to end: a rule is learned, saved, resumed to the bit, and padding never changes an answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from toys import tag_of, tagged

import thereafter
from refusals import assert_refused
from thereafter.errors import FormatError, OptionError, SourceError
from thereafter.language_model import load_language_model
from thereafter.tasks.batching import batches
from thereafter.tasks.tag.network import TaggerSettings
from thereafter.tasks.tag.task import TAGGING
from thereafter.text.conll import TaggedSentence

SMALL: dict[str, Any] = {"embed": 8, "hidden": 12, "layers": 1, "letter_embed": 8, "letter_hidden": 8, "rate": 0.02}


@pytest.mark.parametrize(
    "options",
    [{"crf": True}, pytest.param({"letters": "cnn", "cell": "gru"}, marks=pytest.mark.wide)],
    ids=["lstm-crf", "cnn-gru"],
)
def test_a_rule_about_letters_is_learned_for_words_never_met(tmp_path: Path, options: dict[str, Any]):
    source = tagged(tmp_path / "train.txt", 500)
    model = thereafter.train(source, task="tag", epochs=10, seed=1, dropout=0.1, **SMALL | options)
    found = model.score(tagged(tmp_path / "test.txt", 50, seed=2))
    assert found.accuracy > 0.97
    assert found.unknown.total > 100
    words = "Mosel muting adel lot5"
    assert model.predict(words) == [tag_of(word) for word in words.split()]
    assert model.predict(["Mosel", "adel muting"]) == [["CAP"], ["LOW", "ING"]]


@pytest.mark.parametrize("settings", [{"crf": True}, {"letters": "cnn"}, {"letters": "none", "cell": "elman"}])
def test_padding_changes_no_answer(settings: dict[str, Any]):
    sentences = [TaggedSentence(tuple("ab" * n), tuple("XY" * n)) for n in (1, 4, 2, 9)]
    lexicons = TAGGING.codecs(sentences)
    torch.manual_seed(0)
    net = TAGGING.build(TaggerSettings(embed=5, hidden=6, letter_embed=4, letter_hidden=3, **settings), lexicons).eval()
    together = net.scores(TAGGING.batch(sentences, lexicons))
    answers = net.decide(TAGGING.batch(sentences, lexicons))
    for row, sentence in enumerate(sentences):
        alone = TAGGING.batch([sentence], lexicons)
        torch.testing.assert_close(together[row, : len(sentence)], net.scores(alone)[0])
        assert net.decide(alone) == [answers[row]]
    with net.quietly():
        alone_nats = sum(float(net.nats(TAGGING.batch([one], lexicons))) for one in sentences)
        nats = float(net.nats(TAGGING.batch(sentences, lexicons)))
    assert nats == pytest.approx(alone_nats, rel=1e-5)


def test_every_example_once_an_epoch_and_no_batch_beyond_its_places():
    lengths = np.random.default_rng(0).integers(1, 60, 500)
    lengths[7] = 5_000
    for epoch in range(3):
        plan = batches(lengths, 16, 200, seed=4, epoch=epoch)
        assert sorted(plan.order_R.tolist()) == list(range(500))
        for k in range(len(plan)):
            rows = plan.examples(k)
            assert len(rows) == 1 or len(rows) * lengths[rows].max() <= 200
            assert len(rows) <= 16
        again = batches(lengths, 16, 200, seed=4, epoch=epoch)
        assert plan.order_R.tolist() == again.order_R.tolist()


def test_mistakes_are_sentences(tmp_path: Path, corpora_folder: Path):
    source = tagged(tmp_path / "train.txt", 20)
    with assert_refused(OptionError, "hiden", "hidden"):
        thereafter.train(source, task="tag", hiden=3)
    with assert_refused(OptionError, "tagg", "tag"):
        thereafter.train(source, task="tagg")
    with assert_refused(SourceError, "sst2", "labelled", "tagged"):
        thereafter.train("sst2", task="tag")
    model = thereafter.train(source, task="tag", epochs=1, out=tmp_path / "run", **SMALL)
    with pytest.raises(OptionError, match="no words"):
        model.predict("  ")
    other = tmp_path / "other.txt"
    other.write_text("cat\tANIMAL\n", encoding="utf-8")
    with assert_refused(FormatError, 1, "other.txt", "ANIMAL"):
        model.score(other)
    with assert_refused(FormatError, "tag", "thereafter predict"):
        load_language_model(tmp_path / "run")
