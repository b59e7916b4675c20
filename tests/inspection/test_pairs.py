"""Minimal pairs: any model, any pair file; sums against those of whole scores, verdicts against those of agreement."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import thereafter
from refusals import assert_refused
from thereafter import instruments
from thereafter.cli import app
from thereafter.errors import EmptyCorpusError, EncodingError, FormatError, OptionError
from thereafter.evaluation.agreement import measure_agreement, verdicts
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.memory import agreement
from thereafter.inspection.pairs import Pair, read_pairs, score_each
from thereafter.inspection.sentence_reader import SentenceReader
from thereafter.text.agreement import sentences

TRAIN = "".join(f"{one.text}\n" for one in sentences(300, seed=5, max_distance=6))
TEST = list(sentences(40, seed=5, part="test", max_distance=6))


def reader_of(lm: Any) -> SentenceReader:
    return SentenceReader.of(lm.model, lm.tokenizer, lm.config)


@pytest.fixture(scope="module")
def ngram() -> Any:
    return thereafter.train(text=TRAIN, tokens="word", order=3)


@pytest.mark.parametrize(
    "options",
    [
        {"tokens": "word", "order": 3},
        {"tokens": "prose", "order": 3},
        {"tokens": "char", "model": "lstm", "hidden": 8, "epochs": 0.05},
        {"tokens": "word", "model": "gru", "hidden": 8, "epochs": 0.05, "context": "stream"},
    ],
    ids=["word", "prose", "letters", "stream"],
)
def test_a_difference_is_that_of_two_whole_scores(options: dict[str, Any]):
    """log p of a sentence, its line end and its spelling as `score` counts them, after a line end in a stream."""
    lm = thereafter.train(text=TRAIN[:4000], **options)
    pairs = [Pair(TEST[0].text, TEST[1].text), Pair("the zebras sleep", "the dog quabbles .")]
    begin = "" if lm.config["text"]["context"] == "line" else "\n"

    def nats(sentence: str) -> float:
        scored = lm.score(text=f"{begin}{sentence}\n")
        return scored.nats + scored.spelling_nats

    wanted = [nats(pair.bad) - nats(pair.good) for pair in pairs]
    np.testing.assert_allclose(score_each(reader_of(lm), pairs).differences_K, wanted, rtol=1e-4, atol=1e-3)


def test_beginnings_have_the_verdicts_of_agreement(ngram: Any):
    pairs = [Pair(one.right, one.wrong) for one in TEST]
    found = score_each(reader_of(ngram), pairs, whole=False).differences_K
    marks = np.where(found == 0, 0.5, found > 0)
    known = [one.correct_form in ngram.tokenizer.ordinary_forms and one.wrong_form in ngram.tokenizer.ordinary_forms
             for one in TEST]  # fmt: skip
    wanted = verdicts(ngram.model, ngram.tokenizer, TEST, context="line")
    assert sum(known) > 30
    np.testing.assert_array_equal(marks[known], wanted[known])


class Rule:
    """A model whose log p of a row is minus the sum of its token ids: every difference is known beforehand."""

    def __init__(self, size: int) -> None:
        self.vocabulary_size = size

    def start(self, batch: int) -> Rule:
        return self

    def select(self, index: np.ndarray) -> Rule:
        return self

    def log_probs(self, tokens_BT: np.ndarray, state: Rule) -> tuple[np.ndarray, Rule]:
        return -tokens_BT.astype(np.float64), state


def test_groups_ties_and_means_are_counted(ngram: Any):
    tokenizer = thereafter.train(text="a b c d\n", tokens="word", order=1, min_count=1).tokenizer
    a, b, c, d = (int(tokenizer.encode(word)[0]) for word in "abcd")
    pairs = [
        Pair("a b", "c d", {"field": "one", "UID": "x"}),
        Pair("c d", "a b", {"field": "one", "UID": "y"}),
        Pair("a b", "b a", {"field": "two", "UID": "x"}),
        Pair("a", "a d", {}),
    ]
    reader = SentenceReader(Rule(len(tokenizer.vocabulary)), tokenizer, "line")  # type: ignore[arg-type]
    found = score_each(reader, pairs, name="four").measurement()
    gap = float(c + d - a - b)
    rows = {
        (by, group): (accuracy, nats, total)
        for by, group, accuracy, nats, total in zip(
            *(found[name].tolist() for name in ("by", "group", "accuracy", "nats", "total")), strict=True
        )
    }
    assert rows == {
        ("", "all"): (2.5 / 4, d / 4, 4),
        ("field", "one"): (0.5, 0.0, 2),
        ("field", "two"): (0.5, 0.0, 1),
        ("UID", "x"): (0.75, gap / 2, 2),
        ("UID", "y"): (0.0, -gap, 1),
    }
    assert found.about["text"] == "4 pairs of four"


def test_impossible_sentences_are_ties(tmp_path: Path):
    lm = thereafter.train(text="a b\n" * 5 + "b a\n", tokens="word", order=2, smoothing="mle")
    found = score_each(reader_of(lm), [Pair("a a", "b b"), Pair("a b", "b b")]).measurement()
    assert found["accuracy"].tolist() == [0.75]
    assert found["nats"].tolist() == [np.inf]
    assert Measurement.load(found.save(tmp_path / "pairs.npz"))["nats"].tolist() == [np.inf]


def test_both_kinds_of_file_are_read_in_any_encoding(tmp_path: Path):
    tabs = "the dogs bark\tthe dogs barks\r\n\nun élève lit \t un élève lisent\n"
    wanted = [Pair("the dogs bark", "the dogs barks"), Pair("un élève lit", "un élève lisent")]
    for name, content in {
        "plain.tsv": tabs.encode(),
        "wide.tsv": tabs.encode("utf-16"),
        "packed.tsv": gzip.compress(tabs.encode()),
    }.items():
        (tmp_path / name).write_bytes(content)
        assert read_pairs(tmp_path / name) == wanted
    (tmp_path / "old.tsv").write_bytes(tabs.encode("latin-1"))
    assert read_pairs(tmp_path / "old.tsv", encoding="latin-1") == wanted
    with assert_refused(EncodingError, "--encoding latin-1"):
        read_pairs(tmp_path / "old.tsv")
    row = {"sentence_good": "Who left?", "sentence_bad": "Who leave?", "field": "syntax", "UID": "u1", "pairID": "0"}
    (tmp_path / "blimp.jsonl").write_text(json.dumps(row) + "\n")
    assert read_pairs(tmp_path / "blimp.jsonl") == [Pair("Who left?", "Who leave?", {"field": "syntax", "UID": "u1"})]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("one sentence", "line 2 of .* has no tab; expected two sentences with one tab between them, or a .csv"),
        ("a\tb\tc", "line 2 of .* has 3 parts"),
        ("a\t ", "line 2 of .* has an empty sentence"),
        ('{"sentence_good": "a"', "line 2 of .* begins like JSON and is not"),
        ('{"sentence_good": "a \\ud800", "sentence_bad": "b"}', "line 2 of .* has a lone surrogate"),
        ('{"sentence_good": "a", "x": 1}', "line 2 of .* lacks sentence_good or sentence_bad as text; it has"),
    ],
)
def test_a_line_without_a_pair_is_named(tmp_path: Path, line: str, said: str):
    (tmp_path / "pairs.tsv").write_text(f"good\tbad\n{line}\n")
    with pytest.raises(FormatError, match=said):
        read_pairs(tmp_path / "pairs.tsv")


@pytest.mark.parametrize("separator", [",", ";"])
@pytest.mark.parametrize("header", ["", "good{}bad", "Sentence_Good{}sentence_bad"])
def test_a_spreadsheet_is_read(tmp_path: Path, header: str, separator: str):
    rows = ['"The dogs, too, bark"{}"The dogs, too, barks"', "", '"He said ""go"""{}He say go']
    lines = [row.format(separator) for row in ([header] if header else []) + rows]
    (tmp_path / "pairs.csv").write_bytes("\r\n".join(lines).encode("utf-8-sig"))
    pairs = read_pairs(tmp_path / "pairs.csv")
    assert pairs == [Pair("The dogs, too, bark", "The dogs, too, barks"), Pair('He said "go"', "He say go")]
    assert [pair.line for pair in pairs] == ([2, 4] if header else [1, 3])


def test_columns_of_a_spreadsheet_are_found_by_their_names(tmp_path: Path):
    (tmp_path / "pairs.csv").write_text("UID,bad,good\nu1,he go,he goes\n")
    assert read_pairs(tmp_path / "pairs.csv") == [Pair("he goes", "he go", {"UID": "u1"})]
    (tmp_path / "pairs.csv").write_text("he goes,he go,he went\n")
    with assert_refused(FormatError, 1, 3, "he goes", "he went"):
        read_pairs(tmp_path / "pairs.csv")


def test_a_first_line_with_the_names_of_the_columns_is_no_pair(tmp_path: Path):
    for header in ("good\tbad", "sentence_good\tsentence_bad"):
        (tmp_path / "pairs.tsv").write_text(f"{header}\nhe goes\the go\n")
        assert read_pairs(tmp_path / "pairs.tsv") == [Pair("he goes", "he go")]


def test_no_pairs_are_nothing_to_score(tmp_path: Path, ngram: Any):
    (tmp_path / "empty.tsv").write_text("\n\n")
    with assert_refused(EmptyCorpusError, "pairs"):
        read_pairs(tmp_path / "empty.tsv")
    with assert_refused(EmptyCorpusError, "pairs"):
        score_each(reader_of(ngram), [])


def test_agreement_as_a_measurement_holds_the_same_tallies(tmp_path: Path, ngram: Any):
    found = agreement(reader_of(ngram), TEST)
    tallies = measure_agreement(ngram.model, ngram.tokenizer, TEST, context="line")
    again = Measurement.load(found.save(tmp_path / "agreement.npz"))
    for name in ("distance", "attractors", "congruence"):
        group = tallies.all_groups()[name]
        assert again[name].tolist() == list(group)
        assert again[f"right_{name}"].tolist() == [tally.right for tally in group.values()]
        assert again[f"total_{name}"].tolist() == [tally.total for tally in group.values()]
    text = "40 new sentences of agreement"
    words = {word for one in TEST for word in (*one.prefix, one.correct_form, one.wrong_form)}
    known = sum(word in ngram.tokenizer.vocabulary.index for word in words)
    about = {"model": "ngram", "trained_on": "text", "text": text, "corpus": "agreement"}
    assert {name: again.about[name] for name in about} == about
    assert (again.about["known_words"], again.about["words"]) == (known, len(words))


def test_a_model_that_knows_no_form_to_choose_from_is_not_asked(ngram: Any):
    stranger = thereafter.train(text="le chat dort\nla souris mange\n" * 20, tokens="word", order=2)
    for name in ("agreement", "reflexives"):
        with pytest.raises(OptionError, match=rf"ngram knows 0 of the \d+ words .* in none of 50 cases; .* {name}"):
            instruments.agreement(stranger, name, count=50)
    with pytest.warns(UserWarning, match=r"knows \d+ of the \d+ words .* cases; the other cases say nothing"):
        measured = instruments.agreement(ngram, count=200)
    assert measured.about["known_words"] < 0.9 * measured.about["words"]
    text = "".join(f"{one.text}\n" for one in sentences(3000, seed=5))
    measured = instruments.agreement(thereafter.train(text=text, tokens="word", order=1), count=200)
    assert measured.about["known_words"] > 0.9 * measured.about["words"]
    assert "caution" not in measured.about


def test_equal_sentences_are_left_out_and_counted(tmp_path: Path):
    lm = thereafter.train(text="the dog barks .\nthe dogs bark .\n" * 4, tokens="word")
    lines = "the dog barks .\tthe dog bark .\nthe dogs bark .\tthe dogs barks .\n"
    (tmp_path / "pairs.tsv").write_text(f"{lines}the dog barks .\tthe dog barks .\n")
    lm.save(tmp_path / "run")
    ended = CliRunner().invoke(app, ["inspect", "pairs", str(tmp_path / "run"), str(tmp_path / "pairs.tsv")])
    assert ended.exit_code == 0, ended.output
    assert "likelier in 100.0% of the pairs" in ended.output
    assert "1 pair is left out: its tokens are the same" in ended.output
    table = instruments.pair_table(lm, tmp_path / "pairs.tsv")
    assert (table.accuracy, table.same_K.tolist()) == (1.0, [False, False, True])
    (tmp_path / "equal.jsonl").write_text('{"sentence_good": "a cat", "sentence_bad": "a cat"}\n')
    assert "both sentences are the same" in instruments.pair_table(lm, tmp_path / "equal.jsonl").caution


def test_pairs_on_the_command_line(tmp_path: Path, ngram: Any):
    ngram.save(tmp_path / "run")
    (tmp_path / "pairs.tsv").write_text("".join(f"{one.right}\t{one.wrong}\n" for one in TEST))
    asked = ["inspect", "pairs", str(tmp_path / "run"), str(tmp_path / "pairs.tsv"), "--beginnings"]
    ended = CliRunner().invoke(app, [*asked, "--out", str(tmp_path / "found.npz")])
    assert ended.exit_code == 0, ended.output
    found = Measurement.load(tmp_path / "found.npz")
    assert f"likelier in {found['accuracy'][0]:.1%} of the pairs" in ended.output
