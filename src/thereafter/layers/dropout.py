"""Noise that keeps recurrent networks from overfitting, and random numbers that belong to a picture.

Those are no matter of a moment but a pure function of the picture's pixels, on any device.

    key = mix(sum over pixels of byte x odd number of the place)        modulo 2^64
    bits of place k = mix(key + k golden),       k = 1, 2, ...           mix: SplitMix64 (Steele, Lea and Flood 2014)

Wherever a picture stands in a batch and however often it is used, it has the same numbers. Integers wrap around
in 64 bits, so that a CPU and a GPU make the same bits.

Shapes: B rows or pictures, T steps, F features, P pixels, K numbers.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from thereafter.cells.base import Cell
from thereafter.kernels.switches import traced
from thereafter.layers.inputs import probability


class LockedDropout(nn.Module):
    """Dropout whose mask is drawn once for each row and used for all its steps (Gal and Ghahramani 2016).

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

    DropConnect (Wan et al. 2013) on the recurrent matrix (Merity et al. 2018). The parameter itself does not change.
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


_GOLDEN = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB


def content_keys(pixels_BP: Tensor, seed: int) -> Tensor:
    """A number for each picture, int64 [B], from its bytes."""
    if pixels_BP.dtype != torch.uint8:
        raise TypeError(f"pixels are {pixels_BP.dtype}; expected bytes")
    places_P = torch.arange(1, pixels_BP.shape[1] + 1, device=pixels_BP.device)
    odd_P = _mixed(places_P * _signed(_GOLDEN)) | 1
    begin = torch.tensor(_signed(seed % 2**64), device=pixels_BP.device)
    return _mixed((pixels_BP.long() * odd_P).sum(1) + _mixed(begin))


def uniform_by_key(keys_B: Tensor, count: int, *, skip: int = 0) -> Tensor:
    """Numbers in (0, 1), float64 [B, K]: `count` of those of each key, from place `skip` on.

    >>> bool((uniform_by_key(torch.tensor([7]), 5)[:, 2:] == uniform_by_key(torch.tensor([7]), 3, skip=2)).all())
    True
    """
    places_K = torch.arange(skip + 1, skip + count + 1, device=keys_B.device)
    bits_BK = _mixed(keys_B[:, None] + places_K * _signed(_GOLDEN))
    return (_shifted(bits_BK, 12).double() + 0.5) * 2.0**-52


def normal_by_key(keys_B: Tensor, count: int, *, skip: int = 0) -> Tensor:
    """Numbers of the standard normal distribution, float64 [B, K]: sqrt(2) erfinv(2 u - 1)."""
    return torch.erfinv(2 * uniform_by_key(keys_B, count, skip=skip) - 1) * math.sqrt(2)


def _mixed(state: Tensor) -> Tensor:
    state = (state ^ _shifted(state, 30)) * _signed(_FIRST)
    state = (state ^ _shifted(state, 27)) * _signed(_SECOND)
    return state ^ _shifted(state, 31)


def _shifted(state: Tensor, bits: int) -> Tensor:
    """To the right, with zeros from the left."""
    return (state >> bits) & ((1 << (64 - bits)) - 1)


def _signed(number: int) -> int:
    """The integer of 64 bits with a sign that has these bits."""
    return number - 2**64 if number >= 2**63 else number
