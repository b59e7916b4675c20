"""The network that draws: against its equations written out stroke by stroke, its bound, and that it learns."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.vision.drawing.network import Drawer, DrawerSettings, DrawingBatch, Strokes, gaussian_kl

SMALL: dict[str, Any] = {"hidden": 6, "latent": 3, "strokes": 3, "read": 2, "write": 3}
attended = pytest.mark.parametrize("attend", [True, False])


def drawer(channels: int = 1, **options: Any) -> Drawer:
    torch.manual_seed(5)
    net = Drawer(DrawerSettings(**SMALL | options), height=5, width=6, channels=channels).double()
    with torch.no_grad():
        net.writer.weight.mul_(3)
        net.canvas.normal_()
    return net.eval()


def pictures(rows: int = 4, channels: int = 1, seed: int = 0) -> DrawingBatch:
    draw = torch.Generator().manual_seed(seed)
    return DrawingBatch(torch.randint(0, 256, (rows, channels, 5, 6), generator=draw, dtype=torch.uint8))


def bank(centre: Tensor, stride: Tensor, variance: Tensor, side: int, pixels: int) -> Tensor:
    rows = []
    for i in range(side):
        weight = torch.exp(-((torch.arange(pixels) - (centre + (i - (side - 1) / 2) * stride)) ** 2) / (2 * variance))
        rows.append(weight / weight.sum())
    return torch.stack(rows)


def filters(five: Tensor, side: int) -> tuple[Tensor, Tensor, Tensor]:
    """F_y, F_x and the intensity of one window over 5 x 6 pixels."""
    stride, variance = 5 / (side - 1) * five[3].exp(), five[2].exp()
    f_y = bank(2 + 3 * five[0], stride, variance, side, 5)
    return f_y, bank(2.5 + 3.5 * five[1], stride, variance, side, 6), five[4].exp()


def by_hand(net: Drawer, x_CHW: Tensor, noise_TZ: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One picture by the equations of the module over torch's own LSTM cells: logits, mu and log sigma."""
    settings, weights = net.settings, dict(net.named_parameters())
    layers = {}
    for name in ("encoder", "decoder"):
        own = {key: weights[f"{name}.{key}_l0"] for key in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
        cell = nn.LSTMCell(own["weight_ih"].shape[1], settings.hidden).double()
        cell.load_state_dict(own)
        layers[name] = cell
    states = {name: (torch.zeros(1, 6, dtype=torch.float64),) * 2 for name in layers}
    canvas, made = net.canvas.transpose(0, 1), net.writer.bias
    channels, means, logs = len(x_CHW), [], []
    for noise_Z in noise_TZ:
        both = torch.stack([x_CHW, x_CHW - canvas.sigmoid()])
        if settings.attend:
            f_y, f_x, intensity = filters(made[:5], settings.read)
            seen = intensity * torch.einsum("ih,kchw,jw->ikcj", f_y, both, f_x)
        else:
            seen = both.permute(2, 0, 1, 3)
        given = torch.cat([seen.reshape(1, -1), states["decoder"][0]], 1)
        states["encoder"] = layers["encoder"](given, states["encoder"])
        mean, log = net.posterior(states["encoder"][0])[0].chunk(2)
        z = mean + log.exp() * noise_Z
        states["decoder"] = layers["decoder"](z[None], states["decoder"])
        made = net.writer(states["decoder"][0])[0]
        if settings.attend:
            f_y, f_x, intensity = filters(made[5:10], settings.write)
            patch = made[10:].view(settings.write, channels, settings.write)
            canvas = canvas + torch.einsum("ih,icj,jw->chw", f_y, patch, f_x) / intensity
        else:
            canvas = canvas + made.view(5, channels, 6).transpose(0, 1)
        means.append(mean)
        logs.append(log)
    return canvas, torch.stack(means), torch.stack(logs)


@attended
@pytest.mark.parametrize("channels", [1, 3])
def test_strokes_equal_the_equations_over_torch_cells(attend: bool, channels: int) -> None:
    net, batch = drawer(channels, attend=attend), pictures(2, channels)
    x_BHCW, noise_BTZ = net.drawn(batch)
    bound, z_BHCW = net.draw_again(batch)
    for row in range(2):
        x_CHW = x_BHCW[row].transpose(0, 1)
        canvas, mean, log = by_hand(net, x_CHW, noise_BTZ[row])
        torch.testing.assert_close(z_BHCW[row].transpose(0, 1), canvas, rtol=1e-9, atol=1e-9)
        p = canvas.sigmoid()
        nats = -(x_CHW * p.log() + (1 - x_CHW) * (1 - p).log()).sum()
        torch.testing.assert_close(bound.pixels_B[row], nats, rtol=1e-9, atol=1e-9)
        normal = torch.distributions.Normal(mean, log.exp())
        expected = torch.distributions.kl_divergence(normal, torch.distributions.Normal(0.0, 1.0)).sum(-1)
        torch.testing.assert_close(bound.latent_BT[row], expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(net.nats(batch), bound.pixels_B.sum() + bound.latent_BT.sum())


def test_the_divergence_in_closed_form_is_the_mean_of_draws() -> None:
    draw = torch.Generator().manual_seed(1)
    mean, log = (torch.randn(3, generator=draw, dtype=torch.float64) * 0.5 for _ in range(2))
    noise = torch.randn(200_000, 3, generator=draw, dtype=torch.float64)
    z = mean + log.exp() * noise
    ratio_N = (0.5 * z.square() - 0.5 * noise.square() - log).sum(-1)  # log q(z) - log p(z)
    error = float(ratio_N.std()) / math.sqrt(len(ratio_N))
    assert abs(float(ratio_N.mean() - gaussian_kl(mean, log))) < 4 * error
    assert float(gaussian_kl(torch.zeros(3), torch.zeros(3))) == 0.0


def test_the_bound_is_above_the_likelihood_by_importance_sampling() -> None:
    """-log p(x) <= -log mean of p(x, z) / q(z) in expectation <= the bound, with z of many draws."""
    net, one = drawer(strokes=2), pictures(1)
    torch.manual_seed(0)
    x_BHCW, _ = net.drawn(one)
    with torch.no_grad():
        draws = 3_000
        noise = torch.randn(draws, 2, 3, dtype=torch.float64)
        canvas, mean, log = net.strokes(x_BHCW.expand(draws, -1, -1, -1), noise, None)
        z = mean + log.exp() * noise
        pixels = F.binary_cross_entropy_with_logits(canvas, x_BHCW.expand_as(canvas), reduction="none").sum((1, 2, 3))
        ratio = (0.5 * z.square() - 0.5 * noise.square() - log).sum((1, 2))
        bound = (pixels + gaussian_kl(mean, log).sum(1)).mean()
        sampled = (pixels + ratio).mean()
        tighter = -(torch.logsumexp(-(pixels + ratio), 0) - math.log(draws))
    assert float(bound) == pytest.approx(float(sampled), abs=0.2)
    assert float(tighter) < float(bound)


@attended
def test_gradients_of_the_bound_are_right(attend: bool) -> None:
    net, batch = drawer(attend=attend, hidden=3, latent=2, strokes=2, write=2), pictures(2)
    x_BHCW, noise_BTZ = net.drawn(batch)
    names, weights = zip(*net.named_parameters(), strict=True)

    def bound(*given: Tensor) -> Tensor:
        parameters = dict(zip(names, given, strict=True))
        made: Tensor = torch.func.functional_call(
            _Bound(net, x_BHCW, noise_BTZ), {f"net.{n}": p for n, p in parameters.items()}
        )
        return made

    given = tuple(weight.detach().requires_grad_() for weight in weights)
    assert torch.autograd.gradcheck(bound, given, fast_mode=True)


class _Bound(nn.Module):
    """The bound of given pixels and noise."""

    def __init__(self, net: Drawer, x_BHCW: Tensor, noise_BTZ: Tensor) -> None:
        super().__init__()
        self.net, self.x_BHCW, self.noise_BTZ = net, x_BHCW, noise_BTZ

    def forward(self) -> Tensor:
        canvas, mean, log = self.net.strokes(self.x_BHCW, self.noise_BTZ, None)
        return F.binary_cross_entropy_with_logits(canvas, self.x_BHCW, reduction="sum") + gaussian_kl(mean, log).sum()


@attended
def test_a_figure_repeats_to_the_bit_and_training_draws_anew(attend: bool) -> None:
    net, batch = drawer(attend=attend), pictures()
    assert torch.equal(net.nats(batch), net.nats(batch))
    alone = [net.nats(DrawingBatch(batch.pixels_BCHW[row : row + 1])) for row in (2, 0, 1, 3)]
    torch.testing.assert_close(torch.stack(alone).sum(), net.nats(batch))
    net.train()
    torch.manual_seed(1)
    first, second = net.nats(batch), net.nats(batch)
    assert not torch.equal(first, second)
    torch.manual_seed(1)
    assert torch.equal(net.nats(batch), first)


def test_pixels_are_drawn_by_their_intensity_and_never_by_a_threshold() -> None:
    net = drawer()
    batch = pictures(1_000)
    x_BHCW, _ = net.drawn(batch)
    v = batch.pixels_BCHW.double() / 255
    x = x_BHCW.transpose(1, 2)
    assert set(x.flatten().tolist()) == {0.0, 1.0}
    for low in (0.0, 0.25, 0.5, 0.75):
        inside = (v >= low) & (v < low + 0.25)
        expected, count = float(v[inside].mean()), int(inside.sum())
        assert abs(float(x[inside].mean()) - expected) < 4 * math.sqrt(0.25 / count)
    extremes = DrawingBatch(torch.tensor([0, 255], dtype=torch.uint8).repeat(15).view(1, 1, 5, 6))
    assert torch.equal(net.drawn(extremes)[0].flatten(), torch.tensor([0.0, 1.0]).repeat(15).double())


@attended
def test_pictures_of_the_prior_have_numbers(attend: bool) -> None:
    net = drawer(channels=3, attend=attend)
    made = net.sample(5, seed=3)
    assert made.shape == (5, 3, 5, 6)
    assert ((made > 0) & (made < 1)).all()
    torch.testing.assert_close(net.sample(2, seed=3), made[:2])
    assert not torch.allclose(net.sample(5, seed=4), made)
    assert not torch.allclose(made[0], made[1])
    with assert_refused(OptionError, 1):
        net.sample(0)


def test_strokes_can_be_looked_at() -> None:
    net, batch, seen = drawer(), pictures(2), Strokes()
    _, z_BHCW = net.draw_again(batch, seen)
    assert len(seen.canvases) == len(seen.windows) == 3
    torch.testing.assert_close(seen.canvases[-1], z_BHCW)
    assert seen.windows[0].centre_BV2.shape == (2, 2, 2)
    assert torch.equal(seen.windows[0].stride_BV[0, 0], seen.windows[0].stride_BV[1, 0])  # before any picture was read
    assert {"h", "c", "forget"} <= seen.layers["encoder"].keys() & seen.layers["decoder"].keys()
    assert torch.stack(seen.layers["decoder"]["h"], 1).shape == (2, 3, 6)
    torch.testing.assert_close(net.draw_again(batch)[1], z_BHCW)


@attended
def test_every_weight_of_a_drawer_learns(attend: bool) -> None:
    net = drawer(attend=attend).train()
    torch.autograd.backward(net.nats(pictures()))
    assert not [name for name, weight in net.named_parameters() if weight.grad is None or not weight.grad.any()]


def test_settings_of_a_drawer_are_checked() -> None:
    wrong: list[tuple[str, Any]] = [("strokes", 0), ("latent", 0), ("read", -1), ("cell", "lsmt"), ("dropout", 1.0)]
    for name, value in wrong:
        with assert_refused(OptionError, name):
            DrawerSettings(**{name: value})


def test_a_small_drawer_learns_which_half_is_lit() -> None:
    """Three rows or the other two: log 2 nats at best, 30 log 2 where every pixel is predicted alone."""
    torch.manual_seed(0)
    net = Drawer(DrawerSettings(**SMALL | {"hidden": 16, "write": 4}), height=5, width=6)
    optimizer = torch.optim.Adam(net.parameters(), 0.02)
    draw = torch.Generator().manual_seed(1)

    def halves(rows: int) -> DrawingBatch:
        above_B111 = torch.randint(0, 2, (rows, 1, 1, 1), generator=draw) > 0
        lit = above_B111 == (torch.arange(5) < 3)[:, None]
        return DrawingBatch(lit.expand(-1, 1, 5, 6).to(torch.uint8) * 255)

    for _ in range(80):
        optimizer.zero_grad()
        torch.autograd.backward(net.nats(halves(16)) / 16)
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        optimizer.step()
    with net.eval().quietly():
        assert float(net.nats(halves(100))) / 100 < 0.5 * 30 * math.log(2)
