"""The table of docs/claims.md: every row has a verdict and names tests that exist; the script prints all of them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEADING = "## The books' claims, one row each"
VERDICTS = ("agrees", "partly", "not here")


def rows() -> list[list[str]]:
    """The cells of each row of the table below the heading."""
    section = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8").split(HEADING)[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert set(cells[1]) == {"---"}
    return cells[2:]


def known_tests() -> set[str]:
    """Names of all test functions of this folder, as file::function."""
    return {
        f"{path.name}::{node.name}"
        for path in Path(__file__).parent.glob("test_*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_every_row_has_a_verdict_figures_and_tests_that_exist() -> None:
    known = known_tests()
    table = rows()
    assert len(table) >= 15
    for claim, shown, verdict, tested in table:
        assert claim
        assert re.search(r"\d", shown), claim
        assert verdict in VERDICTS, claim
        named = re.findall(r"`(test_\w+\.py::test_\w+)`", tested)
        assert named, claim
        assert set(named) <= known, claim


def test_no_claim_is_tested_without_a_row() -> None:
    """A claim that somebody adds a test for belongs in the table too."""
    named = {name for row in rows() for name in re.findall(r"`(test_\w+\.py::test_\w+)`", row[3])}
    assert known_tests() - named <= {f"{Path(__file__).name}::{name}" for name in globals() if name.startswith("test_")}


def test_the_script_prints_every_row() -> None:
    """`--only NAME` of every row is a claim of the script, and each claim of the script has its row."""
    source = (ROOT / "benchmarks" / "claims.py").read_text(encoding="utf-8")
    names = set(re.findall(r'^    "([a-z-]+)": ', source.split("CLAIMS: dict")[1], re.MULTILINE))
    assert names
    assert {name for row in rows() for name in re.findall(r"^\*\*([a-z-]+)\*\*", row[0])} == names
