"""Differences between models: the lines of the test part, resampled; and what is said, shown and kept of them."""

from __future__ import annotations

import importlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thereafter
from refusals import assert_refused
from thereafter.comparing.compare import Comparison, compare
from thereafter.comparing.differences import BITS, LineSums, ModelDifference, SeedSpread, sum_lines, task_differences
from thereafter.comparing.rows import model_differences
from thereafter.errors import FormatError
from thereafter.evaluation.bootstrap import SEED, Difference, block_length
from thereafter.tasks.labelling import ResampledClasses

NOUNS, VERBS = ["cat", "dog", "gnu", "old man"], ["sat", "ran", "saw the dog"]
SMALL: dict[str, Any] = {"hidden": 8, "batch": 4, "steps": 8, "layers": 1, "tokens_budget": 400}


def lines_of_text(count: int, seed: int = 0) -> str:
    random = np.random.default_rng(seed)
    return "".join(
        "\n" if random.random() < 0.05 else f"the {random.choice(NOUNS)} {random.choice(VERBS)} , Été {k % 7} .\n"
        for k in range(count)
    )


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("books") / "book.txt"
    path.write_text(lines_of_text(900), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def comparison(book: Path) -> Comparison:
    return compare(book, models="unigram,ngram-3,ngram-3:char,rnn", seeds=2, out=book.parent / "all", **SMALL)


# ---- sums by line


@pytest.mark.parametrize("tokens", ["word", "prose", "char", "byte", "bpe"])
def test_lines_add_up_to_the_score_and_each_is_its_own(tokens: str):
    text = lines_of_text(40) + "the gnat ran , alone"  # unknown words; no newline at the end
    lm = thereafter.train(text=lines_of_text(200, seed=1), tokens=tokens, order=3)
    score = lm.score(text=text)
    ids = np.concatenate([piece.ids for piece in lm.tokenizer.measure_stream([text], whole=True)])
    logp_BT, _ = lm.model.log_probs(ids.reshape(1, -1), lm.model.start(1))
    sums = sum_lines(lm.tokenizer, [text[:100], text[100:]], np.asarray(logp_BT)[0])
    assert sums is not None
    assert len(sums.nats_L) == score.lines == 41
    for column, total in (
        (sums.nats_L, score.nats),
        (sums.spelling_L, score.spelling_nats),
        (sums.tokens_L, score.tokens),
        (sums.bytes_L, score.bytes),
    ):
        assert column.sum() == pytest.approx(total, rel=1e-9)
    if score.context == "line":  # a line costs what it costs alone
        for number, line in enumerate(text.split("\n")[:-1]):
            assert sums.nats_L[number] == pytest.approx(lm.score(text=f"{line}\n").nats, rel=1e-6)


def test_sums_are_kept_to_the_bit_and_damage_is_named(tmp_path: Path):
    sums = LineSums(*np.random.default_rng(0).random((4, 9)))
    sums.save(tmp_path / "sums.npz")
    again = LineSums.load(tmp_path / "sums.npz")
    assert np.array_equal(again.bits_L, sums.bits_L)
    assert np.array_equal(again.bytes_L, sums.bytes_L)
    (tmp_path / "sums.npz").write_bytes(b"PK something else")
    with assert_refused(FormatError, "sums.npz"):
        LineSums.load(tmp_path / "sums.npz")


# ---- the differences of a comparison


def test_every_model_is_compared_with_the_best_on_the_same_lines(comparison: Comparison, book: Path):
    ranked = sorted(comparison.rows, key=lambda row: row.bits_per_byte.mean)
    assert [(one.better, one.other) for one in comparison.differences] == [
        (ranked[0].name, row.name) for row in ranked[1:]
    ]
    text = (book.parent / "all" / "text" / "test.txt").read_text(encoding="utf-8")
    lines, folder = text.split("\n")[:-1], book.parent / "all"
    bytes_L = np.array([len(line.encode()) + 1 for line in lines])
    block = block_length(len(lines))
    starts = np.random.default_rng(SEED).integers(len(lines), size=(1000, round(len(lines) / block)))
    places = (starts[:, :, None] + np.arange(block)).reshape(1000, -1) % len(lines)
    for one in comparison.differences:
        assert one.difference.examples == len(lines)
        assert one.difference.block == block > 1
        row, best = comparison.row(one.other), ranked[0]
        assert one.difference.value == pytest.approx(row.bits_per_byte.mean - best.bits_per_byte.mean, rel=1e-5)
        bits = {
            name: np.mean(
                [LineSums.load(folder / "results" / f"{trial.run}.npz").bits_L for trial in each.trials], axis=0
            )
            for name, each in (("best", best), ("row", row))
        }
        resampled = sorted(((bits["row"] - bits["best"])[places].sum(axis=1) / bytes_L[places].sum(axis=1)).tolist())
        assert (one.difference.low, one.difference.high) == pytest.approx((resampled[25], resampled[974]), rel=1e-6)


def test_perplexities_are_divided_where_tokens_are_the_same(comparison: Comparison):
    best = comparison.row(comparison.differences[0].better)
    for one in comparison.differences:
        row = comparison.row(one.other)
        if row.first.tokens != best.first.tokens:
            assert one.ratio is None
            continue
        assert one.ratio is not None
        geometric = [np.exp(np.mean(np.log([trial.perplexity for trial in each.trials]))) for each in (row, best)]
        assert one.ratio.value == pytest.approx(geometric[0] / geometric[1], rel=1e-5)
        assert one.ratio.low <= one.ratio.value <= one.ratio.high


def test_they_are_shown_in_the_table_the_page_and_the_file(comparison: Comparison, book: Path):
    table = comparison.table()
    best = comparison.differences[0].better
    assert f"How much better {best} is: paired bootstrap over" in table
    assert max(map(len, table.splitlines())) <= 120
    page = (book.parent / "all" / "report.html").read_text(encoding="utf-8")
    stored = json.loads((book.parent / "all" / "compare.json").read_text(encoding="utf-8"))
    for one, kept in zip(comparison.differences, stored["differences"], strict=True):
        assert one.interval in table
        assert str(one).replace("'", "&#x27;") in page
        assert kept["sentence"] == str(one)
        assert kept["difference"]["low"] == one.difference.low
    assert "Tested on the test part (" in table
    assert "which was not used for training or for choosing weights" in table


def test_the_same_call_again_and_a_folder_of_an_earlier_version_give_the_same(
    comparison: Comparison, book: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    old = tmp_path / "old"
    shutil.copytree(book.parent / "all", old)
    for path in (old / "results").glob("*.npz"):
        path.unlink()
    measured: list[str] = []
    comparing = importlib.import_module("thereafter.comparing.compare")
    measure = comparing.measure_lines

    def count(trained: Any, part: Any) -> Any:
        measured.append(str(trained.config["model"]))
        return measure(trained, part)

    monkeypatch.setattr(comparing, "measure_lines", count)
    models = "unigram,ngram-3,ngram-3:char,rnn"
    again = compare(book, models=models, seeds=2, out=old, **SMALL)
    assert measured == ["ngram", "ngram", "ngram", "rnn", "rnn"]
    assert [one.difference.low for one in again.differences] == pytest.approx(
        [one.difference.low for one in comparison.differences], rel=1e-9
    )
    measured.clear()
    assert compare(book, models=models, seeds=2, out=old, **SMALL).differences == again.differences
    assert not measured


def test_too_few_lines_and_one_model_alone_have_none():
    assert compare(text=lines_of_text(120), models="unigram,ngram-2").differences == ()  # six lines to test on
    assert compare(text=lines_of_text(900), models="ngram-2").differences == ()
    assert model_differences((), {}) == ()


# ---- sentences


def difference(value: float, low: float, high: float, *seeds: SeedSpread, **more: Any) -> ModelDifference:
    known = {"examples": 3761, "block": 1, **more}
    measured = Difference(value, low, high, known.pop("reversed", 0.0), 0.01, **known)
    return ModelDifference("lstm", "gru", BITS, "lines", measured, (seeds[0], seeds[-1]))


def test_the_sentence_says_how_much_how_sure_and_how_many_seeds():
    one = SeedSpread(1)
    assert str(difference(0.021, 0.012, 0.030, one)) == (
        "lstm is better than gru by 0.021 bits per byte (95 % interval 0.012 to 0.030, paired bootstrap over 3,761 "
        "lines; one seed each)"
    )
    assert str(difference(0.002, -0.003, 0.007, one, SeedSpread(3, 0.0041), block=16, reversed=0.214)) == (
        "lstm is better than gru by 0.002 bits per byte, which may be chance (95 % interval -0.003 to 0.007, order "
        "reversed in 21 % of the resamples, paired bootstrap over 3,761 lines in blocks of 16; lstm: one seed; gru: "
        "mean of 3 seeds, standard deviation 0.004)"
    )
    assert str(difference(0.31, 0.2, 0.4, SeedSpread(0), SeedSpread(0))).endswith("over 3,761 lines)")


def test_advice_knows_what_the_interval_leaves_open(comparison: Comparison):
    best, other = comparison.differences[0].better, comparison.differences[0].other
    about = f"use {best}: {comparison.row(best).bits_per_byte.mean:.3f} bits per byte"
    (first, *_) = comparison.advice()
    if comparison.differences[0].difference.clear:
        assert about in first
    unclear = difference(0.001, -0.1, 0.1, SeedSpread(1))
    doubtful = ModelDifference(best, other, BITS, "lines", unclear.difference, unclear.seeds)
    sentence = Comparison(comparison.rows, comparison.about, differences=(doubtful,)).advice()[0]
    assert re.search(rf"another test text, {re.escape(other)}.* may be as good\.$", sentence)


# ---- networks of a task


def test_networks_of_a_task_are_compared_over_seeds():
    random, labels = np.random.default_rng(3), ["neg", "pos"]
    gold = random.choice(labels, 200).tolist()

    def answers(right: float) -> ResampledClasses:
        flipped = {"neg": "pos", "pos": "neg"}
        given = [label if random.random() < right else flipped[label] for label in gold]
        return ResampledClasses.of(gold, given, labels)

    networks = {"gru": [answers(0.7), answers(0.7)], "lstm": [answers(0.9), answers(0.9)]}
    differences = task_differences(networks)
    assert [(one.better, one.other, one.figure) for one in differences] == [
        ("lstm", "gru", "accuracy"),
        ("lstm", "gru", "macro_f1"),
    ]
    right = {name: [one.statistics_NS[:, :2].sum() / 200 for one in several] for name, several in networks.items()}
    assert differences[0].difference.value == pytest.approx(np.mean(right["lstm"]) - np.mean(right["gru"]))
    assert differences[0].difference.clear
    assert differences[0].seeds[0].deviation == pytest.approx(np.std(right["lstm"], ddof=1))
    assert "points of accuracy (95 % interval" in str(differences[0])
    assert "paired bootstrap over 200 examples; lstm: mean of 2 seeds, standard deviation" in str(differences[0])
    assert task_differences({"gru": networks["gru"]}) == ()


def test_a_table_of_networks_has_the_sentences(tmp_path: Path):
    lines = [f"the\tDET\n{noun}\tNOUN\n{verb}\tVERB\n\n" for noun in ("cow", "dog", "cat") for verb in ("ran", "sat")]
    path = tmp_path / "tagged.tsv"
    path.write_text("".join(lines * 80), encoding="utf-8")
    compared = thereafter.compare(
        path, task="tag", models={"gru": {"cell": "gru"}, "elman": {"cell": "elman"}}, hidden=2, epochs=1
    )
    assert {one.figure for one in compared.differences} == {"accuracy"}
    assert f"{compared.differences[0]}." in compared.table().splitlines()
    assert json.loads(compared.to_json())["differences"][0]["sentence"] == str(compared.differences[0])
