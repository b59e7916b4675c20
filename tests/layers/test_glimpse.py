"""The sensor against loops over pixels; the estimator of a gradient against enumeration and exact integrals."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from thereafter.vision.glimpsing.network import GlimpseSensor, draw_around, log_density, reward_loss


def looked(picture_CHW: NDArray[np.float64], place: tuple[float, float], patch: int, scale: int) -> NDArray[np.float64]:
    """One patch, pixel by pixel."""
    channels, height, width = picture_CHW.shape
    square, side = 2**scale, patch * 2**scale
    left = math.floor((place[0] + 1) / 2 * width - side / 2 + 0.5)
    top = math.floor((place[1] + 1) / 2 * height - side / 2 + 0.5)
    seen = np.zeros((channels, patch, patch))
    for y in range(side):
        for x in range(side):
            if 0 <= top + y < height and 0 <= left + x < width:
                seen[:, y // square, x // square] += picture_CHW[:, top + y, left + x] / square**2
    return seen


@pytest.mark.parametrize(("patch", "scales", "channels"), [(3, 3, 1), (4, 2, 3), (5, 1, 2)])
def test_glimpses_are_what_lies_around_their_places(patch: int, scales: int, channels: int) -> None:
    rng = np.random.default_rng(patch)
    pictures = rng.integers(0, 256, (3, channels, 9, 7)).astype(np.uint8)
    places = np.concatenate([rng.uniform(-1, 1, (20, 2)), [[-1, -1], [1, 1], [0, 0], [1, -1]]])
    which = rng.integers(0, 3, len(places))
    sensor = GlimpseSensor(patch, scales)
    framed = sensor.frame(torch.from_numpy(pictures))
    assert framed.dtype == torch.uint8
    glimpses = sensor(framed, torch.from_numpy(places), torch.from_numpy(which)).numpy()
    assert glimpses.shape == (len(places), scales, channels, patch, patch)
    for row, (place, at) in enumerate(zip(places, which, strict=True)):
        for scale in range(scales):
            expected = looked(pictures[at].astype(float), (place[0], place[1]), patch, scale)
            np.testing.assert_allclose(glimpses[row, scale], expected)


@pytest.mark.parametrize(("patch", "scales"), [(3, 3), (4, 2), (5, 1)])
def test_single_pixels_are_counted_without_painting_them(patch: int, scales: int) -> None:
    rng, sensor = np.random.default_rng(patch), GlimpseSensor(patch, scales)
    chosen_R3 = np.stack([rng.permutation(9 * 7)[:3] for _ in range(40)])
    pictures = np.zeros((40, 1, 9 * 7))
    np.put_along_axis(pictures[:, 0], chosen_R3, 1, axis=1)
    places = torch.from_numpy(rng.uniform(-1.2, 1.2, (40, 2)))
    painted = sensor(sensor.frame(torch.from_numpy(pictures).view(40, 1, 9, 7)), places)[:, :, 0]
    points = torch.from_numpy(np.stack((chosen_R3 % 7, chosen_R3 // 7), 2))
    counts = sensor.of_points(points, places, height=9, width=7)
    torch.testing.assert_close(counts, painted * 4 ** torch.arange(scales)[:, None, None])


def test_places_beyond_the_edge_are_places_on_it_and_pixels_have_a_gradient() -> None:
    sensor = GlimpseSensor(3, 2)
    pictures = torch.rand(2, 1, 6, 6, dtype=torch.float64, requires_grad=True)
    far, edge = torch.tensor([[5.0, -9.0]] * 2).double(), torch.tensor([[1.0, -1.0]] * 2).double()
    assert torch.equal(sensor(sensor.frame(pictures), far), sensor(sensor.frame(pictures), edge))
    places = torch.rand(2, 2).double()
    assert torch.autograd.gradcheck(lambda x: sensor(sensor.frame(x), places), pictures)


# ---- the gradient of an expected reward


def slope(weight: Tensor, log_pi: Tensor, reward: Tensor, baseline: Tensor) -> Tensor:
    """The gradient of the loss of one choice, the other way round: that of the reward."""
    (gradient,) = torch.autograd.grad(-reward_loss(log_pi, reward, baseline), weight)
    return gradient


@pytest.mark.parametrize("baseline", [0.0, 0.6, 3.0])
def test_the_mean_over_two_choices_is_the_gradient_of_the_expected_reward(baseline: float) -> None:
    weight = torch.tensor([0.3, -0.4], dtype=torch.float64, requires_grad=True)
    rewards = torch.tensor([1.0, 0.25], dtype=torch.float64)
    (exact,) = torch.autograd.grad(weight.softmax(0) @ rewards, weight)
    p = weight.detach().softmax(0)
    b = torch.tensor(baseline, dtype=torch.float64)
    slopes = torch.stack([slope(weight, weight.log_softmax(0)[choice], rewards[choice], b) for choice in (0, 1)])
    torch.testing.assert_close(p @ slopes, exact)


def test_the_expected_reward_as_baseline_has_the_least_variance_and_the_same_mean() -> None:
    """R(l) = 1 + l^2 of l ~ N(m, s^2), by quadrature: the gradient is 2 m whatever the baseline."""
    s, m = 0.5, torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    p = torch.from_numpy(weights / weights.sum())
    places = m.detach() + s * torch.from_numpy(nodes)
    variances = {}
    for baseline in (0.0, 1 + 0.7**2 + s**2):
        b = torch.tensor(baseline, dtype=torch.float64)
        slopes = torch.stack([slope(m, log_density(at[None], m[None], s), 1 + at**2, b) for at in places])
        assert float(p @ slopes) == pytest.approx(1.4)
        variances[baseline] = float(p @ (slopes - 1.4) ** 2)
    none, expected = variances.values()
    assert expected < none / 2


def test_the_baseline_learns_the_reward_and_nothing_else() -> None:
    b = torch.tensor(0.2, requires_grad=True)
    log_pi = torch.tensor(-3.0, requires_grad=True)
    reward = torch.tensor(1.0, requires_grad=True)
    of_b, of_pi, of_reward = torch.autograd.grad(reward_loss(log_pi, reward, b), (b, log_pi, reward), allow_unused=True)
    assert (float(of_b), float(of_pi)) == pytest.approx((-1.6, -0.8))
    assert of_reward is None


def test_places_are_drawn_around_their_means_and_have_no_gradient() -> None:
    torch.manual_seed(1)
    mean = torch.full((4000, 2), 0.3, requires_grad=True)
    drawn = draw_around(mean, 0.2)
    assert not drawn.requires_grad
    assert float(drawn.mean()) == pytest.approx(0.3, abs=0.01)
    assert float(drawn.std()) == pytest.approx(0.2, abs=0.01)
    exact = -0.5 * (((drawn - mean) / 0.2) ** 2).sum(-1)
    torch.testing.assert_close(log_density(drawn, mean, 0.2), exact)
