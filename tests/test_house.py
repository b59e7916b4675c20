"""The house stands: no import runs upward, nothing heavy is imported early, every registered name leads somewhere."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import thereafter
from counted import sizes, table
from parsed import nodes_of
from thereafter.base import compiled
from thereafter.base.kinds import KINDS, Registry
from thereafter.cells import CELLS
from thereafter.data.corpora import BUILDERS
from thereafter.kernels.scan import KERNELS
from thereafter.models.build import NEURAL
from thereafter.ngram.smoothing import SMOOTHINGS
from thereafter.tasks import TASKS
from thereafter.text.tokenizers import TOKENIZERS
from thereafter.training.kinds import MODELS

PACKAGE = Path(thereafter.__file__).parent

FLOORS = [
    {"errors", "base"},
    {"data", "text", "cells"},
    {"kernels"},
    {"layers"},
    {"models", "nn"},
    {"evaluation", "decoding", "inspection", "ngram"},
    {"training", "runs", "comparing", "figures", "tasks", "series", "vision"},
    {"api", "language_model", "task_model", "instruments", "export", "gallery", "ready"},
    {"serving"},
    {"cli", "studio"},
]
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


# What the contracts do without (`counted.py` says where each would stand).
ALLOWED = {
    "Any in training": 0,
    "cast( in training": 0,
    ": Any = in training": 0,
    "type: ignore in training": 0,
    "Any in runs": 0,
    "cast( in runs": 0,
    ": Any = in runs": 0,
    "type: ignore in runs": 0,
    "Any in tasks": 0,
    "cast( in tasks": 0,
    ": Any = in tasks": 0,
    "type: ignore in tasks": 0,
    "Any in contracts of models": 0,
    "cast( in contracts of models": 0,
    ": Any = in contracts of models": 0,
    "type: ignore in contracts of models": 0,
    "Any in all of src": 118,
    "cast(, : Any =, type: ignore in all": 12,
    "isinstance of cells in kernels": 0,
    "found, held, said, told as names": 0,
    "classes of one name": 5,  # cells and the layers made of them
    "hasattr and getattr on models, cells, tasks": 0,
    "circles of imports": 0,
}


def imported_rooms(path: Path) -> set[str]:
    rooms: set[str] = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute in this house"
            module = node.module or ""
            names = [f"{module}.{alias.name}" for alias in node.names] if module == "thereafter" else [module]
        else:
            continue
        rooms |= {name.split(".")[1] for name in names if name.startswith("thereafter.")}
    return rooms - {"__version__"}


def test_no_import_runs_upward():
    upward: dict[str, set[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if room in ("__init__", "__main__"):
            continue  # the door itself looks everywhere, lazily
        assert room in FLOOR_OF, f"{room} stands on no floor: add it to FLOORS here and to ARCHITECTURE.md"
        higher = {other for other in imported_rooms(path) if FLOOR_OF[other] > FLOOR_OF[room]}
        if higher:
            upward[str(path.relative_to(PACKAGE))] = higher
    assert not upward


def test_files_and_corpora_know_nothing_of_what_is_read_from_them():
    rooms = {path.name: imported_rooms(path) - FLOORS[0] - {"data"} for path in sorted((PACKAGE / "data").glob("*.py"))}
    assert len(rooms) > 5
    assert not {name: above for name, above in rooms.items() if above}


@pytest.mark.parametrize(
    "registry",
    [TOKENIZERS, SMOOTHINGS, MODELS, NEURAL, BUILDERS, CELLS, KERNELS, TASKS],
    ids=lambda registry: registry.kind,
)
def test_every_registered_name_leads_somewhere(registry: Registry):
    assert list(registry)
    for name in registry:
        assert registry.load(name) is not None


def test_nothing_goes_past_the_contracts_that_did_not_before():
    counted = table()
    assert counted.keys() == ALLOWED.keys()
    more = {what: places for what, places in counted.items() if len(places) > ALLOWED[what]}
    assert not more, "\n".join(f"{len(places)} {what}, not {ALLOWED[what]}: {places}" for what, places in more.items())


LARGEST = {
    "lines of code": 72_036,
    "files": 430,
    "files under 60 lines": 55,
    "files under 80 lines with one importer": 2,
    "entries at the top of the package": 32,
    "methods of Task": 12,
    "Protocols": 62,
}
"""How large the package may be (`counted.sizes`). These figures may go down; whoever raises one says why."""


def test_the_package_does_not_grow():
    sizes_now = sizes()
    assert sizes_now.keys() == LARGEST.keys()
    larger = {what: number for what, number in sizes_now.items() if number > LARGEST[what]}
    assert not larger, "; ".join(f"{number} {what}, at most {LARGEST[what]}" for what, number in larger.items())


MOST_KINDS = 5  # of model that a place may name: more of them is a list of all


_KIND = re.compile(r"(?<![\w-])(?:" + "|".join(map(re.escape, KINDS)) + r")(?![\w-])")


def kinds_named(text: str) -> set[str]:
    return set(_KIND.findall(text))


def test_no_test_sets_the_clock_of_the_whole_process():
    """A server that tests share would wait for a time that never comes; a module's own name `time` may be replaced."""
    tests = sorted(Path(__file__).parent.rglob("test_*.py"))
    clocks = re.compile(r"setattr\(\s*(\w+\.)?(time|asyncio),\s*\"")
    assert not [path.name for path in tests if clocks.search(path.read_text(encoding="utf-8"))]


def test_the_kinds_of_model_are_listed_once():
    """Only `base/kinds.py` names nearly all kinds: no other tuple, table, sentence or statement of the page does."""
    second: dict[str, set[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        if path == PACKAGE / "base" / "kinds.py":
            continue
        for node in nodes_of(path):
            parts: list[Any] = []
            if isinstance(node, ast.Tuple | ast.List | ast.Set):
                parts = node.elts
            elif isinstance(node, ast.Dict):
                parts = node.keys
            constants = [part.value for part in (*parts, node) if isinstance(part, ast.Constant)]
            texts = [text for text in constants if isinstance(text, str)]
            if texts and len(named := kinds_named(" ".join(texts))) > MOST_KINDS:
                second[f"{path.relative_to(PACKAGE)}:{node.lineno}"] = named
    for path in sorted((PACKAGE / "studio" / "page").rglob("*.js")):
        for statement in path.read_text(encoding="utf-8").split(";"):
            if len(named := kinds_named(statement)) > MOST_KINDS:
                second[f"{path.relative_to(PACKAGE)}: {statement.strip()[:60]}"] = named
    assert not second


# Modules outside the folder of a task that import from it or compare with its name. Tables name modules as strings and
# are none of them. May only shrink.
KNOW_TASKS = {
    "api": {"series"},  # types of what a user hands over as a table
    "comparing.task_trials": {"series"},
    "instruments": {"series"},
    "task_model": {"series"},
    "tasks.finding": {"series"},
    "figures.tasks": {"tasks.translate"},
    "gallery.tasks": {"series", "vision"},  # pictures of all tasks
    "ready.tasks": {"vision"},
    "serving.server.verbs": {"series"},
    "studio.panels.captioning": {"vision"},  # the panels of tasks: a file each
    "studio.panels.forecasting": {"series"},
    "studio.panels.glimpsing": {"vision"},
    "studio.panels.moving": {"vision"},
    "studio.panels.pictures": {"vision"},
    "studio.panels.tasks": {"tasks.translate"},
    "tasks.classify": {"series", "vision"},  # one name for labels of texts, series and pictures
    "training.finding": {"vision"},  # pictures are no text
    "vision.clips.labels": {"series"},
    "vision.drawing.network": {"series"},
    "vision.glimpsing.network": {"series"},
    "vision.pictures.classifying": {"series"},  # a picture that is read as a series
}


def folder_of(task: str) -> str:
    """The folder of a task: `series` and `vision` are whole subjects, a task over words has its own in `tasks`."""
    parts = str(TASKS.path_of(task)).partition(":")[0].split(".")[1:]
    return ".".join(parts[:2]) if parts[0] == "tasks" else parts[0]


def test_no_module_outside_its_folder_knows_a_task_by_name():
    folders = {task: folder_of(task) for task in TASKS}
    outside: dict[str, set[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for node in nodes_of(path):
            known: set[str] = set()
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}." for alias in node.names]
                known = {folder for folder in folders.values() for name in names if f"thereafter.{folder}." in name}
            elif isinstance(node, ast.Compare) and not module.startswith("export.steps."):
                constants = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
                known = {folders[name] for name in constants if isinstance(name, str) and name in folders}
            known = {folder for folder in known if not f"{module}.".startswith(f"{folder}.")}
            if known:
                outside.setdefault(module, set()).update(known)
    assert {module: known for module, known in outside.items() if known - KNOW_TASKS.get(module, set())} == {}
    assert {module: known for module, known in KNOW_TASKS.items() if known - outside.get(module, set())} == {}


def in_fresh_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_the_package_imports_nothing_heavy():
    code = (
        "import sys, thereafter; print(sorted({'torch', 'numba', 'numpy', 'tokenizers', 'typer'} & set(sys.modules)))"
    )
    assert in_fresh_python(code) == "[]"


def test_torch_is_imported_before_its_parts():
    """`import torch` waits for another thread that imports it; `import torch.nn` would run beside that one."""
    first: dict[str, str] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        imports: list[tuple[int, str]] = []
        for node in nodes_of(path):
            if isinstance(node, ast.Import):
                imports += [(node.lineno, alias.name) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                imports.append((node.lineno, node.module or ""))
        of_torch = [name for _, name in sorted(imports) if name.partition(".")[0] == "torch"]
        if of_torch:
            first[str(path.relative_to(PACKAGE))] = of_torch[0]
    assert len(first) > 100
    assert not {path: name for path, name in first.items() if name != "torch"}


def test_help_imports_neither_torch_nor_numba():
    code = (
        "import sys\nsys.argv = ['thereafter', '--help']\nfrom thereafter.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print('HEAVY', sorted({'torch', 'numba'} & set(sys.modules)))"
    )
    out = in_fresh_python(code)
    assert "train" in out
    assert out.endswith("HEAVY []")


def computing(*words: str) -> float:
    """Seconds of computing that a Python takes; those it waits for a processor do not count."""
    before = os.times()
    subprocess.run([sys.executable, *words], capture_output=True, check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def test_help_answers_at_once():
    """Within a second of computing; on a slow machine within four times what the packages of a command line take."""
    pairs = [(computing("-m", "thereafter", "--help"), computing("-c", "import typer, rich.console")) for _ in range(3)]
    ours, theirs = (min(seconds) for seconds in zip(*pairs, strict=True))
    assert ours < max(1.0, 4 * theirs)


def test_training_and_scoring_need_numpy_alone():
    """With every other package hidden the n-grams still work (the slower way); bpe says what it needs."""
    code = """
import sys, importlib.abc
class Hide(importlib.abc.MetaPathFinder):
    hidden = {'numba', 'tokenizers', 'safetensors', 'platformdirs', 'typer', 'rich', 'torch', 'llvmlite'}
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in self.hidden:
            raise ModuleNotFoundError(f'No module named {name!r}', name=name)
sys.meta_path.insert(0, Hide())
import thereafter
lm = thereafter.train(text='the cat sat on the mat\\n' * 3, tokens='prose', order=3)
print(round(lm.score(text='the cat sat\\n').perplexity, 6))
try:
    thereafter.train(text='the cat', tokens='bpe')
except thereafter.ThereafterError as error:
    print(error)
"""
    perplexity, missing = in_fresh_python(code).splitlines()
    lm = thereafter.train(text="the cat sat on the mat\n" * 3, tokens="prose", order=3)
    assert float(perplexity) == pytest.approx(lm.score(text="the cat sat\n").perplexity, rel=1e-5)
    assert "pip install tokenizers" in missing


def test_kernels_are_compiled_in_this_environment():
    assert compiled.available(), "numba is missing: the compiled kernels would go untested"
