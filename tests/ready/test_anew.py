"""What panels and pictures claim of the shipped models is no accident of one seed: smaller models, trained with two
other seeds, show it too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import thereafter
from thereafter.evaluation.agreement import measure_agreement
from thereafter.inspection.properties import PROPERTIES
from thereafter.inspection.sentence_reader import SentenceReader
from thereafter.inspection.units import number_unit, search
from thereafter.text.agreement import read_sentences, write_corpus
from thereafter.text.sources import resolve

BETWEEN = 6
BUDGETS = {"gru": 200_000, "lstm": 800_000}
RATES = {"gru": 0.015, "lstm": 0.015}
SEEDS = [1, pytest.param(2, marks=pytest.mark.slow)]
SMALL: dict[str, Any] = {"embed": 32, "layers": 1, "tied": False, "dropout": 0.0}


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    sizes = {"train": 20_000, "valid": 300, "test": 1_500}
    return write_corpus(tmp_path_factory.mktemp("sentences"), sizes=sizes, max_distance=BETWEEN)


@pytest.fixture
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # tests run side by side
    yield
    torch.set_num_threads(threads)


@pytest.mark.wide
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["gru", pytest.param("lstm", marks=pytest.mark.slow)])
def test_a_gated_network_keeps_the_number_in_one_unit(kind: str, seed: int, parts: dict[str, Path]):
    """A GRU agrees with 0.973 and 0.975 of the subjects for the seeds 1 and 2 (on an ARM processor), its unit with all;
    with 350,000 tokens and a rate of 0.01 it was 0.995 and 0.989."""
    options = SMALL | {"hidden": 64, "batch": 16, "batching": "lines", "text.context": "line", "validate_every": 2_000}
    lm = thereafter.train(
        parts["train"],
        model=kind,
        tokens="word",
        valid=parts["valid"],
        seed=seed,
        tokens_budget=BUDGETS[kind],
        rate=RATES[kind],
        **options,
    )
    sentences = list(read_sentences(parts["test"].with_suffix(".jsonl")))
    agreement = measure_agreement(lm.model, lm.tokenizer, sentences, context="line")
    assert agreement.between(BETWEEN - 2, BETWEEN).accuracy > 0.9
    units = number_unit(
        SentenceReader.of(lm.model, lm.tokenizer, lm.config), sentences, field="c" if kind == "lstm" else "h"
    )
    assert units["held_out"][0] > 0.9
    assert units["against"][0] > 0.9, "it follows the subject, not the last noun"
    assert units["control"].max() < 0.6


@pytest.mark.wide
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_character_model_has_a_unit_for_what_is_no_code(seed: int):
    """Margins over the control are 0.18 to 0.33 for the seeds 1 to 4 (on an ARM processor); with half the tokens and a
    rate of 0.01 they were 0.095 to 0.15 for 1 to 3, and the rounding of the processor decided."""
    lm = thereafter.train(
        "python-code",
        model="lstm",
        tokens="char",
        seed=seed,
        tokens_budget=1_200_000,
        rate=0.015,
        weight_decay=0.1,
        hidden=64,
        batch=8,
        steps=100,
        **SMALL,
    )
    text = resolve("python-code:test").parts["text"].text()
    units = search(lm.model, lm.tokenizer, text, [PROPERTIES["quotes-or-comment"]], limit=100_000)
    assert units["held_out"][0, 0] > units["control"][0] + 0.1
