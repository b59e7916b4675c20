"""The CUDA driver through ctypes: load a compiled program, launch it, with all its blocks resident where they meet.

Nothing here needs a C compiler, nor any package but torch. The functions and numbers are those of NVIDIA's CUDA Driver
API reference (modules Initialization, Primary Context, Module, Execution Control, Occupancy, Stream).
"""

from __future__ import annotations

import ctypes
import struct
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor

from thereafter.errors import ThereafterError
from thereafter.kernels.gpu.compiling import Binary

DTYPES = {
    "*bf16": torch.bfloat16, "*fp16": torch.float16, "*fp32": torch.float32, "*fp64": torch.float64,
    "*i1": torch.bool, "*i8": torch.int8, "*u8": torch.uint8, "*i16": torch.int16, "*i32": torch.int32,
    "*i64": torch.int64,
}  # fmt: skip
"""What a tensor must hold, by the type of the argument."""

FORMATS = {
    "i8": "b", "i16": "h", "i32": "i", "i64": "q", "u8": "B", "u16": "H", "u32": "I", "u64": "Q", "fp32": "f",
    "fp64": "d",
}  # fmt: skip
"""How a number is packed, by the type of the argument, in the letters of the module `struct`."""

_DYNAMIC_SHARED = 48 << 10  # bytes of shared memory that a block gets without asking

# numbers of the driver's enumerations
_FUNCTION_MOST_SHARED = 8
_DEVICE_MULTIPROCESSORS, _DEVICE_COOPERATIVE, _DEVICE_MOST_SHARED = 16, 95, 97
_LAUNCH_COOPERATIVE = 2
_CAPTURE_RELAXED = 2

_FUNCTIONS = (
    "cuInit", "cuGetErrorName", "cuGetErrorString", "cuDeviceGet", "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain",
    "cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuModuleLoadData", "cuModuleGetFunction",
    "cuFuncSetAttribute", "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuThreadExchangeStreamCaptureMode", "cuLaunchKernelEx",
)  # fmt: skip


class DriverError(ThereafterError, RuntimeError):
    """The CUDA driver is not there, or cannot do what it was asked for; the message has its own words."""


class _LaunchAttribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_int), ("padding", ctypes.c_char * 4), ("value", ctypes.c_uint * 16))


class _LaunchConfig(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_uint) for name in ("blocks_x", "blocks_y", "blocks_z")),
        *((name, ctypes.c_uint) for name in ("threads_x", "threads_y", "threads_z", "shared")),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_LaunchAttribute)),
        ("attribute_count", ctypes.c_uint),
    )


def _library_name() -> str:
    return "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"


@cache
def _library(name: str) -> ctypes.CDLL:
    """The driver's library with all functions that are needed, not yet initialised."""
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise DriverError(f"there is no NVIDIA driver here ({name} cannot be loaded: {error})") from None
    for function in _FUNCTIONS:
        try:
            getattr(library, function)
        except AttributeError:
            raise DriverError(f"the NVIDIA driver is too old: it has no {function}, expected that of CUDA 12") from None
    return library


def lacks_driver() -> str | None:
    """Why no program can be launched here; None where the driver is there.

    CUDA is not initialised by the question, so a process may still fork. Whether there is a GPU is not asked.
    """
    return _lacks(_library_name())


@cache
def _lacks(name: str) -> str | None:
    try:
        _library(name)
    except DriverError as error:
        return str(error)
    return None


class _Device:
    """A device of this process: its primary context, which torch uses as well, and its limits. Never released."""

    def __init__(self, number: int) -> None:
        self.library = library = _library(_library_name())
        self.check(library.cuInit(0), "initialising CUDA")
        self._device = ctypes.c_int()
        self.check(library.cuDeviceGet(ctypes.byref(self._device), number), f"looking for cuda:{number}")
        self.context = ctypes.c_void_p()
        code = library.cuDevicePrimaryCtxRetain(ctypes.byref(self.context), self._device)
        self.check(code, f"opening cuda:{number}")
        self.multiprocessors = self._limit(_DEVICE_MULTIPROCESSORS)
        self.cooperative = bool(self._limit(_DEVICE_COOPERATIVE))
        self.most_shared = self._limit(_DEVICE_MOST_SHARED)

    def check(self, code: int, doing: str) -> None:
        """Raise what the driver says where it refuses."""
        if code:
            name, words = ctypes.c_char_p(), ctypes.c_char_p()
            self.library.cuGetErrorName(code, ctypes.byref(name))
            self.library.cuGetErrorString(code, ctypes.byref(words))
            sentence = (words.value or b"unknown error").decode(errors="replace")
            raise DriverError(f"{doing}: {sentence} ({(name.value or b'CUDA error').decode(errors='replace')}, {code})")

    def _limit(self, attribute: int) -> int:
        value = ctypes.c_int()
        code = self.library.cuDeviceGetAttribute(ctypes.byref(value), attribute, self._device)
        self.check(code, "asking a GPU for its limits")
        return value.value

    @contextmanager
    def current(self) -> Iterator[None]:
        """The device's context is this thread's inside the block; a thread may have had none, or another device's."""
        self.check(self.library.cuCtxPushCurrent_v2(self.context), "entering a CUDA context")
        try:
            yield
        finally:
            self.library.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))

    @contextmanager
    def relaxed_capture(self) -> Iterator[None]:
        """Calls that no graph can hold are carried out at once inside the block, though a stream is being captured."""
        mode = ctypes.c_int(_CAPTURE_RELAXED)
        exchange = self.library.cuThreadExchangeStreamCaptureMode
        self.check(exchange(ctypes.byref(mode)), "setting the mode of capture")
        try:
            yield
        finally:
            exchange(ctypes.byref(mode))  # it holds the mode of before


@cache
def _device(number: int) -> _Device:
    return _Device(number)


class _Call:
    """What a launch is described by: the arguments' bytes, pointers to each, the grid. Made once, and filled in."""

    def __init__(self, formats: str, scratch: int, threads: int, shared: int) -> None:
        self.arguments = struct.Struct("@" + formats)
        nothing = (self.arguments.size + 7) // 8 * 8
        self.bytes = ctypes.create_string_buffer(nothing + 8)
        ends = [struct.calcsize("@" + formats[: place + 1]) for place in range(len(formats))]
        offsets = [end - struct.calcsize(letter) for end, letter in zip(ends, formats, strict=True)]
        first = ctypes.addressof(self.bytes)
        places = [first + offset for offset in offsets] + [first + nothing] * scratch
        self.parameters = (ctypes.c_void_p * len(places))(*places)
        self.attributes = (_LaunchAttribute * 1)()
        self.attributes[0].id = _LAUNCH_COOPERATIVE
        self.attributes[0].value[0] = 1
        self.config = _LaunchConfig(1, 1, 1, threads, 1, 1, shared, None, self.attributes, 0)
        self.config_pointer = ctypes.byref(self.config)
        self.context = ctypes.c_void_p()
        self.context_pointer = ctypes.byref(self.context)


class _Threads(threading.local):
    """The description of a launch that belongs to a thread."""

    def __init__(self, formats: str, scratch: int, threads: int, shared: int) -> None:
        self.call = _Call(formats, scratch, threads, shared)


class Loaded:
    """A program loaded onto one device; kept for good, since a CUDA graph may launch it at any time.

    `blocks_at_once`: how many blocks can be resident on the device at the same time, if nothing else is.

    Loading inside the capture of a CUDA graph works: the thread's capture mode is relaxed meanwhile, so the program is
    loaded at once and the graph holds the launch alone. It may wait for work on the device; load before where that
    matters.
    """

    def __init__(self, binary: Binary, device: int) -> None:
        self.binary, self.device = binary, device
        self._on = on = _device(device)
        self._library = library = on.library
        if binary.shared > on.most_shared:
            raise DriverError(
                f"{binary.entry} needs {binary.shared:,} bytes of shared memory a block; cuda:{device} has "
                f"{on.most_shared:,}"
            )
        module, self._function, number = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
        threads = 32 * binary.warps
        with on.current(), on.relaxed_capture():
            doing = f"loading {binary.entry} onto cuda:{device}"
            on.check(library.cuModuleLoadData(ctypes.byref(module), binary.cubin), doing)
            name = binary.entry.encode()
            on.check(library.cuModuleGetFunction(ctypes.byref(self._function), module, name), doing)
            if binary.shared > _DYNAMIC_SHARED:
                on.check(library.cuFuncSetAttribute(self._function, _FUNCTION_MOST_SHARED, binary.shared), doing)
            fitting = library.cuOccupancyMaxActiveBlocksPerMultiprocessor
            shared = ctypes.c_size_t(binary.shared)
            on.check(fitting(ctypes.byref(number), self._function, threads, shared), doing)
            self.blocks_at_once = number.value * on.multiprocessors
        formats = "".join(FORMATS.get(kind, "P") for _, kind in binary.arguments)
        self._pointers = [(place, DTYPES[kind]) for place, (_, kind) in enumerate(binary.arguments) if kind in DTYPES]
        self._divisors = [(place, divisor) for place, divisor in enumerate(binary.divisors) if divisor > 1]
        self._threads = _Threads(formats, binary.scratch, threads, binary.shared)
        self._launch = library.cuLaunchKernelEx

    def launch(self, blocks: int, arguments: Sequence[Tensor | int | float], *, together: bool, stream: int) -> None:
        """Put a launch of so many blocks into a stream (`torch.cuda.current_stream().cuda_stream`), and return.

        `arguments`: in the order of the program's own; a tensor, or an address, for each pointer (0 for none). Tensors
        must lie on this device and stay alive as long as torch's own operators would need them to. `together`: all
        blocks are resident at the same time, so that they can wait for each other; what cannot be is refused before it
        starts. Nothing is waited for, so a launch can be captured into a CUDA graph. Thread-safe.
        """
        if together and blocks > self.blocks_at_once:
            raise DriverError(
                f"{self.binary.entry} was to run {blocks} blocks that wait for each other; cuda:{self.device} has room "
                f"for {self.blocks_at_once} at the same time"
            )
        if together and not self._on.cooperative:
            raise DriverError(f"cuda:{self.device} cannot launch blocks that wait for each other")
        if blocks < 1 or len(arguments) != len(self.binary.arguments):
            raise DriverError(
                f"{self.binary.entry} got {blocks} blocks and {len(arguments)} arguments; expected at least 1 block "
                f"and {len(self.binary.arguments)} arguments"
            )
        values = list(arguments)
        for place, dtype in self._pointers:  # numbers are left to `pack_into`: asking them what they are takes longer
            argument = values[place]
            if isinstance(argument, Tensor):
                if argument.dtype is not dtype or argument.get_device() != self.device:
                    raise self._misfit(place, argument)
                values[place] = argument.data_ptr()
        for place, divisor in self._divisors:
            if values[place] % divisor:
                raise self._misfit(place, arguments[place])
        call, library = self._threads.call, self._library
        try:
            call.arguments.pack_into(call.bytes, 0, *values)
        except (struct.error, OverflowError, TypeError) as error:
            raise DriverError(f"{self.binary.entry} got {values} for {self.binary.arguments}: {error}") from None
        config = call.config
        config.blocks_x, config.stream, config.attribute_count = blocks, stream, 1 if together else 0
        library.cuCtxGetCurrent(call.context_pointer)
        if call.context.value == self._on.context.value:
            code = self._launch(call.config_pointer, self._function, call.parameters, None)
        else:  # the threads of a backward pass have no context yet
            with self._on.current():
                code = self._launch(call.config_pointer, self._function, call.parameters, None)
        if code:
            self._on.check(code, f"launching {blocks} blocks of {self.binary.entry} on cuda:{self.device}")

    def _misfit(self, place: int, argument: Tensor | int | float) -> DriverError:
        (name, kind), divisor = self.binary.arguments[place], self.binary.divisors[place]
        if isinstance(argument, Tensor):
            got = f"a tensor of {argument.dtype} on {argument.device} at {argument.data_ptr():#x}"
        else:
            got = repr(argument)
        where = f" on cuda:{self.device}" if kind in DTYPES else ""
        return DriverError(f"{self.binary.entry}: {name!r} is {got}; expected {kind}{where}, a multiple of {divisor}")
