"""A device without memory, in one sentence: how much it has, what of it is free, what needed more, what to try."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from thereafter.errors import DeviceMemoryError

_SIGNS = ("out of memory", "ALLOC_FAILED", "not enough memory", "can't allocate memory")
"""How torch's allocators and the libraries below it say so, where they have no error of their own for it."""
_GIB = 2**30
ANSWERING = "fewer or shorter inputs at a time, or device='cpu' (--device cpu)"
"""What to try where a network answers."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that a device has no memory left."""
    if isinstance(error, torch.cuda.OutOfMemoryError | DeviceMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in _SIGNS)


def out_of_memory(device: torch.device, doing: str, remedy: str) -> DeviceMemoryError:
    """The error whose sentence says what `doing` lacked, and the remedy."""
    return DeviceMemoryError(f"{_describe(device)}, and {doing} needs more; try {remedy}")


@contextmanager
def memory_in_words(device: torch.device, doing: str, remedy: str) -> Iterator[None]:
    """Inside the block a device without memory is one sentence."""
    try:
        yield
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        raise out_of_memory(device, doing, remedy) from error


def _describe(device: torch.device) -> str:
    if device.type != "cuda" or not torch.cuda.is_available():
        return "this machine is out of memory"
    free, total = torch.cuda.mem_get_info(device)
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)  # torch keeps it for later
    allowed = allowed_memory(device)
    share = f" ({allowed / _GIB:.1f} for this process)" if allowed < total else ""
    return (
        f"the GPU is out of memory: it has {total / _GIB:.1f} GiB{share}, {(free + unused) / _GIB:.1f} GiB of them free"
    )


def allowed_memory(device: torch.device) -> int:
    """The bytes of a GPU that this process may take, as `torch.cuda.set_per_process_memory_fraction` says."""
    total = torch.cuda.get_device_properties(device).total_memory
    share = getattr(torch.cuda, "get_per_process_memory_fraction", None)  # torch has it since 2.7
    # it takes no device without a number
    return (
        total if share is None else int(total * share(torch.cuda.current_device() if device.index is None else device))
    )


def available_memory(device: torch.device) -> float:
    """The bytes that this process may take, with those it has already; without an end on a device that counts none."""
    if device.type != "cuda":
        return float("inf")
    free, _ = torch.cuda.mem_get_info(device)
    return min(allowed_memory(device), free + torch.cuda.memory_reserved(device))
