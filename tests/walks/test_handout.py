"""The teacher's errand, walked from the shell with the commands of docs/export-html.md: a page of one's own text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from walking import DOCS, walk

from thereafter.export.html.target import InBrowser, browser_path, read_page

BOOK = "the old man and the sea\nthe old man fished alone\nthe young boy loved the old man\nthe sea was calm\n" * 60


@pytest.mark.wide
def test_a_teacher_makes_a_page_from_a_book(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text(BOOK, encoding="utf-8")
    walked = walk(DOCS / "export-html.md", 0, tmp_path)
    assert "0." in walked.stdout.partition("saved      runs/book")[2]  # the next words have probabilities
    checked = re.search(r"checked by (.*): (\d+) steps .*, largest difference in log p ([\d.e-]+)", walked.stdout)
    assert checked is not None
    assert int(checked[2]) == 200
    assert float(checked[3]) <= 1e-3
    about, _ = read_page((tmp_path / "handout.html").read_text(encoding="utf-8"))
    assert any(line.startswith(about["prompt"]) for line in BOOK.splitlines())
    assert about["from"] == "the training text, book.txt (train)"
    browser = browser_path()
    if browser is None:
        pytest.skip("SKIPPED LOUDLY: no chromium, so the handout was written but not opened; try: make browser")
    page = InBrowser(tmp_path / "handout.html", browser)
    try:
        shown = page.ask(lambda page: (page.input_value("#text"), page.inner_text("#source")))
        words = page.ask(lambda page: page.locator("#next .word").all_inner_texts())
        page.ask(lambda page: page.fill("#text", "the young bo"))
        completed = page.ask(lambda page: page.locator("#complete .word").all_inner_texts())
    finally:
        page.close()
    assert shown == (about["prompt"], "The opening words come from the training text, book.txt (train).")
    assert len(words) == 12
    assert completed == ["boy"]
