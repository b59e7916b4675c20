"""Classifying from end to end: rules are learned by every reader and pooling, saved, resumed to the bit, explained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from toys import keyword_of, labelled, parity_of

import thereafter
from refusals import assert_refused
from thereafter.errors import EmptyCorpusError, FormatError, OptionError, SourceError
from thereafter.tasks.classify import POOLINGS
from thereafter.tasks.lexicon import Lexicon

SMALL: dict[str, Any] = {"embed": 8, "hidden": 8, "rate": 0.02, "dropout": 0.1, "drop_words": 0.0, "seed": 1}
READERS: dict[str, dict[str, Any]] = {pooling: {"pooling": pooling} for pooling in POOLINGS} | {
    "cnn": {"encoder": "cnn"}
}


@pytest.mark.parametrize(
    "reader",
    [reader if reader in ("attention", "cnn") else pytest.param(reader, marks=pytest.mark.wide) for reader in READERS],
)
def test_every_reader_learns_which_word_is_there(tmp_path: Path, reader: str):
    source = labelled(tmp_path / "train.tsv", 200)
    model = thereafter.train(source, task="classify", epochs=4, **SMALL | READERS[reader])
    found = model.score(labelled(tmp_path / "test.tsv", 60, seed=2))
    assert found.accuracy > 0.97
    texts = ["gripping", "the film was dull", "one gripping film"]
    assert model.predict(texts) == [keyword_of(text) for text in texts]
    assert model.predict("dull") == "bad"


def test_an_order_that_no_bag_of_words_knows_is_learned(tmp_path: Path):
    """Parity: the state of a recurrent network turns at every "not"."""
    source = labelled(tmp_path / "train.tsv", 400, rule="parity", longest=5)
    options = SMALL | {"encoder": "gru", "hidden": 16, "pooling": "last", "dropout": 0.0}
    model = thereafter.train(source, task="classify", epochs=25, **options)
    texts = ["not", "not so not", "so not so not not", "so so", "so so not not not"]
    assert model.predict(texts) == [parity_of(text) for text in texts]


@pytest.fixture(scope="module")
def keyword(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has learned which word is there."""
    folder = tmp_path_factory.mktemp("keyword")
    thereafter.train(labelled(folder / "train.tsv"), task="classify", epochs=4, out=folder / "run", **SMALL)
    return folder / "run"


def test_an_explanation_names_the_label_its_probability_and_the_word_that_mattered(keyword: Path):
    model = thereafter.load(keyword)
    found = model.explain("The film was GRIPPING at noon")
    assert found.label == "good" == model.predict("The film was GRIPPING at noon")
    assert list(found.probabilities) == ["good", "bad"]
    assert sum(found.probabilities.values()) == pytest.approx(1.0)
    assert found.words == ("the", "film", "was", "gripping", "at", "noon")
    assert max(found.words, key=lambda word: found.evidence[found.words.index(word)]) == "gripping"
    assert sum(found.weights) == pytest.approx(1.0)
    first, *others = str(found).splitlines()
    assert first == f"good {100 * found.probabilities['good']:.1f} %, bad {100 * found.probabilities['bad']:.1f} %"
    assert others[3].split()[0] == "gripping"
    assert others[3].endswith("+" * 20)
    told = json.loads(json.dumps(found.as_dict()))
    assert told["label"] == "good"
    assert told["words"][3] == {"word": "gripping", "evidence": found.evidence[3], "weight": found.weights[3]}
    several = model.explain(["dull", "the film was gripping at noon"])
    assert [one.label for one in several] == ["bad", "good"]
    assert several[1].evidence == pytest.approx(found.evidence, abs=1e-6)


def test_mistakes_are_sentences(tmp_path: Path, keyword: Path, corpora_folder: Path):
    model = thereafter.load(keyword)
    other = tmp_path / "other.tsv"
    other.write_text("a fine film\tgood\na strange film\tstrange\n", encoding="utf-8")
    with assert_refused(FormatError, 2, "other.tsv", "strange", "bad", "good"):
        model.score(other)
    other.write_text("a fine film\tgood\n\t\n", encoding="utf-8")
    assert model.score(other).total == 1
    other.write_text("a fine film\tgood\n \tbad\n", encoding="utf-8")
    with assert_refused(FormatError, 2, "other.tsv"):
        model.score(other)
    other.write_text("a fine film\n", encoding="utf-8")
    with assert_refused(FormatError, "other.tsv", 1):
        model.score(other)
    other.write_text("a film\tgood\nno\tfilm\tbad\n", encoding="utf-8")
    with assert_refused(FormatError, "other.tsv", 1, 2, 3):
        thereafter.train(other, task="classify")
    other.write_text("".join(f"{n}\tthe film {n}\n" for n in range(30)), encoding="utf-8")
    with assert_refused(FormatError, "other.tsv"):
        thereafter.train(other, task="classify")
    other.write_text("a film\tgood\n" * 4, encoding="utf-8")
    with assert_refused(OptionError, 1, 2):
        thereafter.train(other, task="classify")
    other.write_text("", encoding="utf-8")
    with assert_refused(EmptyCorpusError, "other.tsv"):
        thereafter.train(other, task="classify")
    with assert_refused(SourceError, "ud-english-ewt", "tagged", "labelled"):
        thereafter.train("ud-english-ewt", task="classify")
    with assert_refused(OptionError, "pooling", "sum", "last"):
        thereafter.train(other, task="classify", pooling="sum")
    for empty in ("", "  "):
        with pytest.raises(OptionError, match="has no words"):
            model.predict(["fine", empty])


def test_a_text_of_five_thousand_words_is_classified(keyword: Path):
    text = "the film was " * 1_700
    assert thereafter.load(keyword).predict([text + "gripping", "dull"]) == ["good", "bad"]


def test_counts_of_a_lexicon_come_back_and_damage_is_noticed():
    kept = Lexicon.fit({"the": 5, "cat": 1}, min_count=2, remember=True)
    again = Lexicon.from_json(json.loads(json.dumps(kept.to_json())))
    assert (again.forms, again.counts) == (["<pad>", "<unk>", "the"], {"the": 5, "cat": 1})
    assert "counts" not in Lexicon(["a"]).to_json()
    with pytest.raises(FormatError, match="expected a count for each form"):
        Lexicon.from_json(kept.to_json() | {"counts": {"the": "many"}})


def test_a_score_finds_the_column_of_the_labels_of_its_run(tmp_path: Path, keyword: Path):
    model = thereafter.load(keyword)
    plain = labelled(tmp_path / "test.tsv", 60, seed=2)
    rows = [line.split("\t") for line in Path(plain).read_text().splitlines()]
    table = "".join(f"{number % 2}\t{label}\t{text}\t{number % 3}\n" for number, (text, label) in enumerate(rows))
    (tmp_path / "wide.tsv").write_text(f"batch\topinion\twords\tstars\n{table}")
    assert model.score(tmp_path / "wide.tsv").as_dict() == model.score(plain).as_dict()
