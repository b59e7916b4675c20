"""What the last bits of a training depend on beyond its settings: threads, product libraries, the processor, torch.

A snapshot says what it was computed with. A resumed training restores what can be set, the number of threads
and oneDNN; a note names the rest.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from thereafter import compiled, progress
from thereafter.config import Table
from thereafter.errors import FormatError
from thereafter.kernels.onednn import switch
from thereafter.runs.checkpoint import Snapshot
from thereafter.training.determinism import same_bits

Facts = Table


def facts(device: torch.device) -> Table:
    """What this process computes with, for a snapshot."""
    return {
        "threads": torch.get_num_threads(),
        "onednn": bool(torch.backends.mkldnn.enabled),
        "processor": f"{platform.machine()} with {torch.backends.cpu.get_cpu_capability()}",
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        "numba": compiled.missing() is None,
        "torch": torch.__version__,
    }


@contextmanager
def as_in(snapshot: Snapshot | None, device: torch.device) -> Iterator[None]:
    """Inside the block torch computes as it did when a snapshot was taken, as far as it can; what differs is noted.

    Without a snapshot it computes as it does. On a GPU every sum has a fixed order (`determinism.py`).
    Afterwards all is as it was before the block.
    """
    before: Facts = facts(device) if snapshot is None else snapshot.facts
    threads, onednn = torch.get_num_threads(), bool(torch.backends.mkldnn.enabled)
    try:
        wanted = int(before["threads"])
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"the checkpoint is damaged (its threads: {error!r}); try training again") from error
    try:
        if 1 <= wanted <= max(threads, os.cpu_count() or 1):  # more would wait for each other
            torch.set_num_threads(wanted)
        switch(bool(before.get("onednn", onednn)))
        different = _differences(before, facts(device))
        if different:
            progress.note(f"this run goes on with {', '.join(different)}: its last digits may differ")
        with same_bits(device):
            yield
    finally:
        torch.set_num_threads(threads)
        switch(onednn)


def _differences(before: Facts, now: Facts) -> list[str]:
    """What is not as it was; an older snapshot says less."""
    names = {"threads": "threads", "processor": "the processor", "gpu": "the GPU", "torch": "torch"}
    switches = {"onednn": "oneDNN", "numba": "compiled loops"}
    changed = {key for key in now if key in before and before[key] != now[key]}
    values = [f"{name} {now[key]} (it was {before[key]})" for key, name in names.items() if key in changed]
    return values + [f"{'' if now[key] else 'no '}{name}" for key, name in switches.items() if key in changed]
