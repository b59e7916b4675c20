"""Where networks compute: the device and the precision for a requested one.

`auto` is a GPU where torch sees one, for `train` and `load` alike; what is loaded stays on the CPU where the GPU is
full. A device that is named is taken or refused, never exchanged for another. Answers of a GPU equal the CPU's; log
probabilities may differ in their last digits.

A device out of memory is reported in one sentence: how much it has, how much is free, what needed more, what to try.

torch is imported only when it is needed: options are checked without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

from thereafter.base import progress
from thereafter.errors import DeviceMemoryError, OptionError

if TYPE_CHECKING:
    import torch
    from torch import nn

DEVICES = ("auto", "cpu", "cuda")
N = TypeVar("N", bound="nn.Module")


def check_device(device: str) -> None:
    """Refuse a name that no device has."""
    if device not in DEVICES:
        raise OptionError(f"device is {device!r}; expected auto, cpu or cuda, which is the GPU; try 'auto'")


def device_for(requested: str) -> str:
    """The device to use: `auto` is a GPU if torch sees one."""
    import torch

    check_device(requested)
    if requested == "cuda" and not torch.cuda.is_available():
        raise OptionError(
            "device is 'cuda', and torch sees no GPU here; try device='cpu' (--device cpu; when training --set "
            "training.device=cpu)"
        )
    return ("cuda" if torch.cuda.is_available() else "cpu") if requested == "auto" else requested


def precision_for(requested: str, device: str) -> str:
    """The precision to use: `auto` is bfloat16 on a GPU that computes in it, else float32."""
    if requested == "auto":
        return "bfloat16" if device == "cuda" and _multiplies_bfloat16() else "float32"
    return requested


def _multiplies_bfloat16() -> bool:
    """Whether the GPU itself computes in bfloat16: older ones only imitate it, more slowly than float32."""
    import torch

    try:
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    except TypeError:  # an older torch, which does not count imitation
        return bool(torch.cuda.is_bf16_supported())


def placed(net: N, requested: str, name: str) -> N:
    """A loaded network, on the requested device and in evaluation mode; `name` is its name in messages.

    On a GPU without room for it `auto` is the CPU, with a note; a GPU that was named is an error.
    """
    import torch

    device = torch.device(device_for(requested))
    if requested != "auto":
        with memory_in_words(device, f"loading {name!r}", "device='cpu' (--device cpu)"):
            return net.to(device).eval()
    try:
        return net.to(device).eval()
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
    net.to("cpu")  # what had moved already
    with suppress(RuntimeError):  # a GPU that is full to the last byte refuses even this
        torch.cuda.empty_cache()
    progress.note(f"the memory of the GPU is full: {name!r} answers on the CPU")
    return net.eval()


_SIGNS = ("out of memory", "ALLOC_FAILED", "not enough memory", "can't allocate memory")
"""How torch's allocators and the libraries below it report it if they have no error type of their own."""
_GIB = 2**30
ANSWERING = "fewer or shorter inputs at a time, or device='cpu' (--device cpu)"
"""What to try when a network is evaluated."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that a device has no memory left."""
    import torch

    if isinstance(error, torch.cuda.OutOfMemoryError | DeviceMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in _SIGNS)


def out_of_memory(device: torch.device, doing: str, remedy: str) -> DeviceMemoryError:
    """The error whose sentence says what `doing` lacked, and the remedy."""
    return DeviceMemoryError(f"{_describe(device)}, and {doing} needs more; try {remedy}")


@contextmanager
def memory_in_words(device: torch.device, doing: str, remedy: str) -> Iterator[None]:
    """Inside the block a device out of memory is reported in one sentence."""
    try:
        yield
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        raise out_of_memory(device, doing, remedy) from error


def _describe(device: torch.device) -> str:
    import torch

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
    import torch

    total = torch.cuda.get_device_properties(device).total_memory
    share = getattr(torch.cuda, "get_per_process_memory_fraction", None)  # torch has it since 2.7
    if share is None:
        return total
    return int(total * share(torch.cuda.current_device() if device.index is None else device))  # it takes a number


def available_memory(device: torch.device) -> float:
    """The bytes that this process may take, with those it has already; infinite if the device does not count them."""
    import torch

    if device.type != "cuda":
        return float("inf")
    free, _ = torch.cuda.mem_get_info(device)
    return min(allowed_memory(device), free + torch.cuda.memory_reserved(device))
