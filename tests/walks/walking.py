"""A page of docs/ walked from the shell, as whoever reads it would."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


def walk(guide: Path, commands_index: int, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a block of shell commands of a page in a folder, as they are written there; all of them must succeed."""
    shell = shutil.which("bash")
    if shell is None:
        pytest.skip(f"SKIPPED LOUDLY: no bash, so the commands of {guide.name} were not walked")
    commands = re.findall(r"```sh\n(.*?)```", guide.read_text(encoding="utf-8"), re.DOTALL)[commands_index]
    script = f'set -ex\nthereafter() {{ "{sys.executable}" -m thereafter "$@"; }}\n{commands}'
    walked = subprocess.run([shell, "-c", script], cwd=folder, capture_output=True, text=True, env=os.environ)
    assert walked.returncode == 0, walked.stderr
    return walked
