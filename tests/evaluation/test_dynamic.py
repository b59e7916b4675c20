"""Dynamic evaluation against a plain loop of torch, and that the trained weights always come back."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import thereafter
from breadth import core
from refusals import assert_refused
from thereafter.errors import OptionError, TrainingError
from thereafter.evaluation import dynamic as module
from thereafter.evaluation.dynamic import DynamicModel, gradient_statistics
from thereafter.evaluation.dynamic_settings import DynamicSettings
from thereafter.models.build import build, settings_of
from thereafter.models.cache import CacheModel, CacheSettings
from thereafter.models.mixture import MixtureModel
from thereafter.models.neural import NeuralModel

V, END = 11, 2
IDS = np.random.default_rng(1).integers(0, V, (1, 47))
SGD = DynamicSettings(rate=0.5, decay=0.05, segment=6, rule="sgd")
RMS = DynamicSettings(rate=0.02, decay=0.05, segment=6, rule="rms")
TOLERANCE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}


def made(name: str = "lstm", context: str = "stream") -> NeuralModel:
    torch.manual_seed(0)
    sizes = {
        "window": {"hidden": 8, "embed": 6, "window": 3},
        "transformer": {"hidden": 8, "layers": 1, "heads": 2, "context": 16},
    }.get(name, {"hidden": 8, "layers": 1})
    model = build(name, settings_of(name)(**sizes), vocabulary_size=V, context=context, line_end=END)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    return model.eval()


def weights_of(model: NeuralModel) -> list[torch.Tensor]:
    return [weight.detach().clone() for weight in model.parameters()]


def segments(ids: np.ndarray, size: int, line_end: int | None) -> list[list[int]]:
    pieces: list[list[int]] = [[]]
    for token in ids.tolist():
        pieces[-1].append(token)
        if len(pieces[-1]) == size or token == line_end:
            pieces.append([])
    return [segment for segment in pieces if segment]


def by_hand(model: NeuralModel, ids: np.ndarray, settings: DynamicSettings, scales: Any = None) -> np.ndarray:
    """The same with the whole softmax, plain autograd and the formula as it is written; changes the model."""
    line_end = END if model.context == "line" else None
    trained, logs = weights_of(model), []
    state, last = model.fresh(1), V
    for segment in segments(ids[0], settings.segment, line_end):
        model.zero_grad()
        h_1TH, state = model.features(torch.tensor([[last, *segment[:-1]]]), state.detach())
        nats = F.cross_entropy(
            F.linear(h_1TH[0], model.head.matrix[:V], model.head.bias), torch.tensor(segment), reduction="none"
        )
        nats.mean().backward()
        logs += (-nats).tolist()
        last = segment[-1]
        if last == line_end:
            state, last = model.fresh(1), V
        if len(segment) < settings.segment and segment[-1] != line_end:
            break  # the text ended inside a segment
        every = torch.cat([scale.flatten() for scale in scales]).mean() if scales else None
        for k, weight in enumerate(model.parameters()):
            pull = settings.decay * (trained[k] - weight.data)
            if scales:
                pull, divisor = pull * scales[k] / every, scales[k] + every
                weight.data += pull - settings.rate * weight.grad / divisor
            else:
                weight.data += pull - settings.rate * weight.grad
    return np.array(logs)


@pytest.mark.parametrize(
    ("name", "context"),
    core(
        product(("lstm", "gru", "window", "transformer"), ("stream", "line")),
        [("lstm", "stream"), ("gru", "line"), ("window", "stream"), ("transformer", "line")],
    ),
)
def test_it_is_what_the_formula_says(name: str, context: str) -> None:
    truth = by_hand(made(name, context), IDS, SGD)
    model = made(name, context)
    with DynamicModel(model, SGD) as adapted:
        logp, _ = adapted.log_probs(IDS, adapted.start(1))
    np.testing.assert_allclose(logp[0], truth, **TOLERANCE)
    plain, _ = model.log_probs(IDS, model.start(1))
    assert np.abs(plain[0, 20:] - truth[20:]).max() > 0.05  # it did learn something


def test_rms_divides_by_what_gradients_were_in_training(monkeypatch: pytest.MonkeyPatch) -> None:
    text = np.random.default_rng(2).integers(0, V, 60)
    model = made()
    statistics = gradient_statistics(model, text, 6)
    squares: list[Any] = [0.0] * len(statistics)
    state, count, read = model.fresh(1), 0, torch.tensor([[V, *text]])  # from <s> on
    for begin in range(0, 60, 6):
        model.zero_grad()
        nats, _, state = model.loss(read[:, begin : begin + 6], read[:, begin + 1 : begin + 7], state.detach())
        (nats / 6).backward()
        squares = [total + weight.grad**2 for total, weight in zip(squares, model.parameters(), strict=True)]
        count += 1
    truth = [(total / count).sqrt() for total in squares]
    for one, two in zip(statistics, truth, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-6)
    model = made()
    with DynamicModel(model, RMS, statistics) as adapted:
        logp, _ = adapted.log_probs(IDS, adapted.start(1))
    np.testing.assert_allclose(logp[0], by_hand(made(), IDS, RMS, truth), **TOLERANCE)
    monkeypatch.setattr(module, "STATISTICS_TOKENS", 31)
    for one, two in zip(gradient_statistics(made(), text, 6), gradient_statistics(made(), text[:31], 6), strict=True):
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("context", core(["stream", "line"], ["line"]))
def test_pieces_and_steps_do_not_matter(context: str) -> None:
    model = made(context=context)
    with DynamicModel(model, SGD) as adapted:
        whole, end = adapted.log_probs(IDS, adapted.start(1))
        last = adapted.predict(end)
        state, parts = adapted.start(1), []  # `start` begins with the trained weights
        for part in np.array_split(IDS, 9, axis=1):
            logp, state = adapted.log_probs(part, state)
            parts.append(logp)
        np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, **TOLERANCE)
        np.testing.assert_allclose(adapted.predict(state), last, **TOLERANCE)
        state, logs = adapted.start(1), []
        logp_BV = adapted.predict(state)
        for token in IDS[0]:
            np.testing.assert_allclose(np.exp(logp_BV.astype(float)).sum(), 1, atol=1e-5)
            logs.append(logp_BV[0, token])
            logp_BV, state = adapted.step(np.array([token]), state)
        np.testing.assert_allclose(logs, whole[0], **TOLERANCE)
        np.testing.assert_allclose(adapted.record(IDS[0], adapted.start(1))["log_prob"][1], whole[0], **TOLERANCE)


def test_tokens_are_scored_before_they_are_learned_from() -> None:
    """What comes later changes nothing of what was scored before."""
    other = IDS.copy()
    other[0, 20:] = 0
    with DynamicModel(made(), SGD) as adapted:
        one, _ = adapted.log_probs(IDS, adapted.start(1))
        two, _ = adapted.log_probs(other, adapted.start(1))
    np.testing.assert_array_equal(one[0, :20], two[0, :20])


def test_the_trained_weights_stay_as_they_are() -> None:
    """What learns is a copy: whoever asks the model meanwhile gets the trained one."""
    model = made().train()
    before, mode = weights_of(model), model.training
    with DynamicModel(model, SGD) as adapted:
        adapted.log_probs(IDS, adapted.start(1))
        assert not all(map(torch.equal, before, weights_of(adapted.model)))
        assert all(map(torch.equal, before, weights_of(model)))
        assert model.training == mode
    assert all(map(torch.equal, before, weights_of(model)))
    assert model.training == mode
    with assert_refused(OptionError, "token ids"), DynamicModel(model, SGD) as adapted:
        adapted.log_probs(np.full((1, 3), V), adapted.log_probs(IDS, adapted.start(1))[1])
    assert all(map(torch.equal, before, weights_of(model)))
    assert all(weight.grad is None for weight in model.parameters())


def test_running_away_is_said_and_undone() -> None:
    model = made()
    before = weights_of(model)
    wild = DynamicSettings(rate=1e30, decay=0.0, segment=3, rule="sgd")
    with assert_refused(TrainingError, "token", "rate"), DynamicModel(model, wild) as adapted:
        adapted.log_probs(IDS, adapted.start(1))
    assert all(map(torch.equal, before, weights_of(model)))


def test_it_learns_what_is_said_again_and_again() -> None:
    again = np.tile([[1, 5, 3, 8, 0]], 60)
    model = made()
    plain, _ = model.log_probs(again, model.start(1))
    with DynamicModel(model, DynamicSettings(rate=0.5, decay=0.0, segment=5, rule="sgd")) as adapted:
        logp, _ = adapted.log_probs(again, adapted.start(1))
    assert logp[0, -50:].mean() > plain[0, -50:].mean() + 1


def test_a_cache_goes_over_it_and_a_mixture_around() -> None:
    model, other = made(), made("gru")
    with DynamicModel(model, SGD) as adapted:
        cached = CacheModel(adapted, CacheSettings(size=9, weight=0.2, theta=0.5))
        whole, _ = cached.log_probs(IDS, cached.start(1))
        state, parts = cached.start(1), []
        for part in np.array_split(IDS, 5, axis=1):
            logp, state = cached.log_probs(part, state)
            parts.append(logp)
        np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, **TOLERANCE)
        state, logs = cached.start(1), []
        logp_BV = cached.predict(state)
        for token in IDS[0]:
            logs.append(logp_BV[0, token])
            logp_BV, state = cached.step(np.array([token]), state)
        np.testing.assert_allclose(logs, whole[0], **TOLERANCE)
        mixed = MixtureModel([cached, other], [0.5, 0.5])
        both, _ = mixed.log_probs(IDS, mixed.start(1))
        alone, _ = other.log_probs(IDS, other.start(1))
    truth = np.log(0.5 * np.exp(whole.astype(float)) + 0.5 * np.exp(alone.astype(float)))
    np.testing.assert_allclose(both, truth, **TOLERANCE)


def test_what_it_cannot_do_says_why() -> None:
    model = made()
    with assert_refused(OptionError):
        DynamicModel(model, SGD).start(1)
    with DynamicModel(model, SGD) as adapted:
        with assert_refused(OptionError, "row"):
            adapted.start(2)
        with assert_refused(OptionError, "row"):
            adapted.log_probs(np.zeros((2, 3), int), adapted.start(1))
        with assert_refused(OptionError, 0):
            adapted.start(1).select(np.array([0, 0]))
        with pytest.raises(TypeError):
            adapted.start(1).key()
        with assert_refused(OptionError, "token ids"):
            adapted.log_probs(np.array([[V]]), adapted.start(1))
    with assert_refused(OptionError, "text"):
        DynamicModel(model, DynamicSettings(rule="rms"))
    for wrong, message in (
        ({"rate": 0.0}, "rate .* is 0"),
        ({"rate": float("nan")}, "rate .* is nan"),
        ({"decay": 2.0}, "decay .* is 2"),
        ({"segment": 0}, "segment .* is 0"),
        ({"rule": "smg"}, "did you mean 'sgd'"),
    ):
        with pytest.raises(OptionError, match=message):
            DynamicSettings(**wrong)


def test_a_score_with_it_says_so_and_leaves_the_model_alone() -> None:
    text = "the cat sat on the mat\nthe dog sat on the log\n" * 12
    lm = thereafter.train(text=text, model="gru", tokens="word", hidden=8, epochs=2)
    other = "a log sat on a dog and a log\n" * 20
    plain = lm.score(text=other)
    by_rms = lm.score(text=other, dynamic={"rate": 0.01})
    by_sgd = lm.score(text=other, dynamic={"rule": "sgd", "rate": 0.2, "segment": 7})
    assert by_rms.nats < plain.nats
    assert by_sgd.nats < plain.nats
    assert by_rms.switches.startswith("with dynamic evaluation (rms, rate 0.01")
    assert "(sgd, rate 0.2, decay 0.001, every 7 tokens)" in by_sgd.switches
    assert lm.score(text=other) == plain
    counted = thereafter.train(text=text, tokens="word", order=2)
    with assert_refused(OptionError, "neural"):
        counted.score(text=other, dynamic=True)


def test_without_its_training_text_a_model_learns_by_sgd(tmp_path: Any) -> None:
    text = "the cat sat on the mat\nthe dog sat on the log\n" * 12
    lm = thereafter.train(text=text, model="gru", tokens="word", hidden=8, epochs=0.2, out=tmp_path / "run")
    assert "(sgd" in thereafter.load(tmp_path / "run").score(text=text, dynamic=True).switches
    assert "(rms" in lm.score(text=text, dynamic=True).switches
    book = tmp_path / "book.txt"
    book.write_text(text)
    thereafter.train(book, model="gru", tokens="word", hidden=8, epochs=0.2, out=tmp_path / "kept")
    again = thereafter.load(tmp_path / "kept")
    assert "(rms" in again.score(text=text, dynamic=True).switches
    book.write_text(text.replace("cat", "cow"))
    assert "(sgd" in again.score(text=text, dynamic=True).switches
