"""Plain text to classifiers and translators of pre-tokenised examples: read in the form they know, answered so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import thereafter
from thereafter.cli import app
from thereafter.tasks.classify import CLASSIFYING
from thereafter.tasks.lexicon import Lexicon, Wording
from thereafter.tasks.translate.task import TRANSLATING
from thereafter.text.labelled import LabelledText
from thereafter.text.tables import SentencePair

FORMED = ["it 's a film , is n't it ?", "you 'll like it , they do n't"] * 20
TINY: dict[str, Any] = {"tokens": "word", "min_count": 1, "embed": 8, "hidden": 8, "epochs": 1, "seed": 1}


def classified(text: object) -> str:
    codecs = CLASSIFYING.codecs([LabelledText(line, "good") for line in FORMED])
    return CLASSIFYING.prepare(text, codecs).text


def test_a_text_to_classify_comes_into_the_form_of_the_training_texts() -> None:
    assert classified("It's a film, isn't it?") == "it 's a film , is n't it ?"
    assert classified(FORMED[0]) == FORMED[0]
    assert classified(LabelledText("It's a film", "good")) == "It's a film"


def test_plain_examples_leave_inputs_as_they_are() -> None:
    assert Lexicon.fit({"it's": 3, "don't": 2, "film": 5, ",": 4, ".": 9}).style is None
    assert Wording.fit(["It's here, isn't it?"] * 9, "word").style is None


def test_a_sentence_to_translate_comes_into_the_form_and_its_answer_out_of_it() -> None:
    source = Wording.fit([line.replace("it", "It") for line in FORMED], "word")
    target = Wording.fit(["ce n 'est pas , non .", "le chat dort ."] * 30, "word")
    codecs = {"source": source, "target": target}
    assert TRANSLATING.prepare("You'll see, isn't It?", codecs).source == "You 'll see , is n't It ?"
    assert TRANSLATING.prepare(SentencePair("You'll see", ""), codecs).source == "You'll see"
    assert TRANSLATING.restore("le chat dort , non .", codecs) == "le chat dort, non."


def test_the_switch_leaves_texts_and_answers_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{line}\t{line}\n" for line in FORMED))
    thereafter.train(path, task="translate", out=tmp_path / "run", **TINY)
    model, as_is = thereafter.load(tmp_path / "run"), thereafter.load(tmp_path / "run", as_written=True)
    formed, plain = "it 's a film , is n't it ?", "It's a film, isn't it?"
    assert model.predict(plain) == model.predict(formed) == model.task.restore(as_is.predict(formed), model.codecs)
    asked = ["predict", str(tmp_path / "run"), plain]
    rows = [one.tabulate(text=plain).to_rows() for one in (model, as_is)]
    assert [row["answer"] for (row,) in rows] == [model.predict(plain), as_is.predict(plain)]
    sources = [one.about["source"] for one in (as_is.trace(plain), model.trace(plain), model.trace(formed))]
    assert sources[0] != sources[1] == sources[2]
    told = [CliRunner().invoke(app, [*asked, *switch]).output.strip() for switch in ([], ["--as-written"])]
    assert told == [model.predict(plain), as_is.predict(plain)]


def test_the_switch_holds_for_tables_and_traces_of_every_task(tmp_path: Path) -> None:
    path = tmp_path / "texts.tsv"
    path.write_text("".join(f"{line}\t{k % 2}\n" for k, line in enumerate(FORMED)))
    thereafter.train(path, task="classify", embed=4, hidden=4, epochs=1, out=tmp_path / "classify")
    tagged = "\n\n".join(
        "\n".join(f"{word}\t{'A' if word.isalpha() else 'B'}" for word in line.split()) for line in [*FORMED, "a - b"]
    )
    (tmp_path / "tagged.tsv").write_text(tagged + "\n")
    thereafter.train(tmp_path / "tagged.tsv", task="tag", embed=4, hidden=4, epochs=1, out=tmp_path / "tag")
    plain = "it isn't a well-known film"
    for name in ("classify", "tag"):
        run = tmp_path / name
        model, as_is = thereafter.load(run), thereafter.load(run, as_written=True)
        assert model.trace(plain).tokens == list(model.explain(plain).words)
        assert as_is.trace(plain).tokens == list(as_is.explain(plain).words) != model.trace(plain).tokens
        rows = as_is.tabulate(text=plain).to_rows()
        if name == "tag":
            assert [row["word"] for row in rows] == as_is.trace(plain).tokens
            assert [row["word"] for row in model.tag(text=plain).to_rows()] == model.trace(plain).tokens
        else:
            assert rows[0]["p_0"] == as_is.explain(plain).probabilities["0"]
