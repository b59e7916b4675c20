"""What oneDNN has in lower precision on this processor: tried out once a process.

torch hands bfloat16 to oneDNN without asking whether there are instructions for it. Where there are none its LSTM is an
error ("could not create a primitive descriptor"). Its products may fail as well: then torch warns, takes its own and
switches oneDNN off for the rest of the process, so that all that is computed later, float32 included, has other bits.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
import torch.nn.functional as F

from thereafter.kernels.functions import backends

_SIDE = 64  # of the matrices tried: torch does not ask oneDNN for small ones


def enabled() -> bool:
    """Whether torch takes oneDNN where it can."""
    return bool(backends().mkldnn.is_available() and backends().mkldnn.enabled)


def switches_off(dtype: torch.dtype) -> bool:
    """Whether a product of this type would make torch switch oneDNN off."""
    return enabled() and not _has_products(dtype)


@cache
def _has_products(dtype: torch.dtype) -> bool:
    with keeping_switch(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what torch has to say is what is asked here
        _try_products(dtype)
        return enabled()


@contextmanager
def keeping_switch() -> Iterator[None]:
    """Afterwards oneDNN is on or off as it was, whatever torch has done to it inside."""
    switch = backends().mkldnn
    before = switch.enabled
    try:
        yield
    finally:
        switch.enabled = before


@contextmanager
def spared(dtype: torch.dtype) -> Iterator[None]:
    """Inside, torch takes its own products from the first on where oneDNN has none of this type. Nothing changes half
    way through, and afterwards oneDNN is on or off as it was."""
    switch = backends().mkldnn
    with keeping_switch():
        if switches_off(dtype):
            switch.enabled = False
        yield


def status() -> str:
    """What is there in bfloat16 on this machine's CPU, in a few words."""
    if not enabled():
        return "oneDNN is off; torch's own products run"
    if switches_off(torch.bfloat16):
        return "oneDNN has no products here (tried); a training in it takes torch's own"
    return "oneDNN's products run (tried)"


def _try_products(dtype: torch.dtype) -> None:
    """The three products of a linear layer, forward and backward."""
    with torch.inference_mode(False), torch.enable_grad(), torch.autocast("cpu", enabled=False):
        x, weight = (torch.ones(_SIDE, _SIDE, dtype=dtype, requires_grad=True) for _ in range(2))
        torch.autograd.grad(F.linear(x, weight).sum(), (x, weight))


def switch(on: bool) -> None:
    """Let torch compute with oneDNN, or without it, for the whole process."""
    backends().mkldnn.enabled = on
