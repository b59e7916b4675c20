"""Plain text to classifiers and translators of pre-tokenised examples: read in the form they know, answered so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import thereafter
from thereafter.cli import app
from thereafter.tasks.classifying import CLASSIFYING
from thereafter.tasks.lexicon import Lexicon
from thereafter.tasks.translating import TRANSLATING
from thereafter.tasks.wording import Wording
from thereafter.text.labelled import LabelledText
from thereafter.text.pairs import SentencePair

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
    told = [CliRunner().invoke(app, [*asked, *switch]).output.strip() for switch in ([], ["--as-written"])]
    assert told == [model.predict(plain), as_is.predict(plain)]
