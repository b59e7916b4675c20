"""Where the time of a call goes, operation by operation: what stands under a figure that is missed."""

from __future__ import annotations

import time
from collections.abc import Callable

from torch.profiler import ProfilerActivity, profile

_SHOWN = 8


def profiled(job: Callable[[], object], seconds: float) -> str:
    """Milliseconds of a call and the operations that take most of it by themselves, a line each.

    The compiled loops of a cell stand under the name of the autograd function that calls them.
    """
    job()
    with profile(activities=[ProfilerActivity.CPU]) as trace:
        began, calls = time.perf_counter(), 0
        while calls < 3 or time.perf_counter() - began < seconds:
            job()
            calls += 1
    rows = sorted(trace.key_averages(), key=lambda row: row.self_cpu_time_total, reverse=True)
    whole = sum(row.self_cpu_time_total for row in rows)
    lines = [f"  {whole / calls / 1e3:8.2f} ms a call in {len(rows)} operations, {calls} calls under the profiler"]
    for row in rows[:_SHOWN]:
        own = row.self_cpu_time_total
        lines.append(f"  {own / calls / 1e3:8.2f} ms {own / whole:6.1%}  {row.count / calls:6.1f} calls  {row.key}")
    return "\n".join(lines)
