"""Programs compiled and launched without a C compiler, on the GPU of this machine: numbers, graphs, threads, refusals.

A plain script for machines with numpy, torch and Triton alone: `python tests/kernels/gpu_driver_check.py`. Its exit
status is the number of checks that failed. `test_gpu_compiling.py` compiles the same programs without a GPU.
"""

# ruff: noqa: T201

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec

import torch
from torch import Tensor

from thereafter.kernels.gpu.compiling import Wanted, binary, lacks_triton, read_facts
from thereafter.kernels.gpu.driver import DriverError, Loaded, lacks_driver

if find_spec("triton") is not None:
    import triton
    import triton.language as tl
    from triton.experimental import gluon
    from triton.experimental.gluon import language as gl

    from thereafter.kernels.gpu.code.meeting import barrier

    @triton.jit
    def scale(x, y, length, factor, BLOCK: tl.constexpr):
        place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = place < length
        tl.store(y + place, tl.load(x + place, mask=inside) * factor, mask=inside)

    @triton.jit
    def many(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p):  # noqa: E741
        tl.store(a, i + j + k + l + m + n + o + p)

    @gluon.jit
    def meet(values, sums, counter, blocks, WORDS: gl.constexpr):
        """Each block writes its number plus 1, waits for all others, and sums up theirs, through much shared memory."""
        LAYOUT: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
        PLAIN: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
        me = gl.program_id(0)
        gl.store(values + me, me + 1)
        gl.atomic_add(counter, 1, sem="release", scope="gpu")
        arrived = gl.atomic_add(counter, 0, sem="acquire", scope="gpu")
        while arrived < blocks:
            arrived = gl.atomic_add(counter, 0, sem="acquire", scope="gpu")
        place = gl.arange(0, WORDS, LAYOUT)
        shared = gl.allocate_shared_memory(gl.int32, [WORDS], PLAIN)
        shared.store(gl.load(values + place, mask=place < blocks, other=0))
        barrier()
        gl.store(sums + me, gl.sum(shared.load(LAYOUT), 0))


SCALE = Wanted(
    "gpu_driver_check", "scale", (("x", "*fp32"), ("y", "*fp32"), ("length", "i32"), ("factor", "fp32")),
    (("BLOCK", 256),), 4, 90,
)  # fmt: skip
MEET = Wanted(
    "gpu_driver_check", "meet", (("values", "*i32"), ("sums", "*i32"), ("counter", "*i32"), ("blocks", "i32")),
    (("WORDS", 16384),), 4, 90,
)  # fmt: skip
MANY = Wanted(
    "gpu_driver_check", "many", tuple((name, "*i32" if name < "i" else "i32") for name in "abcdefghijklmnop"), (), 4, 90
)


def now() -> int:
    """The stream of this thread."""
    return int(torch.cuda.current_stream().cuda_stream)


class Scaled(torch.autograd.Function):
    """y = 3 x, forward and backward by the program."""

    loaded: Loaded

    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        return scaled(Scaled.loaded, x, 3.0)

    @staticmethod
    def backward(ctx, d_y):  # type: ignore[no-untyped-def]
        return scaled(Scaled.loaded, d_y.contiguous(), 3.0)


def scaled(loaded: Loaded, x: Tensor, factor: float) -> Tensor:
    y = torch.empty_like(x)
    loaded.launch(-(-x.numel() // 256), [x, y, x.numel(), factor], together=False, stream=now())
    return y


def met(loaded: Loaded, blocks: int) -> Tensor:
    """What each block makes of the meeting, less what it must: zeros."""
    values, sums, counter = (torch.zeros(size, dtype=torch.int32, device="cuda") for size in (blocks, blocks, 1))
    loaded.launch(blocks, [values, sums, counter, blocks], together=True, stream=now())
    return sums - blocks * (blocks + 1) // 2


def refused(action: Callable[[], object], words: str) -> str:
    """ "" where an action is refused in words, else what went wrong."""
    try:
        action()
    except DriverError as error:
        return "" if words in str(error) else f"other words: {error}"
    return "it was not refused"


def in_threads(action: Callable[[], Tensor], number: int) -> str:
    """Whether an action gives zeros in so many new threads at once."""
    faults: list[str] = []

    def act() -> None:
        try:
            wrong = action()
            torch.cuda.synchronize()
            if wrong.abs().max():
                faults.append("wrong numbers")
        except Exception as error:
            faults.append(repr(error))

    threads = [threading.Thread(target=act) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return "; ".join(faults)


def microseconds(action: Callable[[], object], times: int = 400) -> float:
    """What an action costs the host, the best of five."""
    best = float("inf")
    for _ in range(5):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(times):
            action()
        best = min(best, time.perf_counter() - begin)
    torch.cuda.synchronize()
    return best / times * 1e6


def main() -> int:
    lacks = lacks_triton() or lacks_driver() or (None if torch.cuda.is_available() else "there is no GPU")
    if lacks:
        print(lacks)
        return 1
    major, minor = torch.cuda.get_device_capability()
    failures = 0

    def check(name: str, fault: str | bool) -> None:
        nonlocal failures
        failures += bool(fault)
        print(f"{'FAILED' if fault else 'ok    '}  {name}{f': {fault}' if isinstance(fault, str) and fault else ''}")

    loaded = {}
    for wanted in (SCALE, MEET, MANY):
        begin = time.perf_counter()
        made = binary(replace(wanted, capability=10 * major + minor))
        middle = time.perf_counter()
        one = loaded[wanted.function] = Loaded(made, 0)
        facts = read_facts(made.cubin, made.entry)
        print(
            f"{wanted.function}: {middle - begin:.2f} s to get, {1e3 * (time.perf_counter() - middle):.1f} ms to load, "
            f"{len(made.cubin)} bytes, {made.shared} bytes shared, {facts.registers} registers, "
            f"{facts.spilled} spilled, {one.blocks_at_once} blocks at once"
        )
    scale_it, meeting, sixteen = loaded["scale"], loaded["meet"], loaded["many"]

    x = torch.randn(1000, device="cuda")
    check("eager", not torch.equal(scaled(scale_it, x, 2.5), x * 2.5))
    check("shared memory beyond 48 KiB, some blocks together", bool(met(meeting, 7).abs().max()))
    check("as many blocks together as fit", bool(met(meeting, meeting.blocks_at_once).abs().max()))
    check("one block more", refused(lambda: met(meeting, meeting.blocks_at_once + 1), "at the same time"))
    check("no blocks", refused(lambda: met(meeting, 0), "at least 1 block"))

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = scaled(scale_it, x, 2.0)
        zeros = met(meeting, 64)
    x.copy_(torch.randn(1000, device="cuda"))
    for _ in range(3):
        zeros.fill_(1)
        graph.replay()
    check("a CUDA graph, replayed with other numbers", not torch.equal(y, x * 2) or bool(zeros.abs().max()))

    for mode in ("global", "thread_local", "relaxed"):
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, capture_error_mode=mode):
                y = scaled(Loaded(scale_it.binary, 0), x, 4.0)
            graph.replay()
            check(f"loaded while a graph is captured ({mode})", not torch.equal(y, x * 4))
        except Exception as error:
            check(f"loaded while a graph is captured ({mode})", repr(error))

    Scaled.loaded = scale_it
    leaf = torch.randn(1000, device="cuda", requires_grad=True)
    (Scaled.apply(leaf) * x).sum().backward()
    check("a backward pass in autograd's thread", not torch.equal(leaf.grad, x * 3))
    check("a thread without a context", in_threads(lambda: scaled(scale_it, x, 2.0) - x * 2, 1))

    def repeatedly() -> Tensor:
        with torch.cuda.stream(torch.cuda.Stream()):
            return sum((scaled(scale_it, x, float(n)) - x * float(n) for n in range(200)), torch.zeros_like(x))

    check("four threads, a stream each, 200 launches each", in_threads(repeatedly, 4))
    check("meetings of two threads", in_threads(lambda: met(meeting, meeting.blocks_at_once), 2))
    torch.cuda.synchronize()
    results = []
    for _ in range(10):
        for stream in (torch.cuda.Stream(), torch.cuda.Stream()):
            with torch.cuda.stream(stream):
                results.append(met(meeting, meeting.blocks_at_once))
    torch.cuda.synchronize()
    check("two streams, each with all blocks", any(bool(result.abs().max()) for result in results))

    run = scale_it.launch
    y = torch.empty_like(x)
    flags = {"together": False, "stream": now()}
    check("a tensor of the wrong dtype", refused(lambda: run(4, [x.half(), y, 9, 1.0], **flags), "float16"))
    check("a tensor of the CPU", refused(lambda: run(4, [x.cpu(), y, 9, 1.0], **flags), "on cpu"))
    check("a tensor between 16 bytes", refused(lambda: run(4, [x[1:], y, 9, 1.0], **flags), "multiple of 16"))
    check("a number of 33 bits", refused(lambda: run(4, [x, y, 1 << 32, 1.0], **flags), "got"))
    check("a number that is no integer", refused(lambda: run(4, [x, y, 9.5, 1.0], **flags), "got"))
    check("an argument missing", refused(lambda: run(4, [x, y, 9], **flags), "4 arguments"))
    damaged = replace(scale_it.binary, cubin=b"\x7fELF" + bytes(400))
    check("a damaged program", refused(lambda: Loaded(damaged, 0), "loading"))
    nameless = replace(scale_it.binary, entry="nothing")
    check("a program without its entry", refused(lambda: Loaded(nameless, 0), "loading nothing"))
    crowded = replace(scale_it.binary, shared=1 << 20)
    check("too much shared memory", refused(lambda: Loaded(crowded, 0), "shared memory"))
    check("no such device", refused(lambda: Loaded(scale_it.binary, 99), "cuda:99"))

    stream = now()
    some = [torch.zeros(1, dtype=torch.int32, device="cuda") for _ in range(8)]
    print(f"{microseconds(lambda: run(4, [x, y, 1000, 2.0], together=False, stream=stream)):.1f} us, 4 arguments")
    everything = [*some, *range(8)]
    call = sixteen.launch
    print(f"{microseconds(lambda: call(132, everything, together=False, stream=stream)):.1f} us, 16 arguments")
    print(f"{microseconds(lambda: call(132, everything, together=True, stream=stream)):.1f} us, 16, together")
    print(f"{microseconds(lambda: torch.mul(x, 2.0, out=y)):.1f} us, torch.mul for comparison")
    check("sixteen arguments", int(some[0]) != sum(range(8)))
    print(f"{failures} failed" if failures else "all passed")
    return min(failures, 100)


if __name__ == "__main__":
    sys.exit(main())
