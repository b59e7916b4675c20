"""The slowest files of a run of the tests, printed at its end: where time can be saved."""

from __future__ import annotations

from collections import Counter

import pytest

SHOWN = 10


class SlowestFiles:
    """Adds up the seconds of all tests of a file, their fixtures included, in whatever process they ran."""

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid.partition("::")[0]] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if len(self._seconds) <= SHOWN:
            return
        total = sum(self._seconds.values())
        terminalreporter.section(f"{SHOWN} slowest of {len(self._seconds)} files, {total:.0f} s in all")
        for name, seconds in self._seconds.most_common(SHOWN):
            terminalreporter.write_line(f"{seconds:7.1f} s  {name}")
