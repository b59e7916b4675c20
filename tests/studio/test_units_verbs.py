"""Units: what is shown of one is what the trace says, and the ranking is the library's own search."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import thereafter
from refusals import assert_refused
from thereafter.errors import CorpusError, OptionError, SourceError, UnknownNameError
from thereafter.inspection.properties import PROPERTIES
from thereafter.inspection.units import search
from thereafter.ready.models import LETTER_UNITS, WORD_UNITS
from thereafter.studio.panels import units
from thereafter.studio.panels.units import PropertyName

CODE = 'def f(a):\n    # say "so"\n    return "é🙂" + a\n'


def test_values_are_those_of_the_trace(ready_folder: Path):
    lm = thereafter.load(ready_folder / "letters")
    known = lm.trace(CODE)
    for unit, field, number in (("l0.h[3]", "l0.h", 3), ("l0.c[127]", "l0.c", 127)):
        found = units.show_unit(lm, unit=unit, text=CODE, property="quotes").model_dump()
        assert "".join(found["tokens"]) == CODE
        assert found["values"] == pytest.approx(known[field][:, number].tolist(), abs=1e-6)
        assert found["truth"] == PROPERTIES["quotes"].of(CODE).astype(float).tolist()
        assert (min(found["shades"]), max(found["shades"])) == (-1.0, 1.0)
        assert found["fields"] == {"l0.h": LETTER_UNITS, "l0.c": LETTER_UNITS}
        # the colour follows the value
        order = np.argsort(found["values"], kind="stable")
        assert (np.diff(np.array(found["shades"])[order]) >= 0).all()


def test_words_are_shown_as_they_stand_in_the_text(ready_folder: Path):
    lm = thereafter.load(ready_folder / "lstm")
    text = "the nurse  near\nthe qwertz farmers ."
    found = units.show_unit(lm, unit="l0.h[0]", text=text, property="line-position").model_dump()
    assert found["tokens"] == ["the", " nurse", "  near", "\n", "the", " qwertz", " farmers", " ."]
    assert found["values"] == pytest.approx(lm.trace(text)["l0.h"][:, 0].tolist(), abs=1e-6)
    assert found["truth"] == [3.0, 9.0, 15.0, 0.0, 3.0, 10.0, 18.0, 20.0]


def test_a_long_text_is_cut_and_says_so(ready_folder: Path):
    lm = thereafter.load(ready_folder / "letters")
    found = units.show_unit(lm, text="x = 1\n" * 400).model_dump()
    assert (len(found["tokens"]), found["cut"], found["truth"]) == (units.SHOWN, True, None)
    assert not units.show_unit(lm, text="x = 1\n").model_dump()["cut"]


def test_the_sample_is_of_text_the_model_was_not_trained_on(ready_folder: Path):
    lm = thereafter.load(ready_folder / "letters")
    for name in ("quotes-or-comment", "line-position"):
        found = units.show_unit(lm, property=name).model_dump()
        shown = "".join(found["tokens"])
        assert found["source"] == "python-code:test"
        assert shown in units.own_text(lm)[0]
        assert len(set(found["truth"])) > 1
        # read by itself it has the property where it has it in its place
        whole, _ = units.own_text(lm)
        at = whole.index(shown)
        there = PROPERTIES[name].of(whole)[at : at + len(shown)].astype(float)
        assert found["truth"] == there.tolist()
    assert units.show_unit(thereafter.load(ready_folder / "gru")).model_dump()["source"] == "agreement.valid.txt"


def test_the_ranking_is_that_of_the_search(ready_folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(units, "LIMIT", 6_000)  # both read a part of the text, however long
    lm = thereafter.load(ready_folder / "letters")
    text, _ = units.own_text(lm)
    for name, yes_no in (("quotes-or-comment", True), ("line-position", False)):
        found = units.rank_units(units.separate(lm), lm.tokenizer, text, name, 4).model_dump()
        known = search(lm.model, lm.tokenizer, text, [PROPERTIES[name]], top=4, limit=units.LIMIT)
        assert [one["unit"] for one in found["ranked"]] == known["unit"][0].tolist()
        assert [one["held_out"] for one in found["ranked"]] == known["held_out"][0].tolist()
        assert (found["yes_no"], found["tokens"], found["control"]) == (yes_no, units.LIMIT, known["control"][0])


def test_a_copy_of_the_model_reads_alike_and_is_another(ready_folder: Path):
    lm = thereafter.load(ready_folder / "lstm")
    lm.next("the nurse")  # leaves buffers behind
    apart = units.separate(lm)
    assert apart is not lm.model
    ids = lm.encode("the nurse near the")
    assert np.array_equal(
        apart.log_probs(ids[None], apart.start(1))[0], lm.model.log_probs(ids[None], lm.model.start(1))[0]
    )


@pytest.mark.parametrize(
    ("name", "asked", "error", "facts"),
    [
        ("ngram", {}, OptionError, ("rnn", "gru", "lstm")),
        ("transformer", {}, OptionError, ("rnn", "gru", "lstm")),
        (
            "lstm",
            {"unit": f"l0.h[{WORD_UNITS}]", "text": "the"},
            OptionError,
            ("l0.h", WORD_UNITS, 0, WORD_UNITS - 1),
        ),
        ("lstm", {"unit": "l7.h[0]", "text": "the"}, UnknownNameError, ("l7.h",)),
        ("lstm", {"text": "   "}, OptionError, ("empty",)),
        ("lstm", {"text": "the", "property": "none"}, UnknownNameError, ("property", "none")),
    ],
)
def test_errors_name_what_would_be_right(
    ready_folder: Path, name: str, asked: dict, error: type, facts: tuple[object, ...]
):
    with assert_refused(error, *facts):
        units.show_unit(thereafter.load(ready_folder / name), **asked).model_dump()


def test_a_text_that_is_gone_or_not_here_is_not_looked_for_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "book.txt"
    path.write_text("one two three four five\n" * 60)
    lm = thereafter.train(path, model="rnn", tokens="word", hidden=4, tokens_budget=100, seed=0)
    assert units.own_text(lm)[0].startswith("one two")
    path.unlink()
    with assert_refused(SourceError, str(tmp_path)[:40]):
        units.own_text(lm)
    monkeypatch.setenv("THEREAFTER_DATA", str(tmp_path))
    monkeypatch.setenv("THEREAFTER_CACHE", str(tmp_path))
    lm.config["source"] = {"name": "wikitext-2"}
    with assert_refused(CorpusError, "thereafter data get wikitext-2"):
        units.own_text(lm)


def test_the_text_of_a_folder_with_parts_is_its_test_part(tmp_path: Path):
    for part, line in (("train", "one two three"), ("test", "four five six")):
        (tmp_path / f"{part}.txt").write_text(f"{line}\n" * 60)
    lm = thereafter.train(tmp_path, model="rnn", tokens="word", hidden=4, tokens_budget=100, seed=0)
    assert units.own_text(lm)[0].startswith("four five")


def test_every_property_can_be_asked_for(server: Any):
    assert list(get_args(PropertyName)) == list(PROPERTIES)
    with urllib.request.urlopen(server.address + "/api/units/properties", timeout=120) as answer:
        found = json.loads(answer.read())
    assert [one["name"] for one in found] == list(PROPERTIES)
    assert {one["name"]: one["yes_no"] for one in found}["line-position"] is False
