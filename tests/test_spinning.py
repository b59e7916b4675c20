"""Threads of torch look for a short while and then sleep, where nobody has said otherwise."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = "{first}; import thereafter, os; print(os.environ.get('GOMP_SPINCOUNT'))"


@pytest.mark.parametrize(
    ("first", "variables", "set_by_us"),
    [
        ("pass", {}, True),
        ("pass", {"GOMP_SPINCOUNT": "7"}, False),
        ("pass", {"OMP_WAIT_POLICY": "active"}, False),
        ("import sys; sys.modules['torch'] = None", {}, False),
    ],
)
def test_only_a_torch_to_come_without_settings_is_told_how_long_to_look(
    first: str, variables: dict[str, str], set_by_us: bool
) -> None:
    without = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(first=first)],
        env=without | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    printed = run.stdout.strip()
    if set_by_us:
        assert int(printed) >= 1000
    else:
        assert printed == variables.get("GOMP_SPINCOUNT", "None")
