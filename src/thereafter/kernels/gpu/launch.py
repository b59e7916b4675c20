"""A program by its name and arguments: compiled when it is first asked for, launched on the stream of now."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache, lru_cache

import torch
from torch import Tensor

from thereafter.kernels.gpu.compiling import Constant, Wanted, binary
from thereafter.kernels.gpu.driver import DTYPES, Loaded

Argument = Tensor | int | float | None
"""None: an array that is not there, a null pointer, which the program does not read."""
Constants = dict[str, Constant]

CODE = "thereafter.kernels.gpu.code"
TYPES = {dtype: kind for kind, dtype in DTYPES.items()}
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
    together: bool = False,
    aligned: tuple[tuple[str, int], ...] = (),
    kinds: Mapping[str, str] | None = None,
) -> None:
    """`module`: a file of code/. `arguments`: in the order of the program's parameters. `together`: all blocks are on
    the GPU at once, since they wait for one another. `aligned`: see `Wanted`. `kinds`: the types of numbers whose type
    is not that of their value, 32 bits where these are enough."""
    device = next(value.device for value in arguments.values() if isinstance(value, Tensor))
    types = tuple([(name, (kinds or {}).get(name) or _kind(value)) for name, value in arguments.items()])
    program = _program(module, function, types, tuple(constants.items()), warps, aligned, device.index)
    stream = int(torch.cuda.current_stream(device).cuda_stream)
    values = [0 if value is None else value for value in arguments.values()]
    program.launch(blocks, values, together=together, stream=stream)


def _kind(value: Argument) -> str:
    if isinstance(value, Tensor):
        return TYPES[value.dtype]
    if value is None:
        return "*fp32"
    if isinstance(value, float):
        return "fp32"
    return "i32" if -_INDEX <= value <= _INDEX else "i64"


def multiples_in(begins: Mapping[str, Argument]) -> tuple[tuple[str, int], ...]:
    """What `Wanted.aligned` is told of arguments that say where a row begins, as far as the compiler may know it."""
    places = {name: at.data_ptr() if isinstance(at, Tensor) else int(at or 0) for name, at in begins.items()}
    return tuple([(name, part) for name, at in places.items() if at > 0 and (part := math.gcd(16, at)) > 1])


@cache
def _program(
    module: str,
    function: str,
    types: tuple[tuple[str, str], ...],
    constants: tuple[tuple[str, Constant], ...],
    warps: int,
    aligned: tuple[tuple[str, int], ...],
    device: int,
) -> Loaded:
    """A program on a device: loaded once, and kept for good."""
    wanted = Wanted(f"{CODE}.{module}", function, types, constants, warps, capability(device), aligned)
    return Loaded(binary(wanted), device)


@lru_cache(maxsize=64)
def capability(device: int) -> int:
    """90 for Hopper."""
    major, minor = torch.cuda.get_device_capability(device)
    return 10 * major + minor


@lru_cache(maxsize=64)
def processors(device: int) -> int:
    """Multiprocessors of a GPU."""
    return int(torch.cuda.get_device_properties(device).multi_processor_count)
