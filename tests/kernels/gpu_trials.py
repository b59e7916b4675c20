"""The trials of `gpu_faults.py`: each runs jobs in a way that could go wrong, and says what it saw.

What a job gives is compared, bit by bit, with what it gave alone.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from gpu_programs import Case, bits, make_job, run
from torch import Tensor

from thereafter.errors import OptionError
from thereafter.kernels.jobs import Kernel
from thereafter.kernels.plain import REFERENCE
from thereafter.kernels.scan import KERNELS, choose, unroll

FIRST = Case("lstm", {"peephole": True}, (64, 40, 512))
SECOND = Case("gru", {"reset": "before", "update": "old"}, (32, 50, 256))
THIRD = Case("lstm", {}, (64, 30, 1150))
TINY = (3, 4, 8)
ROUNDS = 30


class SkipTrial(Exception):
    """Why this machine cannot show it."""


@dataclass(frozen=True)
class Place:
    """Where trials run: a device, and the kernel they are about."""

    device: str
    kernel: str

    @property
    def on_gpu(self) -> bool:
        return self.device.startswith("cuda")

    def load(self) -> Kernel:
        """The kernel itself."""
        kernel: Kernel = KERNELS.load(self.kernel)
        return kernel

    def work(self, case: Case) -> Work:
        """A case with its numbers; on a CPU a tiny one."""
        return Work(self, case if self.on_gpu else case._replace(size=TINY))

    def stream(self) -> contextlib.AbstractContextManager[Any]:
        """A stream of its own."""
        if not self.on_gpu:
            return contextlib.nullcontext()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        return torch.cuda.stream(stream)

    def wait(self) -> None:
        if self.on_gpu:
            torch.cuda.synchronize()

    def need_gpu(self) -> None:
        if not self.on_gpu:
            raise SkipTrial("a matter of GPUs alone")


class Work:
    """A job, and what it gives alone."""

    def __init__(self, place: Place, case: Case) -> None:
        self.kernel, self.case, self.job = place.load(), case, make_job(case, place.device)
        reason = self.kernel.refuses(self.job)
        if reason is not None:
            raise AssertionError(f"{case} is refused: {reason}")
        self.alone = self.results()
        place.wait()

    def results(self) -> dict[str, Tensor]:
        """Outputs, states, gradients, without their history: while that lives, autograd waits for the stream it was on,
        also within the capture of a graph."""
        return {name: array.detach() for name, array in run(self.kernel, self.job, self.case).items()}

    def check(self, results: dict[str, Tensor], when: str) -> None:
        """AssertionError where a bit differs from what it gave alone."""
        for name, array in self.alone.items():
            if not torch.equal(bits(results[name]), bits(array)):
                raise AssertionError(f"{self.case}, {when}: {name} has other bits than alone")


def too_many_blocks(place: Place) -> str:
    """A launch whose blocks cannot all be resident is refused by the driver's side before it starts."""
    place.need_gpu()
    from thereafter.kernels.gpu.driver import DriverError, Loaded

    launches: list[tuple[Loaded, Sequence[Tensor | int | float]]] = []
    launch = Loaded.launch

    def noted(self: Loaded, blocks: int, arguments: Any, *, together: bool, stream: int) -> None:
        if together:
            launches.append((self, arguments))
        launch(self, blocks, arguments, together=together, stream=stream)

    Loaded.launch = noted  # type: ignore[method-assign]
    try:
        work = place.work(FIRST)
    finally:
        Loaded.launch = launch  # type: ignore[method-assign]
    if not launches:
        raise AssertionError("no launch asked for all blocks at once")
    words = ""
    for loaded, arguments in launches:
        try:
            stream = torch.cuda.current_stream().cuda_stream
            loaded.launch(loaded.blocks_at_once + 1, arguments, together=True, stream=stream)
        except DriverError as error:
            words = str(error)
        else:
            raise AssertionError(f"{loaded.blocks_at_once + 1} blocks of {loaded.binary.entry} were begun")
    place.wait()
    work.check(work.results(), "after a launch that was refused")
    return words


def too_large(place: Place) -> str:
    """A size that no geometry takes is refused in words, and `auto` takes another kernel."""
    place.need_gpu()
    for units in (4096, 8192, 16384, 32768):
        job = make_job(Case("lstm", {"peephole": True}, (64, 2, units)), place.device)
        reason = place.load().refuses(job)
        if reason is not None:
            break
        torch.cuda.empty_cache()
    else:
        raise AssertionError(f"{units} units are not refused")
    try:
        unroll(job.cell, job.x_BTI, job.state, job.weights, kernel=place.kernel)
    except OptionError as error:
        words = str(error)
    else:
        raise AssertionError(f"{units} units were run though they are refused")
    taken = choose(job)
    if taken.name == place.kernel or not bool(taken.run(job).y_BTO.isfinite().all()):
        raise AssertionError(f"auto takes {taken.name}")
    return f"{words}; auto takes {taken.name}"


def two_streams(place: Place) -> str:
    """Two streams at once."""
    works = [place.work(FIRST), place.work(SECOND)]
    streams = [place.stream(), place.stream()]
    for number in range(ROUNDS):
        done = []
        for work, stream in zip(works, streams, strict=True):
            with stream:
                done.append(work.results())
        place.wait()
        for work, results in zip(works, done, strict=True):
            work.check(results, f"beside another stream, round {number}")
    return f"{ROUNDS} rounds, forward and backward, the same bits"


def beside_products(place: Place) -> str:
    """Large matrix products on another stream."""
    works = [place.work(FIRST), place.work(THIRD)]
    size = 8192 if place.on_gpu else 64
    a, b = (torch.randn(size, size, device=place.device, dtype=torch.bfloat16) for _ in range(2))
    products = torch.empty_like(a)
    place.wait()
    stream = place.stream()
    for number in range(ROUNDS):
        with stream:
            for _ in range(10):
                torch.mm(a, b, out=products)
        done = [work.results() for work in works]
        place.wait()
        for work, results in zip(works, done, strict=True):
            work.check(results, f"beside products, round {number}")
    return f"{ROUNDS} rounds beside 10 products of {size} x {size} each, the same bits"


def second_gpu(place: Place) -> str:
    """A second GPU: work on it while the first is torch's current device."""
    place.need_gpu()
    if torch.cuda.device_count() < 2:
        raise SkipTrial("there is one GPU only")
    work = Work(replace(place, device="cuda:1"), FIRST)
    first = place.work(FIRST)
    for number in range(ROUNDS):
        done, other = work.results(), first.results()
        torch.cuda.synchronize(0)
        torch.cuda.synchronize(1)
        work.check(done, f"on the second GPU, round {number}")
        first.check(other, f"on the first GPU, round {number}")
    return f"{ROUNDS} rounds on both, the same bits"


def graph(place: Place) -> str:
    """Inside a CUDA graph, played again with other numbers."""
    place.need_gpu()
    for case in (FIRST, SECOND):
        _play(place.work(case))
    return "captured after a first run, played 3 times with other numbers, the same bits as eager"


def cold_graph(place: Place) -> str:
    """Inside a CUDA graph whose program was neither loaded nor compiled before."""
    place.need_gpu()
    place.work(SECOND._replace(size=(16, 8, 64)))  # cuBLAS is warm, this program is not
    kernel, job = place.load(), make_job(SECOND, place.device)
    run(REFERENCE, job, SECOND)  # the gradients that come in are drawn before the capture
    played = torch.cuda.CUDAGraph()
    with torch.cuda.graph(played):
        captured = run(kernel, job, SECOND)
    played.replay()
    torch.cuda.synchronize()
    place.work(SECOND).check(captured, "captured at its first run")
    return "captured at the first run of its size, the same bits as eager"


def _play(work: Work) -> None:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        work.results()
    torch.cuda.current_stream().wait_stream(stream)
    played = torch.cuda.CUDAGraph()
    with torch.cuda.graph(played):
        captured = work.results()
    for number in range(3):
        with torch.no_grad():
            for array in (work.job.x_BTI, *work.job.state, *work.job.weights.values()):
                array.copy_(array.roll(1, -1) * (1.0 - 0.01 * number))
        played.replay()
        torch.cuda.synchronize()
        again = work.results()
        for name, array in again.items():
            if not torch.equal(bits(captured[name]), bits(array)):
                raise AssertionError(f"{work.case}, played with other numbers ({number}): {name} has other bits")


def backward_elsewhere(place: Place) -> str:
    """The backward pass is begun in another thread of Python than the forward pass."""
    work = place.work(FIRST)
    for number in range(ROUNDS):
        y_BTO = work.kernel.run(work.job).y_BTO
        ended: list[tuple[Tensor, ...]] = []
        leaves = (work.job.x_BTI, *work.job.weights.values())
        thread = threading.Thread(target=lambda: ended.append(torch.autograd.grad(y_BTO.sum(), leaves)))  # noqa: B023
        thread.start()
        thread.join()
        here = torch.autograd.grad(work.kernel.run(work.job).y_BTO.sum(), leaves)
        place.wait()
        if not ended or not all(torch.equal(bits(a), bits(b)) for a, b in zip(ended[0], here, strict=True)):
            raise AssertionError(f"gradients of another thread differ, round {number}")
    return f"{ROUNDS} backward passes in threads, the same bits"


def two_threads(place: Place) -> str:
    """Two threads of Python at once, on one stream and on one each."""
    works = [place.work(FIRST), place.work(SECOND)]
    for apart in (False, True):
        faults: list[str] = []

        def launch(work: Work, apart: bool = apart, faults: list[str] = faults) -> None:
            try:
                with place.stream() if apart else contextlib.nullcontext():
                    done = [work.results() for _ in range(ROUNDS)]
                    if place.on_gpu:
                        torch.cuda.current_stream().synchronize()
                for results in done:
                    work.check(results, f"in a thread, streams apart: {apart}")
            except Exception as error:  # shown below, by the thread that waits
                faults.append(f"{type(error).__name__}: {error}")

        threads = [threading.Thread(target=launch, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if faults:
            raise AssertionError("; ".join(faults))
    return f"{ROUNDS} runs in each of two threads, on one stream and on two, the same bits"


def interleaved(place: Place) -> str:
    """Forward passes of several sizes before any backward pass, and these in another order."""
    works = [place.work(case) for case in (FIRST, SECOND, THIRD)]
    for number in range(ROUNDS):
        outputs = [work.kernel.run(work.job).y_BTO for work in works]
        gradients = {}
        for place_of in (1, 2, 0) if number % 2 else (0, 1, 2):
            leaves = tuple(works[place_of].job.weights.values())
            gradients[place_of] = torch.autograd.grad(outputs[place_of].sum(), leaves)
        if number == 0:
            first = gradients
        same = [torch.equal(bits(a), bits(b)) for n in first for a, b in zip(first[n], gradients[n], strict=True)]
        if not all(same):
            raise AssertionError(f"round {number} differs")
    return f"{ROUNDS} rounds of three sizes, the same bits"


def without_gradients(place: Place) -> str:
    """Under `torch.no_grad` and `torch.inference_mode`."""
    for work in (place.work(FIRST), place.work(SECOND)):
        for mode in (torch.no_grad, torch.inference_mode):
            with mode():
                done = work.kernel.run(work.job)
                for name, array in zip(("output", "state h"), (done.y_BTO, done.state.h), strict=True):
                    if not torch.equal(bits(array), bits(work.alone[name])):
                        raise AssertionError(f"{work.case} under {mode.__name__}: {name} has other bits")
    return "the same bits as with gradients"


def many_launches(place: Place) -> str:
    """Many launches, and a number that stands for what they gave."""
    work = place.work(FIRST)
    for number in range(5 * ROUNDS):
        work.check(work.results(), f"launch {number}")
    crc = 0
    for array in work.alone.values():
        crc = zlib.crc32(bits(array).cpu().numpy().tobytes(), crc)
    return f"{5 * ROUNDS} launches, checksum {crc:08x}"


def endless(place: Place) -> str:
    """Launches without end, for a process that is to be interrupted."""
    work = place.work(THIRD)
    number = 0
    while True:
        work.results()
        number += 1
        if number == 20:
            sys.stdout.write("begun\n")
            sys.stdout.flush()
        if number % 50 == 0:
            place.wait()


TRIALS: dict[str, Callable[[Place], str]] = {
    "more blocks than fit": too_many_blocks,
    "a size that does not fit": too_large,
    "two streams at once": two_streams,
    "beside large products": beside_products,
    "a second GPU": second_gpu,
    "a CUDA graph": graph,
    "a CUDA graph at the first run": cold_graph,
    "backward in another thread": backward_elsewhere,
    "two threads at once": two_threads,
    "passes of several sizes interleaved": interleaved,
    "without gradients": without_gradients,
    "many launches": many_launches,
    "endless": endless,
}
