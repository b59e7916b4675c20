"""A network that glimpses at pictures: its loss, its gradients, where it looks, and that it learns where to look."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.vision.glimpsing.network import (
    Glimpser,
    GlimpserSettings,
    PixelBatch,
    WholePicture,
    build_reader,
    equal_width,
    log_density,
)

SMALL = GlimpserSettings(glimpses=3, patch=3, scales=2, hidden=6, read=5)


def batch_of(count: int = 5, side: int = 9, seed: int = 1) -> PixelBatch:
    draw = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 256, (count, 1, side, side), generator=draw).to(torch.uint8)
    return PixelBatch(pixels, torch.randint(0, 3, (count,), generator=draw))


def net_of(settings: GlimpserSettings = SMALL) -> Glimpser:
    torch.manual_seed(3)
    return Glimpser(settings, channels=1, labels=3)


def slopes(net: Glimpser, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    names, weights = zip(*net.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, weights, allow_unused=True, materialize_grads=True), strict=True))


@pytest.mark.parametrize("learn", ["every", "last"])
@pytest.mark.parametrize("samples", [1, 2])
def test_the_loss_is_cross_entropy_and_places_learn_from_the_reward_alone(learn: str, samples: int) -> None:
    net, batch = net_of(replace(SMALL, learn=learn, samples=samples, reward_weight=0.7)).train(), batch_of()
    torch.manual_seed(5)
    nats = net.nats(batch)
    learned = slopes(net, nats)
    torch.manual_seed(5)
    places_RT2, h_RTU, _ = net.walk(batch, samples)
    assert batch.labels_B is not None
    labels_R = batch.labels_B.repeat_interleave(samples)
    z_RTL = net.head(h_RTU)
    beliefs = range(3) if learn == "every" else [2]
    cross = torch.stack([F.cross_entropy(z_RTL[:, t], labels_R, reduction="sum") for t in beliefs]).mean() / samples
    torch.testing.assert_close(nats.detach(), cross.detach())
    supervised = slopes(net, cross)
    for name, gradient in learned.items():
        if not name.startswith("policy"):
            torch.testing.assert_close(gradient, supervised[name])
    assert not supervised["policy.weight"].any()
    # glimpse by glimpse: -(R - b) grad log pi + grad (R - b)^2
    right_RT = (z_RTL.argmax(-1) == labels_R[:, None]).float()
    policy, expected, before = net.policy, torch.zeros(3, 6), torch.zeros(len(labels_R), 6)
    assert policy is not None
    for t in range(3):
        reward_R = right_RT[:, t:].mean(1) if learn == "every" else right_RT[:, -1]
        out_R3 = policy(before)
        surprise_R = (reward_R - out_R3[:, 2]).detach()
        log_pi_R = log_density(places_RT2[:, t], torch.tanh(out_R3[:, :2]), SMALL.deviation)
        loss = (-surprise_R * log_pi_R + (reward_R - out_R3[:, 2]) ** 2).sum() * 0.7 / samples
        expected = expected + torch.autograd.grad(loss, policy.weight)[0]
        before = h_RTU[:, t].detach()
    torch.testing.assert_close(learned["policy.weight"], expected)


def test_validation_draws_nothing_and_training_does() -> None:
    net, batch = net_of(), batch_of()
    with net.quietly():
        assert float(net.nats(batch)) == float(net.nats(batch))
    assert torch.equal(net.looked(batch).places_BT2, net.looked(batch).places_BT2)
    net.train()
    assert not torch.equal(net.walk(batch, 1)[0], net.walk(batch, 1)[0])


def test_random_places_belong_to_a_picture_and_central_ones_are_central() -> None:
    batch = batch_of()
    random = net_of(replace(SMALL, places="random"))
    places = random.looked(batch).places_BT2
    turned = PixelBatch(batch.pixels_BCHW.flip(0))
    assert torch.equal(random.looked(turned).places_BT2.flip(0), places)
    assert len({tuple(place) for place in places.flatten(0, 1).tolist()}) == 15
    assert float(places.abs().max()) < 1
    assert not net_of(replace(SMALL, places="centre")).looked(batch).places_BT2.any()
    assert "policy.weight" not in dict(random.named_parameters())


def test_patches_and_beliefs_are_those_of_the_places() -> None:
    net, batch = net_of(), batch_of()
    looked = net.looked(batch)
    framed = net.sensor.frame(batch.pixels_BCHW)
    for t in range(3):
        seen = net.sensor(framed, looked.places_BT2[:, t]) / 255
        torch.testing.assert_close(looked.patches_BTKCgg[:, t], seen)
    torch.testing.assert_close(looked.beliefs_BTL[:, -1], net.decide(batch))
    with net.quietly():
        again_BTU = net.reader(looked.inputs_BTU)[0]
        torch.testing.assert_close(net.head(again_BTU).softmax(-1), looked.beliefs_BTL)


@pytest.mark.parametrize("channels", [1, 3])
def test_the_convolutions_beside_it_have_about_as_many_parameters(channels: int) -> None:
    settings = GlimpserSettings(hidden=64, read=32)
    most = Glimpser(settings, channels=channels, labels=10).parameters_count()
    whole = build_reader(replace(settings, places="all"), channels=channels, height=12, width=10, labels=10)
    assert isinstance(whole, WholePicture)
    assert 0.8 * most < whole.parameters_count() <= most
    assert equal_width(replace(settings, hidden=1, read=1, patch=1), channels=1, labels=2, stages=2) == 1
    with assert_refused(OptionError, "3 x 3"):
        WholePicture(settings, channels=1, height=9, width=2, labels=2)
    batch = PixelBatch(torch.zeros(2, channels, 12, 10, dtype=torch.uint8))
    assert whole.looked(batch).beliefs_BTL.shape == (2, 1, 10)


def hidden_marks(count: int, draw: torch.Generator) -> PixelBatch:
    """Dark pictures of 12 x 12 with a mark to the lower right of their middle, standing or lying."""
    labels = torch.randint(0, 2, (count,), generator=draw)
    pixels = torch.randint(0, 40, (count, 1, 12, 12), generator=draw)
    pixels[labels == 0, 0, 8:11, 9] = 255
    pixels[labels == 1, 0, 9, 8:11] = 255
    return PixelBatch(pixels.to(torch.uint8), labels)


@pytest.mark.parametrize("places", ["learned", "centre"])
def test_it_learns_to_look_where_the_answer_is(places: str) -> None:
    torch.manual_seed(1)
    draw = torch.Generator().manual_seed(2)
    settings = GlimpserSettings(places=places, glimpses=1, patch=4, hidden=16, read=8, deviation=0.3, cell="rnn")
    net = Glimpser(settings, channels=1, labels=2)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(120):
        optimizer.zero_grad()
        (net.nats(hidden_marks(64, draw)) / 64).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    asked = hidden_marks(200, draw)
    assert asked.labels_B is not None
    accuracy = float(net.decide(asked).argmax(-1).eq(asked.labels_B).float().mean())
    assert accuracy > 0.9 if places == "learned" else accuracy < 0.7


@pytest.mark.parametrize(
    "wrong",
    [{"places": "left"}, {"cell": "lstmm"}, {"glimpses": 0}, {"deviation": 0.0}, {"scales": 7}, {"learn": "first"}],
)
def test_settings_of_glimpses_are_checked(wrong: dict[str, Any]) -> None:
    with assert_refused(OptionError, next(iter(wrong))):
        GlimpserSettings(**wrong)
