"""How the page's own sources are written, beyond what biome checks."""

from __future__ import annotations

from pathlib import Path

from thereafter.studio.app import PAGE

WIDEST = 120


def test_no_line_of_the_page_is_wider_than_one_of_python():
    """A formatter does not break strings, comments and the styles that a panel brings: these are broken by hand."""
    sources = [path for path in PAGE.rglob("*.*") if path.suffix in (".js", ".css", ".html")]
    sources.append(Path(__file__).parent / "look.js")
    assert len(sources) > 30
    wide = [
        f"{path.name}:{number}: {len(line)} characters"
        for path in sources
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > WIDEST
    ]
    assert not wide
