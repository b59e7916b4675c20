"""Explained tags: their probabilities are those of the network, whatever the head; and how it all is printed."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from toys import tagged

import thereafter
from thereafter.tasks.answers import LabelExplained, TagsExplained
from thereafter.tasks.tag.network import TaggerSettings
from thereafter.tasks.tag.task import TAGGING
from thereafter.text.conll import TaggedSentence

SENTENCES = [TaggedSentence(tuple("ab" * n), tuple("XY" * n)) for n in (1, 2)] + [TaggedSentence(("c",), ("Z",))]


@pytest.mark.parametrize("crf", [False, True], ids=["softmax", "crf"])
def test_probabilities_are_those_of_all_tag_sequences_added_up(crf: bool):
    lexicons = TAGGING.codecs(SENTENCES)
    torch.manual_seed(0)
    settings = TaggerSettings(embed=5, hidden=6, layers=1, letter_embed=4, letter_hidden=3, crf=crf)
    net = TAGGING.build(settings, lexicons).eval()
    if net.crf is not None:
        for weight in net.crf.parameters():
            torch.nn.init.normal_(weight)
    p_BTK = net.probabilities(TAGGING.batch(SENTENCES, lexicons))
    for row, one in enumerate(SENTENCES):
        batch = TAGGING.batch([one], lexicons)
        with torch.no_grad():
            z_TK = net.scores(batch)[0]
        expected_TK = torch.zeros_like(z_TK)
        for tags in itertools.product(range(3), repeat=len(one)):
            score = sum(z_TK[t, tag] for t, tag in enumerate(tags))
            if net.crf is not None:
                score = net.crf.score(z_TK[None], torch.tensor([tags]))[0].detach()
            for t, tag in enumerate(tags):
                expected_TK[t, tag] += score.exp()
        expected_TK /= expected_TK.sum(1, keepdim=True)
        torch.testing.assert_close(p_BTK[row, : len(one)], expected_TK, rtol=1e-4, atol=1e-6)
        assert not p_BTK[row, len(one) :].any()
        (explained,) = TAGGING.explain(net, batch, [one], lexicons)
        assert explained.words == one.words
        assert list(explained.tags) == TAGGING.answers(net, batch, lexicons)[0]
        for best, p_K in zip(explained.likeliest, expected_TK, strict=True):
            assert [p for _, p in best] == pytest.approx(sorted(p_K.tolist(), reverse=True), abs=1e-5)


def test_a_tagger_explains_a_sentence(tmp_path: Path):
    small: dict[str, Any] = {"embed": 8, "hidden": 8, "layers": 1, "letter_embed": 8, "letter_hidden": 8}
    model = thereafter.train(tagged(tmp_path / "train.txt", 100), task="tag", epochs=2, rate=0.02, seed=1, **small)
    found = model.explain("Zzzq muting")
    assert found.words == ("Zzzq", "muting")
    assert found.known[0] is False
    assert list(found.tags) == model.predict("Zzzq muting")
    assert [best[0][0] for best in found.likeliest] == list(found.tags)
    assert len(found.likeliest[0]) == 3
    told = json.loads(json.dumps(found.as_dict()))
    assert told["words"][0]["known"] is False
    assert told["words"][1]["likeliest"][0][0] == found.tags[1]
    several = model.explain(["muting", "Zzzq muting"])
    assert [one.words for one in several] == [("muting",), ("Zzzq", "muting")]


def test_explanations_read_well():
    tags = TagsExplained(("the", "gnu"), ("DET", "N"), ((("DET", 0.98),), (("N", 0.7), ("V", 0.25))), (True, False))
    assert str(tags).splitlines() == ["  the DET  DET 98.0 %", "  gnu N    N 70.0 %, V 25.0 %  (unknown word)"]
    label = LabelExplained("good", {"good": 0.75, "bad": 0.25}, ("not", "bad"), (1.5, -0.75), (0.5, 0.5))
    assert str(label).splitlines() == [
        "good 75.0 %, bad 25.0 %",
        "  not   +1.500 ++++++++++++++++++++",
        "  bad   -0.750 ----------",
    ]
