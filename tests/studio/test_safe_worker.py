"""The process that trains runs this installation's code, whatever lies in the folder the studio was started in."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from thereafter.runs.folder import is_finished
from thereafter.studio import queue

_PLANTED = "from pathlib import Path\nPath({!r}).touch()\nraise ImportError('planted')\n"


def finished(order: dict[str, Any]) -> tuple[int, list[queue.Report]]:
    """What a worker reports about a command, and its exit code."""
    lines: list[queue.Report] = []
    codes: list[int] = []
    over = threading.Event()

    def ended(code: int) -> None:
        codes.append(code)
        over.set()

    process = queue.Child(order, lines.append, ended)
    assert over.wait(120)
    process.end()
    return codes[0], lines


@pytest.mark.parametrize("path", [None, f"{os.pathsep}{{}}{os.pathsep}"])
def test_a_module_in_the_current_folder_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str | None):
    """Neither for its name nor by an empty entry of PYTHONPATH, which means the current folder."""
    here, mark = tmp_path / "here", tmp_path / "executed"
    here.mkdir()
    for module in ("torch", "numpy", "json", "thereafter", "sitecustomize"):
        (here / f"{module}.py").write_text(_PLANTED.format(str(mark)), encoding="utf-8")
    (here / "startup.py").write_text(_PLANTED.format(str(mark)), encoding="utf-8")
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat .\n" * 20, encoding="utf-8")
    source = str(Path(sys.modules["thereafter"].__file__ or "").parents[1])
    monkeypatch.chdir(here)
    monkeypatch.setenv("PYTHONSTARTUP", str(here / "startup.py"))
    monkeypatch.setenv("THEREAFTER_NUMBA", "0")
    if path is None:
        installed = subprocess.run(
            [sys.executable, "-P", "-c", "import thereafter"], env={"PATH": ""}, capture_output=True, cwd=tmp_path
        )
        if installed.returncode:
            pytest.skip("this package is not installed here: its worker cannot be found without PYTHONPATH")
        monkeypatch.delenv("PYTHONPATH", raising=False)
    else:
        monkeypatch.setenv("PYTHONPATH", path.format(source))
    order = {"do": "train", "source": str(text), "model": "ngram", "tokens": "word", "options": {"order": 2}}
    code, lines = finished(order | {"run": str(tmp_path / "run")})
    assert not mark.exists()
    assert (code, [line.error for line in lines if line.error]) == (0, [])
    assert is_finished(tmp_path / "run")


def test_its_surroundings_name_no_folder_by_the_current_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Some libraries look for settings in the current folder, and a corpus could be a file there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", "modules", "/absolute"]))
    monkeypatch.setenv("THEREAFTER_DATA", "data")
    monkeypatch.setenv("THEREAFTER_CACHE", "~/cache")
    monkeypatch.setenv("PYTHONINSPECT", "1")
    given = queue.surroundings()
    assert given["PYTHONPATH"].split(os.pathsep) == [str(tmp_path / "modules"), "/absolute"]
    assert given["THEREAFTER_DATA"] == str(tmp_path / "data")
    assert given["THEREAFTER_CACHE"] == str(Path.home() / "cache")
    assert "PYTHONINSPECT" not in given
    assert given["PYTHONSAFEPATH"] == "1"
