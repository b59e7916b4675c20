"""Packages are imported whole, one at a time, however many threads ask for them first."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import pytest

import thereafter
from refusals import assert_refused
from thereafter.base.packages import installed, require

OLD_RUNS = Path(__file__).parent / "old_runs"

# As numba: the package imports its parts before it is whole, and a part takes what the package has by then. Whoever
# imports the package waits a moment for somebody who comes in between.
PACKAGE = """
from meeting import begun, between
begun.set()
between.wait(0.5)
core = "core"
from circular import types
name = f"whole with its {types.void}"
"""
PART = """
from meeting import between
between.set()
import circular
void = circular.core
"""
OURS = """
from thereafter.base.packages import require
void = require("circular.types", "a test").void
"""


@pytest.fixture
def circular(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with a part that needs it, and a module that requires the part, as those of compiled loops do."""
    (tmp_path / "circular").mkdir()
    (tmp_path / "circular" / "__init__.py").write_text(PACKAGE)
    (tmp_path / "circular" / "types.py").write_text(PART)
    (tmp_path / "ours.py").write_text(OURS)
    (tmp_path / "meeting.py").write_text("from threading import Event\nbegun, between = Event(), Event()\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("meeting", "circular", "circular.types", "ours"):
        monkeypatch.setitem(sys.modules, name, sys)  # so that it is forgotten at the end
        del sys.modules[name]


def name_of_package() -> str:
    return str(require("circular", "a test").name)


def name_in_part() -> str:
    return str(require("circular.types", "a test").void)


def name_in_ours() -> str:
    return str(import_module("ours").void)


@pytest.mark.usefixtures("circular")
@pytest.mark.parametrize("first", [name_of_package, name_in_part, name_in_ours])
def test_threads_that_ask_while_a_package_is_imported_get_it_whole(first):
    begun = import_module("meeting").begun
    with ThreadPoolExecutor(8) as threads:
        answers = {first.__name__: [threads.submit(first)]}
        assert begun.wait(60)
        for ask in (name_in_part, name_of_package, name_in_ours, name_in_part, name_in_ours):
            answers.setdefault(ask.__name__, []).append(threads.submit(ask))
        got = {name: {answer.result(60) for answer in each} for name, each in answers.items()}
    assert got == {"name_of_package": {"whole with its core"}, "name_in_part": {"core"}, "name_in_ours": {"core"}}


# Two parts that import each other. Of two threads that each import one of them Python lets one go on with what there is
# of the other, which is not whole yet.
LEFT = """
from twins import right
from meeting import between
between.wait(0.5)
size = 3
"""
RIGHT = """
from meeting import begun
begun.wait(0.5)
from twins import left
def size():
    return left.size
"""


@pytest.mark.usefixtures("circular")
def test_parts_that_import_each_other_are_whole_for_both_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "twins").mkdir()
    for name, text in (("__init__", ""), ("left", LEFT), ("right", RIGHT)):
        (tmp_path / "twins" / f"{name}.py").write_text(text)
    for name in ("twins", "twins.left", "twins.right"):
        monkeypatch.setitem(sys.modules, name, sys)
        del sys.modules[name]
    with ThreadPoolExecutor(2) as threads:
        right = threads.submit(lambda: require("twins.right", "a test").size())
        left = threads.submit(lambda: require("twins.left", "a test").size)
        assert (left.result(60), right.result(60)) == (3, 3)


def test_a_missing_part_is_a_missing_package():
    with assert_refused(thereafter.ThereafterError, "a test", "json"):
        require("json.nowhere.at_all", "a test")
    assert not installed("json.nowhere.at_all")


# A finder lets the second thread begin when the first is in the midst of importing numba, and waits until that one
# imports something of numba's, too, or a while.
COLD = """
import json, sys, threading
import thereafter
models = {name: thereafter.load(f"{sys.argv[1]}/{name}/finished") for name in ("gru", "lstm")}
midst, beside = threading.Event(), threading.Event()
class Watching:
    def find_spec(self, name, path=None, target=None):
        if threading.current_thread().name == "lstm" and name.startswith("numba."):
            beside.set()
        elif name.startswith("numba.core.types") and not midst.is_set():
            midst.set()
            beside.wait(1)
sys.meta_path.insert(0, Watching())
answers = {}
def ask(name):
    if name == "lstm":
        assert midst.wait(60), "the first model has imported no numba"
    answers[name] = [token for token, _ in models[name].next("the old dog", k=3)]
threads = [threading.Thread(target=ask, args=[name], name=name) for name in ("gru", "lstm")]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps(answers))
"""


@pytest.mark.wide
def test_first_questions_to_two_models_at_once_are_answered():
    done = subprocess.run([sys.executable, "-c", COLD, str(OLD_RUNS)], capture_output=True, text=True, check=True)
    answers = json.loads(done.stdout)
    expected = {name: thereafter.load(OLD_RUNS / name / "finished").next("the old dog", k=3) for name in answers}
    assert answers.keys() == {"gru", "lstm"}, done.stderr
    assert answers == {name: [token for token, _ in tokens] for name, tokens in expected.items()}
