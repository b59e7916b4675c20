"""What the tests of tasks share."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from toys import Shell

from thereafter.cli import main


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Runs a command: the lines it printed, and its exit code."""

    def run(*words: object) -> tuple[list[str], int]:
        monkeypatch.setattr(sys, "argv", ["thereafter", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            main()
        code: Any = stop.value.code or 0
        return capsys.readouterr().out.splitlines(), code

    return run
