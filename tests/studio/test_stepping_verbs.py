"""The verb `step` against `lm.trace` and `lm.next`, and its error sentences."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thereafter
from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.inspection.dynamics import GATES as BETWEEN_0_AND_1
from thereafter.ready.models import WORD_UNITS
from thereafter.studio.panels import stepping
from thereafter.studio.panels.stepping import equations, step

TEXT = "the nurse near the farmers is old ."


@pytest.fixture(
    scope="module",
    params=["mingru", "lstm", "rnn", *(pytest.param(kind, marks=pytest.mark.wide) for kind in ("minlstm", "gru"))],
)
def small(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Two layers of every kind of cell, hardly trained: what is shown must be right whatever was learned."""
    folder = tmp_path_factory.mktemp(request.param)
    text = "\n".join(["the nurse near the farmers is old .", "the nurses near the farmer are old ."] * 8)
    return thereafter.train(
        text=text, model=request.param, tokens="word", out=folder / "run", hidden=5, layers=2, tokens_budget=200, seed=0
    )


def test_the_steps_are_those_of_the_trace(small: Any):
    found, trace = step(small, prompt="", text=TEXT, limit=20).model_dump(), small.trace(TEXT)
    assert [one["token"] for one in found["steps"]] == trace.tokens
    assert found["layers"] == ["l0", "l1"]
    shown = {name for one in found["steps"] for part in ("state", "gates") for name in one[part]}
    fields = {"h", "c", "cell", "new", *BETWEEN_0_AND_1}
    assert shown == {name for name in trace.arrays if name.split(".")[-1] in fields}
    for t, one in enumerate(found["steps"]):
        for name, values in (one["state"] | one["gates"]).items():
            np.testing.assert_array_equal(np.float32(values), trace[name][t], err_msg=name)
        assert one["log_prob"] == pytest.approx(float(trace["log_prob"][t]))
    assert found["left"] == 0


def test_a_word_after_a_prompt_is_the_last_step_of_the_whole(small: Any):
    whole = step(small, prompt="", text="the nurse near the", limit=4).model_dump()["steps"]
    alone = step(small, prompt="the nurse near", text="the").model_dump()
    assert len(alone["steps"]) == 1
    for name, values in alone["steps"][0]["state"].items():
        np.testing.assert_allclose(values, whole[3]["state"][name], atol=1e-6)
        np.testing.assert_allclose(alone["before"]["state"][name], whole[2]["state"][name], atol=1e-6)


def test_what_is_expected_is_what_next_says(small: Any):
    found = step(small, prompt="the nurse", text="near the", k=3, limit=2).model_dump()
    for prompt, told in zip(
        ["the nurse", "the nurse near", "the nurse near the"], [found["before"], *found["steps"]], strict=True
    ):
        expected = small.next(prompt, 3)
        assert [one["text"] for one in told["next"]] == [text for text, _ in expected]
        np.testing.assert_allclose([one["p"] for one in told["next"]], [p for _, p in expected], rtol=1e-5)


def test_one_layer_without_gates(small: Any):
    found = step(small, prompt="", text="the nurse", layer=1, gates=False).model_dump()
    assert found["gates"] == []
    assert set(found["steps"][0]["state"]) <= {"l1.h", "l1.c"}
    assert found["steps"][0]["gates"] == {}
    assert found["left"] == 1
    with assert_refused(OptionError, "layer", 2, 0, 1):
        step(small, prompt="", text="the", layer=2).model_dump()


def test_the_equation_of_the_memory_holds_in_a_trace(small: Any):
    """What an equation says is kept of the old value, and what is new, make the value of the trace."""
    kind, trace = small.config["model"], small.trace(TEXT)
    rows = step(small, prompt="", text=TEXT, limit=20).equations
    assert rows == equations(small.model.layers.lanes[0].cell)
    for row in rows:
        assert not row.field or f"l0.{row.field}" in trace.arrays
    if kind == "rnn":
        assert [row.text for row in rows] == ["h_t = tanh(W x_t + U h_{t−1} + b)"]
        return
    (row,) = [row for row in rows if row.keeps]
    memory = trace[f"l0.{row.field}"].astype(float)
    gate = trace[f"l0.{row.keeps.removeprefix('1 - ')}"].astype(float)
    kept = 1 - gate if row.keeps.startswith("1 - ") else gate
    new = trace["l0.cell" if kind == "lstm" else "l0.new"].astype(float)
    write = trace["l0.input"].astype(float) if kind == "lstm" else 1 - kept
    np.testing.assert_allclose(memory[1:], kept[1:] * memory[:-1] + write[1:] * new[1:], atol=1e-5)


def test_every_gate_is_explained():
    assert set(stepping.GATES) == {*BETWEEN_0_AND_1, "cell", "new"}


@pytest.mark.parametrize(
    ("kind", "option", "meaning"),
    [
        ("gru", {}, "how much of the old state is kept"),
        *(
            pytest.param(kind, option, "how much of the state is made new", marks=pytest.mark.wide)
            for kind, option in (("gru", {"update": "new"}), ("mingru", {}))
        ),
    ],
)
def test_the_update_gate_means_what_the_cell_does_with_it(kind: str, option: dict[str, str], meaning: str):
    lm = thereafter.train(text="a b a b a b\n" * 20, model=kind, tokens="word", hidden=4, tokens_budget=50, **option)
    found = step(lm, prompt="a", text="b").model_dump()
    assert {one["name"]: one["meaning"] for one in found["gates"]}["update"] == meaning
    before, after = found["before"]["state"]["l0.h"], found["steps"][0]["state"]["l0.h"]
    share = np.array(found["steps"][0]["gates"]["l0.update"])
    kept = share if "kept" in meaning else 1 - share
    np.testing.assert_allclose(after, kept * before + (1 - kept) * lm.trace("a b")["l0.new"][1], atol=1e-6)


def test_unknown_words_keep_their_spelling(ready_folder: Path):
    lm = thereafter.load(ready_folder / "lstm")
    found = step(lm, prompt="", text="the family <b> old", limit=9).model_dump()["steps"]
    assert [one["form"] for one in found] == ["the", "family", "<", "b", ">", "old"], "marks apart, as in its own text"
    assert [one["known"] for one in found] == [True, False, False, False, False, True]
    assert found[1]["token"] == "<unk>"
    literal = step(lm, prompt="", text="the <unk> family", limit=9).model_dump()["steps"]
    assert [one["form"] for one in literal] == ["the", "<unk>", "<unk>"]


def test_a_letter_model_reads_letters(ready_folder: Path):
    lm = thereafter.load(ready_folder / "letters")
    found = step(lm, prompt="def ", text="ma 😀\n", limit=9).model_dump()["steps"]
    assert [one["form"] for one in found] == ["m", "a", " ", "😀", "\n"]
    assert found[0]["next"][0]["append"] == found[0]["next"][0]["text"]


@pytest.mark.parametrize("name", ["ngram", "window", "transformer"])
def test_a_model_that_does_not_recur_has_no_state_and_still_says_what_comes_next(ready_folder: Path, name: str):
    lm = thereafter.load(ready_folder / name)
    found = step(lm, prompt="the nurse", text="near", k=4).model_dump()
    assert found["layers"] == []
    assert found["steps"][0]["state"] == {} == found["steps"][0]["gates"]
    assert [one["text"] for one in found["steps"][0]["next"]] == [text for text, _ in lm.next("the nurse near", 4)]


def test_of_a_large_model_fewer_steps_are_shown(ready_folder: Path, monkeypatch: pytest.MonkeyPatch):
    lm = thereafter.load(ready_folder / "lstm")
    monkeypatch.setattr(stepping, "MOST_NUMBERS", 6 * WORD_UNITS * 3)
    found = step(lm, prompt="", text=TEXT, limit=20).model_dump()
    assert (len(found["steps"]), found["left"]) == (3, 5)
    assert len(step(lm, prompt="", text=TEXT, limit=20, gates=False).model_dump()["steps"]) == 8


def test_an_empty_text_is_refused_with_a_sentence(ready_folder: Path):
    lm = thereafter.load(ready_folder / "lstm")
    with assert_refused(OptionError, "empty"):
        step(lm, prompt="the", text="  ").model_dump()


def asked(address: str, body: dict[str, Any]) -> tuple[int, Any]:
    request = urllib.request.Request(
        f"{address}/api/step", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_over_the_wire_it_is_the_same(server: Any):
    status, answer = asked(
        server.address, {"model": "ready:gru", "prompt": "the nurse", "text": "near the", "limit": 2}
    )
    assert status == 200
    lm = thereafter.load(server.studio.shelf.place("ready:gru"))
    expected = step(lm, prompt="the nurse", text="near the", limit=2).model_dump()
    assert json.loads(json.dumps(expected)) == answer


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        ({"model": "ready:lstm", "text": "\t"}, 400, "the text to read is empty"),
        ({"model": "ready:lstm", "text": "the", "layer": 3}, 400, "layer is 3 and the model has 1"),
        ({"model": "ready:nothing", "text": "the"}, 404, "there is no model 'ready:nothing'"),
        ({"model": "ready:lstm", "text": ""}, 422, "text"),
        ({"model": "ready:lstm", "text": "the", "limit": 201}, 422, "limit"),
        ({"model": "ready:lstm", "text": "the", "k": "5"}, 422, "k"),
    ],
)
def test_what_cannot_be_answered_gets_a_sentence(server: Any, body: dict[str, Any], status: int, sentence: str):
    code, answer = asked(server.address, body)
    assert (code, sentence in answer["error"]) == (status, True), answer
