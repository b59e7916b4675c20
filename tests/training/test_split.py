"""What is held out, how options are sorted, and what is chosen by size."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import thereafter
from thereafter.errors import EmptyCorpusError
from thereafter.models.build import NEURAL
from thereafter.text.sources import Source, Texts, resolve
from thereafter.training.finding import SourceSlice, split_texts
from thereafter.training.kinds import MODELS, About, sort_options
from thereafter.training.neural import TIERS
from thereafter.training.settings import TrainingSettings

TEXT = "".join(f"line {k} has éüß and words\n" for k in range(100))


def parts(text: str, split: str | None = None) -> tuple[str, str]:
    found, _ = split_texts(Texts.of_text(text), split, hold_out=True)
    return found.parts["train"].text(), found.parts["valid"].text()


def test_the_last_lines_are_held_out():
    train, valid = parts(TEXT)
    assert train + valid == TEXT
    assert valid.splitlines() == TEXT.splitlines()[-5:]
    assert parts("a\nb") == ("a\n", "b")
    train, valid = parts("word " * 100)
    assert train + valid == "word " * 100
    assert len(valid) == 25
    with pytest.raises(EmptyCorpusError):
        parts("word " * 10)


def test_a_split_is_by_characters():
    train, valid = parts("x" * 90 + "y" * 10, "90/10")
    assert (train, valid) == ("x" * 90, "y" * 10)
    found, notes = split_texts(Texts.of_text("x" * 90 + "y" * 5 + "z" * 5), "90/5/5", hold_out=False)
    assert [found.parts[name].text() for name in ("train", "valid", "test")] == ["x" * 90, "y" * 5, "z" * 5]
    assert "90/5/5" in notes[0]


def test_a_cut_reads_like_any_source(tmp_path: Path):
    path = tmp_path / "large.txt"
    text = "".join(f"{k} é漢\n" for k in range(400_000))  # several chunks
    path.write_text(text, encoding="utf-8")
    source = resolve(path).parts["text"]
    for begin, end in ((0, 10), (5, 3_000_000), (1_048_570, 1_048_580), (2_500_000, len(text))):
        cut = SourceSlice.of(source, "cut", begin, end)
        assert cut.text() == text[begin:end]
        assert cut.fingerprint() == SourceSlice.of(source, "other name", begin, end).fingerprint()
    assert SourceSlice.of(source, "cut", 0, 9).fingerprint() != SourceSlice.of(source, "cut", 0, 10).fingerprint()
    assert SourceSlice.of(Source.of_text("ABC", lower=True), "cut", 1, 3).text() == "bc"


def test_n_grams_train_on_everything_unless_told():
    assert thereafter.train(text=TEXT).texts.parts.keys() == {"text"}  # type: ignore[union-attr]
    split = thereafter.train(text=TEXT, split="90/10")
    assert split.texts is not None
    assert split.texts.parts.keys() == {"train", "valid"}
    assert split.score(split.texts, part="valid").chars == round(len(TEXT) / 10)


def test_the_parts_of_a_corpus_are_used():
    corpus = {
        name: Source.of_text(f"{name} it is\n" * 20, name=f"corpus:{name}") for name in ("train", "valid", "test")
    }
    lm = thereafter.train(Texts("corpus", corpus, tokens="word"), model="average", tokens_budget=500)
    assert (lm.config["source"]["part"], lm.config["source"]["valid"]) == ("corpus:train", "corpus:valid")
    assert lm.config["text"] | {"tokens": "word", "context": "stream"} == lm.config["text"]
    assert lm.log[-1]["validation_tokens"] == 80
    assert lm.texts is not None
    assert lm.score(lm.texts).name == "corpus:test"


def test_options_find_their_place():
    found = sort_options("transformer", {"context": 64, "text.context": "line", "rate": 0.1, "lower": True})
    assert asdict(found) == {
        "text": {"context": "line", "lower": True},
        "model": {"context": 64},
        "training": {"rate": 0.1},
    }
    assert sort_options("transformer", {"context": "line"}).text == {"context": "line"}


def about(tokens: int, **more: Any) -> About:
    return About(tokens, max(1, tokens // 19), 5000, **{"tokenizer": "word", "context": "stream"} | more)


@pytest.mark.parametrize("model", list(NEURAL))
def test_every_choice_is_made_and_grows_with_the_text(model: str):
    kind = MODELS.load(model)
    sizes = []
    for tokens in (100, 10_000, 200_000, 1_000_000, 50_000_000):
        settings, training, notes = kind.complete({}, TrainingSettings(), about(tokens))
        left = {name for name, value in asdict(training).items() if value is None}
        assert left == {"tokens_budget", "minutes"}
        assert training.batch * training.steps <= max(tokens, 1)
        assert training.validate_every >= 1
        assert "hidden" in notes[0] or "embed" in notes[0] or tokens >= 1_000_000
        sizes.append(getattr(settings, "hidden", settings.embed))
    assert sizes == sorted(sizes)
    assert len(set(sizes)) >= 2
    assert len(TIERS) == 5


def test_what_is_given_stays():
    kind = MODELS.load("lstm")
    given = TrainingSettings(minutes=3.0, rate=0.5, schedule="plateau", clip=0.0, patience=0, batch=3)
    settings, training, notes = kind.complete({"hidden": 10, "dropout": 0.0}, given, about(1000))
    assert (settings.hidden, settings.dropout) == (10, 0.0)
    for name in ("minutes", "rate", "schedule", "clip", "patience", "batch"):
        assert getattr(training, name) == getattr(given, name)
    assert training.epochs is None
    assert "rate" not in notes[0]
    assert "hidden" not in notes[0]
    awd, _, _ = MODELS.load("awd-lstm").complete({"hidden": 30, "layers": 2}, TrainingSettings(), about(10**6))
    assert awd.sizes == (30, 30)
    lines, _, _ = (
        MODELS.load("gru").complete({}, TrainingSettings(), about(10**6, context="line", longest_line=40)),
        0,
        0,
    )
    assert lines[1].batching == "lines"
    assert lines[1].steps == 40
