"""Random numbers that belong to a picture and not to a moment: a pure function of its pixels, on any device.

    key = mix(sum over pixels of byte x odd number of the place)        modulo 2^64
    bits of place k = mix(key + k golden),       k = 1, 2, ...           mix: SplitMix64 (Steele, Lea and Flood 2014)

Wherever a picture stands in a batch and however often it is asked about, it has the same numbers. Integers wrap around
in 64 bits, so that a CPU and a GPU make the same bits.

Shapes: B pictures, P pixels, K numbers.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

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
