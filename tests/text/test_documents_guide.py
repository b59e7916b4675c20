"""What docs/documents.md shows is what comes out, and it names every format that is read."""

from __future__ import annotations

import doctest
from pathlib import Path

from thereafter.text.documents.recognising import ENDINGS
from thereafter.text.tokenizers import TOKENIZERS

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "documents.md"


def test_the_example_runs() -> None:
    results = doctest.testfile(str(GUIDE), module_relative=False)
    assert results.attempted >= 6
    assert results.failed == 0


def test_every_format_is_named() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    assert all(f"`{ending}`" in text for ending in ENDINGS)
    assert all(f"`{name}`" in text or f":{name}" in text for name in TOKENIZERS if name not in ("word", "byte"))
