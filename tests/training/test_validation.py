"""Validation inside a training is what `score` says of the same text, wherever its rows begin."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

import thereafter
from thereafter.base.kinds import KINDS
from thereafter.models.build import build
from thereafter.models.neural import NeuralModel
from thereafter.models.settings import RnnSettings
from thereafter.training.neural import Validation

NEURAL = [name for name, kind in KINDS.items() if kind.neural]
TEXT = "".join(
    f"The {noun} of number {count} {verb} the {other}.\n"
    for count, (noun, verb, other) in enumerate(
        (noun, verb, other)
        for noun in ("farmer", "teacher", "baker", "sailor", "nurse", "child")
        for verb in ("sees", "likes", "follows", "helps", "knows")
        for other in ("dog", "horse", "boat", "bird", "river", "field")
    )
)


def nats_by_score(model: NeuralModel, ids: np.ndarray) -> float:
    """Mean -log p of a token, the text read in one row from its beginning."""
    logp_1T, _ = model.log_probs(ids[None], model.start(1))
    return -float(np.asarray(logp_1T).mean(dtype=float))


def latch(line_end: int | None = None) -> NeuralModel:
    """h = tanh(5 h + x): whatever the first input is, h keeps its sign for ever.

    `<s>` makes h positive, where both words have probability 1/2. The word 1 makes a fresh state negative, where it has
    a probability of 5e-5.
    """
    settings = RnnSettings(hidden=1, embed=1, tied=False, dropout=0.0)
    context = "stream" if line_end is None else "line"
    model = build("rnn", settings, vocabulary_size=2, context=context, line_end=line_end)
    weights = dict(model.named_parameters())
    with torch.no_grad():
        for weight in weights.values():
            weight.zero_()
        weights["embedding.weight"][:, 0] = torch.tensor([0.3, -0.3, 1.0])
        for name, weight in weights.items():
            if "weight_ih" in name or "weight_hh" in name:
                weight.fill_(5.0 if "hh" in name else 1.0)
        weights["head.weight"][:2, 0] = torch.tensor([0.0, 5.0])
        weights["head.bias"][:2] = torch.tensor([0.0, -5.0])
    return model.eval()


def test_rows_do_not_begin_in_mid_text_from_a_state_that_has_read_nothing() -> None:
    model, ids = latch(), np.random.default_rng(0).integers(0, 2, 12_000).astype(np.int32)
    assert nats_by_score(model, ids) == pytest.approx(math.log(2), rel=1e-2)
    assert Validation(ids, model, torch.device("cpu")).measure() == pytest.approx(nats_by_score(model, ids), rel=1e-4)


def test_lines_do_not_go_on_from_a_state_that_has_read_nothing_however_long_they_are() -> None:
    model, ids = latch(line_end=0), np.ones(9_000, dtype=np.int32)
    ids[[*range(9, 1_000, 10), 1_200, 4_600, 8_999]] = 0
    assert nats_by_score(model, ids) < 0.75
    assert Validation(ids, model, torch.device("cpu")).measure() == pytest.approx(nats_by_score(model, ids), rel=1e-4)


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("lstm", "prose"),
        ("transformer", "prose"),
        ("window", "word"),
        *(
            pytest.param(name, "prose", marks=pytest.mark.wide)
            for name in NEURAL
            if name not in ("lstm", "transformer")
        ),
        *(pytest.param("lstm", form, marks=pytest.mark.wide) for form in ("word", "char", "bpe")),
    ],
)
def test_it_equals_the_score_of_the_weights_that_are_kept(name: str, tokens: str, tmp_path: Path) -> None:
    train, valid = TEXT[: len(TEXT) // 2], TEXT[len(TEXT) // 2 :]
    (tmp_path / "train.txt").write_text(train, encoding="utf-8")
    (tmp_path / "valid.txt").write_text(valid, encoding="utf-8")
    lm = thereafter.train(
        str(tmp_path / "train.txt"),
        model=name,
        tokens=tokens,
        valid=str(tmp_path / "valid.txt"),
        tokens_budget=2000,
        out=str(tmp_path / "run"),
    )
    lines = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    best = min(line["loss"] for line in lines if line.get("event") == "validation")
    score = lm.score(str(tmp_path / "valid.txt"))
    assert best == pytest.approx(score.nats / score.tokens, rel=2e-3)
