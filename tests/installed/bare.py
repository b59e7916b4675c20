"""Environments for tests of the built package: with what its wheel asks for, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import Parser
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
_LEADING = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


def metadata_of(wheel: Path) -> Message:
    """What a wheel says of itself."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode("utf-8"))


def first_block(readme: str) -> str:
    """The first Python example of the README."""
    return readme.split("```python\n", 1)[1].split("```", 1)[0]


def build(out: Path, source: Path = ROOT, targets: tuple[str, ...] = ("sdist", "wheel")) -> list[Path]:
    """Build the package of a source tree; the files in the order of the targets."""
    words = [word for target in targets for word in ("-t", target)]
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out), *words]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    endings = {"sdist": "*.tar.gz", "wheel": "*.whl"}
    return [next(out.glob(endings[target])) for target in targets]


def needed(requirements: list[str]) -> set[str]:
    """The distributions of this environment that the requirements lead to, without extras that nobody asks for."""
    names: set[str] = set()
    waiting = [(Requirement(line), "") for line in requirements]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        distribution = metadata.distribution(requirement.name)
        if distribution.name not in names or requirement.extras:
            names.add(distribution.name)
            lines = [Requirement(line) for line in distribution.requires or ()]
            waiting += [(line, one) for line in lines for one in ("", *requirement.extras)]
    return names


def bare_environment(folder: Path, wheel: Path) -> Path:
    """An environment with the wheel installed by pip, and links to the packages it asks for: its `bin` folder.

    Links, since torch alone takes longer to install than all else that is tested; `test_installed.py` installs it.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in needed(metadata_of(wheel).get_all("Requires-Dist", [])):
        files = metadata.distribution(name).files or []
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(metadata.distribution(name).locate_file(top))))
    bin_folder = folder / "bin"
    pip(bin_folder, "install", "--no-deps", "--no-index", "--no-compile", str(wheel))
    return bin_folder


def pip(bin_folder: Path, *words: str) -> str:
    """This environment's pip, acting on another one."""
    command = [sys.executable, "-m", "pip", "--python", str(bin_folder / "python"), "--disable-pip-version-check"]
    done = subprocess.run([*command, *words], capture_output=True, text=True, env=clean())
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run(bin_folder: Path, *words: str | Path, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A program of an environment, run in a folder outside of the checkout."""
    assert ROOT not in folder.resolve().parents
    command = [str(bin_folder / words[0]), *map(str, words[1:])]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=clean() | variables, timeout=1800)


def clean() -> dict[str, str]:
    """The variables of this process without those that lead Python to other packages."""
    return {name: value for name, value in os.environ.items() if name not in _LEADING}
