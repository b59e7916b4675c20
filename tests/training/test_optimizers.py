"""Every optimizer against torch's own, clipping against torch's, NT-ASGD against averages taken by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from thereafter.errors import FormatError
from thereafter.training.settings import TrainingSettings
from thereafter.training.weights import clip_gradients, make_optimizer


def small_model() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(5, 7), nn.LayerNorm(7), nn.Linear(7, 3))


def gradients(step: int, model: nn.Module) -> list[Tensor]:
    generator = torch.Generator().manual_seed(step)
    return [torch.randn(weight.shape, generator=generator) for weight in model.parameters()]


def give(model: nn.Module, step: int) -> None:
    for weight, gradient in zip(model.parameters(), gradients(step, model), strict=True):
        weight.grad = gradient.clone()


THEIRS: dict[str, tuple[dict[str, Any], Callable[[nn.Module], torch.optim.Optimizer]]] = {
    "adam": (
        {"optimizer": "adam", "weight_decay": 0.1, "betas": (0.8, 0.95)},
        lambda model: torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=0.1, betas=(0.8, 0.95)),
    ),
    "adamw": (
        {"optimizer": "adamw", "weight_decay": 0.1},
        lambda model: torch.optim.AdamW(
            [
                {"params": [weight for weight in model.parameters() if weight.dim() >= 2], "weight_decay": 0.1},
                {"params": [weight for weight in model.parameters() if weight.dim() < 2], "weight_decay": 0.0},
            ],
            lr=0.02,
        ),
    ),
    "sgd": (
        {"optimizer": "sgd", "weight_decay": 0.1},
        lambda model: torch.optim.SGD(model.parameters(), lr=0.02, weight_decay=0.1),
    ),
    "momentum": (
        {"optimizer": "sgd", "momentum": 0.9, "weight_decay": 0.0},
        lambda model: torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9),
    ),
}


@pytest.mark.parametrize("clipped", [0.0, 0.5, 1000.0])
@pytest.mark.parametrize("name", THEIRS)
def test_the_same_as_torch(name: str, clipped: float):
    options, make_theirs = THEIRS[name]
    ours, theirs = small_model(), small_model()
    own = make_optimizer(ours, TrainingSettings(rate=0.02, **options))
    reference = make_theirs(theirs)
    for step in range(6):
        give(ours, step)
        give(theirs, step)
        norm, scale = clip_gradients(own.gradients(), clipped)
        if clipped:
            expected = nn.utils.clip_grad_norm_(theirs.parameters(), clipped)
            torch.testing.assert_close(norm, expected)
            assert (scale is None) == (float(expected) <= clipped)
        own.step(0.02, scale)
        own.after_step()
        own.clear()
        reference.step()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-7)
        assert one.grad is None


@pytest.mark.parametrize("name", [*THEIRS, "nt-asgd"])
def test_what_it_remembers_can_be_saved(name: str):
    options = {"optimizer": "nt-asgd", "nonmono": 1} if name == "nt-asgd" else THEIRS[name][0]
    settings = TrainingSettings(rate=0.02, **options)
    straight, broken = small_model(), small_model()
    whole, first = make_optimizer(straight, settings), make_optimizer(broken, settings)
    for step in range(4):
        for model, optimizer in ((straight, whole), (broken, first)):
            give(model, step)
            optimizer.step(0.02)
            optimizer.after_step()
            optimizer.after_validation([3.0, 2.0, 4.0, 5.0][step])
    tensors, facts = first.state()
    kept = {path: tensor.clone() for path, tensor in tensors.items()}
    second = make_optimizer(broken, settings)
    second.restore(kept, facts)
    for step in range(4, 8):
        for model, optimizer in ((straight, whole), (broken, second)):
            give(model, step)
            optimizer.step(0.02)
            optimizer.after_step()
    with whole.best_guess(), second.best_guess():
        for one, other in zip(straight.parameters(), broken.parameters(), strict=True):
            assert torch.equal(one, other)
    with pytest.raises(FormatError):
        second.restore({**kept, "mean/nothing": torch.zeros(1)}, facts)


def test_nt_asgd_by_hand():
    """Triggered by the fourth validation: worse than the best of those more than two old. Averages from there on."""
    model = small_model()
    optimizer = make_optimizer(model, TrainingSettings(optimizer="nt-asgd", rate=0.1, weight_decay=0.0, nonmono=2))
    weights = [weight.detach().clone().double() for weight in model.parameters()]
    history: list[list[Tensor]] = []
    said: list[int] = []
    for step, loss in enumerate([5.0, 6.0, 5.5, 5.1, 9.0, 1.0, 2.0]):
        give(model, step)
        optimizer.step(0.1)
        optimizer.after_step()
        weights = [w - 0.1 * g.double() for w, g in zip(weights, gradients(step, model), strict=True)]
        history.append(weights)
        if optimizer.after_validation(loss):
            said.append(step)
    assert said == [3]
    since = history[3:]
    plain = [weight.detach().clone() for weight in model.parameters()]
    with optimizer.best_guess():
        for row, weight in enumerate(model.parameters()):
            mean = torch.stack([weights[row] for weights in since]).mean(0)
            torch.testing.assert_close(weight.detach().double(), mean, rtol=1e-5, atol=1e-6)
    for weight, before in zip(model.parameters(), plain, strict=True):
        assert torch.equal(weight, before)
