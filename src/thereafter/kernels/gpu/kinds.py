"""What a program's arguments are called, and for which GPU it is compiled."""

from __future__ import annotations

from functools import lru_cache

import torch

TYPES = {
    torch.bfloat16: "*bf16",
    torch.float16: "*fp16",
    torch.float32: "*fp32",
    torch.int32: "*i32",
    torch.uint8: "*u8",
}
"""Triton's name of a pointer to numbers of a type."""


@lru_cache(maxsize=64)
def capability(device: int) -> int:
    """90 for Hopper."""
    major, minor = torch.cuda.get_device_capability(device)
    return 10 * major + minor
