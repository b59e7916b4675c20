"""What a change reaches: rows of registries, lazy imports, page files and recipes are edges; what is unknown is all."""

from __future__ import annotations

import ast
import json

import pytest
import recording
from reaching import MAP, ROOT, Reach, all_test_files, as_bits, digest, imports, modules


def recorded(**by_test: tuple[list[str], list[str]]) -> Reach:
    """A map in which a few test files ran these modules and opened these files; all others ran nothing."""
    names, files = sorted(modules()), sorted({file for _, opened in by_test.values() for file in opened})
    tests = {name: ["", ""] for name in all_test_files()} | {
        f"tests/{folder}/{name}.py": [as_bits(map(names.index, ran)), as_bits(map(files.index, opened))]
        for key, (ran, opened) in by_test.items()
        for folder, name in [key.split("__")]
    }
    return Reach({"modules": {name: digest(modules()[name]) for name in names}, "files": files, "tests": tests})


@pytest.fixture(scope="module")
def reach() -> Reach:
    return recorded(
        series__test_any_table=(["thereafter.series.table"], []),
        cells__test_cells=(["thereafter.cells.lstm", "thereafter.cells"], []),
        training__test_recipes=(["thereafter.training.recipes"], ["recipes/mnist-rows-lstm.toml"]),
    )


def test_rows_and_lazy_imports_are_edges():
    whole, _ = imports("thereafter.cells")
    assert "thereafter.cells.lstm" in whole, "a row of a registry"
    whole, _ = imports("thereafter.base.packages")
    assert "thereafter.errors" in whole
    whole, read = imports("thereafter.serving.shelf")
    assert "thereafter.base.config" in whole, "imported in a function"
    assert "thereafter.language_model" not in read, "imported for types alone"


@pytest.mark.wide
def test_a_module_reaches_the_tests_that_ran_it(reach: Reach):
    chosen, everything = reach.selected(["src/thereafter/series/table.py"])
    assert not everything
    assert "tests/series/test_any_table.py" in chosen
    assert "tests/cells/test_cells.py" not in chosen
    assert "tests/test_house.py" in chosen, "it reads all sources"


@pytest.mark.wide
def test_what_is_read_and_not_run_reaches_those_that_import_it(reach: Reach):
    chosen, _ = reach.selected(["src/thereafter/cells/options.py"])
    assert "tests/cells/test_cells.py" in chosen


@pytest.mark.wide
def test_files_that_are_no_modules_reach_the_tests_that_opened_them(reach: Reach):
    assert "tests/training/test_recipes.py" in reach.selected(["recipes/mnist-rows-lstm.toml"])[0]
    chosen, _ = reach.selected(["src/thereafter/studio/page/parts/dom.js"])
    assert {name for name in all_test_files() if name.startswith("tests/studio/")} <= chosen


@pytest.mark.wide
def test_helpers_reach_the_tests_that_import_them(reach: Reach):
    chosen, everything = reach.selected(["tests/kernels/parity.py"])
    assert not everything
    assert "tests/kernels/test_parity.py" in chosen
    assert "tests/series/test_any_table.py" not in chosen


@pytest.mark.wide
@pytest.mark.parametrize("file", ["pyproject.toml", "src/thereafter/nobody.py", "unheard.of"])
def test_what_is_unknown_selects_everything(reach: Reach, file: str):
    chosen, everything = reach.selected([file])
    assert chosen == set(all_test_files())
    assert file in everything


@pytest.mark.wide
def test_a_changed_module_reaches_all_it_imports():
    reach = recorded(series__test_any_table=(["thereafter.serving.shelf"], []))
    assert "thereafter.language_model" not in reach.by_test["tests/series/test_any_table.py"]
    names = sorted(modules())
    stale = {name: digest(modules()[name]) for name in names} | {"thereafter.serving.shelf": "another"}
    row = {"tests/series/test_any_table.py": [as_bits([names.index("thereafter.serving.shelf")]), ""]}
    widened = Reach({"modules": stale, "files": [], "tests": row})
    assert "thereafter.api" in widened.by_test["tests/series/test_any_table.py"]


def test_the_recorded_map_names_modules_and_files_that_it_has():
    written = json.loads(MAP.read_text(encoding="utf-8"))
    Reach(written)  # an index beyond the names fails
    assert len(written["modules"]) >= len(modules()) * 0.8, "record it again: python tests/reach record"


@pytest.mark.wide
def test_a_new_module_reaches_the_tests_of_what_is_gone_from_its_room():
    names = sorted(modules().keys() - {"thereafter.series.table"} | {"thereafter.series.moved"})
    rows = {name: ["", ""] for name in all_test_files()}
    rows["tests/series/test_any_table.py"] = [as_bits([names.index("thereafter.series.moved")]), ""]
    rows["tests/cells/test_cells.py"] = [as_bits([names.index("thereafter.cells.lstm")]), ""]
    digests = {name: digest(modules()[name]) if name in modules() else "gone" for name in names}
    chosen, everything = Reach({"modules": digests, "files": [], "tests": rows}).selected(
        ["src/thereafter/series/table.py"]
    )
    assert not everything
    assert "tests/series/test_any_table.py" in chosen
    assert "tests/cells/test_cells.py" not in chosen


def test_every_function_notes_its_name():
    tree = ast.parse(
        'def outer():\n    "a docstring"\n    def inner():\n        return 1\n    return inner()\n'
        "class Box:\n    @property\n    def size(self):\n        return 2\n"
    )
    recording._insert(tree, "m", ())
    names: set[str] = set()
    space = {recording.HIT: names.add}
    exec(compile(ast.fix_missing_locations(tree), "m", "exec"), space)  # noqa: S102  (the text above)
    assert (space["outer"](), space["Box"]().size, space["outer"].__doc__) == (1, 2, "a docstring")
    assert names == {"m:outer", "m:outer.inner", "m:Box.size"}


def test_the_faults_stand_where_they_are_to_be_seeded():
    from faults import FAULTS

    package = ROOT / "src" / "thereafter"
    texts = {fault: (package / fault.file).read_text(encoding="utf-8") for fault in FAULTS}
    assert not [fault.name for fault, text in texts.items() if text.count(fault.before) != 1]
