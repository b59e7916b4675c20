"""Which test files a changed file can reach: the recorded map, and the graph of imports beside it.

`map.json` says which modules each test file ran when the tests were last recorded. A changed module selects the test
files that ran it. Beyond that:

- What is not run but read (constants, classes, decorators, loops that are compiled) belongs to every module that
  imports it, from anywhere in the module.
- A module that has changed since the recording may call others than then: it reaches all that it imports, rows of
  registries ("package.module:name") included.
- A module that is new belongs to those that import it or name it in a row, and to those that ran a module of its room
  that is gone: it may hold what moved.
- Files that are no modules (recipes, the page of the studio, documents) select the tests that opened them; a file of a
  page selects all tests of the studio as well.
- A test file that is new, changed, or imports a changed helper is selected. Whatever else changes selects everything.
"""

from __future__ import annotations

import ast
import hashlib
import re
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from recording import COMPILED_ELSEWHERE

ROOT = Path(__file__).parents[2]
MAP = Path(__file__).with_name("map.json")
PACKAGE = "thereafter"
SOURCE = f"src/{PACKAGE}/"
EVERYTHING = (
    "pyproject.toml",
    "constraints.txt",
    "Makefile",
    ".ci/run",
    "tests/conftest.py",
    "tests/reach/recording.py",
)
NOTHING = (
    "tests/reach/faults.py",
    ".gitignore",
    ".gitattributes",
    "LICENSE",
    "tests/reach/map.json",
    "biome.jsonc",
    "benchmarks/diary/",
)
KEPT_RESULTS = {"cache", "lru_cache", "cached_property"}
"""Decorators of functions that run once per process: a recording sees the first test alone."""
ROW = re.compile(rf"{PACKAGE}(?:\.\w+)+")


def module_of(file: str) -> str:
    """`src/thereafter/text/form.py` as `thereafter.text.form`."""
    return file.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def modules() -> dict[str, str]:
    """The file of each module of the package."""
    files = sorted((ROOT / "src" / PACKAGE).rglob("*.py"))
    return {module_of(name): name for name in (path.relative_to(ROOT).as_posix() for path in files)}


@cache
def tree(file: str) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse((ROOT / file).read_text(encoding="utf-8"))


def digest(file: str) -> str:
    """Changes when the file does."""
    return hashlib.sha256((ROOT / file).read_bytes()).hexdigest()[:12]


@cache
def plain_functions(module: str) -> frozenset[str]:
    """Names of a module whose use a recording sees: functions that run at each call."""
    text = (ROOT / modules()[module]).read_text(encoding="utf-8")
    if any(word in text for word in COMPILED_ELSEWHERE):
        return frozenset()
    return frozenset(
        node.name
        for node in tree(modules()[module]).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not any(
            KEPT_RESULTS & {getattr(n, "id", ""), getattr(n, "attr", "")}
            for d in node.decorator_list
            for n in ast.walk(d)
        )
    )


@cache
def imports(module: str) -> tuple[dict[str, None], dict[str, None]]:
    """Modules that a module imports, anywhere in it: all of them, and those of which it takes more than functions."""
    whole: dict[str, None] = {}
    read: dict[str, None] = {}
    parsed = tree(modules()[module])
    for_types = {id(n) for block in ast.walk(parsed) if _types_alone(block) for n in ast.walk(block)}
    used = _names_run(parsed) | _exported(parsed)
    for node in ast.walk(parsed):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and ROW.match(node.value):
            name = node.value.partition(":")[0]
            if name in modules():
                whole[name] = None
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in modules():
                    whole[alias.name] = read[alias.name] = None
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in modules():
                    whole[inner] = None
                    if not plain_functions(inner) or _reads_more(parsed, alias.asname or alias.name, inner):
                        read[inner] = None
                elif node.module in modules():
                    whole[node.module] = None
                    if alias.name not in plain_functions(node.module) and (alias.asname or alias.name) in used:
                        read[node.module] = None
    return whole, read


def _types_alone(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _names_run(parsed: ast.Module) -> set[str]:
    """Names that are looked up when the module runs: annotations are not."""
    names, open_ends = set(), [parsed]
    while open_ends:
        node = open_ends.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            names.add(node.id)
        # the fields of a dataclass are annotations, and change when the classes that they name do not
        for field, value in ast.iter_fields(node):
            if field not in ("annotation", "returns"):
                parts = value if isinstance(value, list) else [value]
                open_ends += [part for part in parts if isinstance(part, ast.AST)]
    return names


def _exported(parsed: ast.Module) -> set[str]:
    """Names that a module imports for others: those of `__all__`, and aliases to themselves."""
    again = {a.name for n in ast.walk(parsed) if isinstance(n, ast.ImportFrom) for a in n.names if a.asname == a.name}
    return again | {
        part.value
        for node in parsed.body
        if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "__all__" for target in node.targets)
        for part in ast.walk(node.value)
        if isinstance(part, ast.Constant)
    }


def _reads_more(parsed: ast.Module, name: str, module: str) -> bool:
    used = {n.attr for n in ast.walk(parsed) if isinstance(n, ast.Attribute) and getattr(n.value, "id", "") == name}
    return bool(used - plain_functions(module))


def closure(start: Iterable[str], *, calls: bool) -> set[str]:
    """All that is reached from some modules through what they read, and with `calls` through all that they import."""
    reached, open_ends = set(), [name for name in start if name in modules()]
    while open_ends:
        name = open_ends.pop()
        if name not in reached:
            reached.add(name)
            open_ends += imports(name)[0 if calls else 1]
    return reached


@cache
def all_test_files() -> tuple[str, ...]:
    """All files with tests: those below tests/, and the modules that have examples in their docstrings."""
    tests = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")]
    return tuple(sorted(tests + [file for file in modules().values() if ">>> " in (ROOT / file).read_text("utf-8")]))


@cache
def _scripts() -> frozenset[str]:
    """The Python files outside the package."""
    return frozenset(
        path.relative_to(ROOT).as_posix()
        for folder in ("tests", "benchmarks", "examples")
        for path in (ROOT / folder).rglob("*.py")
    )


@cache
def _beside(file: str) -> frozenset[str]:
    """The files outside the package that a file imports or names as a script, and the conftest.py of its folder."""
    folder = file.rpartition("/")[0]
    folders = (
        folder,
        *(parent.as_posix() for parent in Path(folder).parents),
        "benchmarks",
        "examples",
        "tests/kernels",
    )
    beside = {f"{folder}/conftest.py", "tests/conftest.py"}
    for node in ast.walk(tree(file)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.endswith(".py"):
            names = [node.value.removesuffix(".py").replace("/", ".")]  # a script that is run
        paths = [name.replace(".", "/") for name in names if not name.startswith(PACKAGE)]
        tried = [f"{place}/{path}{end}" for path in paths for place in folders for end in (".py", "/__init__.py")]
        beside |= _scripts().intersection(tried + [f"{path}.py" for path in paths])
    return frozenset(beside & _scripts())


@cache
def helpers(file: str) -> frozenset[str]:
    """Files outside the package that a test file needs, directly or through others; itself among them."""
    needed, open_ends = set(), [file]
    while open_ends:
        name = open_ends.pop()
        if name not in needed:
            needed.add(name)
            open_ends += _beside(name)
    return frozenset(needed)


@cache
def reads_sources(test: str) -> bool:
    """Whether a test file reads the package's files as texts."""
    return any(name == "tests/parsed.py" or "rglob(" in _text(name) for name in helpers(test))


@cache
def _text(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


class Reach:
    """The map, read for the files as they are now."""

    def __init__(self, recorded: dict[str, object]) -> None:
        digests: dict[str, str] = recorded["modules"]  # type: ignore[assignment]
        self.recorded = digests.keys()
        names, files = list(digests), list(recorded["files"])  # type: ignore[call-overload]
        self.stale = {name for name in digests if name in modules() and digest(modules()[name]) != digests[name]}
        beyond = {name: closure([name], calls=True) for name in self.stale}
        self.by_test: dict[str, set[str]] = {}
        self.opened: dict[str, set[str]] = {}
        for test, (bits, opened) in recorded["tests"].items():  # type: ignore[attr-defined]
            ran = {names[at] for at in places_of(bits)}
            more = {name for one in ran & self.stale for name in beyond[one]}
            self.by_test[test] = closure(ran | more, calls=False) | ran
            self.opened[test] = {files[at] for at in places_of(opened)}

    def selected(self, changed: Iterable[str]) -> tuple[set[str], str]:
        """The test files that changed files reach, and why it is all of them, if it is."""
        everything = set(all_test_files())
        chosen: set[str] = everything - self.by_test.keys()  # never recorded
        for file in changed:
            if file.startswith(NOTHING):
                continue
            if file.startswith(EVERYTHING):
                return everything, file
            before = len(chosen)
            chosen |= {test for test in everything if file in helpers(test)}
            chosen |= {test for test, opened in self.opened.items() if file in opened}
            if file.endswith(".py") and file.startswith(SOURCE):
                chosen |= {test for test in everything if reads_sources(test)}
                reaching = self._of_module(module_of(file))
                if reaching is None:
                    return everything, f"{file}, which nothing recorded imports"
                chosen |= reaching
            elif file.startswith(SOURCE):
                chosen |= {test for test in everything if test.startswith(("tests/studio/", "tests/export/"))}
            elif len(chosen) == before and not file.endswith(".md") and not file.startswith("benchmarks/"):
                return everything, f"{file}, of which nothing is known"
        return chosen & everything, ""

    def _of_module(self, module: str) -> set[str] | None:
        reaching = {test for test, ran in self.by_test.items() if module in ran}
        if reaching and module in self.recorded and module in modules():
            return reaching
        near = {other for other in modules() if module in imports(other)[0] or module.startswith(f"{other}.")}
        room = module.split(".")[1]
        moved = {name for name in self.recorded - modules().keys() if name.split(".")[1:2] == [room]}
        beside = {test for test, ran in self.by_test.items() if ran & (near - {PACKAGE} | moved)}
        return (reaching | beside) or None


def places_of(text: str) -> list[int]:
    number = int(text or "0", 16)
    return [at for at in range(number.bit_length()) if number >> at & 1]


def as_bits(places: Iterable[int]) -> str:
    return f"{sum(1 << at for at in set(places)):x}"


def changed_since(commit: str) -> list[str]:
    """Files that differ from a commit, those that git does not know yet among them."""
    commands = (["diff", "--name-only", "--no-renames", commit], ["ls-files", "--others", "--exclude-standard"])
    return [name for words in commands for name in git(*words).splitlines()]


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout
