"""Machine code is found again by another copy of the package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import thereafter
from thereafter.base import compiled

COUNT = "import thereafter; thereafter.train(text='to be or not to be ' * 500, model='ngram', order=3)"


@pytest.mark.skipif(compiled.missing() is not None, reason="SKIPPED LOUDLY: no numba, so nothing is compiled")
def test_a_second_copy_of_the_package_compiles_nothing(tmp_path: Path):
    copies = [tmp_path / "first", tmp_path / "second"]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    written = []
    for copy in copies:
        shutil.copytree(Path(thereafter.__file__).parent, copy / "thereafter", ignore=shutil.ignore_patterns("*.pyc"))
        environment["PYTHONPATH"] = str(copy)
        subprocess.run([sys.executable, "-c", COUNT], env=environment, check=True)
        written.append({path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.nb?")})
    assert any("ngram_counts" in path.parts for path in written[0])
    assert written[0] == written[1]
