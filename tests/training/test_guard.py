"""Numbers that are none: the guard says where, goes back, slows down, and gives up in the end."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import thereafter
from refusals import assert_refused
from thereafter.errors import TrainingError
from thereafter.training import loop
from thereafter.training.neural import Validation
from thereafter.training.watching import Training, watching

TEXT = "the cat sat on the mat .\nthe dog sat on the log .\n" * 30
OPTIONS: dict[str, Any] = {
    "model": "lstm", "tokens": "char", "hidden": 8, "layers": 1, "batch": 4, "steps": 8, "tokens_budget": 1500,
    "checkpoint_every": 10, "log_every": 1, "schedule": "constant", "rate": 0.01, "validate_every": 20,
}  # fmt: skip


def nan_into(weight: str, at: int, times: int = 1) -> Callable[[Training], None]:
    """Spoils a weight before a step, so many times."""
    left = [times]

    def spoil(training: Training) -> None:
        if training.at.step == at and left[0]:
            left[0] -= 1
            with torch.no_grad():
                dict(training.model.named_parameters())[weight].view(-1)[3] = math.nan

    return spoil


def guards(lm: thereafter.LanguageModel) -> list[dict[str, Any]]:
    return [line for line in lm.log if line["event"] == "guard"]


@pytest.fixture(scope="module")
def weight() -> str:
    """The name of some matrix of the network."""
    lm = thereafter.train(text=TEXT, **OPTIONS | {"tokens_budget": 40})
    return [name for name, weight in lm.model.named_parameters() if weight.dim() == 2][-1]  # type: ignore[attr-defined]


def test_a_nan_in_a_weight(weight: str):
    with watching(before_step=nan_into(weight, at=16)):
        lm = thereafter.train(text=TEXT, **OPTIONS)
    (trip,) = guards(lm)
    assert trip["step"] == 17
    assert weight in trip["what"]
    assert (trip["attempts"], trip["factor"]) == (1, 0.5)
    steps = [line["step"] for line in lm.log if line["event"] == "step"]
    assert steps[:16] == list(range(1, 17))
    assert steps[16:] == list(range(11, lm.log[-1]["steps"] + 1))  # back to the snapshot of step 10
    rates = [line["rate"] for line in lm.log if line["event"] == "step"]
    assert set(rates[:16]) == {0.01}
    assert set(rates[16:]) == {0.005}
    assert math.isfinite(lm.score(text=TEXT).perplexity)


def test_it_gives_up_after_three_attempts(weight: str):
    spoilt = watching(before_step=nan_into(weight, at=16, times=100))
    with spoilt, assert_refused(TrainingError, 17, weight, 3, "0.00125"):
        thereafter.train(text=TEXT, **OPTIONS)


def test_a_layer_that_overflows_is_named():
    done: list[bool] = []

    def spoil(training: Training) -> None:
        if training.at.step == 5 and not done:
            done.append(True)
            weight = next(w for name, w in training.model.named_parameters() if "embedding" in name)
            with torch.no_grad():
                weight.fill_(3e38)  # finite, and too large to be multiplied

    with watching(before_step=spoil):
        (trip,) = guards(thereafter.train(text=TEXT, **OPTIONS | {"dropout": 0.5}))
    assert trip["step"] == 6
    assert "loss is" in trip["what"] or "gradient" in trip["what"]


def test_a_gradient_that_is_none_is_named():
    hooked: list[Any] = []

    def spoil(training: Training) -> None:
        if training.at.step == 5 and not hooked:
            name, weight = list(training.model.named_parameters())[1]
            hooked.append((name, weight.register_hook(lambda g: torch.full_like(g, math.inf))))
        elif len(hooked) == 1 and training.at.step < 5:
            hooked[0][1].remove()

    with watching(before_step=spoil):
        (trip,) = guards(thereafter.train(text=TEXT, **OPTIONS))
    assert trip["step"] == 6
    assert trip["what"] == f"the gradient of {hooked[0][0]!r} is not finite"


def test_on_a_device_that_is_asked_seldom_the_step_is_found_all_the_same(weight: str, monkeypatch: pytest.MonkeyPatch):
    """Eight steps at a time: the run goes back, looks at every step, and names the right one."""
    quiet = OPTIONS | {"log_every": 1000}
    plain = thereafter.train(text=TEXT, **quiet)
    monkeypatch.setitem(loop.STEPS_AT_ONCE, "cpu", 8)
    with watching(before_step=nan_into(weight, at=12, times=2)):  # again when it is looked for
        lm = thereafter.train(text=TEXT, **quiet)
    (trip,) = guards(lm)
    assert trip["step"] == 13
    assert weight in trip["what"]
    assert lm.log[-1]["seen"] >= 1500
    seldom = thereafter.train(text=TEXT, **quiet)
    for one, other in zip(plain.model.parameters(), seldom.model.parameters(), strict=True):  # type: ignore[attr-defined]
        assert torch.equal(one, other)


def test_a_validation_that_is_no_number_goes_back_too(weight: str, monkeypatch: pytest.MonkeyPatch):
    own, left = Validation.measure, [1]

    def measure(self: Validation) -> float:
        if left[0]:
            left[0] = 0
            with torch.no_grad():
                dict(self.model.named_parameters())[weight].fill_(math.nan)
        return own(self)

    monkeypatch.setattr(Validation, "measure", measure)
    lm = thereafter.train(text=TEXT, **OPTIONS)
    (trip,) = guards(lm)
    assert trip["what"] == f"in validation the weight {weight!r} is no longer finite"
    assert all(math.isfinite(line["loss"]) for line in lm.log if line["event"] == "validation")


def test_a_guarded_training_goes_on_exactly(weight: str, tmp_path: Path):
    """Killed between the failure and the next checkpoint, before it, after it: the same weights in the end."""
    (tmp_path / "book.txt").write_text(TEXT)

    def spoil(training: Training) -> None:
        if training.at.step == 26 and training.guard.factor == 1.0:  # as if the rate had been too high
            nan_into(weight, at=26)(training)
        if stops and (training.at.step, training.guard.factor) == stops[0]:
            stops.pop(0)
            raise KeyboardInterrupt

    stops: list[tuple[int, float]] = []
    options = OPTIONS | {"dropout": 0.2, "checkpoint_seconds": 0.0}
    with watching(before_step=spoil):
        whole = thereafter.train(tmp_path / "book.txt", out=tmp_path / "whole", **options)
        assert len(guards(whole)) == 1
        stops += [(24, 1.0), (21, 0.5), (25, 0.5), (38, 0.5)]
        with pytest.raises(KeyboardInterrupt):
            thereafter.train(tmp_path / "book.txt", out=tmp_path / "broken", **options)
        while stops:
            with pytest.raises(KeyboardInterrupt):
                thereafter.resume(tmp_path / "broken")
        again = thereafter.resume(tmp_path / "broken")
    assert len(guards(again)) == 1
    for one, other in zip(whole.model.parameters(), again.model.parameters(), strict=True):  # type: ignore[attr-defined]
        assert np.array_equal(one.detach().numpy(), other.detach().numpy())


def test_a_gradient_beyond_float16_lowers_the_loss_scale_and_not_the_rate():
    """As on a GPU in mixed precision: at a scale of more than 64 the gradients of step 17 are infinite."""
    hooks: list[Any] = []

    def scale(training: Training) -> None:
        if hooks:
            return
        training.loss_scale = 1024.0

        def overflow(gradient: torch.Tensor) -> torch.Tensor:
            bad = training.at.step == 16 and training.loss_scale > 64
            return torch.full_like(gradient, math.inf) if bad else gradient

        hooks.append(next(training.model.parameters()).register_hook(overflow))

    plain = thereafter.train(text=TEXT, **OPTIONS)
    with watching(before_step=scale):
        lm = thereafter.train(text=TEXT, **OPTIONS)
    hooks[0].remove()
    (trip,) = guards(lm)
    assert trip["step"] == 17
    assert "loss scale is 64" in trip["what"]
    assert (trip["attempts"], trip["factor"]) == (0, 1.0)
    assert {line["rate"] for line in lm.log if line["event"] == "step"} == {0.01}
    for (name, weight), (_, other) in zip(
        plain.model.named_parameters(),
        lm.model.named_parameters(),
        strict=True,  # type: ignore[attr-defined]
    ):
        torch.testing.assert_close(weight, other, msg=name)  # powers of two change nothing but the exponents
