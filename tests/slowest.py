"""The slowest files of a run of the tests, printed at its end: where time can be saved.

The seconds of every file, and of every test that takes long, are kept in .pytest_cache/v/slowest.
"""

from __future__ import annotations

from collections import Counter

import pytest

SHOWN = 10
LONG = 0.2
"""Seconds from which on a test is kept by its name."""


class SlowestFiles:
    """Adds up the seconds of all tests of a file, their fixtures included, in whatever process they ran."""

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()
        self._phases: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid.partition("::")[0]] += report.duration
        if report.duration > LONG:
            self._phases[f"{report.nodeid} {report.when}"] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if len(self._seconds) <= SHOWN:
            return
        if getattr(terminalreporter.config, "cache", None) is not None:  # it can be switched off
            for name, seconds in (("files", self._seconds), ("tests", self._phases)):
                terminalreporter.config.cache.set(f"slowest/{name}", dict(seconds.most_common()))
        total = sum(self._seconds.values())
        terminalreporter.section(f"{SHOWN} slowest of {len(self._seconds)} files, {total:.0f} s in all")
        for name, seconds in self._seconds.most_common(SHOWN):
            terminalreporter.write_line(f"{seconds:7.1f} s  {name}")
