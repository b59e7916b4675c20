"""Units: a planted one is found first, figures are those of a plain count, a control stays at chance."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import thereafter
from breadth import core
from refusals import assert_refused
from thereafter.cli import app
from thereafter.errors import OptionError
from thereafter.inspection import properties, sentence_reader
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.units import search, selectivity
from thereafter.models.build import build, settings_of
from thereafter.training.kinds import Trained

LINES = ["the cat sat on the mat", 'she said "the dog is on the mat" to me', "a dog", 'so "it" goes on and on']


def written(lines: int, seed: int = 0) -> str:
    draw = np.random.default_rng(seed)
    return "".join(LINES[i] + "\n" for i in draw.integers(len(LINES), size=lines))


def made(kind: str = "lstm", tokens: str = "char", **sizes: int) -> thereafter.LanguageModel:
    """A model with fresh weights over the characters or words of the text."""
    counted = thereafter.train(text=written(200), tokens=tokens, order=1)
    torch.manual_seed(4)
    net = build(
        kind,
        settings_of(kind)(tied=False, **({"hidden": 12, "layers": 2, "embed": 8} | sizes)),
        vocabulary_size=len(counted.tokenizer.vocabulary),
        context=counted.config["text"]["context"],
        line_end=counted.tokenizer.line_end_id,
    )
    return thereafter.LanguageModel(Trained(net, counted.tokenizer, {**counted.config, "model": kind}))


@pytest.fixture(scope="module")
def lm() -> thereafter.LanguageModel:
    return made()


def planted(lm: thereafter.LanguageModel) -> int:
    """Unit 5 of the first layer counts characters and forgets them at a line end, whatever else the model does."""
    unit, gain = 5, 30.0
    layers, table = lm.model.layers, lm.model.embedding.weight
    cell, end = layers.lanes[0].cell, lm.tokenizer.line_end_id
    with torch.no_grad():
        table[:, 0] = 1.0
        table[end, 0] = -1.0  # the first number of a vector says: no line end
        for gate, weight, bias in (("input", gain, 0.0), ("forget", gain, 0.0), ("output", 0.0, -gain)):
            row = cell.rows(gate).start + unit
            layers.weight_ih_l0[row], layers.weight_hh_l0[row] = 0.0, 0.0
            layers.weight_ih_l0[row, 0] = weight
            layers.bias_ih_l0[row], layers.bias_hh_l0[row] = bias, 0.0
        row = cell.rows("cell").start + unit
        layers.weight_ih_l0[row], layers.weight_hh_l0[row] = 0.0, 0.0
        layers.bias_ih_l0[row], layers.bias_hh_l0[row] = 0.02, 0.0
    return unit


def test_a_planted_counter_is_found_first():
    lm = made()
    unit = planted(lm)
    found = search(lm.model, lm.tokenizer, written(200, 1), [properties.named("line-position")], top=3)
    assert found["unit"][0, 0] == f"l0.c[{unit}]"
    assert found["held_out"][0, 0] == pytest.approx(1.0, abs=1e-3)  # each half begins inside a line
    assert found["direction"][0, 0] == 1
    assert abs(found["control"][0]) < 0.3


def test_the_search_is_the_same_as_a_plain_count(lm):
    text = written(300, 2)
    found = search(lm.model, lm.tokenizer, text, [properties.named("speech"), properties.named("boundary")], top=4)
    ids = lm.tokenizer.encode(text)
    half = len(ids) // 2
    pieces = list(sentence_reader.stream_states(lm.model, ids[half:]))
    places = np.concatenate([piece.places_N for piece in pieces])
    truth = properties.speech(text)[half:][places]
    field, unit = found["unit"][0, 0].removesuffix("]").split("[")
    state = np.concatenate([piece.fields[field][:, int(unit)] for piece in pieces])
    higher = (state[truth][:, None] > state[~truth][None, :]).mean()
    same = (state[truth][:, None] == state[~truth][None, :]).mean()
    auc = higher + same / 2
    expected = auc if found["direction"][0, 0] > 0 else 1 - auc
    assert found["held_out"][0, 0] == pytest.approx(expected, abs=1e-9)
    assert set(found["token"][0]) <= set(text)
    assert found["value"].shape == found["truth"].shape == found["token"].shape


def test_selectivity_is_exact_also_with_ties():
    draw = np.random.default_rng(0)
    states = draw.integers(0, 6, size=(80, 70)).astype(np.float32)
    states[:, 3] = 1.0  # a dead unit
    labels = np.stack([draw.random(80) < 0.4, draw.normal(size=80), np.zeros(80)])
    found = selectivity(states, labels, np.array([True, False, True]))
    yes = labels[0].astype(bool)
    for unit in range(70):
        pairs = np.sign(states[yes, unit][:, None] - states[~yes, unit][None, :])
        assert found[0, unit] == pytest.approx(pairs.mean(dtype=np.float64), abs=1e-12)
        if unit != 3:
            assert found[1, unit] == pytest.approx(
                np.corrcoef(states[:, unit].astype(float), labels[1])[0, 1], abs=1e-12
            )
    assert found[:2, 3].tolist() == pytest.approx([0.0, 0.0], abs=1e-12)
    assert not found[2].any()  # a property that never holds


@pytest.mark.parametrize(
    ("kind", "tokens"),
    core(
        product(("lstm", "gru", "rnn", "mingru"), ("char", "word")),
        [("lstm", "char"), ("gru", "word"), ("mingru", "char")],
    ),
)
def test_streamed_states_are_those_of_a_trace(kind: str, tokens: str):
    lm = made(kind, tokens, layers=1)
    text = written(40, 3)
    trace = lm.trace(text)
    ids = lm.tokenizer.encode(text)[: len(trace.tokens)]
    (piece,) = sentence_reader.stream_states(lm.model, ids, rows=1, gates=True)
    assert piece.places_N.tolist() == list(range(len(ids)))
    for name, array in piece.fields.items():
        np.testing.assert_allclose(array, trace[name], atol=1e-5)
    several = list(sentence_reader.stream_states(lm.model, ids, rows=3, warm=len(ids)))
    places = np.concatenate([one.places_N for one in several])
    order = np.argsort(places)
    assert places[order].tolist() == list(range(len(ids)))
    states = np.concatenate([one.fields["l0.h"] for one in several])[order]
    np.testing.assert_allclose(states, trace["l0.h"], atol=1e-5)  # each row began where the text does


def test_what_cannot_be_searched_says_so(lm):
    ngram = thereafter.train(text=written(20), tokens="char", order=2)
    with assert_refused(OptionError, "ngram", "lstm"):
        search(ngram.model, ngram.tokenizer, written(100), [properties.named("speech")])
    with assert_refused(OptionError, 0):
        search(lm.model, lm.tokenizer, written(200), [properties.named("comment")])
    with assert_refused(OptionError):
        search(lm.model, lm.tokenizer, written(200), [])


def test_one_command_finds_saves_and_draws(lm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("thereafter.cli.inspect.trace.load", lambda run: lm)
    source = tmp_path / "new.txt"
    source.write_text(written(200, 5))
    out, page = tmp_path / "units.npz", tmp_path / "units.html"
    asked = ["inspect", "units", "run", str(source), "--property", "speech", "--regex", "on|the", "--top", "2"]
    done = CliRunner().invoke(app, [*asked, "--out", str(out), "--figure", str(page)])
    assert done.exit_code == 0, done.output
    assert "held out" in done.output
    assert "control" in done.output
    saved = Measurement.load(out)
    assert saved["property"].tolist() == ["speech", "/on|the/"]
    assert f"{saved['held_out'][0, 0]:.3f}" in done.output
    assert page.stat().st_size > 1000
