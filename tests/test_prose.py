"""The worst forms of docs/style.md stand nowhere in the docs."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UNITS = "row|word|sentence|line|file|series|step|column|picture|clip|pair|model|token|point|network|unit"
WORST = re.compile(
    rf"\ba ({UNITS}) a ({UNITS})\b|\bso many (of|steps|pairs|rows|sentences|words)\b|\bwhoever\b"
    r"|\bis held at\b|\bplayed from\b|\bbegun kernel by kernel\b",
    re.IGNORECASE,
)


def test_the_worst_forms_stand_nowhere():
    pages = [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")]
    assert len(pages) > 30
    offenders = [
        f"{page.name}:{number}: {line.strip()}"
        for page in pages
        if page.name != "style.md"  # shows what to avoid
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        if WORST.search(line)
    ]
    assert not offenders, "docs/style.md says what to write instead:\n" + "\n".join(offenders)
