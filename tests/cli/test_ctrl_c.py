"""Ctrl-C before a command has begun: no traceback, and the exit status of an interrupted command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_PRESSED = """
import os, runpy, signal, sys

class Press:
    pressed = False

    def find_spec(self, name, path=None, target=None):
        if name == {name!r} and not self.pressed:
            Press.pressed = True
            {press}

sys.meta_path.insert(0, Press())
sys.argv = ["thereafter", *{words!r}]
runpy.run_module("thereafter", run_name="__main__")
"""
_KILL = "os.kill(os.getpid(), signal.SIGINT)"
_AS_COMPILED = "raise ImportError('numpy failed to import') from KeyboardInterrupt()"


@pytest.mark.parametrize(
    ("name", "press"),
    [
        ("typer", _KILL),
        pytest.param("numpy", _KILL, marks=pytest.mark.wide),
        pytest.param("torch", _KILL, marks=pytest.mark.wide),
        ("torch", _AS_COMPILED),
    ],
)
def test_ctrl_c_while_modules_are_imported_ends_without_a_word(tmp_path: Path, name: str, press: str) -> None:
    code = _PRESSED.format(name=name, press=press, words=["kernels"])
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_an_error_that_is_no_ctrl_c_keeps_its_traceback(tmp_path: Path) -> None:
    code = _PRESSED.format(name="typer", press="raise ImportError('no typer')", words=["--help"])
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1
    assert "ImportError: no typer" in ended.stderr
