"""The regularised incomplete beta function, of which the distribution functions of Student's t and of the negative
binomial are values.

    I_x(a, b) = x^a (1 - x)^b / (a B(a, b)) / (1 + d_1 / (1 + d_2 / (1 + ...)))
    d_{2m} = m (b - m) x / ((a + 2m - 1) (a + 2m)),    d_{2m+1} = -(a + m) (a + b + m) x / ((a + 2m) (a + 2m + 1))

(Olver et al. 2010, NIST Handbook of Mathematical Functions, 8.17.22.) The fraction converges fast for x below the mean
(a + 1) / (a + b + 2); above it I_x(a, b) = 1 - I_{1-x}(b, a) is used. It is evaluated forward (Lentz 1976).
"""

from __future__ import annotations

import torch
from torch import Tensor

from thereafter.series.distributions.base import in_one_shape

_MOST = 5000  # terms; about the root of the larger parameter is needed
_CHECK = 8  # terms between two looks at what still changes
_TINY = 1e-300  # in the place of a 0 that would be divided by


def precision(dtype: torch.dtype) -> float:
    """How exact a share has to be that is rounded to `dtype` in the end."""
    return 1e-14 if dtype == torch.double else 1e-9


@torch.no_grad()
def incomplete_beta(a: Tensor, b: Tensor, x: Tensor, rest: Tensor, exact: float = 1e-14) -> Tensor:
    """I_x(a, b) in double precision, without gradients; `rest` is 1 - x, given so that neither is rounded away.

    `exact`: the relative error at which the fraction is broken off.

    >>> one, half = torch.ones(1), torch.full((1,), 0.5)
    >>> incomplete_beta(one, one, half, half).item()  # a uniform distribution
    0.5
    """
    a, b, x, rest = in_one_shape(a.double(), b.double(), x.double(), rest.double())
    above = x > (a + 1) / (a + b + 2)
    a, b, x, rest = (
        torch.where(above, b, a),
        torch.where(above, a, b),
        torch.where(above, rest, x),
        torch.where(above, x, rest),
    )
    log_beta = torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)
    front = torch.exp(torch.xlogy(a, x) + torch.xlogy(b, rest) - torch.log(a) - log_beta)
    value = (front / _fraction(a.flatten(), b.flatten(), x.flatten(), exact).view_as(a)).clamp(0.0, 1.0)
    return torch.where(above, 1 - value, value)


def _fraction(a_N: Tensor, b_N: Tensor, x_N: Tensor, exact: float) -> Tensor:
    """1 + d_1 / (1 + d_2 / (1 + ...)), as the product of the quotients of its convergents.

    Most elements are done after a few terms and leave the loop.
    """
    value_N, left_M = torch.ones_like(x_N), torch.arange(len(x_N), device=x_N.device)
    a, b, x = a_N, b_N, x_N
    value, numerator, denominator = torch.ones_like(x), torch.ones_like(x), torch.zeros_like(x)
    for term in range(1, _MOST + 1):
        m, odd = divmod(term, 2)
        top = -(a + m) * (a + b + m) if odd else m * (b - m)
        d = top * x / ((a + term - 1) * (a + term))
        denominator = 1 / _not_zero(1 + d * denominator)
        numerator = _not_zero(1 + d / numerator)
        change = numerator * denominator
        value = value * change
        if term % _CHECK == 0:
            value_N[left_M] = value
            moving = (change - 1).abs() > exact
            if not bool(moving.any()):
                break
            a, b, x, value, numerator, denominator, left_M = (
                one[moving] for one in (a, b, x, value, numerator, denominator, left_M)
            )
    return value_N


def _not_zero(value: Tensor) -> Tensor:
    return torch.where(value == 0, _TINY, value)
