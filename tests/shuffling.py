"""Another order of the tests: files among each other, and the tests of a file among each other.

A test that passes in one order alone leans on what another has left behind.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest


def shuffled(items: Iterable[pytest.Item], seed: int) -> list[pytest.Item]:
    """The same tests, a file at a time, in an order that the seed alone decides."""
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    names = sorted(files)
    random.Random(seed).shuffle(names)
    for name in names:
        random.Random(f"{seed} {name}").shuffle(files[name])  # the same within a file, whichever files run
    return [item for name in names for item in files[name]]
