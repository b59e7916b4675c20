"""Counts how large `src` is: lines, files, small files, Protocols, methods of `Task`. A part of `counted.py`.

A line of code is a line that holds at least one token of code: no blank line, comment or docstring. The string below
an assignment that explains it is a docstring, too (PEP 257 calls it an attribute docstring).
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import defaultdict
from functools import cache
from pathlib import Path

from parsed import nodes_of, text_of, tree_of

SMALL = 60
"""Lines below which a file is small."""
SMALL_WITH_ONE_IMPORTER = 80
"""Lines below which a module with one importer belongs in that importer."""

_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def docstring_lines(path: Path) -> set[int]:
    """Numbers of the lines that docstrings take, those of attributes included."""
    numbers: set[int] = set()
    for node in nodes_of(path):
        if isinstance(node, _DOCUMENTED):
            for before, statement in zip([None, *node.body], node.body, strict=False):
                if _is_string(statement) and (before is None or isinstance(before, ast.Assign | ast.AnnAssign)):
                    numbers |= set(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
    return numbers


def _is_string(statement: ast.stmt) -> bool:
    """Whether a statement is a string and nothing else."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


@cache
def code_lines(path: Path) -> int:
    """How many lines of a file hold code."""
    numbers: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text_of(path)).readline):
        if token.type not in _NO_CODE:
            numbers |= set(range(token.start[0], token.end[0] + 1))
    return len(numbers - docstring_lines(path))


def is_door(path: Path) -> bool:
    """Whether a module is a door: the `__init__` of a package, or a file that its package's `__init__` lists."""
    if path.name in ("__init__.py", "__main__.py"):
        return True
    door = text_of(path.with_name("__init__.py")) if path.with_name("__init__.py").exists() else ""
    return f'"{path.stem}"' in door or f".{path.stem}:" in door or f".{path.stem} import" in door


def importers(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """For each module those that import it, of a graph of imports."""
    users: dict[str, set[str]] = defaultdict(set)
    for module, imported in graph.items():
        for other in imported - {module}:
            users[other].add(module)
    return users


def protocols(files: list[Path]) -> list[tuple[Path, int, str]]:
    """Classes that derive from `typing.Protocol`."""
    places = []
    for path in files:
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef) and any(_base_name(base) == "Protocol" for base in node.bases):
                places.append((path, node.lineno, node.name))
    return places


def _base_name(base: ast.expr) -> str:
    while isinstance(base, ast.Subscript):
        base = base.value
    return base.attr if isinstance(base, ast.Attribute) else base.id if isinstance(base, ast.Name) else ""


def methods_of(path: Path, name: str) -> list[tuple[Path, int, str]]:
    """The methods and properties that a class of a file defines, its constructor aside."""
    return [
        (path, method.lineno, method.name)
        for node in tree_of(path).body
        if isinstance(node, ast.ClassDef) and node.name == name
        for method in node.body
        if isinstance(method, ast.FunctionDef) and method.name != "__init__"
    ]
