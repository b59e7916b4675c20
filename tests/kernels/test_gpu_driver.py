"""The CUDA driver through ctypes, without a GPU: what is asked of it, in which context, and what is refused."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from refusals import assert_refused
from thereafter.errors import ThereafterError
from thereafter.kernels.gpu import driver
from thereafter.kernels.gpu.compiling import NUMBERS, POINTERS, Binary
from thereafter.kernels.gpu.driver import DTYPES, FORMATS, DriverError, Loaded, lacks_driver

KINDS = (("x", "*bf16"), ("steps", "i32"), ("size", "i64"), ("eps", "fp32"), ("flag", "i8"), ("y", "*fp32"))
BINARY = Binary(b"cubin", "program", 65536, 4, KINDS, (16, 1, 8, 1, 1, 16), scratch=2)
CONTEXT, FUNCTION = 0x1000, 0x2000


class StandInDriver:
    """The driver's functions as they are called, on a GPU of 10 multiprocessors; it notes each launch."""

    def __init__(self) -> None:
        self.launches: list[tuple[int, int, int, int, list[float]]] = []
        self.loads: list[int] = []
        self.capture_mode, self.refusal, self.attributes = 0, 0, dict[int, int]()
        self._threads = threading.local()

    @property
    def contexts(self) -> list[int]:
        """Those of this thread; it begins without."""
        if not hasattr(self._threads, "contexts"):
            self._threads.contexts = []
        return self._threads.contexts

    def cuInit(self, flags: int) -> int:
        return 0

    def cuDeviceGet(self, device, number: int) -> int:
        device._obj.value = number
        return 0 if number == 0 else 101

    def cuDevicePrimaryCtxRetain(self, context, device) -> int:
        context._obj.value = CONTEXT
        return 0

    def cuDeviceGetAttribute(self, value, attribute: int, device) -> int:
        value._obj.value = {16: 10, 95: 1, 97: 232_448}[attribute]
        return 0

    def cuCtxGetCurrent(self, context) -> int:
        context._obj.value = self.contexts[-1] if self.contexts else None
        return 0

    def cuCtxPushCurrent_v2(self, context) -> int:
        self.contexts.append(context.value)
        return 0

    def cuCtxPopCurrent_v2(self, context) -> int:
        self.contexts.pop()
        return 0

    def cuThreadExchangeStreamCaptureMode(self, mode) -> int:
        self.capture_mode, mode._obj.value = mode._obj.value, self.capture_mode
        return 0

    def cuModuleLoadData(self, module, cubin: bytes) -> int:
        self.loads.append(self.capture_mode)
        return 0 if self.contexts and cubin == b"cubin" else 200

    def cuModuleGetFunction(self, function, module, name: bytes) -> int:
        function._obj.value = FUNCTION
        return 0 if name == b"program" else 500

    def cuFuncSetAttribute(self, function, attribute: int, value: int) -> int:
        self.attributes[attribute] = value
        return 0

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, number, function, threads: int, shared) -> int:
        assert (threads, shared.value) == (128, 65536)
        number._obj.value = 3
        return 0

    def cuLaunchKernelEx(self, config, function, parameters, extra) -> int:
        if not self.contexts or self.contexts[-1] != CONTEXT:
            return 201
        config = config._obj
        assert (function.value, extra) == (FUNCTION, None)
        assert (config.blocks_y, config.blocks_z, config.threads_x, config.threads_y) == (1, 1, 128, 1)
        together = config.attribute_count
        if together:
            assert (config.attributes[0].id, config.attributes[0].value[0]) == (2, 1)
        kinds = [ctypes.c_uint64, ctypes.c_int32, ctypes.c_int64, ctypes.c_float, ctypes.c_int8] + [ctypes.c_uint64] * 3
        values = [kind.from_address(place).value for kind, place in zip(kinds, parameters, strict=True)]
        assert values[6:] == [0] * 2
        assert all(place % ctypes.sizeof(kind) == 0 for kind, place in zip(kinds, parameters, strict=True))
        self.launches.append((config.blocks_x, config.stream or 0, together, config.shared, values[:6]))
        return self.refusal

    def cuGetErrorName(self, code: int, name) -> int:
        name._obj.value = {201: b"CUDA_ERROR_INVALID_CONTEXT"}.get(code, b"CUDA_ERROR_OTHER")
        return 0

    def cuGetErrorString(self, code: int, words) -> int:
        words._obj.value = b"words of the driver"
        return 0


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInDriver]:
    stand_in = StandInDriver()
    monkeypatch.setattr(driver, "_library", lambda name: stand_in)
    driver._device.cache_clear()
    yield stand_in
    driver._device.cache_clear()


ARGUMENTS = (0x7F00_0000_0010, -3, 1 << 40, 0.5, 7, 0)


def test_a_launch_hands_over_every_argument_and_nulls_after_them(cuda: StandInDriver):
    loaded = Loaded(BINARY, 0)
    cuda.contexts.append(CONTEXT)
    loaded.launch(30, ARGUMENTS, together=True, stream=0x55)
    loaded.launch(31, (0, 1, 8, 2, 0, 16), together=False, stream=0)
    assert cuda.launches == [(30, 0x55, 1, 65536, list(ARGUMENTS)), (31, 0, 0, 65536, [0, 1, 8, 2.0, 0, 16])]
    assert cuda.contexts == [CONTEXT]


def test_what_is_known_of_a_loaded_program(cuda: StandInDriver):
    loaded = Loaded(BINARY, 0)
    assert loaded.blocks_at_once == 30
    assert cuda.attributes == {8: 65536}
    assert cuda.loads == [2], "loaded in relaxed capture mode"
    assert cuda.capture_mode == 0, "and the mode of before is back"
    assert cuda.contexts == []


@pytest.mark.parametrize("before", [[], [0x9999]], ids=["none", "that of another device"])
def test_a_thread_without_this_context_gets_it_for_the_launch_alone(cuda: StandInDriver, before: list[int]):
    loaded = Loaded(BINARY, 0)
    cuda.contexts.extend(before)
    loaded.launch(1, ARGUMENTS, together=True, stream=0)
    assert len(cuda.launches) == 1
    assert cuda.contexts == before


def test_threads_do_not_mix_their_arguments(cuda: StandInDriver):
    loaded = Loaded(BINARY, 0)

    def launch_many(first: int) -> None:
        for step in range(300):
            loaded.launch(first + 1, (16 * first, step, 8 * step, 0.0, first, 16 * step), together=False, stream=first)

    threads = [threading.Thread(target=launch_many, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(cuda.launches) == 1200
    for blocks, stream, _, _, values in cuda.launches:
        first, step = blocks - 1, values[1]
        assert (stream, values) == (first, [16 * first, step, 8 * step, 0.0, first, 16 * step])


def test_more_blocks_than_fit_are_refused_before_they_start(cuda: StandInDriver):
    loaded = Loaded(BINARY, 0)
    with assert_refused(DriverError, 31, "cuda:0", 30):
        loaded.launch(31, ARGUMENTS, together=True, stream=0)
    assert cuda.launches == []


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (0, 24, r"'x' is 24; expected \*bf16 on cuda:0, a multiple of 16"),
        (0, torch.zeros(8, dtype=torch.bfloat16), r"'x' is a tensor of torch.bfloat16 on cpu"),
        (5, torch.zeros(8, dtype=torch.bfloat16), r"expected \*fp32"),
        (1, torch.zeros(8, dtype=torch.int32), "single element"),
        (2, 12, "'size' is 12; expected i64, a multiple of 8"),
        (1, 1 << 31, "2147483648"),
        (1, 0.5, "0.5"),
        (4, 200, "200"),
    ],
)
def test_an_argument_that_does_not_fit_is_refused_by_name(cuda: StandInDriver, place: int, value: object, words: str):
    loaded = Loaded(BINARY, 0)
    arguments = [*ARGUMENTS[:place], value, *ARGUMENTS[place + 1 :]]
    with pytest.raises(DriverError, match=words):
        loaded.launch(1, arguments, together=False, stream=0)
    assert cuda.launches == []


def test_an_argument_too_few_or_no_block_is_refused(cuda: StandInDriver):
    loaded = Loaded(BINARY, 0)
    with assert_refused(DriverError, 5, 1, 6):
        loaded.launch(1, ARGUMENTS[:5], together=False, stream=0)
    with assert_refused(DriverError, 0):
        loaded.launch(0, ARGUMENTS, together=True, stream=0)


def test_errors_have_the_words_of_the_driver(cuda: StandInDriver):
    with assert_refused(DriverError, "cuda:3", "words of the driver", "CUDA_ERROR_OTHER", 101):
        Loaded(BINARY, 3)
    with assert_refused(DriverError, "program", "cuda:0", "words of the driver"):
        Loaded(replace(BINARY, cubin=b"damaged"), 0)
    with assert_refused(DriverError, "nothing", "cuda:0"):
        Loaded(replace(BINARY, entry="nothing"), 0)
    with assert_refused(DriverError, "program", 300000, "cuda:0", 232448):
        Loaded(replace(BINARY, shared=300_000), 0)
    assert (cuda.contexts, cuda.capture_mode) == ([], 0)
    loaded = Loaded(BINARY, 0)
    cuda.refusal = 720
    with assert_refused(DriverError, 2, "program", "cuda:0", "words of the driver", 720):
        loaded.launch(2, ARGUMENTS, together=True, stream=0)
    assert issubclass(DriverError, ThereafterError)
    assert issubclass(DriverError, RuntimeError)


def test_every_type_of_argument_has_a_form():
    assert tuple(DTYPES) == POINTERS
    assert sorted(FORMATS) == sorted(NUMBERS)


def test_where_the_driver_is_missing_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(driver, "_library_name", lambda: "libnothing-of-this-name.so.1")
    lacks = lacks_driver()
    assert lacks is not None
    assert lacks.startswith("there is no NVIDIA driver here (libnothing-of-this-name.so.1 cannot be loaded")
    with assert_refused(DriverError, "NVIDIA"):
        driver._Device(0)


def test_a_driver_without_a_function_is_too_old(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(driver, "_library_name", lambda: None)  # this program itself, which has none of them
    assert lacks_driver() == "the NVIDIA driver is too old: it has no cuInit, expected that of CUDA 12"


def test_importing_it_needs_neither_triton_nor_cuda():
    code = (
        "import sys, thereafter.kernels.gpu.compiling, thereafter.kernels.gpu.driver, torch\n"
        "print('triton' in sys.modules, torch.cuda.is_initialized())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
