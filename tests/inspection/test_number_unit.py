"""The unit of the subject's number: a planted one is chosen, one that follows the last noun is told from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import thereafter
from breadth import core
from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.inspection.sentence_reader import SentenceReader
from thereafter.inspection.units import number_unit
from thereafter.models.build import build, settings_of
from thereafter.text.agreement import Attractor, Number, Sentence
from thereafter.text.agreement import sentences as generated

NUMBERS: tuple[Number, Number] = ("singular", "plural")
SUBJECTS = {"singular": ("farmer", "poet", "pilot"), "plural": ("farmers", "poets", "pilots")}
OTHERS = {"singular": ("lamp", "clock"), "plural": ("lamps", "clocks")}
KEEPER, FOLLOWER = 5, 3
_SHUT = -200.0  # a gate that is exactly 0 in float32


def made_sentences(count: int, seed: int = 0, attracted: bool = True) -> list[Sentence]:
    """Subjects and the nouns after them are different words, so that a unit can be told to read either."""
    draw = np.random.default_rng(seed)
    every = []
    for _ in range(count):
        number, other = NUMBERS[draw.integers(2)], NUMBERS[draw.integers(2)]
        noun = str(draw.choice(SUBJECTS[number]))
        verb, wrong = ("is", "are") if number == "singular" else ("are", "is")
        often = ["often"] * int(draw.integers(1, 4))
        if attracted:
            words = ("the", noun, "near", "the", str(draw.choice(OTHERS[other])), *often, verb, "old", ".")
            nouns: tuple[Attractor, ...] = (Attractor(4, other),)
        else:
            words, nouns = ("the", noun, *often, verb, "old", "."), ()
        every.append(Sentence(words, "agreement", 1, words.index(verb), wrong, number, nouns))
    return every


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    text = "".join(f"{one.text}\n" for one in made_sentences(200)) + "is are\n"
    return thereafter.train(text=text, tokens="word", order=1, min_count=1).tokenizer


def reader_of(tokenizer: Any, kind: str = "lstm", context: str = "line", **sizes: int) -> SentenceReader:
    torch.manual_seed(3)
    about = {"vocabulary_size": len(tokenizer.vocabulary), "context": context, "line_end": tokenizer.line_end_id}
    settings = settings_of(kind)(**({"hidden": 12, "layers": 1, "tied": False} | sizes))
    model = build(kind, settings.complete(about["vocabulary_size"]), **about)
    return SentenceReader(model.eval(), tokenizer, context, name=kind, source="nothing")


def planted(reader: SentenceReader) -> SentenceReader:
    """Unit KEEPER adds up the subject's number and never forgets; FOLLOWER holds the number of the last noun."""
    layers, table = reader.model.layers, reader.model.embedding.weight  # type: ignore[attr-defined]
    cell = layers.lanes[0].cell
    with torch.no_grad():
        table[:, :3] = 0.0
        for sign, number in ((-1.0, "singular"), (1.0, "plural")):
            for noun in (*SUBJECTS[number], *OTHERS[number]):
                row = reader.word(noun)
                table[row, 0] = sign if noun in SUBJECTS[number] else 0.0
                table[row, 1], table[row, 2] = sign, 1.0
        for unit, column, forgets in ((KEEPER, 0, 0.0), (FOLLOWER, 1, -60.0)):
            gates = {"input": (0.0, 30.0), "forget": (forgets, 30.0), "output": (0.0, _SHUT), "cell": (0.0, 0.0)}
            for gate, (at_noun, bias) in gates.items():
                row = cell.rows(gate).start + unit
                layers.weight_ih_l0[row], layers.weight_hh_l0[row] = 0.0, 0.0
                layers.weight_ih_l0[row, 2] = at_noun
                layers.bias_ih_l0[row], layers.bias_hh_l0[row] = bias, 0.0
            layers.weight_ih_l0[cell.rows("cell").start + unit, column] = -2.0 if unit == KEEPER else 2.0
    return reader


@pytest.mark.parametrize("context", ["line", "stream"])
def test_a_planted_unit_is_chosen_and_one_that_follows_the_last_noun_is_told_from_it(tokenizer: Any, context: str):
    reader = planted(reader_of(tokenizer, context=context))
    measured = number_unit(reader, made_sentences(400, 1), top=24)
    assert measured["unit"][0] == f"l0.c[{KEEPER}]"
    assert measured["direction"][0] == -1  # it was planted upside down
    assert measured["chosen"][0] == measured["held_out"][0] == measured["against"][0] == 1.0
    assert measured["plural"][0] == pytest.approx(-np.tanh(2.0), abs=1e-4)
    assert measured["singular"][0] == pytest.approx(np.tanh(2.0), abs=1e-4)
    follower = measured["unit"].tolist().index(f"l0.c[{FOLLOWER}]")
    assert 0.5 < measured["held_out"][follower] < 0.9  # right before the second noun, a toss-up after it
    assert measured["against"][follower] == 0.0
    assert measured["control"].max() < 0.7
    assert measured.about["units"] == 24


def test_the_figures_are_those_of_a_plain_count_over_single_sentences(tokenizer: Any):
    """Every sentence read alone, token by token, and every pair of places compared."""
    reader, every = reader_of(tokenizer, layers=2), made_sentences(120, 2)
    measured = number_unit(reader, every)
    field, unit = str(measured["unit"][0]).removesuffix("]").split("[")
    layer, name = field.split(".")
    values: dict[bool, list[float]] = {False: [], True: []}
    for one in every[60:]:
        state = reader.model.start(1)
        for place, token in enumerate(reader.ids(" ".join(one.prefix)).tolist()):
            _, state = reader.model.step(np.array([token]), state)
            if place > one.opener:
                values[one.number == "plural"].append(float(state.memory[f"{name}_{layer}"][0, int(unit)]))
    plural, singular = np.array(values[True]), np.array(values[False])
    auc = float((plural[:, None] > singular).mean() + (plural[:, None] == singular).mean() / 2)
    assert measured["held_out"][0] == pytest.approx(auc if measured["direction"][0] > 0 else 1 - auc, abs=1e-3)
    assert measured["plural"][0] == pytest.approx(plural.mean(), abs=1e-5)


def test_without_nouns_between_there_is_nothing_to_be_attracted_by(tokenizer: Any):
    measured = number_unit(planted(reader_of(tokenizer)), made_sentences(200, 3, attracted=False))
    assert np.isnan(measured["against"]).all()
    assert measured["held_out"][0] == 1.0


def test_one_field_can_be_asked_for(tokenizer: Any):
    reader = planted(reader_of(tokenizer))
    measured = number_unit(reader, made_sentences(120, 5), field="c", top=3)
    assert measured.about["units"] == 12
    assert measured["unit"][0] == f"l0.c[{KEEPER}]"
    assert number_unit(reader, made_sentences(120, 5), field="h")["unit"][0].startswith("l0.h[")
    with assert_refused(OptionError, "c", "h"):
        number_unit(reader_of(tokenizer, "gru"), made_sentences(120, 5), field="c")


@pytest.mark.parametrize("kind", core(["rnn", "gru", "mingru"], ["gru"]))
def test_cells_without_c_show_their_h(tokenizer: Any, kind: str):
    measured = number_unit(reader_of(tokenizer, kind), made_sentences(120, 4), top=3)
    assert all(unit.startswith("l0.h[") for unit in measured["unit"].tolist())
    assert (np.diff(measured["chosen"]) <= 0).all()


def test_what_cannot_be_searched_says_so(tokenizer: Any):
    reader = reader_of(tokenizer)
    with assert_refused(OptionError, 20):
        number_unit(reader, made_sentences(40))
    adjacent = list(generated(300, seed=1, max_distance=0))
    with assert_refused(OptionError, 0, "singular", "plural"):
        number_unit(reader, adjacent)
    with assert_refused(OptionError, "transformer", "lstm"):
        number_unit(reader_of(tokenizer, "transformer", heads=2), made_sentences(200))
