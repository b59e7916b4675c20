"""A program by its name and arguments: compiled when it is first asked for, launched on the stream of now."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from thereafter.kernels.gpu.compiling import Constant, Wanted, binary
from thereafter.kernels.gpu.driver import Loaded

Argument = Tensor | int | float
Constants = dict[str, Constant]

_CODE = "thereafter.kernels.gpu.code"
_TYPES = {
    torch.bfloat16: "*bf16",
    torch.float16: "*fp16",
    torch.float32: "*fp32",
    torch.int32: "*i32",
    torch.uint8: "*u8",
}
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
        return _TYPES[value.dtype]
    if isinstance(value, float):
        return "fp32"
    return "i32" if -_INDEX <= value <= _INDEX else "i64"


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
    wanted = Wanted(f"{_CODE}.{module}", function, kinds, constants, warps, _capability(device), aligned)
    return Loaded(binary(wanted), device)


@lru_cache(maxsize=64)
def _capability(device: int) -> int:
    """90 for Hopper."""
    major, minor = torch.cuda.get_device_capability(device)
    return 10 * major + minor
