"""Convolutions over pictures against torch's own modules, and pictures that are changed at random."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.vision.captioning.network import Augmenting
from thereafter.vision.encoder import BatchNorm, PictureEncoder


def test_batch_norm_is_that_of_torch() -> None:
    torch.manual_seed(0)
    ours, theirs = BatchNorm(3).double(), nn.BatchNorm2d(3).double()
    with torch.no_grad():
        for weight, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            weight.copy_(torch.randn(3))
            other.copy_(weight)
    for _ in range(3):
        x = torch.randn(4, 3, 5, 5, dtype=torch.float64)
        torch.testing.assert_close(ours(x), theirs(x))
    for name in ("running_mean", "running_var"):
        torch.testing.assert_close(getattr(ours, name), getattr(theirs, name))
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))


@pytest.mark.parametrize("norm", ["batch", "group"])
def test_the_map_of_a_picture_is_that_of_its_blocks(norm: str) -> None:
    torch.manual_seed(1)
    encoder: Any = PictureEncoder(1, width=4, blocks=2, stages=2, norm=norm).double().eval()
    assert encoder.size == 8
    x = torch.randn(2, 1, 9, 6, dtype=torch.float64)
    y = torch.relu(encoder.layers[0].norm(torch.conv2d(x, encoder.layers[0].conv.weight, stride=2, padding=1)))
    for block, stride in zip(encoder.layers[1:], (1, 1, 2, 1), strict=True):
        inner = torch.relu(block.norm1(torch.conv2d(y, block.conv1.weight, stride=stride, padding=1)))
        inner = block.norm2(torch.conv2d(inner, block.conv2.weight, padding=1))
        around = (
            y
            if isinstance(block.around, nn.Identity)
            else block.around[1](torch.conv2d(y, block.around[0].weight, stride=stride))
        )
        y = torch.relu(around + inner)
    assert encoder.grid(9, 6) == (3, 2)
    torch.testing.assert_close(encoder(x), y.flatten(2).transpose(1, 2))
    assert torch.autograd.gradcheck(lambda z: encoder(z).sum(), x.requires_grad_(), atol=1e-6)


def test_an_unknown_norm_of_pictures_is_refused() -> None:
    with assert_refused(OptionError, "norm", "layer", "batch", "group"):
        PictureEncoder(3, norm="layer")


def changed(x: Tensor, seed: int = 0, **options: Any) -> Any:
    torch.manual_seed(seed)
    return Augmenting(**options).train()(x)


def test_a_last_batch_of_one_small_picture_can_be_trained_on() -> None:
    encoder = PictureEncoder(1, width=2, stages=3).train()  # 4 x 4 pixels become one place
    before = {name: buffer.clone() for name, buffer in encoder.named_buffers() if name.startswith("layers.3")}
    encoder(torch.randn(1, 1, 4, 4)).sum().backward()
    assert before
    assert all(torch.equal(dict(encoder.named_buffers())[name], was) for name, was in before.items())


def test_pictures_stay_as_they_are_outside_of_training() -> None:
    x = torch.randn(4, 3, 6, 6)
    assert torch.equal(Augmenting(flip=True, shift=0.3, zoom=0.3, colour=0.5, erase=0.9).eval()(x), x)
    assert torch.equal(changed(x), x)


def test_the_same_seed_changes_pictures_alike() -> None:
    x = torch.randn(8, 3, 6, 6)
    every: dict[str, Any] = {"flip": True, "shift": 0.3, "zoom": 0.3, "colour": 0.5, "erase": 0.9}
    assert torch.equal(changed(x, 1, **every), changed(x, 1, **every))
    assert not torch.equal(changed(x, 1, **every), changed(x, 2, **every))


def test_one_picture_in_two_is_flipped() -> None:
    x = torch.randn(400, 1, 2, 5)
    for options in ({"flip": True}, {"flip": True, "shift": 1e-9}):
        y = changed(x, **options)
        flipped = [torch.allclose(one, other.flip(-1), atol=1e-4) for one, other in zip(y, x, strict=True)]
        kept = [torch.allclose(one, other, atol=1e-4) for one, other in zip(y, x, strict=True)]
        assert all(a != b for a, b in zip(flipped, kept, strict=True))
        assert 150 < sum(flipped) < 250


def test_an_erased_rectangle_is_one_and_not_larger_than_its_share() -> None:
    y = changed(torch.ones(300, 2, 10, 8), erase=0.5)
    sides = []
    for picture in y:
        gone = picture[0] == 0
        assert torch.equal(picture[0], picture[1])
        rows, columns = gone.any(1), gone.any(0)
        assert torch.equal(gone, rows[:, None] & columns)
        sides.append((int(rows.sum()), int(columns.sum())))
        places = rows.nonzero().flatten().tolist()
        assert places == list(range(min(places, default=0), max(places, default=-1) + 1))
    assert max(height for height, _ in sides) == 5
    assert max(width for _, width in sides) == 4
    assert (0, 0) in sides


def test_a_shift_moves_a_picture_and_a_zoom_makes_it_larger_or_smaller() -> None:
    ramp = torch.arange(16.0).expand(200, 1, 16, 16)
    moved = changed(ramp, shift=0.25)[:, 0, 8, 8] - 8.0
    assert moved.abs().max() <= 4.0 + 1e-3
    assert moved.min() < -3.5
    assert moved.max() > 3.5
    steps = changed(ramp, zoom=0.2)[:, 0, 8].diff(dim=-1)[:, 7]
    assert steps.min() == pytest.approx(0.8, abs=0.01)
    assert steps.max() == pytest.approx(1.2, abs=0.01)


def test_colours_change_by_a_factor_and_a_shift_of_each_channel() -> None:
    x = torch.randn(50, 3, 4, 4)
    y = changed(x, colour=0.3)
    for before, after in zip(x, y, strict=True):
        factor = (after[0, 0, 0] - after[0, 0, 1]) / (before[0, 0, 0] - before[0, 0, 1])
        assert 0.69 < factor < 1.31
        shift = (after - factor * before).flatten(1)
        torch.testing.assert_close(shift, shift[:, :1].expand_as(shift), atol=1e-3, rtol=0)
        assert shift.abs().max() < 0.302
