"""What captions say of a source's claim follows the numbers: each verdict comes out both ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from thereafter.figures.figure import Figure
from thereafter.gallery import claims
from thereafter.gallery.build import build
from thereafter.gallery.models import IN_PLURAL, SENTENCE, SUBJECT, VERB, GalleryPicture, Models
from thereafter.inspection.properties import word_classes


def figure(**table: Any) -> Figure:
    return Figure("one", "One", "Measured.", None, {name.replace("_", " "): values for name, values in table.items()})


def long(key: str, value: str, rows: dict[str, dict[Any, float]]) -> Figure:
    """A table with a row for each model and place."""
    flat = [(model, place, number) for model, line in rows.items() for place, number in line.items()]
    columns = zip(*flat, strict=True)
    return Figure("one", "One", "Measured.", None, dict(zip(("model", key, value), map(list, columns), strict=True)))


def gates(forget: float, noun: float, size: float) -> Figure:
    table = {"word": ["the", "trophy", "was"], "forget gate": [forget] * 3, "input gate": [0.5, noun, 0.5]}
    return Figure("one", "One", "Measured.", None, table | {"mean |c|": [1.0, 1.0, size]})


def unit(plural: float, forget: float) -> Figure:
    table: dict[str, list[Any]] = {"c, singular": [0.0, -1.0, -1.0], "c, plural": [0.0, 1.0, plural]}
    table |= {f"forget gate, {name}": [0.1, forget, forget] for name in ("singular", "plural", "mean of all units")}
    return Figure("one", "One", "Measured.", None, table | {"between subject and verb": [False, True, True]})


def heads(weight: float) -> Figure:
    """One head over three tokens: the reader before the verb is the third, the subject the first."""
    read = [(r, c) for r in range(3) for c in range(r + 1)]
    weights = [weight if place == (2, 0) else 0.1 for place in read]
    return figure(layer=[1] * 6, head=[1] * 6, weight=weights, reading_token=["a"] * 6, token_read=["b"] * 6)


def curves(early: float, valid: float) -> Figure:
    part = ["training", "training", "validation", "validation"]
    return figure(model=["m"] * 4, part=part, tokens_seen=[1, 100, 25, 100], perplexity=[800.0, 20.0, early, valid])


def units(auc: float, control: float) -> Figure:
    named = {"property": ["quotes", "column"], "measure": ["AUC", "correlation"], "held out": [auc, 0.99]}
    return Figure("one", "One", "Measured.", None, named | {"control": [control, 0.0]})


SMALL = {"rnn": {1: 0.2, 8: 0.05}, "lstm": {1: 1.0, 8: 0.9}}
SAME = {"rnn": {1: 1.0, 8: 0.9}, "lstm": {1: 1.0, 8: 0.9}}
MISLED = {"rnn": {"congruent": 0.9, "incongruent": 0.4}, "lstm": {"congruent": 1.0, "incongruent": 0.9}}
NOT_MISLED = {"rnn": {"congruent": 0.9, "incongruent": 0.4}, "lstm": {"congruent": 0.9, "incongruent": 1.0}}
REACHED = {"rnn": {1: 1.0, 5: 0.3, 9: 1.0}, "gru": {1: 1.0, 5: 1.0, 9: 0.5}, "lstm": {1: 1.0, 5: 0.95, 9: 0.2}}
LOST = REACHED | {"lstm": {1: 0.4, 5: 0.95, 9: 0.2}}
SURE = {"rnn": {"a": 0.9, "b": 0.52}, "gru": {"a": 0.1, "b": 0.97}, "lstm": {"a": 0.1, "b": 0.99}}
UNSURE = SURE | {"rnn": {"a": 0.5, "b": 0.98}}
CLIPPED = {"tanh clipped at 5": {1: 0.9}, "relu clipped at 5": {1: 0.5}, "tanh clipped at 0.1": {1: 0.9}}
PAIRS = [
    (claims.mean_gates, gates(0.95, 0.9, 2.0), gates(0.5, 0.1, 0.5)),
    (claims.number_kept, unit(0.5, 0.99), unit(-2.0, 0.99)),
    (claims.number_kept, unit(0.5, 0.99), unit(0.5, 0.5)),
    (claims.heads_look_back(3, 0), heads(0.7), heads(0.3)),
    (claims.fast_then_slow, curves(25.0, 22.0), curves(700.0, 18.0)),
    (claims.units_follow_text, units(0.95, 0.5), units(0.95, 0.7)),
    (claims.units_follow_text, units(0.95, 0.5), units(0.8, 0.5)),
    (claims.rnn_forgets, long("distance", "bits", SMALL), long("distance", "bits", SAME)),
    (claims.attractors_mislead, long("last noun", "mean", MISLED), long("last noun", "mean", NOT_MISLED)),
    (claims.gated_remember_longer, long("n", "accuracy", REACHED), long("n", "accuracy", LOST)),
    (claims.verb_is_expected, long("after", "share", SURE), long("after", "share", UNSURE)),
    (
        claims.distance_hurts_rnn,
        long("words between", "mean", {"rnn": {"0": 1.0, "9-12": 0.5}, "lstm": {"0": 1.0, "9-12": 0.9}}),
        long("words between", "mean", {"rnn": {"0": 1.0, "9-12": 0.95}, "lstm": {"0": 1.0, "9-12": 0.99}}),
    ),
    (
        claims.clipping_saves_relu,
        long("n", "accuracy", CLIPPED | {"relu clipped at 0.1": {1: 0.9}}),
        long("n", "accuracy", CLIPPED | {"relu clipped at 0.1": {1: 0.4}}),
    ),
    (
        claims.truncation_hurts,
        long("n", "accuracy", {"cut after 4 words": {1: 0.3}, "cut after 32 words": {1: 0.9}}),
        long("n", "accuracy", {"cut after 4 words": {1: 0.9}, "cut after 32 words": {1: 0.9}}),
    ),
    (claims.longer_is_sparser, figure(seen_in_new_text=[1.0, 0.5, 0.1]), figure(seen_in_new_text=[1.0, 0.5, 0.6])),
    (
        claims.low_temperature_sharpens,
        Figure("t", "T", "", None, {"T=0.5": [0.9], "T=2": [0.3]}),
        Figure("t", "T", "", None, {"T=0.5": [0.3], "T=2": [0.9]}),
    ),
    (claims.gru_is_smaller, figure(cell=["gru", "lstm"], counted=[3, 4]), figure(cell=["gru", "lstm"], counted=[4, 4])),
    (
        claims.more_open_than_shut,
        Figure("s", "S", "", None, {"gate value": [0.05, 0.95], "l0.forget": [0.2, 0.8]}),
        Figure("s", "S", "", None, {"gate value": [0.05, 0.95], "l0.forget": [0.8, 0.2]}),
    ),
    (claims.some_remember_long, figure(steps=[1.0, 30.0]), figure(steps=[1.0, 3.0])),
    (
        claims.lower_layers_know,
        figure(layer=["word vectors", "layer 1", "layer 2"], selectivity=[0.1, 0.5, 0.3]),
        figure(layer=["word vectors", "layer 1", "layer 2"], selectivity=[0.9, 0.3, 0.5]),
    ),
    (
        claims.gates_of_classes,
        Figure("g", "G", "", None, {"class": ["noun", "determiner", "sentence end"], "words": [5, 5, 5],
                                    "forget gate": [0.5, 0.5, 0.9], "input gate": [0.9, 0.2, 0.2]}),
        Figure("g", "G", "", None, {"class": ["noun", "determiner", "sentence end"], "words": [5, 5, 5],
                                    "forget gate": [0.9, 0.95, 0.9], "input gate": [0.2, 0.9, 0.2]}),
    ),
    (
        claims.near_positions_alike,
        figure(position=[0, 0, 1, 1, 2, 2, 3, 3], value=[1.0, 0.0, 0.9, 0.1, 0.1, 0.9, 0.0, 1.0]),
        figure(position=[0, 0, 1, 1, 2, 2, 3, 3], value=[1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0]),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("claim", "shows", "does_not"), PAIRS)
def test_a_verdict_follows_the_numbers(claim: Any, shows: Figure, does_not: Figure):
    assert "here it does not show" not in claim(shows)
    assert claim(shows).startswith("As the ")
    assert "here it does not show" in claim(does_not)


def test_senses_and_paths_are_compared_as_they_lie():
    apart = {"mean_cosine_with_its_own_sense": [0.9, 0.8], "mean_cosine_with_the_others": [0.1, 0.2]}
    assert "2 of 2" in claims.senses_apart(figure(**apart))
    mixed = apart | {"mean_cosine_with_the_others": [0.1, 0.9]}
    assert "here it does not show: 1 of 2" in claims.senses_apart(figure(**mixed))
    line, zigzag = np.linspace(0, 1, 20)[:, None], np.array([0.0, 1.0] * 10)[:, None]
    assert claims.step_share(zigzag) == pytest.approx(2.0)  # a whole width a step, half a width from the centre
    assert claims.cell_state_is_smoother(line, zigzag).startswith("As the book says")
    assert "here it does not show" in claims.cell_state_is_smoother(zigzag, line)


def test_the_caption_ends_with_what_the_numbers_say_of_the_claim(tmp_path: Any):
    shown = figure(seen_in_new_text=[1.0, 0.5])
    built = build(
        [GalleryPicture("one", "Elman (1990)", lambda models: shown, claims.longer_is_sparser)], Models(tmp_path)
    )
    assert built.failed == {}
    assert built.figures["one"].caption == f"Measured. {claims.longer_is_sparser(shown)}"


def test_the_models_know_every_word_of_the_running_example():
    """Its words are those the corpus is written with, and its plural twin differs in subject and verb alone."""
    known = word_classes()
    assert all(word in known for word in (*SENTENCE.split(), *IN_PLURAL.split()))
    pairs = list(zip(SENTENCE.split(), IN_PLURAL.split(), strict=True))
    assert [place for place, (one, other) in enumerate(pairs) if one != other] == [SUBJECT, VERB]
    assert (pairs[SUBJECT], pairs[VERB]) == (("trophy", "trophies"), ("was", "were"))
