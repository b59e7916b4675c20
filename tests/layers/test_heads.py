"""Heads as distributions: what they give against torch's own, what they draw against what they say, and readers."""

from __future__ import annotations

import math
from typing import Protocol

import pytest
import torch
from torch import Tensor
from torch.distributions import Normal

from refusals import assert_refused
from thereafter.errors import OptionError, ShapeError
from thereafter.layers.embedding import Embedding
from thereafter.layers.heads import AdaptiveSoftmax, Gaussian, Head, Softmax, WordHead
from thereafter.layers.recurrent import Recurrent
from thereafter.models.neural import Numbers, Reader

N, V, H = 7, 11, 5
SIZES = pytest.mark.parametrize("size", [None, 1, 3])


class QuantileHead(Head, Protocol):
    """A head over numbers, which can say below what a share of them lies."""

    def quantiles(self, f_NH: Tensor, levels_Q: Tensor) -> Tensor:
        """The numbers below which the shares `levels_Q` of the distribution lie, shaped as targets with Q behind."""


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def gaussian(size: int | None) -> tuple[Gaussian, Tensor, Tensor]:
    """A head, features and targets."""
    torch.manual_seed(0)
    head = Gaussian(H, size).double()
    with torch.no_grad():
        head.bias.copy_(drawn(len(head.bias), seed=3))
    shape = (N,) if size is None else (N, size)
    return head, drawn(N, H, seed=1).requires_grad_(), drawn(*shape, seed=2)


def normal(head: Gaussian, f_NH: Tensor) -> Normal:
    """The same distribution, from the weights and torch's own formulas."""
    out = f_NH @ head.weight.t() + head.bias
    half = out.shape[1] // 2
    mean, log_sigma = out[:, :half], out[:, half:]
    return Normal(mean.squeeze(1), log_sigma.exp().squeeze(1)) if head.size is None else Normal(mean, log_sigma.exp())


@SIZES
def test_a_gaussian_has_the_values_and_gradients_of_torchs(size: int | None) -> None:
    head, f, y = gaussian(size)
    plain = -normal(head, f).log_prob(y)
    plain = plain if size is None else plain.sum(1)
    ours = head.nll(f, y)
    assert ours.shape == (N,)
    torch.testing.assert_close(ours, plain)
    learned = (f, head.weight, head.bias)
    torch.testing.assert_close(torch.autograd.grad(ours.sum(), learned), torch.autograd.grad(plain.sum(), learned))
    torch.testing.assert_close(head.total(f, y), head.nll(f, y).sum())
    assert head.total(f, y).requires_grad
    known = head.log_prob_of(f, y)
    assert not known.requires_grad
    torch.testing.assert_close(known, -head.nll(f, y).detach())


@SIZES
def test_the_quantiles_of_a_gaussian_are_torchs(size: int | None) -> None:
    head, f, y = gaussian(size)
    levels = torch.tensor([0.05, 0.5, 0.9])
    found = head.quantiles(f, levels)
    assert found.shape == (*y.shape, 3)
    for place, level in enumerate(levels.double()):
        torch.testing.assert_close(found[..., place], normal(head, f).icdf(level))


@SIZES
def test_draws_of_a_gaussian_have_its_mean_and_spread(size: int | None) -> None:
    head, f, _ = gaussian(size)
    many = f[:1].expand(20_000, H)
    found = head.sample(many, torch.Generator().manual_seed(4))
    assert found.shape == ((20_000,) if size is None else (20_000, size))
    assert not found.requires_grad
    truth = normal(head, f[:1])
    error = 5 * truth.stddev[0] / math.sqrt(20_000)  # five standard errors
    assert ((found.mean(0) - truth.mean[0]).abs() < error).all()
    assert ((found.std(0) / truth.stddev[0] - 1).abs() < 0.03).all()


def test_a_density_is_worked_out_in_float32_at_least() -> None:
    head = Gaussian(H).to(torch.bfloat16)
    f = torch.zeros(2, H, dtype=torch.bfloat16)
    assert head.nll(f, torch.zeros(2)).dtype == torch.float32
    assert head.sample(f).dtype == torch.float32


def test_mistakes_are_told() -> None:
    head, f, y = gaussian(3)
    with assert_refused(ShapeError, "(7, 5)", "(7,)", "[N, 5]", "[N, 3]"):
        head.nll(f, y[:, 0])
    with assert_refused(ShapeError, "(7, 4)", "[N, 5]"):
        head.sample(f[:, 1:])
    with assert_refused(OptionError, 0, 1):
        head.quantiles(f, torch.tensor([0.5, 1.0]))
    with assert_refused(OptionError, "size", 0):
        Gaussian(4, 0)
    with assert_refused(ShapeError, "[B, T, 2]"):
        Numbers(2, 4)(torch.zeros(1, 3))
    with assert_refused(OptionError, "size", 0):
        Numbers(None, 0)


def word_head(kind: str) -> WordHead:
    torch.manual_seed(0)
    if kind == "adaptive":
        # counts that turn the order round, so that ranks are not ids
        return AdaptiveSoftmax(H, V, (3, 6), torch.arange(V), chunk=1000)
    tied = Embedding(V, H, init=1.0) if kind == "tied" else None
    return Softmax(H, V, tied=tied, chunk=1000)


@pytest.mark.parametrize("kind", ["softmax", "tied", "adaptive"])
def test_words_are_drawn_as_often_as_they_are_likely(kind: str) -> None:
    head, count = word_head(kind), 40_000
    f = (2 * drawn(1, H)).float()
    found = head.sample(f.expand(count, H), torch.Generator().manual_seed(5))
    assert found.shape == (count,)
    assert found.dtype == torch.int64
    p_V = head.log_prob(f)[0].detach().exp().double()
    share_V = torch.bincount(found, minlength=V) / count
    assert ((share_V - p_V).abs() <= 5 * (p_V * (1 - p_V) / count).sqrt()).all()
    assert head.sample(f[:0]).shape == (0,)


@pytest.mark.parametrize("kind", ["softmax", "adaptive", "gaussian"])
def test_the_same_generator_draws_the_same(kind: str) -> None:
    head: Head = Gaussian(H) if kind == "gaussian" else word_head(kind)
    f = drawn(50, H).float()
    one, two, other = (head.sample(f, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)
    torch.testing.assert_close(head.log_prob_of(f, one), -head.nll(f, one).detach())
    torch.testing.assert_close(head.total(f, one), head.nll(f, one).sum())


def test_numbers_are_read_by_a_linear_map() -> None:
    reader: Reader = Numbers(3, 4)
    u = drawn(2, 6, 3).float()
    x, table = reader.lookup(u)
    assert isinstance(reader, Numbers)
    torch.testing.assert_close(x, u @ reader.weight.t() + reader.bias)
    assert table is None
    assert reader.size == x.shape[-1] == 4
    words: Reader = Embedding(V, 6)
    assert words.size == 6
    assert words.device == reader.device == torch.device("cpu")


def test_reader_body_and_head_learn_a_series_of_numbers() -> None:
    """x_t = 0.8 x_{t-1} + 0.5 e_t: no model can do better than the entropy of the noise."""
    torch.manual_seed(0)
    noise = torch.randn(64, 101)
    series = torch.zeros(64, 101)
    for t in range(1, 101):
        series[:, t] = 0.8 * series[:, t - 1] + 0.5 * noise[:, t]
    reader, body = Numbers(None, 8), Recurrent("gru", 8, [8], 1, batch_first=True)
    gaussian = Gaussian(8)
    head: QuantileHead = gaussian
    parts = torch.nn.ModuleList([reader, body, gaussian])
    optimizer = torch.optim.Adam(parts.parameters(), lr=0.02)
    targets = series[:, 1:].flatten()
    for _ in range(150):
        h, _ = body(reader(series[:, :-1]))
        loss = head.total(h.flatten(0, 1), targets) / len(targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    entropy = 0.5 * math.log(2 * math.pi * math.e * 0.25)
    assert entropy - 0.05 < loss.item() < entropy + 0.1
    with torch.no_grad():
        f = body(reader(series[:, :-1]))[0].flatten(0, 1)
        below = head.quantiles(f, torch.tensor([0.1, 0.9]))
    shares = (targets[:, None] < below).float().mean(0).tolist()
    assert shares == pytest.approx([0.1, 0.9], abs=0.03)
