"""Rates against their closed forms."""

from __future__ import annotations

import math
from typing import Any

import pytest

from thereafter.errors import OptionError
from thereafter.training.control import Position, Schedule
from thereafter.training.settings import TrainingSettings


def rate(schedule: str, step: int = 1, epoch: float = 0.0, share: float = 0.0, **options: Any) -> float:
    return Schedule(TrainingSettings(schedule=schedule, rate=0.5, **options)).rate(Position(step, epoch, share))


def test_constant():
    assert rate("constant", share=0.9) == 0.5


def test_warm_up_is_a_share_or_steps():
    assert rate("constant", share=0.05, warmup=0.2) == pytest.approx(0.125)
    assert rate("constant", share=0.2, warmup=0.2) == 0.5
    assert rate("constant", step=3, share=0.9, warmup=12) == pytest.approx(0.125)
    assert rate("constant", step=50, warmup=12) == 0.5


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.77, 1.0])
def test_cosine(share: float):
    falling = (share - 0.1) / 0.9
    expected = 0.5 * (0.2 + 0.8 * 0.5 * (1 + math.cos(math.pi * falling)))
    assert rate("cosine", share=share, warmup=0.1, final=0.2) == pytest.approx(expected)
    assert rate("cosine", share=1.0, final=0.2) == pytest.approx(0.1)


def test_one_cycle_rises_and_falls():
    assert rate("one-cycle", share=0.0, warmup=0.4) == pytest.approx(0.5 / 25)
    assert rate("one-cycle", share=0.2, warmup=0.4) == pytest.approx(0.5 * (1 / 25 + 24 / 25 / 2))
    assert rate("one-cycle", share=0.4, warmup=0.4) == pytest.approx(0.5)
    assert rate("one-cycle", share=0.7, warmup=0.4, final=0.0) == pytest.approx(0.25)
    assert rate("one-cycle", share=1.0, warmup=0.4, final=0.1) == pytest.approx(0.05)


@pytest.mark.parametrize(("epoch", "halvings"), [(0.0, 0), (2.99, 0), (3.0, 1), (4.9, 1), (5.0, 2), (9.1, 4)])
def test_step(epoch: float, halvings: int):
    assert rate("step", epoch=epoch, decay=0.5, decay_from=3, decay_every=2) == pytest.approx(0.5 * 0.5**halvings)


def test_plateau_waits_and_falls_as_torch_does():
    torch = pytest.importorskip("torch")
    losses = [5.0, 4.0, 4.1, 4.2, 3.9, 3.89999, 3.95, 3.96, 3.97, 3.0, 3.1]
    schedule = Schedule(TrainingSettings(schedule="plateau", rate=0.5, decay=0.1, plateau=2))
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.5)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.1, patience=1, threshold=1e-4)
    for number, loss in enumerate(losses):
        schedule.after_validation(loss)
        theirs.step(loss)
        assert schedule.rate(Position(number, 0, 0)) == pytest.approx(optimizer.param_groups[0]["lr"])
    again = Schedule(TrainingSettings(schedule="plateau", rate=0.5, decay=0.1, plateau=2))
    again.restore(schedule.state())
    assert again.state() == schedule.state()
    assert schedule.reductions >= 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"schedule": "cosinus"},
        {"optimizer": "adams"},
        {"batching": "line"},
        {"rate": 0.0},
        {"rate": float("nan")},
        {"batch": 0},
        {"betas": (0.9,)},
        {"decay": 1.5},
        {"clip": -1.0},
        {"momentum": 0.9, "optimizer": "adamw"},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]):
    with pytest.raises(OptionError, match=next(iter(wrong))):
        TrainingSettings(**wrong)
