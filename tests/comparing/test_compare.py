"""Models compared on one text: the same bytes for all, scores that a model loaded again repeats, runs that go on."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import thereafter
from refusals import assert_refused
from thereafter.cli import main
from thereafter.comparing import budget, trials
from thereafter.comparing import compare as comparing
from thereafter.comparing.budget import PARTS, Entry, cut_in_three, deal_options, normalise_space, parse_entries, share
from thereafter.comparing.compare import Comparison, compare
from thereafter.errors import EmptyCorpusError, OptionError, SourceError, TrainingError, UnknownNameError
from thereafter.text.agreement import write_corpus
from thereafter.text.sources import Source, Texts
from thereafter.training import protocol
from thereafter.training.settings import TextSettings

LINES = [
    "the cat sat on the mat .",
    "the  dog sat on the log . ",
    "a cat saw the dog , and the dog ran .",
    "it rained .",
]
TEXT = "".join(f"{LINES[(k * k + k // 3) % 4]}\n" for k in range(120))
SMALL: dict[str, Any] = {"hidden": 8, "batch": 4, "steps": 8, "layers": 1, "tokens_budget": 600}


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("books") / "book.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture(scope="module")
def comparison(book: Path) -> Comparison:
    models = "unigram, ngram-3:word,rnn:word,rnn:char"
    return compare(book, models=models, seeds=2, out=book.parent / "all", **SMALL)


# ---- names and options


def test_names():
    assert Entry.parse("unigram", "word") == Entry("unigram", "ngram", "word", 1)
    assert Entry.parse(" lstm:char ", "word") == Entry("lstm:char", "lstm", "char")
    assert [entry.name for entry in parse_entries(["ngram-1,gru", "unigram", "gru:word"], "word")] == ["ngram-1", "gru"]
    with assert_refused(UnknownNameError, "lsmt", "lstm"):
        Entry.parse("lsmt", "word")
    with assert_refused(UnknownNameError, "chars", "char"):
        Entry.parse("lstm:chars", "word")
    with assert_refused(OptionError, "ngram-x", "ngram-3"):
        Entry.parse("ngram-x", "word")
    with assert_refused(OptionError):
        parse_entries(" , ", "word")


def test_options_go_to_those_who_have_them():
    entries = parse_entries("unigram,ngram,rnn,lstm", "word")
    dealt = deal_options(
        entries,
        {"lstm.clip": 3.0, "hidden": 9, "lstm.peephole": True, "order": 3, "min_count": 1, "training.clip": 2.0},
    )
    assert dealt["ngram-1-word"] == {"ngram.order": 1, "text.min_count": 1}
    assert dealt["ngram-word"] == {"ngram.order": 3, "text.min_count": 1}
    assert dealt["rnn-word"] == {"rnn.hidden": 9, "text.min_count": 1, "training.clip": 2.0}
    assert dealt["lstm-word"] == {
        "lstm.hidden": 9,
        "lstm.peephole": True,
        "text.min_count": 1,
        "training.clip": 3.0,
    }
    with assert_refused(OptionError, "heads", "transformer"):
        deal_options(entries, {"heads": 2})
    with assert_refused(OptionError, "gru.hidden"):
        deal_options(entries, {"gru.hidden": 2})


# ---- the text


def test_a_text_is_cut_in_three_between_lines():
    parts = {name: part.text() for name, part in cut_in_three(Source.of_text(TEXT)).items()}
    assert "".join(parts[name] for name in PARTS) == TEXT
    assert all(part.endswith("\n") for part in parts.values())
    assert abs(len(parts["train"]) / len(TEXT) - 0.9) < 0.02
    assert abs(len(parts["test"]) / len(TEXT) - 0.05) < 0.02


def test_a_text_of_one_line_is_cut_inside_it():
    parts = cut_in_three(Source.of_text("abcdefghij" * 10))
    assert [len(parts[name].text()) for name in PARTS] == [90, 5, 5]
    with assert_refused(EmptyCorpusError):
        cut_in_three(Source.of_text("abc"))


def test_normalising_is_what_the_word_tokenizer_decodes():
    text = " so \t long\n\n\n and  thanks \u2003 x\n for all"
    lm = thereafter.train(text=text, tokens="word", order=1, min_count=1)
    wanted = lm.tokenizer.decode(next(iter(lm.tokenizer.encode_stream([text + "\n"]))))
    assert "".join(normalise_space([text])) == wanted
    assert "".join(normalise_space(iter(text))) == wanted  # a character at a time


def test_only_a_mixture_of_tokens_is_normalised(tmp_path: Path):
    texts = Texts("book", {"text": Source.of_text(TEXT)})
    alike = share(texts, TextSettings(), {"char", "prose"}, tmp_path / "alike")
    assert "".join(alike.parts[name].text() for name in PARTS) == TEXT
    mixed = share(texts, TextSettings(), {"char", "word"}, tmp_path / "mixed")
    assert "".join(mixed.parts[name].text() for name in PARTS) == TEXT.replace("  ", " ").replace(" \n", "\n")


def test_parts_of_a_corpus_are_kept(tmp_path: Path):
    parts = {name: Source.of_text(f"{name} text\n" * 9) for name in PARTS}
    kept = share(Texts("corpus", parts), TextSettings(), {"char"}, tmp_path)
    assert kept.parts == parts
    assert not list(tmp_path.iterdir())
    with assert_refused(SourceError, "corpus:train", "corpus:valid"):
        share(Texts("corpus", {name: parts[name] for name in ("train", "valid")}), TextSettings(), {"char"}, tmp_path)


# ---- the comparison


def test_all_models_are_scored_on_the_same_bytes(comparison: Comparison, book: Path):
    test = (book.parent / "all" / "text" / "test.txt").read_bytes()
    assert b"  " not in test
    for row in comparison.rows:
        assert {trial.score["bytes"] for trial in row.trials} == {len(test)}
    assert [row.name for row in comparison.rows] == ["unigram", "ngram-3:word", "rnn:word", "rnn:char"]
    assert [row.first.tokens for row in comparison.rows] == ["prose", "word", "word", "char"]


def test_a_model_loaded_again_has_the_score_of_its_row(comparison: Comparison, book: Path):
    folder = book.parent / "all"
    for row in comparison.rows:
        for trial in row.trials:
            lm = thereafter.load(folder / "runs" / trial.run)
            score = lm.score(folder / "text" / "test.txt")
            assert trial.bits_per_byte == pytest.approx(score.bits_per_byte, rel=1e-6)
            assert trial.perplexity == pytest.approx(score.perplexity, rel=1e-6)
            size = sum((folder / "runs" / trial.run / name).stat().st_size for name in trials.NEEDED)
            assert trial.size == size


def test_seeds_are_averaged_and_what_is_not_random_runs_once(comparison: Comparison):
    assert [len(row.trials) for row in comparison.rows] == [1, 1, 2, 2]
    row = comparison.row("rnn:char")
    values = [trial.bits_per_byte for trial in row.trials]
    assert values[0] != values[1]
    assert row.bits_per_byte.mean == pytest.approx(statistics.fmean(values))
    assert row.bits_per_byte.spread == pytest.approx(statistics.stdev(values))
    assert comparison.row("unigram").bits_per_byte.spread is None


def test_the_curve_is_in_bits_per_byte_of_the_validation_part(comparison: Comparison, book: Path):
    folder = book.parent / "all"
    for name in ("rnn:word", "rnn:char"):
        trial = comparison.row(name).first
        lm = thereafter.load(folder / "runs" / trial.run)
        assert trial.validation == min(point[2] for point in trial.curve)
        score = lm.score(folder / "text" / "valid.txt")
        assert trial.validation == pytest.approx(score.bits_per_byte, rel=1e-4)
        assert trial.curve[-1][1] == pytest.approx(trial.seen)
        assert [point[0] for point in trial.curve] == sorted(point[0] for point in trial.curve)
    counted = comparison.row("unigram").first
    assert counted.curve == []
    lm = thereafter.load(folder / "runs" / counted.run)
    assert counted.validation == pytest.approx(lm.score(folder / "text" / "valid.txt").bits_per_byte)


def test_the_table_fits_and_says_what_compares(comparison: Comparison):
    table = comparison.table()
    assert max(map(len, table.splitlines())) <= 120
    assert "perplexity only between rows with the same tokens" in table
    for row in comparison.rows:
        line = next(line for line in table.splitlines() if line.startswith(row.name))
        assert f"{row.bits_per_byte.mean:.4f}" in line


def test_everything_is_saved(comparison: Comparison, book: Path):
    stored = json.loads((book.parent / "all" / "compare.json").read_text())
    assert [row["name"] for row in stored["rows"]] == [row.name for row in comparison.rows]
    assert stored["rows"][3]["bits_per_byte"]["mean"] == comparison.rows[3].bits_per_byte.mean
    assert stored["budget"] == {"tokens_budget": 600}
    assert stored["seeds"] == [0, 1]
    assert "thereafter.compare(" in stored["command"]
    assert all(trial.seen >= 600 for trial in comparison.row("rnn:char").trials)
    assert comparison.row("rnn:char").first.sample


def test_it_goes_on_where_it_was_broken_off(comparison: Comparison, book: Path, monkeypatch: pytest.MonkeyPatch):
    """Broken off behind the training of the third model, which is then not trained again."""
    folder = book.parent / "broken"
    wanted: dict[str, Any] = {"models": "unigram,ngram-3:word,rnn:word,rnn:char", "seeds": 2, "out": folder, **SMALL}
    scored: list[str] = []

    def stop(*given: Any, **named: Any) -> Any:
        scored.append(named["name"])
        if len(scored) == 5:  # two for each n-gram
            raise KeyboardInterrupt
        return score(*given, **named)

    score = trials.score_text
    monkeypatch.setattr(trials, "score_text", stop)
    with pytest.raises(KeyboardInterrupt):
        compare(book, **wanted)
    assert sorted(path.stem for path in (folder / "results").glob("*.json")) == ["ngram-1-prose", "ngram-3-word"]
    monkeypatch.setattr(trials, "score_text", score)
    began: list[str] = []
    train = protocol.train

    def count(texts: Any, model: str, *rest: Any) -> Any:
        began.append(model)
        return train(texts, model, *rest)

    monkeypatch.setattr(protocol, "train", count)
    again = compare(book, **wanted)
    assert began == ["rnn"] * 3  # four neural runs, of which one had been trained
    assert [row.bits_per_byte for row in again.rows] == [row.bits_per_byte for row in comparison.rows]
    began.clear()
    more = compare(book, **{**wanted, "models": "unigram,rnn:char,ngram-2:word"})
    assert began == ["ngram"]
    assert more.row("rnn:char").bits_per_byte == comparison.row("rnn:char").bits_per_byte


def test_another_plan_is_refused_or_put_beside(book: Path, tmp_path: Path):
    compare(book, models="unigram", base=tmp_path)
    assert (tmp_path / "compare-book" / "report.html").is_file()
    with assert_refused(OptionError, "'epochs': 30.0", "'minutes': 2", "--out"):
        compare(book, models="unigram", minutes=2, out=tmp_path / "compare-book")
    with assert_refused(OptionError, "normalised"):
        compare(book, models="unigram:word,unigram:char", out=tmp_path / "compare-book")
    other = compare(book, models="unigram", minutes=2, base=tmp_path)
    assert other.folder == tmp_path / "compare-book-2"
    assert compare(book, models="unigram", base=tmp_path).folder == tmp_path / "compare-book"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letters.txt").write_text("dear")
    with assert_refused(OptionError, tmp_path / "mine"):
        compare(book, models="unigram", out=tmp_path / "mine")


def test_without_a_folder_nothing_is_kept(book: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert compare(text=TEXT, models="ngram-2").folder is None
    assert not list(tmp_path.iterdir())


def test_one_that_fails_does_not_lose_the_others(book: Path, monkeypatch: pytest.MonkeyPatch):
    run = comparing.run_trial

    def fail(entry: Entry, *rest: Any) -> Any:
        if entry.model == "rnn":
            raise TrainingError("the loss is no number")
        return run(entry, *rest)

    monkeypatch.setattr(comparing, "run_trial", fail)
    comparison = compare(book, models="rnn,unigram")
    assert [row.name for row in comparison.rows] == ["unigram"]
    assert any("rnn, seed 0 failed: the loss is no number" in note for note in comparison.notes)
    with assert_refused(TrainingError, "the loss is no number"):
        compare(book, models="rnn")


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"seeds": 0}, ("seeds", 0)),
        ({"minutes": -1.0}, ("minutes", -1.0)),
        ({"match": "size"}, ("'size'", "match='parameters'")),
        ({"hiden": 8}, ("hiden", "hidden")),
        ({"models": "unigram", "match": "parameters"}, ("match",)),
    ],
)
def test_mistakes_are_found_before_anything_is_trained(book: Path, options: dict[str, Any], facts: tuple[object, ...]):
    with assert_refused(OptionError, *facts):
        compare(book, **{"models": "rnn,unigram", **options})


# ---- sizes and times


def test_models_are_matched_in_parameters(book: Path):
    small = {name: value for name, value in SMALL.items() if name not in ("hidden", "layers")}
    comparison = compare(
        book, models="unigram,average,rnn,lstm,transformer", match="100k", **{**small, "tokens_budget": 64}
    )
    counts = {row.name: row.first.parameters for row in comparison.rows if row.name != "unigram"}
    assert len(counts) == 4
    assert all(abs(count / 100_000 - 1) < 0.1 for count in counts.values()), counts
    assert any(note.startswith("matched to 100,000 parameters") for note in comparison.notes)


def test_the_lstm_is_what_others_are_matched_to():
    assert budget.reference(budget.parse_entries("gru,awd-lstm,lstm:char", "word")) == "lstm-char"
    assert budget.reference(budget.parse_entries("gru,rnn,unigram", "word")) == "gru-word"
    assert budget.read_match("1.5M") == 1_500_000


class Clock:
    """A model whose steps take known times."""

    vocabulary_size = 3

    def __init__(self, times: list[float]) -> None:
        self.times, self.now, self.read = times, 0.0, list[int]()

    def start(self, batch: int) -> int:
        return 0

    def step(self, token_B: Any, state: int) -> tuple[None, int]:
        self.now += self.times[min(state, len(self.times) - 1)]
        self.read.append(int(token_B[0]))
        return None, state + 1


def test_latency_is_the_median_without_the_first_steps(monkeypatch: pytest.MonkeyPatch):
    model = Clock([100.0] * 32 + [1.0, 2.0] * 100 + [9.0] * 11)
    monkeypatch.setattr(trials, "time", SimpleNamespace(perf_counter=lambda: model.now))
    assert trials.next_token_latency(model, np.array([0, 1, 2]), steps=211) == pytest.approx(2.0)
    assert model.read[:4] == [0, 1, 2, 0]


# ---- agreement, and the command line


def test_agreement_is_judged_where_the_corpus_knows(tmp_path: Path):
    sizes = {"train": 300, "valid": 30, "test": 60}
    files = write_corpus(tmp_path / "corpus", sizes=sizes, max_distance=12)
    texts = Texts("agreement", {name: Source(name, (path,)) for name, path in files.items()}, "word")
    comparison = compare(
        texts, models="unigram,rnn:char", seeds=2, out=tmp_path / "out", **{**SMALL, "tokens_budget": 200}
    )
    for row in comparison.rows:
        assert [one.overall.total for one in row.probed["agreement"]] == [60] * len(row.trials)
    line = comparison.table().split("words between", 1)[1].splitlines()[1]
    assert line.split() == ["model", "0", "1-2", "3-5", "6-10", "11-20"]
    assert comparison.advice()[-1].startswith("No model has learned")
    assert "verbs with the right number" in (tmp_path / "out" / "report.html").read_text()


def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["thereafter", *map(str, words)])
    code = 0
    try:
        main()
    except SystemExit as stop:
        code = int(stop.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


def test_the_command(book: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)
    words = ("compare", book, "--models", "unigram,ngram", "--models", "unigram:char")
    code, out, err = shell(monkeypatch, capsys, *words)
    assert code == 0, err
    assert "bits/byte" in out
    assert "saved  runs/compare-book" in out
    page = (tmp_path / "runs" / "compare-book" / "report.html").read_text()
    assert f"thereafter compare {book} --models unigram,ngram" in page
    code, out, err = shell(monkeypatch, capsys, *words, "--json")
    assert [row["name"] for row in json.loads(out)["rows"]] == ["unigram", "ngram", "unigram:char"]
    assert "of 3" not in err  # nothing was left to do
    code, _, err = shell(monkeypatch, capsys, "compare", book, "--models", "lsmt")
    assert code == 2
    assert "did you mean 'lstm'" in err
