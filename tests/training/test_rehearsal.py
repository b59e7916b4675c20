"""A step that is rehearsed before it is recorded leaves nothing behind: weights, optimizer and random numbers."""

from __future__ import annotations

import torch

import thereafter
from thereafter.kernels.switches import is_unread, leaving_unread
from thereafter.training.blocks import TextBatch
from thereafter.training.graphs import undone
from thereafter.training.loop import Loop
from thereafter.training.watching import Training

TEXT = "to be or not to be\n" * 40


def everything(loop: Loop[TextBatch]) -> dict[str, torch.Tensor]:
    """All that the steps after this one depend on."""
    return {name: tensor.clone() for name, tensor in loop.snapshot().tensors.items()}


def test_a_rehearsed_step_is_undone() -> None:
    rehearsed = 0

    def rehearse(loop: Training) -> None:
        nonlocal rehearsed
        assert isinstance(loop, Loop)
        batch = loop._current_epoch().batch(loop.at.block)
        before = everything(loop)
        with leaving_unread(), undone(loop.model, loop._optimizer, torch.device("cpu")):
            loop._learn(batch, None, torch.tensor(0.5))
            changed = [name for name, tensor in everything(loop).items() if not torch.equal(tensor, before[name])]
            assert any(name.startswith("model/") for name in changed)
            assert any(name.startswith("optimizer/") for name in changed)
            assert any(name.startswith("generator/") for name in changed)
        after = everything(loop)
        assert before.keys() == after.keys()
        assert all(torch.equal(tensor, before[name]) for name, tensor in after.items())
        assert all(weight.grad is None for weight in loop.model.parameters())
        rehearsed += 1

    options: dict[str, object] = {"tokens": "char", "hidden": 8, "dropout": 0.3, "epochs": 1, "seed": 4, "clip": 0.1}
    plain = thereafter.train(text=TEXT, model="lstm", **options)
    with thereafter.watching(before_step=rehearse):
        watched = thereafter.train(text=TEXT, model="lstm", **options)
    assert rehearsed == watched.log[-1]["steps"]
    assert watched.log[-1]["validation"] == plain.log[-1]["validation"]


def test_numbers_on_the_host_may_always_be_read() -> None:
    assert not is_unread(torch.zeros(2))
    with leaving_unread():
        assert not is_unread(torch.zeros(2))
        assert is_unread(torch.zeros(2, device="meta"))
    assert not is_unread(torch.zeros(2, device="meta"))
