"""What `dir` shows is what a user may call, and each has an example of a call that fits its parameters."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

import thereafter
from thereafter import figures, instruments
from thereafter.figures.catalogue import FIGURES, drawer
from thereafter.figures.figure import DOOR

DOORS = {"thereafter": thereafter, "figures": figures, "instruments": instruments}


def functions(door: ModuleType) -> dict[str, object]:
    return {name: one for name in dir(door) if inspect.isfunction(one := getattr(door, name))}


@pytest.mark.parametrize("name", DOORS)
def test_dir_shows_what_can_be_called_and_nothing_else(name: str):
    door = DOORS[name]
    assert sorted(dir(door)) == sorted(door.__all__)
    for one in dir(door):
        value = getattr(door, one)
        assert callable(value) or one == "__version__" or value in DOORS.values() or one == "nn", one
        assert not one.startswith("_") or one == "__version__"


def test_type_checkers_are_told_the_same_names_and_modules():
    stub = ast.parse(Path(str(figures.__file__)).with_suffix(".pyi").read_text(encoding="utf-8"))
    typed = {
        alias.name: f"{node.module}:{alias.name}"
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == DOOR.paths


def test_every_figure_of_the_catalogue_is_in_the_door():
    offered = set(functions(figures).values())
    assert not [name for name, entry in FIGURES.items() if drawer(entry) not in offered]


def test_every_instrument_is_in_its_door():
    here = instruments.__name__
    own = {name for name, one in vars(instruments).items() if inspect.isfunction(one) and one.__module__ == here}
    assert {name for name in own if not name.startswith("_")} == set(instruments.__all__)


def calls(door: str, name: str, text: str) -> list[ast.Call]:
    """The calls of a function in the examples of its docstring."""
    code = [example.source for example in doctest.DocTestParser().get_examples(text)]
    code += re.findall(r"Example: (.*)", text)
    nodes = [node for one in code for node in ast.walk(ast.parse(one)) if isinstance(node, ast.Call)]
    return [node for node in nodes if ast.unparse(node.func) in (name, f"{door}.{name}")]


@pytest.mark.parametrize("door", DOORS)
def test_every_function_has_an_example_that_fits_its_parameters(door: str):
    for name, function in functions(DOORS[door]).items():
        assert callable(function)
        examples = calls(door, name, inspect.getdoc(function) or "")
        assert examples, f"{door}.{name} has no example of a call"
        for example in examples:
            given = {word.arg: None for word in example.keywords if word.arg}
            inspect.signature(function).bind(*example.args, **given)
