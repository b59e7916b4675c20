"""The picture of the unit that carries the number: drawn from the traces it is given, in words that follow them."""

from __future__ import annotations

import numpy as np

from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.figures.units import number_along
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.trace import Trace


def traced(words: str, seed: int) -> Trace:
    draw = np.random.default_rng(seed)
    tokens = words.split()
    names = ("l0.h", "l0.c", "l0.input", "l0.forget", "l0.output")
    arrays = {name: draw.random((len(tokens), 6)) for name in names}
    return Trace(tokens, [], arrays, dict.fromkeys(names, ("step", "unit")), {"model": "LstmModel"})


def best(against: float = 0.9) -> Measurement:
    arrays = {"unit": np.array(["l0.c[4]"]), "held_out": np.array([0.97]), "against": np.array([against])}
    axes = dict.fromkeys(arrays, ("rank",)) | {"control": ("shuffle",)}
    return Measurement("number-unit", arrays | {"control": np.array([0.51, 0.55])}, axes, {"units": 12})


def test_the_unit_and_its_gates_are_those_of_the_traces():
    one, other = traced("the dog near us barks", 0), traced("the dogs near us bark", 1)
    figure = number_along(best(), one, other, subject=1, verb=4, model="an LSTM")
    assert figure.table["word"] == ["the", "dog / dogs", "near", "us", "barks / bark"]
    np.testing.assert_allclose(figure.table["c, plural"], other["l0.c"][:, 4], atol=1e-5)
    np.testing.assert_allclose(figure.table["forget gate, singular"], one["l0.forget"][:, 4], atol=1e-5)
    np.testing.assert_allclose(figure.table["input gate, mean of all units"], one["l0.input"].mean(axis=1), atol=1e-5)
    assert figure.table["between subject and verb"] == [False, False, True, True, False]
    assert "l0.c[4] of an LSTM" in figure.caption
    assert "AUC 0.97" in figure.caption
    assert "0.90 after a noun of the other number" in figure.caption
    assert "at most 0.55" in figure.caption
    assert "after a noun" not in number_along(best(np.nan), one, other, subject=1, verb=4, model="m").caption


def test_sentences_of_different_length_are_no_twins():
    with assert_refused(OptionError, 2, 3):
        number_along(best(), traced("a b", 0), traced("a b c", 0), subject=0, verb=1, model="m")
