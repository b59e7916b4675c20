"""The wheel and the source archive: what is in them, and that the wheel works where only what it asks for is installed.

`make wheel` builds them; `make test-wheel` (`test_installed.py`) installs them with all they ask for.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from installed.bare import ROOT, bare_environment, build, first_block, metadata_of, pip, run
from thereafter.base.version import __version__

BOOK = "the cat sat on the mat\nthe dog sat on the log\n" * 30


@dataclass(frozen=True)
class Built:
    """Source archive, wheel, the `bin` of a bare environment with the wheel, and a folder outside of the checkout."""

    sdist: Path
    wheel: Path
    bin: Path
    folder: Path

    def run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Without compiled kernels, which a new place would have to compile anew (`test_installed.py` does)."""
        return run(self.bin, *words, folder=self.folder, THEREAFTER_NUMBA="0")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel alone, built straight from the checkout."""
    return build(tmp_path_factory.mktemp("wheel"), targets=("wheel",))[0]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("built")
    sdist, wheel = build(folder / "dist")
    return Built(sdist, wheel, bare_environment(folder / "environment", wheel), folder)


def source_files() -> set[str]:
    """The files of the package that git knows, or does not ignore; without git all that are no caches."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "thereafter"]
    folder = ROOT / "src"
    if shutil.which("git") and (ROOT / ".git").exists():
        listed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.split("\0")
        return {name for name in listed if name and (folder / name).is_file()}
    paths = (folder / "thereafter").rglob("*")
    return {path.relative_to(folder).as_posix() for path in paths if path.is_file() and "__pycache__" not in path.parts}


def test_the_wheel_has_the_files_of_the_package_and_no_others(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        names = set(archive.namelist())
        own = {name for name in names if name.startswith("thereafter/")}
        assert own == source_files()
        about = f"thereafter-{__version__}.dist-info"
        others = {f"{about}/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")}
        assert names - own == others
        entry_points = archive.read(f"{about}/entry_points.txt").decode()
    assert "[console_scripts]\nthereafter = thereafter." in entry_points
    assert not {name for name in names if name.endswith((".pyc", ".pyo")) or "test_" in Path(name).name}
    for needed in (
        "py.typed",
        "studio/page/index.html",
        "export/html/page/page.html",
        "ready/weights/lstm/config.toml",
    ):
        assert f"thereafter/{needed}" in names


def test_the_metadata(wheel: Path):
    about = metadata_of(wheel)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (about["Name"], about["Version"]) == ("thereafter", __version__)
    assert (about["License-Expression"], about["License-File"]) == ("MIT", "LICENSE")
    assert about["Requires-Python"] == ">=3.11"
    assert about["Description-Content-Type"] == "text/markdown"
    assert about.get_payload().strip() == (ROOT / "README.md").read_text(encoding="utf-8").strip()
    assert set(about.get_all("Provides-Extra")) == set(project["optional-dependencies"])
    plain = [line for line in about.get_all("Requires-Dist") if "extra ==" not in line]
    assert sorted(plain) == sorted(project["dependencies"])


@pytest.mark.wide
def test_the_source_archive_builds_the_same_wheel(built: Built, tmp_path: Path):
    with tarfile.open(built.sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    assert {"pyproject.toml", "README.md", "LICENSE", "src", "tests"} <= {path.name for path in source.iterdir()}
    (again,) = build(tmp_path / "dist", source, ("wheel",))
    assert again.name == built.wheel.name
    assert again.read_bytes() == built.wheel.read_bytes()


@pytest.mark.wide
def test_nothing_is_missing_and_nothing_else_is_there(built: Built):
    assert "No broken requirements" in pip(built.bin, "check")
    names = ("fastapi", "plotly", "onnx", "pandas", "PIL", "pytest", "tensorboard")
    code = f"from importlib.util import find_spec; print([name for name in {names} if find_spec(name)])"
    assert built.run("python", "-c", code).stdout == "[]\n"


@pytest.mark.wide
def test_the_first_block_of_the_readme(built: Built):
    (built.folder / "first.txt").write_text(first_block(metadata_of(built.wheel).get_payload()), encoding="utf-8")
    done = built.run("python", "-m", "doctest", "first.txt")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


EXTRAS = {
    "studio": "'thereafter[studio]'",
    "serve neural": "'thereafter[serve]'",
    "figure training-curves neural": "plotly",
    "export neural --to onnx --out neural.onnx": "thereafter[export]",
    "train book.txt --model rnn --log tensorboard --out other": "'thereafter[tensorboard]'",
}
"""Commands whose packages a bare install lacks, and what they say to install."""
SCRIPT = """
import contextlib, io, json, pathlib, sys, thereafter
from thereafter.cli import main
from thereafter.ready import shipped
lm = thereafter.train("book.txt", model="rnn", tokens="char", hidden=8, epochs=1, out="neural")
for name, card in shipped.cards().items():
    shipped.restore(shipped.weights_folder() / name, card["sha256"], pathlib.Path("ready", name), pathlib.Path("texts"))
ready = thereafter.load("ready/lstm")
answers = [thereafter.__file__, thereafter.__version__, lm.log[-1]["event"], ready.next("the doctor", k=1)[0][0]]
for words in sys.argv[1:]:
    sys.argv = ["thereafter", *words.split()]
    with contextlib.redirect_stderr(io.StringIO()) as printed:
        try:
            main()
        except SystemExit as stop:
            answers.append([stop.code, printed.getvalue()])
print(json.dumps(answers))
"""


@pytest.mark.wide
def test_a_bare_install_trains_and_names_the_extras_it_lacks(built: Built):
    (built.folder / "book.txt").write_text(BOOK)
    done = built.run("python", "-c", SCRIPT, *EXTRAS)
    assert done.returncode == 0, done.stderr
    place, version, event, word, *refused = json.loads(done.stdout.splitlines()[-1])
    assert built.bin.parent in Path(place).parents
    assert (version, event) == (__version__, "trained")
    assert word
    for (code, printed), install in zip(refused, EXTRAS.values(), strict=True):
        assert code == 2
        assert printed.rstrip().endswith(f"which is not installed; try: pip install {install}")
        assert printed.count("\n") == 1  # one sentence, no traceback
