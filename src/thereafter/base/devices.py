"""Where networks compute: the device and the precision that are meant.

`auto` is a GPU where torch sees one, for `train` and `load` alike; what is loaded stays on the CPU where the GPU is
full. A device that is named is taken or refused, never
exchanged for another. Answers of a GPU equal the CPU's; log probabilities may differ in their last digits.

torch is imported where it is asked: options are checked without it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from thereafter.base import progress
from thereafter.errors import OptionError

if TYPE_CHECKING:
    from torch import nn

DEVICES = ("auto", "cpu", "cuda")
N = TypeVar("N", bound="nn.Module")


def check_device(device: str) -> None:
    """Refuse a name that no device has."""
    if device not in DEVICES:
        raise OptionError(f"device is {device!r}; expected auto, cpu or cuda, which is the GPU; try 'auto'")


def device_for(asked: str) -> str:
    """The device that is meant: `auto` is a GPU where torch sees one."""
    import torch

    check_device(asked)
    if asked == "cuda" and not torch.cuda.is_available():
        raise OptionError(
            "device is 'cuda', and torch sees no GPU here; try device='cpu' (--device cpu; when training --set "
            "training.device=cpu)"
        )
    return ("cuda" if torch.cuda.is_available() else "cpu") if asked == "auto" else asked


def precision_for(asked: str, device: str) -> str:
    """The precision that is meant: `auto` is bfloat16 on a GPU that computes in it, else float32."""
    if asked == "auto":
        return "bfloat16" if device == "cuda" and _multiplies_bfloat16() else "float32"
    return asked


def _multiplies_bfloat16() -> bool:
    """Whether the GPU itself computes in bfloat16: older ones only imitate it, more slowly than float32."""
    import torch

    try:
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    except TypeError:  # an older torch, which does not count imitation
        return bool(torch.cuda.is_bf16_supported())


def placed(net: N, asked: str, name: str) -> N:
    """A network that was read, on the device that is meant and in evaluation mode; `name` is what it is called.

    On a GPU without room for it `auto` is the CPU, with a note; a GPU that was named is an error.
    """
    import torch

    from thereafter.base.memory import is_out_of_memory, memory_in_words

    device = torch.device(device_for(asked))
    if asked != "auto":
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
