"""The guide to captions does what it says, on pictures of a few pixels; its recipes and options are there."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from toy_captions import SAVED, captioned

import thereafter
from thereafter.vision.captioning.network import SEES, CaptionerSettings

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "captions.md").read_text(encoding="utf-8")


def test_the_python_of_the_captions_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("plotly")
    monkeypatch.chdir(tmp_path)
    captions = captioned(tmp_path / "captions.tsv", 16)
    options: Any = {"embed": 4, "hidden": 8, "width": 4, "stages": 2, "min_count": 1, "flip": False, "epochs": 1}
    thereafter.train(captions, task="caption", out="runs/captions", **options)
    shutil.copy(SAVED / "blue-top.png", "photo.jpg")  # its ending says nothing
    (block,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(block.replace('"flickr8k"', repr(str(captions))), "docs/captions.md", "exec"), names)  # noqa: S102
    assert names["one"].caption == names["model"].predict("photo.jpg")
    assert "plotly" in Path("where.html").read_text(encoding="utf-8")


def test_the_captions_guide_names_what_there_is() -> None:
    for recipe in re.findall(r"recipes/[\w-]+\.toml", GUIDE):
        assert (ROOT / recipe).exists(), recipe
    for page in re.findall(r"\]\(([\w./-]+)\)", GUIDE):
        assert (ROOT / "docs" / page).exists(), page
    assert tuple(re.findall(r"^\| `(\w+)` \|", GUIDE, re.M)) == ("see", *SEES)
    named = {"flip", "shift", "zoom", "colour", "erase", "drop_picture", "bag", "min_count", "stages", "blocks", "norm"}
    assert named <= set(vars(CaptionerSettings()))
    assert all(f"`{name}`" in GUIDE for name in named)
