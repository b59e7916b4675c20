"""What models of the generated sentences expect of number, against the library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import thereafter
from thereafter.studio.panels.prediction import predict, twin_of, verb_forms
from thereafter.studio.panels.stepping import step
from thereafter.text.agreement import read_sentences, sentences
from thereafter.text.agreement.lexicon import twin, verb_number

PROMPT = "the teachers near the farmer"


@pytest.fixture(scope="module", params=["lstm", "ngram", "transformer"])
def lm(request: pytest.FixtureRequest, ready_folder: Path) -> Any:
    return thereafter.load(ready_folder / request.param)


def test_the_verb_of_every_sentence_has_the_number_of_its_subject():
    stream = sentences(None, seed=5)
    seen = []
    for one in (next(stream) for _ in range(300)):
        assert one.number == verb_number(one.correct_form, after=one.words[one.verb - 1])
        assert verb_number(one.wrong_form, after=one.words[one.verb - 1]) not in (None, one.number)
        seen.append(one.number)
    assert set(seen) == {"singular", "plural"}


def test_the_twin_of_a_sentence_has_the_wrong_verb_of_the_sentence_and_the_other_number():
    stream = sentences(None, seed=6)
    for one in (next(stream) for _ in range(300)):
        turned = twin(one.words)
        assert turned[one.verb] == one.wrong_form
        assert turned[one.subject] != one.words[one.subject]
        assert twin(turned) == one.words
        assert sum(a != b for a, b in zip(turned, one.words, strict=True)) >= 2 + len(one.attractors)


def test_verbs_are_those_of_the_whole_distribution(lm: Any):
    found = predict(lm, PROMPT, len(lm.tokenizer.vocabulary)).model_dump()
    everything = lm.next(PROMPT, len(lm.tokenizer.vocabulary))
    for number in ("singular", "plural"):
        expected = sum(p for word, p in everything if verb_number(word) == number)
        assert found["verbs"][number] == pytest.approx(expected, rel=1e-4)
    assert [one["number"] for one in found["candidates"]] == [
        verb_number(one["text"]) or "" for one in found["candidates"]
    ]
    assert {"singular", "plural"} <= {one["number"] for one in found["candidates"]}


def test_after_a_modal_no_form_has_a_number(lm: Any):
    found = predict(lm, "the teacher would", len(lm.tokenizer.vocabulary)).model_dump()
    assert found["verbs"] == {"singular": 0.0, "plural": 0.0}
    assert {one["number"] for one in found["candidates"]} == {""}
    assert "walk" in {one["text"] for one in found["candidates"]}


def test_models_of_other_texts_have_no_verbs(ready_folder: Path, tmp_path: Path):
    letters = thereafter.load(ready_folder / "letters")
    prose = thereafter.train(
        text="he walks to the house and they walk to the mill by the river .\n" * 9,
        model="ngram",
        tokens="word",
        out=tmp_path / "run",
    )
    for lm in (letters, prose):
        assert verb_forms(lm) is None
        assert twin_of(lm, PROMPT) == ""
        found = predict(lm, "they ", 9).model_dump()
        assert found["verbs"] is None
        assert {one["number"] for one in found["candidates"]} == {""}


def test_a_step_has_the_twin_of_its_text(ready_folder: Path):
    lm = thereafter.load(ready_folder / "rnn")
    assert (
        step(lm, prompt="", text=f"{PROMPT} are old .", limit=3).model_dump()["twin"]
        == "the teacher near the farmers is old ."
    )
    assert step(lm, prompt="", text="of course , perhaps").model_dump()["twin"] == ""


def test_the_sentences_of_the_ready_models_can_be_turned_round(ready_folder: Path):
    """Every word of a twin is in the vocabulary: no picture of one begins with an unknown word."""
    lm = thereafter.load(ready_folder / "lstm")
    records = next((ready_folder / "texts").glob("sentences-*/agreement.test.jsonl"))
    some = [one for one, _ in zip(read_sentences(records), range(50), strict=False)]
    unknown = [word for one in some for word in twin(one.words) if lm.tokenizer.unknown_id in lm.encode(word)]
    assert len(unknown) < 5, unknown
