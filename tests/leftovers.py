"""What a test must leave as it was, so that the next one means the same in any order."""

from __future__ import annotations

import os
import random
import signal
import sys
from typing import Any

from thereafter.data.catalogue import CARDS

NOT_OURS = ("PYTEST_CURRENT_TEST", "TORCHINDUCTOR_CACHE_DIR")  # torch sets the second by itself
SIGNALS = [signal.SIGINT, signal.SIGTERM]


def seed_everything() -> None:
    """Draws that a test has not seeded itself are the same, whatever ran before it."""
    random.seed(0)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(0)
    if (torch := sys.modules.get("torch")) is not None:
        torch.default_generator.manual_seed(0)  # `torch.manual_seed` writes down the stack for each kind of device
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(0)


def traces() -> dict[str, dict[Any, Any]]:
    """What is shared by all tests of a process, each kind by name."""
    return {
        "the working folder": {"path": os.getcwd()},
        "the environment": {key: value for key, value in os.environ.items() if key not in NOT_OURS},
        "signal handlers": {number.name: signal.getsignal(number) for number in SIGNALS},
        "where modules are found": {"sys.path": list(sys.path)},
        "the table of corpora": {"order": list(CARDS), **CARDS},
    }


def changes(before: dict[str, dict[Any, Any]], after: dict[str, dict[Any, Any]]) -> list[str]:
    """What is not as it was, in words."""
    return [
        f"{kind}: {key} was {before[kind].get(key)!r}, is {after[kind].get(key)!r}"
        for kind in before
        for key in before[kind] | after[kind]
        if before[kind].get(key) != after[kind].get(key)
    ]
