"""The wheel, then the source archive, installed by pip into an empty environment with all they ask for.

Minutes, and the size of torch on the disk: `make test-wheel`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from installed.bare import ROOT, build, clean, first_block, metadata_of, run


@pytest.mark.slow
def test_wheel_and_source_archive_install_into_an_empty_environment(tmp_path: Path):
    """Nothing but what pip fetches; the first block of the README prints what it should, far from the checkout."""
    sdist, wheel = build(tmp_path / "dist")
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True, env=clean())
    (tmp_path / "first.txt").write_text(first_block(metadata_of(wheel).get_payload()), encoding="utf-8")
    pip = ["python", "-m", "pip", "install", "--no-compile", "-c", ROOT / "constraints.txt"]
    for words in ([wheel], ["--force-reinstall", "--no-deps", sdist]):
        installed = run(environment / "bin", *pip, *words, folder=tmp_path)
        assert installed.returncode == 0, installed.stdout + installed.stderr
        done = run(environment / "bin", "python", "-m", "doctest", "first.txt", folder=tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        version = run(environment / "bin", "thereafter", "--version", folder=tmp_path)
        assert version.stdout.split()[-1] in wheel.name
        place = run(
            environment / "bin", "python", "-c", "import thereafter; print(thereafter.__file__)", folder=tmp_path
        )
        assert environment in Path(place.stdout.strip()).parents
