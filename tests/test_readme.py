"""What the README shows is what comes out."""

from __future__ import annotations

import doctest
import re
import shlex
import sys
from pathlib import Path

import pytest

from thereafter.cli import main

README = Path(__file__).resolve().parents[1] / "README.md"


def test_the_python_example():
    results = doctest.testfile(str(README), module_relative=False)
    assert results.attempted >= 5
    assert results.failed == 0


def test_the_shell_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    (block,) = re.findall(r"```console\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    monkeypatch.chdir(tmp_path)
    for shown in re.split(r"^\$ ", block, flags=re.M)[1:]:
        command, _, expected = shown.partition("\n")
        monkeypatch.setattr(sys, "argv", shlex.split(command))
        with pytest.raises(SystemExit) as stop:
            main()
        assert not stop.value.code
        printed = capsys.readouterr().out
        assert without_seconds(printed) == without_seconds(expected)


def without_seconds(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("seconds")]
