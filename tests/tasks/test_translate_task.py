"""Translating from end to end: sequences are reversed, runs saved and resumed, files read, mistakes told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from toys import LETTERS, assert_resumed_to_the_bit, reversed_pairs

import thereafter
from refusals import assert_refused
from thereafter.base import progress
from thereafter.errors import FormatError, OptionError, SourceError
from thereafter.tasks.lexicon import Wording
from thereafter.tasks.translate import measures
from thereafter.tasks.translate.task import TRANSLATING, TranslatorSettings
from thereafter.text.sources import Source, Texts
from thereafter.text.tables import SentencePair

TINY: dict[str, Any] = {"tokens": "word", "min_count": 1, "embed": 8, "hidden": 8, "heads": 2, "seed": 1}
TOY: dict[str, Any] = {"tokens": "word", "min_count": 1, "dropout": 0.0, "label_smoothing": 0.0, "batch": 32, "seed": 1}


class Noting:
    """A reporter that collects notes."""

    def __init__(self, notes: list[str]) -> None:
        self.note = notes.append

    def begin(self, label: str, total: float | None, unit: str) -> progress.Advance:
        return lambda amount, status="": None

    def end(self, label: str) -> None: ...


@pytest.mark.parametrize(
    "options",
    [
        {"embed": 32, "hidden": 64, "attention": "additive", "rate": 0.005, "epochs": 5},
        pytest.param(
            {"embed": 32, "hidden": 64, "attention": "bilinear", "cell": "lstm", "rate": 0.005, "epochs": 9},
            marks=pytest.mark.wide,
        ),
        pytest.param(
            {"model": "transformer", "hidden": 32, "heads": 4, "layers": 2, "rate": 0.005, "epochs": 10},
            marks=pytest.mark.wide,
        ),
    ],
    ids=["additive", "bilinear-lstm", "transformer"],
)
def test_sequences_are_reversed(tmp_path: Path, options: dict[str, Any]):
    model = thereafter.train(reversed_pairs(tmp_path / "train.tsv", 1500), task="translate", **TOY | options)
    test = reversed_pairs(tmp_path / "test.tsv", 100, seed=2)
    for beam in (1, 4):
        found = model.score(test, beam=beam)
        assert found.exact > 0.9
        assert found.words > 0.95
    assert model.predict("a b d e k") == "k e d b a"
    assert model.predict(["a", "b a"], beam=3) == ["a", "a b"]
    shown: Any = model.explain("a b d e")
    assert shown.answer == "e d b a"
    assert shown.source == ("a", "b", "d", "e", "</s>")
    assert shown.target == ("e", "d", "b", "a", "</s>")
    assert shown.weights.shape == (5, 5)
    assert np.allclose(shown.weights.sum(1), 1)
    assert json.loads(json.dumps(shown.as_dict()))["said"] == list(shown.target)
    if options.get("attention") == "additive":  # it looks where the word is that it says
        assert shown.weights[:4].argmax(1).tolist() == [3, 2, 1, 0]
        assert str(shown).splitlines()[1].startswith("  e     e ")


def test_without_attention_a_short_sequence_passes_through_one_state(tmp_path: Path):
    source = reversed_pairs(tmp_path / "train.tsv", 600, letters=LETTERS[:6], longest=3)
    options = {"attention": "none", "embed": 32, "hidden": 64, "rate": 0.005, "epochs": 10}
    model = thereafter.train(source, task="translate", **TOY | options)
    assert model.score(reversed_pairs(tmp_path / "test.tsv", 60, 2, LETTERS[:6], 3)).words > 0.95


@pytest.mark.parametrize("options", [{"tokens": "bpe", "vocabulary": 270, "shared": True}, {"model": "transformer"}])
def test_saved_and_loaded_it_answers_the_same(tmp_path: Path, options: dict[str, Any]):
    source = reversed_pairs(tmp_path / "train.tsv", 40)
    model = thereafter.train(source, task="translate", epochs=1, out=tmp_path / "run", **TINY | options)
    for place in (tmp_path / "run", model.save(tmp_path / "copy")):
        again = thereafter.load(place)
        assert again.config["translate"] == model.config["translate"]
        assert again.net.limit == model.net.limit
        for name, weight in again.net.state_dict().items():
            assert torch.equal(weight, model.net.state_dict()[name])
        assert again.score(source, beam=2) == model.score(source, beam=2)


def test_a_training_that_was_broken_off_goes_on_to_the_same_weights(tmp_path: Path):
    pairs = [line.split("\t") for line in reversed_pairs(tmp_path / "all.tsv", 60).read_text().splitlines()]
    for side, name in enumerate(("a.de", "a.en")):
        (tmp_path / name).write_text("".join(f"{pair[side]}\n" for pair in pairs))
    source = f"{tmp_path / 'a.de'},{tmp_path / 'a.en'}"
    options = TINY | {"epochs": 2, "batch": 8, "own_words": 0.5, "own_words_schedule": "linear"}
    assert_resumed_to_the_bit(tmp_path / "run", "translate", source, step=9, **options)


def test_pairs_come_in_one_file_or_two_and_in_either_direction(tmp_path: Path):
    one, de, en = tmp_path / "both.tsv", tmp_path / "a.de", tmp_path / "a.en"
    one.write_text("eins zwei\tone two\ndrei\tthree\n")
    de.write_text("eins zwei\ndrei\n")
    en.write_text("one two\nthree\n")
    expected = [SentencePair("eins zwei", "one two"), SentencePair("drei", "three")]
    assert TRANSLATING.read([one]) == TRANSLATING.read([de, en]) == expected
    turned = TRANSLATING.configured(TranslatorSettings(languages="2-1")).read([one])
    assert turned == [SentencePair(pair.target, pair.source) for pair in expected]
    with assert_refused(SourceError, 3):
        TRANSLATING.read([one, de, en])
    de.write_text("eins zwei\ndrei\nvier\n")
    with assert_refused(FormatError, "a.de", 3, "a.en", 2):
        thereafter.train([de, en], task="translate", **TINY)


PIECES = ("bpe", "wordpiece", "unigram")


@pytest.mark.parametrize("tokens", ["prose", "word", "bpe", "wordpiece", "unigram", "char"])
def test_a_sentence_is_written_as_it_was_read(tokens: str):
    text = "Ein Mann, der (nicht) geht."
    side = Wording.fit([text, text], tokens, min_count=1, vocabulary=280 if tokens in PIECES else 0)
    ids = side.encode(text)
    assert ids[-1] == 0
    assert side.decode(ids) == text
    assert side.forms(ids)[-1] == "</s>"
    assert side.decode(side.encode(f"  {text} ")) == text
    again = Wording.from_json(side.to_json())
    assert again.encode(text).tolist() == ids.tolist()
    assert len(again) == len(side) > int(ids.max())


def test_first_and_later_words_are_one_form():
    side = Wording.fit(["the cat and the dog"], "prose", min_count=1)
    ids = side.encode("the cat and the dog").tolist()
    assert ids[0] == ids[3]


def test_a_sentence_of_thousands_of_tokens_is_read_up_to_the_longest_and_told(tmp_path: Path):
    source = reversed_pairs(tmp_path / "train.tsv", 30)
    with open(source, "a") as file:
        file.write(f"a b\t{'a b ' * 2500}\n{'b ' * 5000}\ta\n")
    notes: list[str] = []
    with progress.reporting(Noting(notes)):
        model = thereafter.train(source, task="translate", epochs=1, longest=20, valid=source, **TINY)
        assert model.predict("b " * 5000) is not None
    assert any("2 of 32 pairs" in note and "5,000 (line 31" in note and "longest=20" in note for note in notes)
    lexicons = model.codecs
    pairs = model.task.read([source])
    assert int(model.task.lengths(pairs, lexicons).max()) == 21
    assert model.task.targets(pairs[30:31], lexicons) == 20  # it has no end there
    assert model.task.batch(pairs, lexicons).target_BT.shape == (32, 20)
    assert model.net.limit == 21


def test_measured_without_sacrebleu_there_are_the_shares_and_the_answers(monkeypatch: pytest.MonkeyPatch):
    pairs = [SentencePair("x", "A b c"), SentencePair("y", "d e")]
    lexicons = TRANSLATING.codecs(pairs)
    with_bleu = TRANSLATING.measure(pairs, ["a b c", "d x"], lexicons)
    assert (with_bleu.exact, with_bleu.words) == (0.5, 0.8)
    assert with_bleu.translation is not None
    assert "case:lc" in str(with_bleu)
    assert "tok:13a" in str(with_bleu)
    monkeypatch.setattr(measures, "installed", lambda name: False)
    found = TRANSLATING.measure(pairs, ["a b c", "d x"], lexicons)
    assert found.as_dict() == {"exact": 0.5, "words": 0.8, "sentences": 2, "answers": ["a b c", "d x"]}
    assert "sacrebleu is not installed" in str(found)


def test_the_languages_of_a_corpus_are_chosen():
    task = TRANSLATING.configured(TranslatorSettings(languages="de-en"))
    names = ("train.en", "train.de", "test.en", "test.de")
    texts = Texts("corpus", {name: Source(name, (Path(name),)) for name in names}, kind="pairs")
    found = task.part(texts, "train")
    assert found is not None
    assert found.files == (Path("train.de"), Path("train.en"))
    assert found.name == "corpus:train de-en"
    assert task.part(texts, "valid") is None
    assert task.part(Texts("file", {"text": Source("file")}), "train") is None
    for wrong in ("", "de", "de-fr", "en-en"):
        with assert_refused(OptionError, "en", "de", "languages='de-en'"):
            TRANSLATING.configured(TranslatorSettings(languages=wrong)).part(texts, "train")


def test_mistakes_are_sentences(tmp_path: Path):
    source = reversed_pairs(tmp_path / "train.tsv", 20)
    model = thereafter.train(source, task="translate", epochs=1, **TINY)
    with pytest.raises(OptionError, match="no words"):
        model.predict("  ")
    with assert_refused(OptionError, "beem", "beam"):
        model.predict("a", beem=3)
    with assert_refused(OptionError, "beam", 0):
        model.predict("a", beam=0)
    empty = tmp_path / "empty.tsv"
    empty.write_text("a b\tb a\na\t \n")
    with assert_refused(FormatError, 2, "empty.tsv"):
        model.score(empty)
    ragged = tmp_path / "ragged.tsv"
    ragged.write_text("a b\tb a\na\n")
    with assert_refused(FormatError, 2, "ragged.tsv", 1):
        thereafter.train(ragged, task="translate", **TINY)
    assert np.isfinite(model.log[-1]["validation"])
