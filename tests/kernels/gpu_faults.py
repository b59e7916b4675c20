"""What could go wrong with programs whose blocks wait for each other on a GPU, tried one after the other.

    PYTHONPATH=src python tests/kernels/gpu_faults.py [--only REGEX] [--patience 90]

Each trial is a process of its own. One that does not end in time is killed, and has failed. A trial says what it saw;
`skip` and why, where this machine cannot show it. Exit status 1 where one failed. `--dry`: on a CPU by the plain loop,
to try the script.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from gpu_trials import TRIALS, Place, SkipTrial


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="", metavar="REGEX")
    options.add_argument("--patience", type=float, default=90.0, help="seconds a trial")
    options.add_argument("--kernel", default="gpu")
    options.add_argument("--dry", action="store_true", help="on a CPU")
    options.add_argument("--trial", help="run one in this process (what the script does itself)")
    given = options.parse_args()
    if given.trial is not None:
        return perform(given.trial, Place("cpu" if given.dry else "cuda", given.kernel))
    command = [sys.executable, os.path.abspath(__file__), "--kernel", given.kernel, *["--dry"] * given.dry]
    together: dict[str, Callable[[list[str], float], str]] = {
        "two processes at once": two_processes,
        "an interrupt": interrupt,
    }
    failed = 0
    for name in [*(name for name in TRIALS if name not in ("endless", "many launches")), *together]:
        if not re.search(given.only, name):
            continue
        began = time.monotonic()
        try:
            ended = (
                together[name](command, given.patience) if name in together else child(command, name, given.patience)
            )
        except TrialFailed as error:
            failed += 1
            ended = f"FAIL  {error}"
        line = f"{ended[:5]:<5} {name} ({time.monotonic() - began:.0f} s): {ended[5:].strip()}"
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{failed} failed\n")
    return 1 if failed else 0


class TrialFailed(Exception):
    """What went wrong, in words."""


def perform(name: str, place: Place) -> int:
    """One trial in this process: its sentence goes to the standard output."""
    try:
        sys.stdout.write(f"ok    {TRIALS[name](place)}\n")
    except SkipTrial as reason:
        sys.stdout.write(f"skip  {reason}\n")
    except KeyboardInterrupt:
        return 130
    return 0


def started(command: list[str], trial: str) -> subprocess.Popen[str]:
    return subprocess.Popen([*command, "--trial", trial], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def sentence(process: subprocess.Popen[str], patience: float) -> str:
    """The last line of a process that is to end well within so many seconds."""
    try:
        out, err = process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise TrialFailed(f"no end after {patience:g} s; killed. {last(out)} {last(err)}") from None
    if process.returncode:
        raise TrialFailed(f"exit status {process.returncode}: {last(err) or last(out)}")
    return last(out)


def last(text: str) -> str:
    """The last line that is not empty."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")


def child(command: list[str], trial: str, patience: float) -> str:
    """One trial in a process of its own."""
    return sentence(started(command, trial), patience)


def two_processes(command: list[str], patience: float) -> str:
    """Two processes that launch at the same time get what each gets alone."""
    alone = child(command, "many launches", patience)
    both = [started(command, "many launches") for _ in range(2)]
    ends = [sentence(process, patience) for process in both]
    if ends != [alone, alone]:
        raise TrialFailed(f"alone: {alone}; together: {ends}")
    return f"ok    each as alone: {alone[5:].strip()}"


def interrupt(command: list[str], patience: float) -> str:
    """A process that is interrupted among its launches ends, and the next one finds the GPU as it was."""
    before = child(command, "many launches", patience)
    process = started(command, "endless")
    if process.stdout is None:
        raise TrialFailed("no output to read")
    guard = threading.Timer(patience, process.kill)
    guard.start()
    begun = process.stdout.readline()
    guard.cancel()
    if "begun" not in begun:
        raise TrialFailed(f"it never began: {begun} {last(process.communicate()[1])}")
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    asked = time.monotonic()
    try:
        process.wait(timeout=15)
    except subprocess.TimeoutExpired:
        process.kill()
        raise TrialFailed("no end 15 s after the interrupt; killed") from None
    seconds = time.monotonic() - asked
    after = child(command, "many launches", patience)
    if after != before:
        raise TrialFailed(f"before: {before}; after: {after}")
    return f"ok    it ended within {seconds:.1f} s with status {process.returncode}; the next process got the same bits"


if __name__ == "__main__":
    sys.exit(main())
