"""Probes: the solver against closed forms and brute force, and a model whose memory was planted by hand."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import thereafter
from breadth import core
from refusals import assert_refused
from thereafter import instruments
from thereafter.cli import app
from thereafter.errors import OptionError
from thereafter.gallery.memory import expectation
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.probing import control_labels, fit, probe_class, probe_number, read, read_states
from thereafter.inspection.properties import CLASSES, word_classes
from thereafter.inspection.sentence_reader import SentenceReader
from thereafter.models.build import build, settings_of
from thereafter.text.agreement import sentences
from thereafter.text.agreement.lexicon import lexicon

TEXT = "".join(f"{one.text}\n" for one in sentences(300, seed=2, max_distance=12))


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    words = sorted(word_classes()) + TEXT.split()
    return thereafter.train(text=" ".join(words) + "\n", tokens="word", order=1, min_count=1).tokenizer


def reader_of(tokenizer: Any, kind: str, /, read: str = "line", **options: Any) -> SentenceReader:
    torch.manual_seed(0)
    about = {"vocabulary_size": len(tokenizer.vocabulary), "context": read, "line_end": tokenizer.line_end_id}
    model = build(kind, settings_of(kind)(**options).complete(about["vocabulary_size"]), **about)
    return SentenceReader(model.eval(), tokenizer, read, name=kind, source="nothing")


def test_a_probe_of_one_feature_finds_the_log_odds():
    """With a yes-or-no feature and no penalty, both conditional shares are fitted exactly."""
    x = np.repeat([0.0, 0.0, 1.0, 1.0], [30, 10, 5, 55]).reshape(-1, 1)
    y = np.repeat([0, 1, 0, 1], [30, 10, 5, 55])
    probe = fit(x, y, 2, l2=0.0)
    np.testing.assert_allclose(np.exp(probe.log_prob(np.array([[0.0], [1.0]])))[:, 1], [10 / 40, 55 / 60], atol=1e-6)
    odds = probe.weight_CS[1, 0] - probe.weight_CS[0, 0]
    assert odds == pytest.approx(math.log(55 / 5) - math.log(10 / 30), abs=1e-5)


def test_states_that_never_move_leave_the_shares_of_the_labels():
    probe = fit(np.full((50, 3), 7.0), np.repeat([0, 1, 2], [25, 20, 5]), 3)
    np.testing.assert_allclose(np.exp(probe.log_prob(np.full((1, 3), 7.0)))[0], [0.5, 0.4, 0.1], atol=1e-6)


def test_the_penalised_optimum_is_flat_in_every_direction():
    """Brute force: by numbers, the objective rises whichever weight is moved either way."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(60, 3)), rng.integers(0, 3, 60)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    probe = fit(x, y, 3, l2=2.0)

    def objective(weight: np.ndarray, bias: np.ndarray) -> float:
        logits = x @ weight.T + bias
        logp = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return float(-logp[np.arange(60), y].sum() + 1.0 * (weight**2).sum())

    best = objective(probe.weight_CS, probe.bias_C)
    for place in np.ndindex(3, 3):
        for move in (-1e-3, 1e-3):
            moved = probe.weight_CS.copy()
            moved[place] += move
            assert objective(moved, probe.bias_C) > best


def test_bits_are_what_the_state_adds_to_the_shares():
    x = np.repeat([-1.0, 1.0], 200).reshape(-1, 1)
    y = np.repeat([0, 1], 200)
    told = read(fit(x, y, 2, l2=1e-3), x, y)
    assert told.accuracy == 1
    assert told.bits == pytest.approx(1, abs=0.01)
    nothing = read(fit(np.zeros((400, 1)), y, 2), np.zeros((400, 1)), y)
    assert (nothing.accuracy, nothing.chance) == (0.5, 0.5)
    assert nothing.bits == pytest.approx(0, abs=1e-9)


def test_the_control_gives_each_word_one_label():
    words = ["a", "b", "a", "c", "b", "a"] * 50
    labels = np.array([0, 1, 0, 1, 1, 0] * 50)
    drawn = control_labels(words, labels, seed=4)
    assert all(len({int(label) for word, label in zip(words, drawn, strict=True) if word == one}) == 1 for one in "abc")
    np.testing.assert_array_equal(drawn, control_labels(words, labels, seed=4))


def write_numbers(reader: SentenceReader) -> None:
    """Word vectors whose first number is the grammatical one, and the last one noise."""
    weight = reader.model.embedding.weight  # type: ignore[attr-defined]
    with torch.no_grad():
        weight.zero_()
        weight[:, -1].uniform_(-1, 1)
        for noun in lexicon().all_nouns:
            weight[reader.word(noun.singular), 0], weight[reader.word(noun.plural), 0] = -1, 1


def planted(tokenizer: Any) -> SentenceReader:
    """An Elman net whose unit 0 takes the number of the first noun and holds it; unit 1 is busy with all words.

        h0 <- tanh(10 h0 + 5 x0),   x0 = -1 for singular nouns, +1 for plural ones, 0 for others

    A later noun moves the sum by 5 where 10 hold it, so that the first noun decides for good: the subject.
    """
    reader = reader_of(tokenizer, "rnn", embed=2, sizes=(2,), tied=False)
    model: Any = reader.model
    write_numbers(reader)
    with torch.no_grad():
        weights = model.layers.lane_weights(model.layers.lanes[0])
        for name, weight in weights.items():
            weight.zero_()
            if name == "weight_hh":
                weight[0, 0] = 10
            if name == "weight_ih":
                weight[0, 0], weight[1, 1] = 5, 0.01
    return reader


def test_a_probe_finds_the_number_that_one_unit_stores_and_the_control_stays_at_chance(tokenizer: Any):
    found = probe_number(planted(tokenizer), (0, 1, 5, 20, 40), count=450)
    np.testing.assert_array_equal(found["accuracy"], np.ones((1, 5)))
    assert found["bits"].min() > 0.9
    assert abs(found["control"] - 0.5).max() < 0.1
    assert abs(found["control_bits"]).max() < 0.05
    assert found["distance"].tolist() == [0, 1, 5, 20, 40]


def test_a_model_that_remembers_nothing_is_at_chance(tokenizer: Any):
    """A window of two words sees the subject, and cannot know it five words on."""
    reader = reader_of(tokenizer, "window", window=2, embed=8, hidden=8)
    write_numbers(reader)
    found = probe_number(reader, (0, 5), count=450)
    assert found["accuracy"][0, 0] > 0.95
    assert found["accuracy"][0, 1] < 0.6
    assert found["bits"][0, 1] < 0.05


def test_word_class_is_read_from_word_vectors_that_spell_it_out(tokenizer: Any):
    reader = reader_of(tokenizer, "lstm", embed=len(CLASSES), sizes=(6, 6), tied=False)
    model: Any = reader.model
    with torch.no_grad():
        model.embedding.weight.zero_()
        for word, name in word_classes().items():
            model.embedding.weight[reader.word(word), CLASSES.index(name)] = 1
    found = probe_class(reader, count=60)
    assert found["layer"].tolist() == ["words", "l0", "l1"]
    assert found["accuracy"][0] == 1
    assert found["control"][0] < 0.6
    assert found["share"].sum() == pytest.approx(1)


@pytest.mark.parametrize("context", core(["line", "stream"], ["stream"]))
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("lstm", {"embed": 5, "sizes": (6, 7), "tied": False}),
        ("mingru", {"embed": 5, "sizes": (6,), "tied": False}),
        ("transformer", {"hidden": 8, "layers": 2, "heads": 2, "context": 6}),
        ("window", {"window": 3, "embed": 4, "hidden": 5}),
    ],
)
def test_states_are_those_of_the_fast_path_whoever_is_read_beside(
    tokenizer: Any, kind: str, options: dict[str, Any], context: str
):
    reader = reader_of(tokenizer, kind, context, **options)
    model: Any = reader.model
    known = [one.words for one in sentences(5, seed=3, max_distance=9)]
    together = read_states(reader, known)
    for words, layers in zip(known, together, strict=True):
        alone = read_states(reader, [words])[0]
        state, last = model.start(1), list(layers)[-1]
        ids = reader.ids(" ".join(words))
        for name, states in layers.items():
            assert len(states) == len(words)
            np.testing.assert_allclose(states, alone[name], atol=1e-5)
        for step, token in enumerate(ids):
            state = model.step(np.array([token]), state)[1]
            at = step - (len(ids) - len(words))
            if at >= 0:
                top = torch.from_numpy(layers[last][at : at + 1])
                seen = model.norm(top) if kind == "transformer" else top
                np.testing.assert_allclose(seen.detach().numpy(), state.features_BH.numpy(), atol=1e-5)


def test_the_cell_state_of_an_lstm_is_read_on_request(tokenizer: Any):
    """Against one step after the other."""
    reader = reader_of(tokenizer, "lstm", hidden=7, layers=1)
    words = TEXT.splitlines()[3].split()
    states = read_states(reader, [words], field="c")[0]["l0"]
    model: Any = reader.model
    state = model.start(1)
    for at, token in enumerate(reader.ids(" ".join(words))):
        state = model.step(np.array([token]), state)[1]
        np.testing.assert_allclose(states[at], state.memory["c_l0"][0].numpy(), atol=1e-5)
    with assert_refused(OptionError, "c", "h"):
        read_states(reader_of(tokenizer, "gru", hidden=7, layers=1), [words], field="c")


def test_counting_models_have_no_states_and_letters_no_words(tokenizer: Any):
    lm = thereafter.train(text=TEXT, tokens="word", order=2)
    with assert_refused(OptionError, "ngram"):
        probe_class(SentenceReader.of(lm.model, lm.tokenizer, lm.config))
    letters = thereafter.train(text=TEXT[:500], tokens="char", model="rnn", hidden=4, epochs=0.01)
    with assert_refused(OptionError, "char", "word"):
        probe_class(SentenceReader.of(letters.model, letters.tokenizer, letters.config))
    with assert_refused(OptionError, 0, 40):
        probe_number(reader_of(tokenizer, "rnn", hidden=4), (41,))


def test_a_model_that_knows_no_subject_is_not_probed():
    text = "le chat dort\nla souris mange\n" * 20
    stranger = thereafter.train(text=text, tokens="word", model="rnn", hidden=4, epochs=0.1)
    for what, words in (("number", "the subject noun"), ("class", "the word read")):
        with pytest.raises(OptionError, match=rf"rnn knows 0 of the \d+ words .*, and {words} in none of"):
            instruments.probe(stranger, what, count=30)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "head", "said"),
    [
        ("number", "words after", "the subject's number, read from the last layer"),
        ("class", "layer", "selectively read"),
    ],
)
def test_probes_on_the_command_line(tmp_path: Path, kind: str, head: str, said: str):
    text = " ".join([*sorted(word_classes()), *sorted(word_classes())]) + f"\n{TEXT}"
    thereafter.train(text=text, tokens="word", model="rnn", hidden=6, epochs=0.02, out=tmp_path / "run")
    asked = ["inspect", "probe", str(tmp_path / "run"), "--property", kind, "--count", "60"]
    ended = CliRunner().invoke(app, [*asked, "--out", str(tmp_path / "found.npz")])
    assert ended.exit_code == 0, ended.output
    assert said in ended.output
    assert head in ended.output
    assert re.search(r"it knows \d+ of the \d+ words of these sentences", ended.output)
    assert Measurement.load(tmp_path / "found.npz").kind == f"probe-{kind}"


def test_expectations_are_the_models_own_predictions():
    lm = thereafter.train(text=TEXT, tokens="word", order=3)
    found = expectation(SentenceReader.of(lm.model, lm.tokenizer, lm.config), "the dog near the cats", ["was", "were"])
    assert found["probability"].shape == (5, 2)
    for step, prompt in enumerate(("the", "the dog", "the dog near", "the dog near the", "the dog near the cats")):
        p = lm.distribution(prompt)
        wanted = [p[lm.tokenizer.encode(word)[0]] for word in ("was", "were")]
        np.testing.assert_allclose(found["probability"][step], wanted, rtol=1e-6)
