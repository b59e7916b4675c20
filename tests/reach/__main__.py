"""Which test files a change can reach.

    python tests/reach [--since COMMIT]      their names, one per line: what `make test-changed` runs
    python tests/reach why FILE              which test files a file of the package reaches
    python tests/reach record [WORDS]        run the tests (or pytest with these words) and write map.json anew

`map.json` says which modules each test file ran when the tests were last recorded. A changed module selects the test
files that ran it. Beyond that:

- What is not run but read (constants, classes, decorators, loops that are compiled) belongs to every module that
  imports it, from anywhere in the module.
- A module that has changed since the recording may call others than then: it reaches all that it imports, rows of
  registries ("package.module:name") included.
- A module that is new belongs to those that import it or name it in a row.
- Files that are no modules (recipes, the page of the studio, documents) select the tests that opened them; a file of a
  page selects all tests of the studio as well.
- A test file that is new, changed, or imports a changed helper is selected. Whatever else changes selects everything.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import re
import subprocess
import sys
import sysconfig
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path

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
NOTHING = (".gitignore", ".gitattributes", "LICENSE", "tests/reach/map.json", "biome.jsonc", "benchmarks/diary/")
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
    if any(word in text for word in _unrecorded()):
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
def _unrecorded() -> tuple[str, ...]:
    sys.path.insert(0, str(Path(__file__).parent))
    from recording import COMPILED_ELSEWHERE

    return COMPILED_ELSEWHERE


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
def test_files() -> tuple[str, ...]:
    """All files with tests: those below tests/, and the modules that have examples in their docstrings."""
    tests = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")]
    return tuple(sorted(tests + [file for file in modules().values() if ">>> " in (ROOT / file).read_text("utf-8")]))


@cache
def helpers(file: str) -> frozenset[str]:
    """Files of tests/, benchmarks/ and examples/ that a test file imports, its own among them."""
    reached, open_ends = set(), [file]
    while open_ends:
        name = open_ends.pop()
        if name in reached:
            continue
        reached.add(name)
        folders = [Path(name).parent, *Path(name).parents, Path("benchmarks"), Path("examples"), Path("tests/kernels")]
        for node in ast.walk(tree(name)):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{a.name}" for a in node.names)]
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.endswith(".py"):
                names = [node.value.removesuffix(".py").replace("/", ".")]  # a script that is run
            for wanted in names:
                path = wanted.replace(".", "/")
                tried = [folder / f"{path}{end}" for folder in folders for end in (".py", "/__init__.py")]
                open_ends += [one.as_posix() for one in tried if not one.is_absolute() and (ROOT / one).is_file()][:1]
        conftest = Path(name).parent / "conftest.py"
        if (ROOT / conftest).is_file():
            open_ends.append(conftest.as_posix())
    return frozenset(one for one in reached if not one.startswith("src/") or one == file)


def reads_sources(test: str) -> bool:
    """Whether a test file reads the package's files as texts."""
    return any(one.endswith("/parsed.py") or "rglob(" in (ROOT / one).read_text("utf-8") for one in helpers(test))


class Reach:
    """The map, read for the files as they are now."""

    def __init__(self, recorded: dict[str, object]) -> None:
        digests: dict[str, str] = recorded["modules"]  # type: ignore[assignment]
        names, files = list(digests), list(recorded["files"])  # type: ignore[call-overload]
        self.stale = {name for name in digests if name in modules() and digest(modules()[name]) != digests[name]}
        beyond = {name: closure([name], calls=True) for name in self.stale}
        self.by_test: dict[str, set[str]] = {}
        self.opened: dict[str, set[str]] = {}
        for test, (bits, opened) in recorded["tests"].items():  # type: ignore[attr-defined]
            ran = {names[at] for at in _bits(bits)}
            more = {name for one in ran & self.stale for name in beyond[one]}
            self.by_test[test] = closure(ran | more, calls=False) | ran
            self.opened[test] = {files[at] for at in _bits(opened)}

    def selected(self, changed: Iterable[str]) -> tuple[set[str], str]:
        """The test files that changed files reach, and why it is all of them, if it is."""
        everything = set(test_files())
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
        if reaching and module in modules():
            return reaching
        near = {other for other in modules() if module in imports(other)[0] or module.startswith(f"{other}.")}
        beside = {test for test, ran in self.by_test.items() if ran & (near - {PACKAGE})}
        return (reaching | beside) or None


def _bits(text: str) -> list[int]:
    number = int(text or "0", 16)
    return [at for at in range(number.bit_length()) if number >> at & 1]


def _as_bits(places: Iterable[int]) -> str:
    return f"{sum(1 << at for at in set(places)):x}"


def changed_since(commit: str) -> list[str]:
    """Files that differ from a commit, those that git does not know yet among them."""
    commands = (["diff", "--name-only", "--no-renames", commit], ["ls-files", "--others", "--exclude-standard"])
    return [name for words in commands for name in _git(*words).splitlines()]


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def record(words: list[str], folder: Path) -> int:
    """Run pytest with the recording switched on, then write the map."""
    place = Path(sysconfig.get_paths()["purelib"]) / "reach.pth"
    here = str(Path(__file__).parent)
    place.write_text(
        f"import os, sys; 'THEREAFTER_REACH' in os.environ and (sys.path.insert(0, {here!r}), "
        f"__import__('recording').begin(), sys.path.remove({here!r}))\n",
        encoding="utf-8",
    )
    try:
        own = ["-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", *words]
        environment = os.environ | {"THEREAFTER_REACH": str(folder)}
        code = subprocess.run([sys.executable, "-m", "pytest", *own], cwd=ROOT, env=environment).returncode
    finally:
        place.unlink()
    write_map(folder)
    return code


def write_map(folder: Path) -> None:
    """What the processes of a recording noted, as the map."""
    by_test: dict[str, set[str]] = defaultdict(set)
    for path in folder.glob("*.json"):
        for test, names in json.loads(path.read_text(encoding="utf-8")).items():
            by_test[test.partition("::")[0]] |= set(names)
    for path in folder.glob("started/*"):
        for file in path.glob("**/*.txt"):
            by_test[path.name.replace("+", "/")] |= set(file.read_text(encoding="utf-8").splitlines())
    ran = {t: {n.partition(":")[0] for n in names if not n.startswith("file:")} for t, names in by_test.items()}
    tracked = set(_git("ls-files").splitlines())
    read = {t: {n[5:] for n in names if n.startswith("file:")} & tracked for t, names in by_test.items()}
    names, files = sorted(modules()), sorted(set().union(*read.values()))
    rows = {
        test: [_as_bits(names.index(n) for n in ran[test] if n in modules()), _as_bits(map(files.index, read[test]))]
        for test in sorted(by_test)
    }
    written = {"modules": {name: digest(modules()[name]) for name in names}, "files": files, "tests": rows}
    MAP.write_text(json.dumps(written, indent=0) + "\n", encoding="utf-8")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("verb", nargs="?", choices=("files", "why", "record", "write"), default="files")
    options.add_argument("words", nargs="*")
    options.add_argument("--since", default="HEAD", help="the commit with which the files are compared")
    options.add_argument("--notes", type=Path, default=ROOT / ".pytest_cache" / "reach", help="notes of a recording")
    given, more = options.parse_known_args()
    if given.verb == "record":
        return record([*given.words, *more], given.notes.absolute())
    if given.verb == "write":
        write_map(given.notes)
        return 0
    reach = Reach(json.loads(MAP.read_text(encoding="utf-8")))
    changed = given.words if given.verb == "why" else changed_since(given.since)
    chosen, everything = reach.selected(changed)
    told = f"everything, because of {everything}" if everything else f"{len(chosen)} of {len(test_files())} test files"
    sys.stderr.write(f"{len(changed)} changed files reach {told}\n")
    sys.stdout.write("".join(f"{name}\n" for name in sorted(chosen)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
