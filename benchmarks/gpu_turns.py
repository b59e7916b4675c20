"""Work on a GPU timed in turns: as a CUDA graph, or begun kernel by kernel."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

Step = Callable[[], object]
_TURN = 0.008  # seconds: short work is repeated within a turn, since events cost some microseconds
_WARM = 3


class Side(NamedTuple):
    """One side of a comparison: `step` gives its outputs and gradients."""

    label: str
    step: Callable[[], tuple[Tensor, ...]]


def as_graph(side: Side) -> Step:
    """The same work, played from a CUDA graph; on a CPU as it is."""
    # results are dropped at once: while one lives, autograd would wait for the stream it was made on, within the graph
    for _ in range(_WARM):
        device = side.step()[0].device.type
    if device != "cuda":
        return side.step
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        side.step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = side.step()

    def play() -> object:
        graph.replay()
        return kept  # what the graph writes to must stay

    return play


def seconds(step: Step, times: int, device: str) -> float:
    """How long so many runs take, one after the other, in seconds a run."""
    if device == "cpu":
        began = time.perf_counter()
        for _ in range(times):
            step()
        return (time.perf_counter() - began) / times
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    for _ in range(times):
        step()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / times / 1e3


def alternating(steps: dict[str, Step], rounds: int, device: str) -> dict[str, float]:
    """Median milliseconds of each, taking turns in an order drawn anew each round."""
    repeats = {}
    for label, step in steps.items():
        seconds(step, 1, device)
        repeats[label] = max(1, min(10, int(_TURN / seconds(step, 1, device))))
    times: dict[str, list[float]] = {label: [] for label in steps}
    order = list(steps)
    draw = random.Random(0)
    for _ in range(rounds):
        draw.shuffle(order)
        for label in order:
            times[label].append(1e3 * seconds(steps[label], repeats[label], device))
    return {label: statistics.median(values) for label, values in times.items()}


def profiled(side: Side, lines: int = 25, runs: int = 10) -> str:
    """Where the time goes: microseconds of a run by kernel, the longest first, and how often each is launched."""
    from torch.profiler import ProfilerActivity, profile

    for _ in range(_WARM):
        device = side.step()[0].device.type
    on_gpu = device == "cuda"
    with profile(activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU]) as profiler:
        for _ in range(runs):
            side.step()
        if on_gpu:
            torch.cuda.synchronize()
    times = [
        (event.self_device_time_total if on_gpu else event.self_cpu_time_total, event.count, event.key)
        for event in profiler.key_averages()
    ]
    times = sorted((time for time in times if time[0] > 0), reverse=True)
    shown = [f"{us / runs:10.1f} us  {count / runs:6.1f} times  {name[:90]}" for us, count, name in times[:lines]]
    return "\n".join([*shown, f"{sum(us for us, _, _ in times) / runs:10.1f} us together"])
