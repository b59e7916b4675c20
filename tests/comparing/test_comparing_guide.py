"""The page about comparisons: its Python runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "comparing.md"


@pytest.mark.wide
def test_the_guide_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(block, "docs/comparing.md", "exec"), {})  # noqa: S102, our own page
    assert (tmp_path / "models.csv").read_text().startswith("model,tokens,seeds,bits_per_byte")
