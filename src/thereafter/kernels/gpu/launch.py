"""A program by its name and arguments: compiled when it is first asked for, launched on the stream of now."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

import torch
from torch import Tensor

from thereafter.kernels.gpu.compiling import Constant, Wanted, binary
from thereafter.kernels.gpu.driver import Loaded

Argument = Tensor | int | float
Constants = dict[str, Constant]

CODE = "thereafter.kernels.gpu.code"
TYPES = {
    torch.bfloat16: "*bf16",
    torch.float16: "*fp16",
    torch.float32: "*fp32",
    torch.int32: "*i32",
    torch.int64: "*i64",
    torch.uint8: "*u8",
}
FLOATS = (torch.float32, torch.bfloat16, torch.float16)
"""What the programs read, and compute with in float32."""
_INDEX = 2**31 - 1


def launch(
    module: str,
    function: str,
    arguments: dict[str, Argument],
    constants: Constants,
    *,
    warps: int,
    blocks: int,
    together: bool,
    aligned: tuple[tuple[str, int], ...] = (),
) -> None:
    """`module`: a file of code/. `arguments`: in the order of the program's parameters. `together`: all blocks are on
    the GPU at once, since they wait for one another. `aligned`: see `Wanted`."""
    device = next(value.device for value in arguments.values() if isinstance(value, Tensor))
    kinds = tuple([(name, _kind(value)) for name, value in arguments.items()])
    program = _program(module, function, kinds, tuple(constants.items()), warps, aligned, device.index)
    stream = torch.cuda.current_stream(device).cuda_stream
    program.launch(blocks, list(arguments.values()), together=together, stream=stream)


def _kind(value: Argument) -> str:
    if isinstance(value, Tensor):
        return TYPES[value.dtype]
    if isinstance(value, float):
        return "fp32"
    return "i32" if -_INDEX <= value <= _INDEX else "i64"


def multiples_in(begins: Mapping[str, Argument]) -> tuple[tuple[str, int], ...]:
    """What `Wanted.aligned` is told of arguments that say where a row begins, as far as the compiler may know it."""
    places = {name: at.data_ptr() if isinstance(at, Tensor) else int(at) for name, at in begins.items()}
    return tuple([(name, part) for name, at in places.items() if at > 0 and (part := math.gcd(16, at)) > 1])


@dataclass(frozen=True)
class Launch:
    """A program with its constants, the blocks it is started with, and its arguments."""

    wanted: Wanted
    blocks: int
    arguments: tuple[Tensor | int, ...]


def start(planned: Launch, device: int) -> None:
    """Put a launch whose blocks do not wait for one another into the stream of now."""
    stream = int(torch.cuda.current_stream(device).cuda_stream)
    loaded(planned.wanted, device).launch(planned.blocks, planned.arguments, together=False, stream=stream)


@cache
def loaded(wanted: Wanted, device: int) -> Loaded:
    """A program on a device; loaded once."""
    return Loaded(binary(wanted), device)


@lru_cache(maxsize=4096)
def _program(
    module: str,
    function: str,
    kinds: tuple[tuple[str, str], ...],
    constants: tuple[tuple[str, Constant], ...],
    warps: int,
    aligned: tuple[tuple[str, int], ...],
    device: int,
) -> Loaded:
    return loaded(Wanted(f"{CODE}.{module}", function, kinds, constants, warps, capability(device), aligned), device)


@lru_cache(maxsize=64)
def capability(device: int) -> int:
    """90 for Hopper."""
    major, minor = torch.cuda.get_device_capability(device)
    return 10 * major + minor
