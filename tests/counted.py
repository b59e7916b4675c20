"""Counts what the contracts of the house are to do without, over the syntax trees of `src`. Run as a script it prints
the table and every place; `test_house.py` holds the numbers where they are, so that they can only go down.

    python tests/counted.py

The name `Any`, `cast(...)`, `x: Any = ...` and `type: ignore`, in the rooms that hold contracts (`ROOMS`) and in all.
Everywhere: `hasattr` and `getattr` that ask a model, a network, a cell, a task or what was trained for something its
type does not say; `isinstance` of cells in kernels; names that say nothing, and names of two things
(`counted_names.py`); and circles of imports, whether at the top of a module, in a function, or for types alone. Names
in a table of lazily loaded things (`Registry`) are no imports: a row may name a module that imports the table.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path

from counted_names import classes_of_one_name, vague_names
from counted_sizes import (
    SMALL,
    SMALL_WITH_ONE_IMPORTER,
    code_lines,
    docstring_lines,
    importers,
    is_door,
    methods_of,
    protocols,
)
from parsed import nodes_of, text_of

SOURCE = Path(__file__).parents[1] / "src"
PACKAGE = "thereafter"

ROOMS: dict[str, tuple[str, ...]] = {
    "training": ("training",),
    "runs": ("runs",),
    "tasks": ("tasks",),
    "contracts of models": tuple(f"models/{name}.py" for name in ("base", "task_net", "state", "encoder", "decoder")),
}
"""Folders and files of the package by room; those that are not there count nothing."""

ASKED = {"model", "net", "task", "trained", "fitted", "lm", "learner", "member", "translator", "tagger", "classifier"}
ASKED |= {"network", "task_model", "language_model", "decoder", "encoder", "cell"}
"""What models and tasks are called; the last name of `lm.model` or `self.net` decides, without its underscores."""


@dataclass(frozen=True)
class Place:
    """Something that was counted, and where it stands."""

    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(SOURCE).as_posix()}:{self.line}  {self.text}"


def files_of(room: str) -> list[Path]:
    """The modules of a room."""
    places = [SOURCE / PACKAGE / name for name in ROOMS[room]]
    return sorted(
        file for place in places for file in (place.rglob("*.py") if place.is_dir() else [place]) if file.is_file()
    )


def all_files() -> list[Path]:
    return sorted((SOURCE / PACKAGE).rglob("*.py"))


def anys(files: Iterable[Path]) -> list[Place]:
    """Every use of the name `Any`, in annotations written as strings as well; not the line that imports it."""
    places = [_place(path, node, text) for path, node, text in _nodes(files, "Any") if _is_named(node, "Any")]
    return sorted(places, key=_where)


def casts(files: Iterable[Path]) -> list[Place]:
    """Calls of `typing.cast`."""
    return [
        _place(path, node, text)
        for path, node, text in _nodes(files, "cast")
        if isinstance(node, ast.Call) and _is_named(node.func, "cast")
    ]


def any_variables(files: Iterable[Path]) -> list[Place]:
    """Casts in disguise: variables with a value that are declared to be anything."""
    return [
        _place(path, node, text)
        for path, node, text in _nodes(files, "Any")
        if isinstance(node, ast.AnnAssign) and node.value is not None and _is_named(node.annotation, "Any")
    ]


def ignores(files: Iterable[Path]) -> list[Place]:
    """Comments that tell the type checker to look away."""
    places = []
    for path in files:
        text = text_of(path)
        if "type: ignore" not in text:
            continue
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and token.string.removeprefix("#").strip().startswith("type: ignore"):
                places.append(Place(path, token.start[0], token.string))
    return places


def questions(files: Iterable[Path]) -> list[Place]:
    """`hasattr` and `getattr` whose first argument is a model, a task or what was trained, going by its name.

    A parameter that is declared to be settings is none, whatever it is called.
    """
    places = []
    for path in files:
        text = text_of(path)
        if "hasattr" not in text and "getattr" not in text:
            continue
        of_settings = {call for node in nodes_of(path) for call in _calls_on_settings(node)}
        for call in nodes_of(path):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or not call.args:
                continue
            if call.func.id in ("hasattr", "getattr") and _last_name(call.args[0]) in ASKED:
                places += [_place(path, call, text)] if call not in of_settings else []
    return sorted(places, key=_where)


def cells_by_isinstance(files: Iterable[Path]) -> list[Place]:
    """`isinstance(cell, ...)` in the kernels, which look a cell up by its exact type."""
    return [
        _place(path, node, text)
        for path, node, text in _nodes((path for path in files if "kernels" in path.parts), "isinstance")
        if isinstance(node, ast.Call) and _is_named(node.func, "isinstance") and _last_name(node.args[0]) == "cell"
    ]


def _calls_on_settings(node: ast.AST) -> Iterator[ast.Call]:
    """The calls in a function whose first argument is a parameter of it with a type named `...Settings`."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    declared = set()
    for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
        if one.annotation is not None and (_last_name(one.annotation) or "").endswith("settings"):
            declared.add(one.arg)
    for call in ast.walk(node):
        first = call.args[0] if isinstance(call, ast.Call) and call.args else None
        if isinstance(call, ast.Call) and isinstance(first, ast.Name) and first.id in declared:
            yield call


def _last_name(node: ast.expr) -> str | None:
    """`model` of `model`, `lm.model` and `self._model`, in lower case; None of anything but names."""
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None
    return None if name is None else name.strip("_").lower()


def _is_named(node: ast.AST, name: str) -> bool:
    """Whether this is a name of `typing`, by itself or as `typing.name`."""
    if isinstance(node, ast.Attribute):
        return node.attr == name and isinstance(node.value, ast.Name) and node.value.id in ("typing", "t")
    return isinstance(node, ast.Name) and node.id == name


def _nodes(files: Iterable[Path], word: str) -> Iterator[tuple[Path, ast.expr | ast.stmt, str]]:
    """All expressions and statements of the files that have this word, and what stands in types that are written as
    strings."""
    for path in files:
        text = text_of(path)
        if word in text:
            yield from ((path, node, text) for node in _typed(path))


@cache
def _typed(path: Path) -> tuple[ast.expr | ast.stmt, ...]:
    nodes: list[ast.expr | ast.stmt] = []
    for node in nodes_of(path):
        if isinstance(node, ast.expr | ast.stmt):
            nodes.append(node)
        for quoted in _quoted_types(node):
            inner = ast.walk(ast.parse(str(quoted.value), mode="eval"))
            nodes += [ast.copy_location(one, quoted) for one in inner if isinstance(one, ast.expr)]
    return tuple(nodes)


def _quoted_types(node: ast.AST) -> Iterator[ast.Constant]:
    """Types that are written as strings: whole annotations, and what `cast` is told."""
    told = [node.annotation] if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation else []
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
        told.append(node.returns)
    if isinstance(node, ast.Call) and _is_named(node.func, "cast") and node.args:
        told.append(node.args[0])
    yield from (one for one in told if isinstance(one, ast.Constant) and isinstance(one.value, str))


def _where(place: Place) -> tuple[Path, int]:
    return place.path, place.line


def _place(path: Path, node: ast.expr | ast.stmt, text: str) -> Place:
    return Place(path, node.lineno, text.splitlines()[node.lineno - 1].strip())


def circles() -> list[list[str]]:
    """Modules that import each other, directly or by others: the strongly connected parts of the graph of imports."""
    return strongly_connected(imports())


def imports() -> dict[str, set[str]]:
    """The modules of the package that each of them imports, at the top, in a function or for types alone."""
    files = {_module_name(path): path for path in all_files()}
    return {name: _imported(path, files.keys()) for name, path in files.items()}


def _module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(path: Path, known: Iterable[str]) -> set[str]:
    """The modules of the package that a module names in any of its imports; a package is meant where no module is."""
    modules, known = set(), set(known)
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            modules |= {name if name in known else node.module for name in inner}
    return modules & known


def strongly_connected(graph: dict[str, set[str]]) -> list[list[str]]:
    """Those parts of a graph in which every node leads to every other, and a node that leads to itself (Tarjan 1972).

    >>> strongly_connected({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}})
    [['b', 'c']]
    """
    number, lowest, order = {}, {}, count()
    waiting: list[str] = []
    parts: list[list[str]] = []

    def visit(node: str) -> None:
        number[node] = lowest[node] = next(order)
        waiting.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in number:
                visit(other)
            if other in waiting:
                lowest[node] = min(lowest[node], lowest[other])
        if lowest[node] == number[node]:
            part = [waiting.pop()]
            while part[-1] != node:
                part.append(waiting.pop())
            if len(part) > 1 or node in graph.get(node, ()):
                parts.append(sorted(part))

    for node in sorted(graph):
        if node not in number:
            visit(node)
    return sorted(parts)


def table() -> dict[str, list[str]]:
    """All that is counted, by what it is and where."""
    counted: dict[str, list[str]] = {}
    for room in ROOMS:
        files = files_of(room)
        counted[f"Any in {room}"] = [str(place) for place in anys(files)]
        counted[f"cast( in {room}"] = [str(place) for place in casts(files)]
        counted[f": Any = in {room}"] = [str(place) for place in any_variables(files)]
        counted[f"type: ignore in {room}"] = [str(place) for place in ignores(files)]
    files = all_files()
    counted["Any in all of src"] = [str(place) for place in anys(files)]
    looks_away = [*casts(files), *any_variables(files), *ignores(files)]
    counted["cast(, : Any =, type: ignore in all"] = [str(place) for place in sorted(looks_away, key=_where)]
    counted["isinstance of cells in kernels"] = [str(place) for place in cells_by_isinstance(files)]
    counted["found, held, said, told as names"] = [
        str(Place(path, line, name)) for path, line, name in vague_names(files)
    ]
    counted["classes of one name"] = [
        f"{name}: " + ", ".join(path.relative_to(SOURCE).as_posix() for path in places)
        for name, places in classes_of_one_name(files).items()
    ]
    counted["hasattr and getattr on models, cells, tasks"] = [str(place) for place in questions(files)]
    counted["circles of imports"] = [" <-> ".join(circle) for circle in circles()]
    return counted


def sizes() -> dict[str, int]:
    """How large the package is, in numbers that are to go down."""
    files, users = all_files(), importers(imports())
    lonely = [
        path
        for path in files
        if len(text_of(path).splitlines()) < SMALL_WITH_ONE_IMPORTER
        and not is_door(path)
        and len(users[_module_name(path)]) == 1
    ]
    return {
        "lines of code": sum(code_lines(path) for path in files),
        "files": len(files),
        f"files under {SMALL} lines": sum(len(text_of(path).splitlines()) < SMALL for path in files),
        f"files under {SMALL_WITH_ONE_IMPORTER} lines with one importer": len(lonely),
        "entries at the top of the package": sum(
            path.name not in ("__pycache__", "py.typed") for path in (SOURCE / PACKAGE).iterdir()
        ),
        "methods of Task": len(methods_of(SOURCE / PACKAGE / "tasks" / "task.py", "Task")),
        "Protocols": len(protocols(files)),
    }


def main() -> None:
    counted = table()
    for what, places in counted.items():
        if places:
            sys.stdout.write("\n".join([f"{what}: {len(places)}", *[f"    {place}" for place in places], ""]))
    sys.stdout.write("\n" + "".join(f"{what:<44} {len(places):>4}\n" for what, places in counted.items()))
    documented = sum(len(docstring_lines(path)) for path in all_files())
    lines = sum(len(text_of(path).splitlines()) for path in all_files())
    sys.stdout.write(f"{lines:,} lines, {documented:,} of them docstrings\n")
    sys.stdout.write("".join(f"{what:<44} {number:>6,}\n" for what, number in sizes().items()))


if __name__ == "__main__":
    main()
