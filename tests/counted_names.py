"""Counts what names are to do without, over the syntax trees of `src`: a part of `counted.py`.

A vague name (`found`, `held`, `said`, `told`) says nothing of what it holds. A class whose name another room uses for
something else sends its reader to the wrong file; a cell and the layer built of it share theirs on purpose (`nn.LSTM`).
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from parsed import nodes_of, tree_of

VAGUE = {"found", "held", "said", "told"}


def vague_names(files: Iterable[Path]) -> list[tuple[Path, int, str]]:
    """Where a variable, parameter, attribute, function or class has a vague name, private ones included."""
    return [(path, line, name) for path in files for line, name in _names(nodes_of(path)) if name.strip("_") in VAGUE]


def _names(nodes: Iterable[ast.AST]) -> Iterable[tuple[int, str]]:
    for node in nodes:
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.keyword(arg=str(name)):
                yield node.value.lineno, name


def classes_of_one_name(files: Iterable[Path]) -> dict[str, list[Path]]:
    """Classes at the top of a module by name, where several modules have one."""
    modules: dict[str, list[Path]] = defaultdict(list)
    for path in files:
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef):
                modules[node.name].append(path)
    return {name: places for name, places in sorted(modules.items()) if len(places) > 1}
