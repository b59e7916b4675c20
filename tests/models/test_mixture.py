"""Mixtures: the sum they are defined by, the contract of a SequenceModel, and what may not be mixed."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wrapped import END, TOLERANCE, V, assert_every_way, counted, lstm, made, rows

import thereafter
from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.models import mixture as module
from thereafter.models.mixture import MixtureModel

TEXT = "the cat sat on the mat\nthe dog sat on the cat\n\na cat ate the fish on the mat\nwhere is the dog\n" * 4
OTHER = "the cat ate the zebra\n\non a mat the dog is\nwhere is"


def members(names: str) -> list[Any]:
    known = {
        "n": counted,
        "s": lambda: counted("stream", "kneser-ney"),
        "l": lstm,
        "w": lambda: made("window", {"embed": 6, "hidden": 10, "window": 3}, "line", seed=3),
        "t": lambda: made("transformer", {"hidden": 8, "layers": 1, "heads": 2, "context": 7}, seed=4),
    }
    return [known[name]() for name in names]


@pytest.mark.parametrize(
    ("names", "weights"), [("nl", (0.3, 0.7)), ("nlwt", (0.1, 0.2, 0.3, 0.4)), ("ns", (0, 1)), ("l", (1,))]
)
def test_it_keeps_the_contract(names: str, weights: tuple[float, ...]) -> None:
    assert_every_way(MixtureModel(members(names), weights), rows())


def test_it_is_the_weighted_sum_whatever_the_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    parts, weights, ids = members("nlt"), (0.2, 0.5, 0.3), rows()
    model = MixtureModel(parts, weights)
    apart = [part.log_probs(ids, part.start(len(ids)))[0].astype(float) for part in parts]
    truth = np.log(sum(weight * np.exp(logp) for weight, logp in zip(weights, apart, strict=True)))
    whole, _ = model.log_probs(ids, model.start(len(ids)))
    np.testing.assert_allclose(whole, truth, rtol=1e-5)
    monkeypatch.setattr(module, "TOKENS_AT_ONCE", 4)
    pieces, _ = model.log_probs(ids, model.start(len(ids)))
    np.testing.assert_allclose(pieces, whole, **TOLERANCE)
    share_TK = model.record(ids[0], model.start(1))["share"][1]
    np.testing.assert_allclose(share_TK.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(share_TK[:, 1], 0.5 * np.exp(apart[1][0] - truth[0]), rtol=1e-4)


def test_what_one_model_thinks_impossible_another_may_not() -> None:
    never, ids = counted(smoothing="mle"), np.arange(V)[None]
    alone, _ = never.log_probs(ids, never.start(1))
    assert np.isneginf(alone).any()
    both = MixtureModel([never, lstm()], [0.5, 0.5])
    assert np.isfinite(both.log_probs(ids, both.start(1))[0]).all()
    twice = MixtureModel([never, counted(smoothing="mle")], [0.5, 0.5])
    mixed, _ = twice.log_probs(ids, twice.start(1))
    np.testing.assert_allclose(mixed, alone, rtol=1e-6)
    assert not np.isnan(twice.record(ids[0], twice.start(1))["share"][1]).any()


def test_each_model_keeps_its_own_context() -> None:
    line, stream = counted("line"), lstm("stream")
    model = MixtureModel([line, stream], [0.5, 0.5])
    _, state = model.log_probs(np.array([[1, 2, END]]), model.start(1))
    assert state.parts[0].key() == line.start(1).key()
    assert not np.allclose(stream.predict(state.parts[1]), stream.predict(stream.start(1)), atol=1e-3)


def test_states_have_keys_where_all_models_have() -> None:
    model = MixtureModel(members("ns"), (0.5, 0.5))
    assert model.start(2).key() == model.start(2).key() != model.start(1).key()
    with pytest.raises(TypeError):
        MixtureModel(members("nl"), (0.5, 0.5)).start(1).key()


def test_weights_are_shares_of_a_whole() -> None:
    for wrong in ((0.5, 0.4), (1.5, -0.5), (np.nan, 1.0), (0.5, np.inf)):
        with assert_refused(OptionError, 1):
            MixtureModel(members("nl"), wrong)
    with assert_refused(OptionError, 3, 2):
        MixtureModel(members("nl"), (0.2, 0.3, 0.5))
    assert sum(MixtureModel(members("nlt"), (0.3333, 0.3333, 0.3333)).weights) == pytest.approx(1, abs=1e-12)
    small: Any = counted()
    small.vocabulary_size = 7
    with assert_refused(OptionError, 7, 13):
        MixtureModel([small, lstm()], (0.5, 0.5))
    with pytest.raises(OptionError, match="axes"):
        MixtureModel(members("nl"), (0.5, 0.5)).log_probs(np.arange(3), None)  # type: ignore[arg-type]


@cache
def trained(model: str, tokens: str = "word") -> thereafter.LanguageModel:
    options: dict[str, Any] = {"order": 3} if model == "ngram" else {"hidden": 12, "layers": 1, "epochs": 3}
    return thereafter.train(text=TEXT, model=model, tokens=tokens, split="90/10", **options)


def test_a_mixture_is_a_language_model(tmp_path: Path) -> None:
    both = thereafter.mixture([trained("ngram"), trained("gru")], weights=[0.25, 0.75])
    assert both.config["mixture"] == {"members": ["ngram", "gru"], "weights": [0.25, 0.75]}
    score = both.score(text=OTHER)
    assert score.context == "line+stream"
    assert score.switches == "mixture of 0.25 ngram, 0.75 gru"
    assert score.switches in str(score)
    assert score.weights == (0.25, 0.75)
    assert trained("gru").score(text=OTHER).switches == ""
    p = 0.25 * trained("ngram").distribution("the cat") + 0.75 * trained("gru").distribution("the cat")
    np.testing.assert_allclose(both.distribution("the cat"), p, rtol=1e-4)
    assert both.generate("the", 8, seed=1) == both.generate("the", 8, seed=1)
    assert both.generate("the", 4, num_beams=3)
    assert len(both.rank(["the cat sat", "sat cat the"])) == 2
    assert both.trace("the cat sat").arrays["share"].shape == (3, 2)
    assert "mixture" in repr(both)
    assert both.summary()["weights"] == [0.25, 0.75]
    with assert_refused(OptionError, "ngram", "gru"):
        both.save(tmp_path / "both")
    assert not (tmp_path / "both").exists()
    with pytest.raises(OptionError, match="no embeddings"):
        both.neighbours("cat")


def test_run_folders_mix_too_and_mixtures_of_mixtures(tmp_path: Path) -> None:
    runs = [trained(name).save(tmp_path / name) for name in ("ngram", "gru")]
    both = thereafter.mixture(runs)
    assert both.config["mixture"]["weights"] == [0.5, 0.5]
    inner = thereafter.mixture([trained("ngram"), trained("gru")])
    assert both.score(text=OTHER).nats == pytest.approx(inner.score(text=OTHER).nats, rel=1e-6)
    outer = thereafter.mixture([inner, trained("ngram")], weights=[0.5, 0.5])
    flat = thereafter.mixture([trained("ngram"), trained("gru")], weights=[0.75, 0.25])
    assert outer.score(text=OTHER).nats == pytest.approx(flat.score(text=OTHER).nats, rel=1e-5)
    assert "mixture of 0.5 ngram, 0.5 gru" in outer.score(text=OTHER).switches


def test_what_cannot_be_mixed_says_why() -> None:
    with assert_refused(OptionError, "ngram", "gru", "word", 13, "char"):
        thereafter.mixture([trained("ngram"), trained("gru", "char")])
    with assert_refused(OptionError, "tokens=", "split="):
        thereafter.mixture([trained("ngram"), thereafter.train(text="a dog is a dog\n" * 9, tokens="word", order=2)])
    lowered = thereafter.train(text=TEXT, tokens="word", order=2, lower=True, split="90/10")
    with assert_refused(OptionError, "lower", "False", "ngram", "True", "ngram-2"):
        thereafter.mixture([trained("ngram"), lowered])
    with pytest.raises(OptionError, match="two or more"):
        thereafter.mixture([trained("ngram")])
    with pytest.raises(OptionError, match="expected several"):
        thereafter.mixture("runs/book")
    with assert_refused(OptionError, "weights=", "tune="):
        thereafter.mixture([trained("ngram"), trained("gru")], [0.5, 0.5], tune="ptb")
