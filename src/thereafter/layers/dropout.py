"""Noise that keeps recurrent networks from learning by heart.

Shapes: B rows, T steps, F features.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from thereafter.cells.base import Cell
from thereafter.errors import OptionError
from thereafter.kernels.functions import traced

Zoneout = float | tuple[float, float]


class LockedDropout(nn.Module):
    """Dropout whose mask is drawn once for each row and held for all its steps (Gal and Ghahramani 2016).

    >>> x = torch.ones(2, 5, 3)
    >>> dropped = LockedDropout(0.5)(x)
    >>> bool((dropped == dropped[:, :1]).all())
    True
    """

    def __init__(self, p: float = 0.5, batch_first: bool = True) -> None:
        super().__init__()
        self.p = probability("p", p)
        self.batch_first = batch_first

    def forward(self, x: Tensor) -> Tensor:
        """x is [B, T, F], or [T, B, F] where batch_first is false."""
        return locked(x, self.p, self.training, time_axis=1 if self.batch_first else 0)

    def extra_repr(self) -> str:
        return f"p={self.p}, batch_first={self.batch_first}"


def locked(x: Tensor, p: float, training: bool, time_axis: int = 1) -> Tensor:
    """x times one mask for all steps; x itself while not training."""
    if not training or p == 0.0:
        return x
    shape = list(x.shape)
    shape[time_axis] = 1
    return x * F.dropout(x.new_ones(shape), p, training=True)


def weight_drop(weight: Tensor, p: float, training: bool) -> Tensor:
    """A weight matrix with a fresh share `p` of its entries at 0, the others times 1/(1-p).

    DropConnect (Wan et al. 2013) on the recurrent matrix (Merity et al. 2018). The parameter itself stays what it is.
    """
    if not training or p == 0.0:
        return weight
    if traced() or weight.device.type != "cpu" or not 1 <= round(p * _SHARES) < _SHARES:
        return F.dropout(weight, p, training=True)
    return weight * keep_mask(weight, p)


_SHARES = 1 << 16


def keep_mask(like: Tensor, p: float) -> Tensor:
    """0 with probability p, else 1/(1-p), for every entry of a large CPU tensor.

    A random number of 64 bits decides four entries, so p is kept to a 65,536th. torch's own dropout draws one such
    number for each entry, which takes longer than the network's own work with that matrix.
    """
    words = torch.empty((like.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), 2**63 - 1)
    drawn = words.view(torch.int16)[: like.numel()].view(like.shape)
    dropped = round(p * _SHARES)
    return (drawn >= dropped - _SHARES // 2).to(like.dtype).mul_(_SHARES / (_SHARES - dropped))


def zoneout(cell: Cell, rates: tuple[float, float], x_BTI: Tensor, training: bool) -> dict[str, Tensor | float]:
    """What `kernels.scan.unroll` takes as `hold`: for each state field the share of the old value that is kept.

    While training each unit keeps its old value with the given probability at each step, otherwise by that share
    (Krueger et al. 2017). `rates` are those of h and c.
    """
    hold: dict[str, Tensor | float] = {}
    for (name, size), rate in zip(cell.state_sizes().items(), rates, strict=False):
        if rate > 0.0:
            if not training:
                hold[name] = rate
                continue
            shape = (*x_BTI.shape[:2], size)
            hold[name] = (torch.rand(shape, dtype=torch.float32, device=x_BTI.device) < rate).to(x_BTI.dtype)
    return hold


def zoneout_rates(given: Zoneout) -> tuple[float, float]:
    """The rates of h and c: one number stands for both."""
    pair = tuple(given) if isinstance(given, tuple | list) else (given, given)
    if len(pair) != 2:
        raise OptionError(f"zoneout is {given!r}; expected one probability, or a pair for h and c")
    return probability("zoneout", pair[0]), probability("zoneout", pair[1])


def probability(name: str, value: float) -> float:
    """A number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= 1.0:
        raise OptionError(f"{name} is {value!r}; expected a probability, 0 to 1")
    return float(value)
