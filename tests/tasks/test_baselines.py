"""Simple models beside a result: they are what they are called, learn from the same examples, and are printed."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pytest
from toys import labelled, sentences, tagged

import thereafter
from refusals import assert_refused
from thereafter.cli import main
from thereafter.errors import FormatError, SourceError
from thereafter.tasks import TASKS, answering, finding
from thereafter.tasks.classify import NaiveBayes
from thereafter.tasks.labelling import measure_classes
from thereafter.tasks.tag.chains import HiddenMarkov
from thereafter.text.conll import read_tagged
from thereafter.text.labelled import read_labelled

TINY: dict[str, Any] = {"embed": 8, "hidden": 8, "epochs": 2, "rate": 0.02, "dropout": 0.0, "seed": 1}
KEPT = slice(0, 180)  # of 200 examples the last tenth validates, and nothing learns from it


def test_beside_a_tagger_stands_a_hidden_markov_model_of_the_same_examples(tmp_path: Path):
    train, test = tagged(tmp_path / "train.txt"), tagged(tmp_path / "test.txt", 40, seed=2)
    model = thereafter.train(train, task="tag", layers=1, letters="none", **TINY)
    ((name, found),) = model.baselines(test)
    assert name == "hidden Markov model"
    hmm = HiddenMarkov().fit((one.words, one.tags) for one in read_tagged(train)[KEPT])
    answers = [hmm.tag(one.words) for one in read_tagged(test)]
    right = sum(
        a == b for one, row in zip(read_tagged(test), answers, strict=True) for a, b in zip(one.tags, row, strict=True)
    )
    assert found.tags.right == right
    # the same words are unknown to both, since both met the same
    assert found.unknown.total == model.score(test).unknown.total


def test_unknown_words_were_never_met_and_rare_ones_seldom(tmp_path: Path):
    train, test = tmp_path / "train.txt", tmp_path / "test.txt"
    rows = ["the\tD", "Once\tA", *["five\tN"] * 5, *["often\tA"] * 6]
    train.write_text("\n\n".join([*rows, "last\tN", "last\tN"]) + "\n", encoding="utf-8")
    test.write_text("The\tD\nonce\tA\nfive\tN\noften\tA\nnever\tA\nlast\tN\n", encoding="utf-8")
    model = thereafter.train(train, task="tag", layers=1, letters="none", **TINY)
    for one in (model, thereafter.load(model.save(tmp_path / "run"))):
        found = one.score(test)
        # the two last sentences validate: "last" and "never" were not met; "the", "once" and "five" seldom
        assert (found.unknown.total, found.known.total, found.rare.total) == (2, 4, 3)
        assert ", rare words " in str(found)


def test_beside_a_classifier_stand_naive_bayes_and_a_convolution(tmp_path: Path):
    train, test = labelled(tmp_path / "train.tsv", 200), labelled(tmp_path / "test.tsv", 60, seed=2)
    model = thereafter.train(train, task="classify", **TINY)
    rows = dict(model.baselines(test))
    assert list(rows) == ["Naive Bayes", "1-D convolution"]
    learned, asked = read_labelled(train)[KEPT], read_labelled(test)
    bayes = NaiveBayes.fit([one.text.split() for one in learned], [one.label for one in learned], binary=True)
    by_hand = measure_classes([one.label for one in asked], bayes.predict(one.text.split() for one in asked))
    assert rows["Naive Bayes"].counts == by_hand.counts
    convolution = thereafter.train(train, task="classify", encoder="cnn", **TINY)
    assert rows["1-D convolution"].counts == convolution.score(test).counts
    assert [name for name, _ in convolution.baselines(test)] == ["Naive Bayes"]  # it stands there itself
    assert [name for name, _ in model.baselines(test, trained=False)] == ["Naive Bayes"]


def test_beside_a_filler_stand_the_frequent_words_and_the_left_side_alone(tmp_path: Path):
    train, test = sentences(tmp_path / "train.txt", 200), sentences(tmp_path / "test.txt", 30, seed=2)
    model = thereafter.train(train, task="fill", **TINY)
    rows = dict(model.baselines(test))
    assert list(rows) == ["most frequent words", "left side alone"]
    assert str(rows["left side alone"]) == str(thereafter.train(train, task="fill", sides="left", **TINY).score(test))
    words = [word for line in train.read_text().splitlines()[KEPT] for word in line.split()]
    asked = test.read_text().split()
    p = {word: words.count(word) / (len(words) + 1) for word in set(words)}
    frequent = rows["most frequent words"]
    assert frequent.perplexity == pytest.approx(math.exp(-sum(math.log(p[word]) for word in asked) / len(asked)))
    assert frequent.first == asked.count("the")
    best = sorted(p, key=p.get, reverse=True)[:5]
    assert frequent.fifth == sum(map(asked.count, best))
    assert "by their frequency alone" in str(frequent)


def test_a_strange_label_and_changed_examples_are_noticed(tmp_path: Path):
    train, test = labelled(tmp_path / "train.tsv", 40), labelled(tmp_path / "test.tsv", 20, seed=2)
    model = thereafter.train(train, task="classify", **TINY)
    strange = tmp_path / "strange.tsv"
    strange.write_text("a dull film\tbad\na film\tgood\nthe film\tstrange\none film\tbad\n", encoding="utf-8")
    with assert_refused(FormatError, 3, "strange.tsv", "strange"):
        model.baselines(strange, trained=False)
    task = TASKS.load("classify")
    part = finding.find(task, train, "train")
    assert [name for name, _ in answering.baseline_rows(task, part, part)] == ["Naive Bayes"]
    labelled(train, 41)
    with assert_refused(SourceError, train):
        model.baselines(test)


def test_translators_have_no_simple_models_and_nothing_is_read_for_them():
    nothing = finding.Part("none", (), [], "")
    assert answering.baseline_rows(TASKS.load("translate"), nothing, nothing) == []


def test_the_command_prints_them_under_the_result(
    tmp_path: Path,
    corpora_folder: Path,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    """sst2 has a test part; a training of one step is enough to see the table."""

    def shell(*words: object) -> str:
        monkeypatch.setattr(sys, "argv", ["thereafter", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        assert not stop.value.code, err
        return out

    command = ("train", "sst2", "--task", "classify", "--hidden", 4, "--set", "embed=4", "--tokens-budget", 32)
    lines = shell(*command, "--out", tmp_path / "run").splitlines()
    at = next(place for place, line in enumerate(lines) if line.startswith("test"))
    assert lines[at].startswith("test       this model       accuracy")
    bayes = "82.15 % (1,496 of 1,821)" if "classic" in request.node.name else ""
    assert lines[at + 1].startswith(f"           Naive Bayes      accuracy {bayes}")
    assert lines[at + 2].startswith("           1-D convolution  accuracy")
    assert lines[at + 3].startswith("mistakes   ")
    assert "predicted as" in lines[at + 3]
    out = shell(*command, "--out", tmp_path / "other", "--no-baselines")
    assert "this model" in out
    assert "Bayes" not in out
    out = shell("predict", tmp_path / "run", "a fine film", "a dull film", "--explain")
    assert out.splitlines()[0] == "a fine film"
    assert out.splitlines()[2].split()[0] == "a"
    assert len(out.splitlines()) == 10
    assert set(shell("predict", tmp_path / "run", "a fine film", "a dull film").split()) <= {"0", "1"}
