"""The guide to video does what it says, on small clips; its options and recipes are there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from thereafter.vision.clips.labels import ClipClassifierSettings
from thereafter.vision.clips.next_frames import FramePredictorSettings

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "video.md").read_text(encoding="utf-8")


def test_the_python_of_the_video_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL):
        exec(compile(block, "docs/video.md", "exec"), names)  # noqa: S102, our own page
    with np.load(tmp_path / "next.npz") as arrays:
        assert arrays["frames"].shape == (1, 5, 40, 40)


def test_the_video_guide_names_what_there_is() -> None:
    for recipe in re.findall(r"recipes/[\w-]+\.toml", GUIDE):
        assert (ROOT / recipe).exists(), recipe
    for page in re.findall(r"\]\(([\w./-]+)\)", GUIDE):
        assert (ROOT / "docs" / page).exists(), page
    tables = re.findall(r"\| option \| meaning \|\n\|---\|---\|\n((?:\|.*\n)+)", GUIDE)
    for table, settings in zip(tables, (ClipClassifierSettings, FramePredictorSettings), strict=True):
        cells = [line.split("|")[1] for line in table.splitlines()]
        assert {name for cell in cells for name in re.findall(r"`(\w+)`", cell)} == set(vars(settings()))
