"""How the page's own sources are written, beyond what biome checks."""

from __future__ import annotations

import re
from pathlib import Path

from thereafter.studio.app import PAGE

WIDEST = 120
LONGEST = 400
VAGUE = re.compile(r"\b(?:const|let|function) (?:found|held|said|told)\b|[({] ?(?:found|held|said|told)(?: ?[,)}]| =>)")


def sources() -> dict[str, list[str]]:
    paths = [path for path in PAGE.rglob("*.*") if path.suffix in (".js", ".css", ".html")]
    paths.append(Path(__file__).parent / "look.js")
    return {f"{path.parent.name}/{path.name}": path.read_text(encoding="utf-8").splitlines() for path in paths}


def test_no_line_of_the_page_is_wider_than_one_of_python():
    """A formatter does not break strings, comments and the styles that a panel brings: these are broken by hand."""
    wide = [
        f"{name}:{number}: {len(line)} characters"
        for name, lines in sources().items()
        for number, line in enumerate(lines, 1)
        if len(line) > WIDEST
    ]
    assert not wide


def test_no_file_of_the_page_is_longer_than_one_of_python():
    assert not {name: len(lines) for name, lines in sources().items() if len(lines) > LONGEST}


def test_values_of_the_page_are_named_for_what_they_hold():
    assert VAGUE.search("const found = []")
    assert VAGUE.search("all.map((said) => said)")
    vague = [f"{name}: {line}" for name, lines in sources().items() for line in lines if VAGUE.search(line)]
    assert not vague
