"""Commands as processes of their own that begin with torch imported: a test that starts twenty of them waits for none.

A server process imports torch once; each command is a fork of it. It can be signalled, killed and waited for like any
other process, and it imports `thereafter` itself, with the environment it is given.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import sys
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["torch"])
_ONE_THREAD = {"OMP_NUM_THREADS": "1"}  # read when torch is imported: the server's is everybody's


class Command:
    """`python -m thereafter ...`, with what it prints in a file. The parts of `subprocess.Popen` that tests use."""

    def __init__(self, arguments: list[str], environment: Mapping[str, str] | None = None, threads: int = 1) -> None:
        descriptor, name = tempfile.mkstemp(prefix="printed-")
        os.close(descriptor)
        self._printed = Path(name)
        weakref.finalize(self, self._printed.unlink, missing_ok=True)
        arguments_of_run = (arguments, name, dict(environment or {}), threads)
        self._process = _FORKS.Process(target=_run, args=arguments_of_run, daemon=True)
        before = os.environ.copy()
        os.environ.update(_ONE_THREAD)
        try:
            self._process.start()
        finally:
            os.environ.clear()
            os.environ.update(before)

    @property
    def returncode(self) -> int | None:
        """None while it runs; minus the number of the signal that ended it."""
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        """Its return code, when it has ended."""
        self._process.join(timeout)
        if self.returncode is None:
            raise TimeoutError(f"the command has not ended within {timeout} s; it printed {self.output()!r}")
        return self.returncode

    def output(self) -> str:
        """All it has printed so far."""
        return self._printed.read_text(encoding="utf-8")

    def send_signal(self, number: signal.Signals) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)


def _run(arguments: list[str], output: str, environment: Mapping[str, str], threads: int) -> None:
    import torch

    torch.set_num_threads(threads)
    os.environ.update(environment)
    with open(output, "ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.argv = ["thereafter", *arguments]
    runpy.run_module("thereafter", run_name="__main__", alter_sys=True)
