"""Tests leave the process as it was: the check of `conftest.py`, itself tried."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHANGING = """
import torch

def test_threads():
    torch.set_num_threads(torch.get_num_threads() + 1)

def test_type():
    torch.set_default_dtype(torch.float64)

def test_onednn():
    torch.backends.mkldnn.enabled = not torch.backends.mkldnn.enabled

def test_gradients():
    torch.set_grad_enabled(False)

def test_nothing():
    torch.manual_seed(3)
    assert torch.get_default_dtype() == torch.float32 and torch.is_grad_enabled()
"""


@pytest.mark.wide
def test_a_test_that_leaves_torch_changed_fails(tmp_path: Path) -> None:
    (tmp_path / "test_changing.py").write_text(CHANGING)
    (tmp_path / "empty.ini").write_text("[pytest]\n")
    here = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-c", "empty.ini", "test_changing.py"]
    command += ["-pno:cacheprovider", "-pno:schemathesis", "-pno:anyio", "-pno:xdist"]  # seconds to import, not used
    env = os.environ | {"PYTHONPATH": here}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert "5 passed, 4 errors" in done.stdout, done.stdout + done.stderr
    for name in ("threads", "default type", "oneDNN", "gradients"):
        assert f"the test leaves torch changed: {name} was" in done.stdout
