"""Records which functions of the package each test runs, in its own process and in those that it starts.

Modules of the package are compiled with one call more at the head of every function, which notes its name; loops that
are compiled to machine code, and programs for a GPU, are left alone. Files of the repository that are opened are noted
too: recipes, documents, files of the studio's page. See `__main__.py` for what is made of it.

    THEREAFTER_REACH=FOLDER     switches it on, in every Python that reads the .pth file of `__main__.py record`
"""

from __future__ import annotations

import ast
import builtins
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

REPOSITORY = Path(__file__).parents[2]
VARIABLE = "THEREAFTER_REACH"
HIT = "__reached__"
COMPILED_ELSEWHERE = ("thereafter.base.compiled", "import compiled", "triton", "gluon", "torch.jit", "scripting")
"""In a module that has one of these words, another compiler may read the functions: they are not changed."""


class Noting:
    """The names noted by now: a set that changes from test to test, or lines of a file in a process of its own."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self._file: int | None = None
        self._written: set[str] = set()
        self._loading = 0

    def __call__(self, name: str) -> None:
        if name not in self.names:
            self.names.add(name)
            if self._file is not None and name not in self._written:
                self._written.add(name)
                os.write(self._file, f"{name}\n".encode())

    def write_to(self, folder: Path) -> None:
        """Every further name becomes a line of a file in this folder, at once: the process may be killed."""
        folder.mkdir(parents=True, exist_ok=True)
        self._file = os.open(folder / f"{os.getpid()}.txt", os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)

    def heard(self, event: str, args: tuple[Any, ...]) -> None:
        """Note a file of the repository that is opened, though not those that are imported."""
        if event != "open" or self._loading or not isinstance(args[0], str):
            return
        path = args[0]
        if path.startswith(_ROOT) and not path.startswith(_HIDDEN) and not path.endswith((".py", ".pyc")):
            self("file:" + path[len(_ROOT) :])


_ROOT = str(REPOSITORY) + os.sep
_HIDDEN = tuple(_ROOT + name for name in (".venv", ".git", ".oracles", ".biome", ".pytest_cache", ".peers"))
noting = Noting()


class Noted(SourceFileLoader):
    """Compiles a module of the package with the calls in it."""

    def get_code(self, fullname: str) -> CodeType:
        noting._loading += 1
        try:
            path = self.get_filename(fullname)
            source = Path(path).read_text(encoding="utf-8")
            tree = ast.parse(source, path)
            if not any(word in source for word in COMPILED_ELSEWHERE):
                _insert(tree, fullname, ())
            return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)
        finally:
            noting._loading -= 1


def _insert(node: ast.AST, module: str, outer: tuple[str, ...]) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            name = ".".join((*outer, child.name))
            _insert(child, module, (*outer, child.name))
            first = child.body[0]
            has_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            call = ast.Call(ast.Name(HIT, ast.Load()), [ast.Constant(f"{module}:{name}")], [])
            line = ast.copy_location(ast.Expr(call), first)
            child.body.insert(1 if has_docstring and isinstance(first.value.value, str) else 0, line)
        elif isinstance(child, ast.ClassDef):
            _insert(child, module, (*outer, child.name))
        else:
            _insert(child, module, outer)


class Finder(MetaPathFinder):
    """Finds the modules of the package, and gives them the loader above."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname.partition(".")[0] != "thereafter":
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = Noted(fullname, spec.loader.path)
        return spec


def begin() -> None:
    """Switch it on in this process; processes that a test starts write into the folder that the variable names."""
    setattr(builtins, HIT, noting)
    sys.meta_path.insert(0, Finder())
    sys.addaudithook(noting.heard)
    noting.write_to(Path(os.environ[VARIABLE]))
    os.register_at_fork(after_in_child=lambda: noting.write_to(Path(os.environ[VARIABLE])))


class Recorder:
    """A plugin for pytest: what each test has run, with what its fixtures had run when they were made."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._by_test: dict[str, set[str]] = defaultdict(set)
        self._by_fixture: dict[tuple[str, str], set[str]] = defaultdict(set)

    def _take(self, names: set[str]) -> set[str]:
        before, noting.names = noting.names, names
        return before

    def hooks(self) -> Any:
        """The plugin as pytest wants it; made here, so that a process without pytest can read this file."""
        import pytest

        recorder = self

        class Hooks:
            @pytest.hookimpl(wrapper=True, tryfirst=True)
            def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
                place = recorder._folder / "started" / item.nodeid.partition("::")[0].replace("/", "+")
                os.environ[VARIABLE] = str(place)
                names: set[str] = set()
                recorder._take(names)
                result = yield
                for fixture in item._fixtureinfo.name2fixturedefs:
                    for definition in item._fixtureinfo.name2fixturedefs[fixture]:
                        names |= recorder._by_fixture[definition.argname, definition.baseid]
                recorder._by_test[item.nodeid.partition("[")[0]] |= names
                recorder._take(set())
                return result

            @pytest.hookimpl(wrapper=True, tryfirst=True)
            def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[Any]:
                names = recorder._by_fixture[fixturedef.argname, fixturedef.baseid]
                test = recorder._take(names)
                try:
                    return (yield)
                finally:
                    recorder._take(test)
                    test |= names

            def pytest_sessionfinish(self) -> None:
                name = os.environ.get("PYTEST_XDIST_WORKER", "main")
                noted = {test: sorted(names) for test, names in recorder._by_test.items()}
                (recorder._folder / f"{name}.json").write_text(json.dumps(noted), encoding="utf-8")

        return Hooks()
