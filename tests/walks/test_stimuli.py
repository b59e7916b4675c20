"""The linguist's errand, walked from the shell with the commands of docs/surprisal.md: stimuli in two conditions."""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from pathlib import Path

import pandas
import pytest
from walking import DOCS, walk

import thereafter

NOUNS = ["man", "dog", "cat", "boy", "girl", "cook", "guest", "nurse"]
VERBS = {"was": "were", "sees": "see", "runs": "run"}
BOOK = "".join(
    f"The {noun} near the {other} {verb} old, they said.\nThe {noun}s {plural} here.\n"
    for verb, plural in VERBS.items()
    for noun in NOUNS
    for other in NOUNS
)
STIMULI = [
    (item, condition, 1 + item % 2, f"The {noun}{ending} {verb} old, they said.")
    for item, (noun, (verb, plural)) in enumerate([(noun, verbs) for noun in NOUNS for verbs in VERBS.items()], start=1)
    for condition, ending in (("singular", ""), ("plural", "s"))
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "book.txt").write_text(BOOK, encoding="utf-8")
    (tmp_path / "other.txt").write_text("".join(BOOK.splitlines(keepends=True)[::-3]), encoding="utf-8")
    tables: dict[str, list[tuple[object, ...]]] = {
        "stimuli.csv": [("item", "condition", "list", "sentence"), *STIMULI],
        "pairs.csv": [
            ("item", "condition", "good", "bad"),
            *((item, name, text, text.replace("old, they", "they old,")) for item, name, _, text in STIMULI),
        ],
    }
    for name, rows in tables.items():
        with open(tmp_path / name, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(rows)
    return tmp_path


@pytest.mark.wide
def test_a_linguist_goes_from_stimuli_to_tables(folder: Path) -> None:
    walked = walk(DOCS / "surprisal.md", 1, folder)
    words = pandas.read_csv(folder / "words.csv")
    words = words[~words["line_end"]]
    assert Counter(words["line"]) == {line: len(row[-1].split()) for line, row in enumerate(STIMULI, start=1)}
    assert set(zip(words["item"], words["condition"], words["list"], strict=True)) == {row[:3] for row in STIMULI}
    measured = [f"{name}_{run}" for run in ("ngram", "lstm") for name in ("bits", "entropy", "log_frequency")]
    assert words[["position", "bare_word", "length", *measured]].notna().all(axis=None)
    for run, table in (("ngram", None), ("lstm", pandas.read_csv(folder / "sentences.csv"))):
        lm = thereafter.load(folder / "runs" / run)
        assert isinstance(lm, thereafter.LanguageModel)
        alone = [lm.score(text=f"{row[-1]}\n").nats / math.log(2) for row in STIMULI]
        if table is not None:
            assert table["sentence"].tolist() == [row[-1] for row in STIMULI]
            assert table["bits"].tolist() == pytest.approx(alone, rel=1e-5)
        printed = re.search(rf"^{run} +singular +plural +24 +48 +(\S+) +(\S+) +(\S+)", walked.stdout, re.MULTILINE)
        assert printed is not None
        mean, low, high = map(float, printed.groups())
        assert mean == pytest.approx((sum(alone[::2]) - sum(alone[1::2])) / 24, abs=0.01)
        assert low <= mean <= high
    assert walked.stdout.count("context item: each row is read from a fresh state") >= 2
    pairs = pandas.read_csv(folder / "pairs-scored.csv")
    assert {"item", "condition", "difference_ngram", "difference_lstm"} <= set(pairs.columns)
    assert "bits per byte (95 % interval" in walked.stdout
