"""Which of many cases `make test` runs: the core of a table. The rest is its breadth, for `make test-all`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def core(cases: Iterable[Any], chosen: Collection[Any]) -> list[Any]:
    """All cases as parameters, those that are not chosen marked `wide`. A tuple is the parameters of one case."""
    listed = list(cases)
    missing = [one for one in chosen if one not in listed]
    assert not missing, f"no such case: {missing}"
    return [
        pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=() if one in chosen else pytest.mark.wide)
        for one in listed
    ]
