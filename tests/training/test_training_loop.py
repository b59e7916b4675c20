"""Training as a whole, in one process: budgets, early stopping, and going on exactly where it was broken off."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open

import thereafter
from refusals import assert_refused
from stops import stopping_at
from thereafter.base import progress
from thereafter.errors import StorageError
from thereafter.training.neural import Validation
from thereafter.training.watching import Training, watching

LINES = ["the cat sat on the mat .", "the dog sat on the log .", "a cat saw the dog , and the dog ran .", "it rained ."]
TEXT = "".join(f"{LINES[(k * k + k // 3) % 4]}\n" for k in range(60))
SMALL: dict[str, Any] = {"hidden": 8, "batch": 4, "steps": 8, "layers": 1, "log_every": 5, "checkpoint_every": 7}


def losses(lm: thereafter.LanguageModel, event: str) -> list[float]:
    return [line["loss"] for line in lm.log if line["event"] == event]


def weights(lm: thereafter.LanguageModel) -> dict[str, np.ndarray]:
    return {name: weight.detach().numpy() for name, weight in lm.model.named_parameters()}  # type: ignore[attr-defined]


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def train(**options: Any) -> thereafter.LanguageModel:
    return thereafter.train(text=TEXT, **({"model": "lstm", "tokens": "char", **SMALL, "epochs": 3} | options))


def test_it_learns_and_says_so():
    lm = train(epochs=8, hidden=32)
    found = losses(lm, "step")
    assert found[-1] < 0.7 * found[0]
    assert lm.log[0]["event"] == "began"
    assert lm.log[-1]["event"] == "trained"
    assert lm.log[-1]["validation"] == min(losses(lm, "validation"))
    steps = [line["step"] for line in lm.log if line["event"] == "step"]
    assert steps == list(range(5, lm.log[-1]["steps"] + 1, 5))
    assert "the last 3 of 60 lines are held out for validation" in lm.log[-1]["notes"]
    assert (
        None
        not in {
            name: value for name, value in lm.config["training"].items() if name not in ("tokens_budget", "minutes")
        }.values()
    )


def test_the_validation_figure_is_about_the_score():
    lm = train(epochs=4)
    assert lm.texts is not None
    score = lm.score(lm.texts, part="valid")
    assert lm.log[-1]["validation"] == pytest.approx(score.nats / score.tokens, rel=1e-4)  # one row: the same reading


def test_same_seed_same_weights_and_the_users_generator_is_left_alone():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, two, other = train(epochs=1), train(epochs=1), train(epochs=1, seed=1)
    assert torch.equal(before, torch.get_rng_state())
    assert same(weights(one), weights(two))
    assert not same(weights(one), weights(other))


def test_the_best_weights_are_kept_and_patience_ends_it(monkeypatch: pytest.MonkeyPatch):
    planned = iter([3.0, 2.0, 1.5, 1.7, 1.6, 1.8, 1.0])
    seen: list[dict[str, np.ndarray]] = []

    def measure(self: Validation) -> float:
        seen.append({name: weight.detach().numpy().copy() for name, weight in self.model.named_parameters()})
        return next(planned)

    monkeypatch.setattr(Validation, "measure", measure)
    lm = train(epochs=50, patience=3, validate_every=4)
    assert len(seen) == 6  # the seventh, the best of all, was never reached
    assert same(weights(lm), seen[2])
    assert lm.log[-1]["best_step"] == 12
    assert lm.log[-1]["steps"] == 24
    assert not same(seen[2], seen[5])


def test_budgets():
    tokens = train(epochs=1).log[-1]["tokens"]
    per_epoch = -(-tokens // (4 * 8))
    assert train(epochs=2).log[-1]["seen"] == 2 * tokens
    half = train(epochs=0.5).log[-1]
    assert tokens / 2 - 32 <= half["seen"] <= tokens / 2 + 32
    assert half["steps"] < per_epoch
    few = train(epochs=None, tokens_budget=100).log[-1]
    assert (few["steps"], few["seen"]) == (4, 128)
    first = train(epochs=100, tokens_budget=100).log[-1]
    assert first["seen"] == 128
    timed = train(epochs=None, minutes=0.005).log[-1]
    assert 0.3 <= timed["seconds_training"] < 5
    assert timed["steps"] >= 1


VARIANTS: dict[str, dict[str, Any]] = {
    "lstm": {"dropout": 0.3, "weight_drop": 0.3, "dropout_embed": 0.1, "layers": 2},
    "gru, lines": {"model": "gru", "context": "line", "dropout": 0.2, "steps": 40, "tokens_budget": 3200},
    "rnn, plateau": {"model": "rnn", "optimizer": "sgd", "rate": 40.0, "schedule": "plateau", "validate_every": 2},
    "awd-lstm": {"model": "awd-lstm", "nonmono": 1, "validate_every": 2, "rate": 60.0, "layers": 2, "patience": 0},
    "transformer": {
        "model": "transformer",
        "heads": 2,
        "transformer.context": 16,
        "steps": 16,
        "schedule": "one-cycle",
        "tokens_budget": 2200,
    },
    "transformer, stream": {"model": "transformer", "heads": 2, "transformer.context": 16, "batching": "stream"},
    "window": {"model": "window", "layers": None, "optimizer": "adam", "schedule": "one-cycle"},
    "mingru, partition": {"model": "mingru", "batching": "partition", "dropout": 0.2},
}


def facts_of(path: Path) -> dict[str, str]:
    """The small texts in the header of a safetensors file."""
    with safe_open(path, framework="np") as file:
        return dict(file.metadata())


@contextmanager
def collecting_ends() -> Iterator[list[dict[str, np.ndarray]]]:
    """All that a training has in memory when it has come to its end: weights, optimizer, carried state, generators."""
    ends: list[dict[str, np.ndarray]] = []

    def collect(training: Training) -> None:
        ends.append({name: tensor.numpy() for name, tensor in training.snapshot().tensors.items()})

    with watching(at_end=collect):
        yield ends


WIDE = ("gru, lines", "transformer, stream", "window")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.wide) if name in WIDE else name for name in VARIANTS]
)
def test_a_broken_off_training_goes_on_exactly(name: str, tmp_path: Path):
    options = {**SMALL, "tokens": "char", "tokens_budget": 1500, "model": "lstm"} | VARIANTS[name]
    options = {key: value for key, value in options.items() if value is not None}
    book = tmp_path / "book.txt"
    book.write_text(TEXT)
    with collecting_ends() as ends:
        whole = thereafter.train(book, out=tmp_path / "whole", **options)
    last = whole.log[-1]["steps"]
    assert last > 30
    if name in ("rnn, plateau", "awd-lstm"):  # the rate has fallen, the averages have begun: there is more to restore
        assert any("note" in line for line in whole.log[: len(whole.log) // 2])
    rng = np.random.default_rng(len(name))
    planned = [3, *sorted(rng.choice(np.arange(8, last), 2, replace=False).tolist())]
    with stopping_at(*planned) as stops:
        with pytest.raises(KeyboardInterrupt):
            thereafter.train(book, out=tmp_path / "broken", **options)
        while stops:
            at = json.loads(facts_of(tmp_path / "broken" / "state.safetensors")["training"])["at"]
            assert at["step"] == planned[len(planned) - len(stops) - 1]  # the very step it stopped at
            with pytest.raises(KeyboardInterrupt):
                thereafter.resume(tmp_path / "broken")
    with collecting_ends() as resumed_ends:
        again = thereafter.resume(tmp_path / "broken")
    assert same(weights(again), weights(whole))
    for file in ("weights.safetensors", "config.toml", "tokenizer.json"):
        assert (tmp_path / "broken" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()
    assert any(part.startswith("optimizer/") for part in ends[0]) or name == "rnn, plateau"
    assert same(*ends, *resumed_ends)
    assert untimed(again) == untimed(whole)
    loaded = thereafter.load(tmp_path / "broken")
    assert loaded.score(text=TEXT) == whole.score(text=TEXT)


def untimed(lm: thereafter.LanguageModel) -> list[dict[str, Any]]:
    """The log without the clock, and without what says that it was resumed."""
    clock = ("seconds", "seconds_training", "seconds_tokenizing", "tokens_per_second")
    lines = [line for line in lm.log if line["event"] != "resumed"]
    return [{name: value for name, value in line.items() if name not in clock} for line in lines]


def test_a_finished_run_says_so(tmp_path: Path):
    notes: list[str] = []

    class Listener(progress.Silent):
        def note(self, message: str) -> None:
            notes.append(message)

    book = tmp_path / "book.txt"
    book.write_text(TEXT)
    lm = thereafter.train(book, out=tmp_path / "run", **SMALL, model="lstm", epochs=1)
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    with progress.reporting(Listener()):
        again = thereafter.resume(tmp_path / "run")
    assert "has finished" in notes[0]
    assert same(weights(lm), weights(again))
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before
    assert set(before) == {"config.toml", "tokenizer.json", "weights.safetensors", "log.jsonl"}
    copy = again.save(tmp_path / "copy")
    assert (copy / "weights.safetensors").read_bytes() == before["weights.safetensors"]
    assert same(weights(thereafter.resume(copy)), weights(lm))


def test_an_unfinished_run_is_not_written_over(tmp_path: Path):
    (tmp_path / "book.txt").write_text(TEXT)
    with stopping_at(20), pytest.raises(KeyboardInterrupt):
        thereafter.train(tmp_path / "book.txt", out=tmp_path / "run", **SMALL, model="lstm", epochs=3)
    with assert_refused(StorageError, "--resume"):
        thereafter.train(tmp_path / "book.txt", out=tmp_path / "run", **SMALL, model="lstm", epochs=3)
    assert thereafter.resume(tmp_path / "run").log[-1]["event"] == "trained"
    thereafter.train(tmp_path / "book.txt", out=tmp_path / "run", **SMALL, model="gru", epochs=1)  # now it may
    assert thereafter.load(tmp_path / "run").config["model"] == "gru"


def test_a_line_cut_short_by_a_kill_is_cut_off(tmp_path: Path):
    (tmp_path / "book.txt").write_text(TEXT)
    with stopping_at(20), pytest.raises(KeyboardInterrupt):
        thereafter.train(tmp_path / "book.txt", out=tmp_path / "run", **SMALL, model="lstm", epochs=3, validate_every=5)
    with (tmp_path / "run" / "log.jsonl").open("a") as log:
        log.write('{"event": "st')
    (tmp_path / "run" / ".state.safetensors.abc.tmp").write_text("half a check")
    assert thereafter.load(tmp_path / "run").log[-1]["event"] in ("step", "validation")
    done = thereafter.resume(tmp_path / "run")
    lines = (tmp_path / "run" / "log.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == done.log
    assert not list((tmp_path / "run").glob(".*.tmp"))


def test_bfloat16_trains_too():
    lm = train(precision="bfloat16", epochs=4, hidden=32)
    assert losses(lm, "step")[-1] < losses(lm, "step")[0]
    assert lm.config["training"]["precision"] == "bfloat16"


def test_progress_shows_the_figures():
    """The bar ends full, and its status names loss, perplexity, speed, rate and clipped share."""
    shown: list[tuple[float, str]] = []

    class Listener(progress.Silent):
        def begin(self, label: str, total: float | None, unit: str) -> progress.Advance:
            return (
                (lambda amount, status="": shown.append((amount, status)))
                if label == "training"
                else super().begin(label, total, unit)
            )

    with progress.reporting(Listener()):
        train(epochs=1)
    assert shown
    assert all(word in shown[0][1] for word in ("loss", "ppl", "tok/s", "rate", "clipped"))
    assert 0 < sum(amount for amount, _ in shown) <= 100
