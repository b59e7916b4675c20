"""What a corpus asks about itself: its own words, tables and chance, whatever the corpus."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

import thereafter
from breadth import core
from thereafter.comparing.compare import Comparison, compare
from thereafter.comparing.probes import ALWAYS_STORED, PROBES, offered_questions
from thereafter.comparing.rows import Row, Trial
from thereafter.comparing.tables import advice
from thereafter.data.corpora import BUILDERS
from thereafter.inspection.sentence_reader import SentenceReader
from thereafter.studio.panels.comparison import describe
from thereafter.text.agreement import CORPORA, sentence_corpus, write_corpus
from thereafter.text.memory import TASKS, task, text_of
from thereafter.text.sources import Source, Texts

SIZES = {"train": 120, "valid": 20, "test": 40}


@pytest.fixture
def sentence_parts(tmp_path: Path, request: pytest.FixtureRequest) -> Texts:
    """A small corpus of sentences by the name of the parameter, written as the built-in one is."""
    corpus = sentence_corpus(request.param)
    files = write_corpus(
        tmp_path / "corpus", sizes=SIZES, pairs=corpus.pairs, max_distance=corpus.max_distance, name=corpus.name
    )
    return Texts(corpus.name, {name: Source(name, (path,)) for name, path in files.items()}, "word")


def memory_part(folder: Path, name: str, part: str) -> Source:
    path = folder / f"{name}-0123" / f"{part}.txt"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text_of(task(name), part))
    return Source(part, (path,))


def test_every_corpus_that_knows_its_truth_offers_a_probe():
    assert set(PROBES) == set(CORPORA) | set(TASKS)
    assert set(PROBES) <= set(BUILDERS)
    assert set(ALWAYS_STORED) <= set(PROBES)
    assert all(name == probe.name for name, probe in PROBES.items())
    assert not set(PROBES) & set(asdict(trial("lstm", {})))  # in a file they stand beside each other


@pytest.mark.parametrize("name", PROBES)
def test_a_probe_speaks_for_itself(name: str):
    words = asdict(PROBES[name].words)
    assert all(words.values())
    assert all(sentence.endswith(".") for sentence in (words["caption"], words["remark"]))
    if name != "agreement":
        assert not any("verb form" in text or "subject" in text for text in words.values())


@pytest.mark.parametrize("sentence_parts", CORPORA, indirect=True)
def test_sentences_are_asked_about_by_their_own_probe(sentence_parts: Texts, tmp_path: Path):
    name = sentence_parts.name
    comparison = compare(sentence_parts, models="unigram,ngram-3", out=tmp_path / "out")
    for row in comparison.rows:
        assert {probe: [one.overall.total for one in results] for probe, results in row.probed.items()} == {name: [40]}
    table, page = comparison.table(), (tmp_path / "out" / "report.html").read_text()
    for probe in PROBES.values():
        assert (probe.words.heading in page) == (probe.words.x_label in page) == (probe.name == name)
    assert "% right of 40 sentences, chance 50" in table
    assert ("incongruent" in table) == (name != "filler-gap")
    assert len(comparison.advice()) == 3
    stored = json.loads((tmp_path / "out" / "compare.json").read_text())["rows"][0]
    assert stored[name]["all"]["mean"] == pytest.approx(comparison.rows[0].probed[name][0].overall.accuracy)
    assert (stored["trials"][0]["agreement"] is None) == (name != "agreement")
    again = Trial.from_dict(stored["trials"][0])
    assert again.probes == comparison.rows[0].first.probes
    shown = describe(comparison)  # the panel speaks of verbs
    assert all(bool(row.agreement) == (name == "agreement") for row in shown.rows)


@pytest.mark.parametrize("name", core(TASKS, ["remember-first"]))
def test_a_memory_task_is_asked_about_its_test_lines(name: str, tmp_path: Path):
    test = memory_part(tmp_path, name, "test")
    questions = offered_questions(test)
    assert list(questions) == [name]
    lm = thereafter.train(memory_part(tmp_path, name, "train"), tokens="word", order=6, context="line")
    verdicts = questions[name](SentenceReader.of(lm.model, lm.tokenizer, lm.config))
    assert verdicts is not None
    if name != "balanced-brackets":  # there a line has more questions than one
        lengths = Counter(len(line.split()) for line in test.text().splitlines())
        extra = {"remember-first": 2, "count-and-fire": 1}[name]
        factor = {"remember-first": 1, "count-and-fire": 2}[name]
        assert {n: tally.total for n, tally in verdicts.distance.items()} == {
            (length - extra) // factor: count for length, count in lengths.items()
        }
    assert verdicts.between(0, 2).accuracy > verdicts.between(15, 30).accuracy
    if (chance := PROBES[name].chance) is not None:
        assert verdicts.between(15, 30).accuracy == pytest.approx(chance, abs=0.1)
    letters = thereafter.train(memory_part(tmp_path, name, "train"), tokens="char", order=2)
    assert questions[name](SentenceReader.of(letters.model, letters.tokenizer, letters.config)) is None


def test_another_text_is_asked_nothing(tmp_path: Path):
    changed = memory_part(tmp_path, "balanced-brackets", "test").files[0]
    changed.write_text(changed.read_text() + "( )\n")
    (tmp_path / "agreement.test.txt").write_text("no records beside it\n")
    for source in (
        Source("test", (changed,)),
        Source("test", (tmp_path / "agreement.test.txt",)),
        Source.of_text("( )\n"),
    ):
        assert offered_questions(source) == {}


def trial(name: str, probes: dict[str, Any]) -> Trial:
    return Trial(
        name=name, model=name, tokens="word", seed=0, bits_per_byte=1.0, perplexity=2.0, validation=1.0, parameters=9,
        tokens_per_second=1.0, latency=0.1, size=1, seconds=9.0, seen=9, score={}, settings={}, training={}, run=name,
        probes=probes,
    )  # fmt: skip


def counted(share: float) -> dict[str, dict[str, list[float]]]:
    return {"distance": {str(n): [1000 * share, 1000] for n in range(1, 21)}}


@pytest.mark.parametrize(
    ("name", "share", "sentence"),
    [
        ("remember-first", 0.24, r"No model has learned to keep a symbol .*is right in 24.0 %, chance is 25; try"),
        ("remember-first", 0.45, r"use good: with 10 to 20 words in between \(11,000 questions\) its symbol is right"),
        ("balanced-brackets", 0.49, r"chance is 50; try more training"),
        ("count-and-fire", 0.3, r"No model has learned to count .*is right in 30.0 %; try more training"),
    ],
)
def test_advice_is_about_the_chance_of_the_probe(name: str, share: float, sentence: str):
    good, bad = trial("good", {name: counted(share)}), trial("bad", {name: counted(0.0)})
    comparison = Comparison((Row("good", (good,)), Row("bad", (bad,))), {"source": "x"})
    assert re.search(sentence, advice([comparison])[-1])
    guide = f", chance {100 * (PROBES[name].chance or 0):g}" if PROBES[name].chance else ""
    assert f"% right of 20,000 questions{guide}\n" in comparison.table()
    assert len(advice([Comparison((Row("bad", (replace(bad, probes={}),)),), {"source": "x"})])) == 2
