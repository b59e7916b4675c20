"""The guide to tasks does what it says: its Python blocks run in order, and so does the example it names."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.wide
def test_the_blocks_of_the_guide_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    pytest.importorskip("plotly")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/tasks.md", "exec"), names)  # noqa: S102, our own page
    shown = capsys.readouterr().out
    assert "5 4 3 2 1 5 4 3 2 1" in shown
    assert "dull" in shown
    for page in ("looked.html", "confusion.html"):
        assert "plotly" in (tmp_path / page).read_text(encoding="utf-8")


@pytest.mark.wide
def test_summaries_answers_and_replies_are_learned(capsys: pytest.CaptureFixture[str]):
    exact = runpy.run_path(str(ROOT / "examples" / "pairs.py"))["main"]()
    assert exact.keys() == {"summary", "answer", "reply"}
    assert min(exact.values()) >= 0.8, capsys.readouterr().out
