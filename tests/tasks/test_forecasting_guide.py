"""The guide to forecasting does what it says: its Python blocks run in order, and then the commands it shows."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from thereafter.cli import main

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "forecasting.md").read_text(encoding="utf-8")


@pytest.mark.wide
def test_the_blocks_and_the_commands_of_the_guide_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    pytest.importorskip("plotly")
    pytest.importorskip("statsmodels")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL):
        exec(compile(block, "docs/forecasting.md", "exec"), names)  # noqa: S102, our own page
    shown = capsys.readouterr().out
    assert "in standard deviations of the training part" in shown
    assert "gru loses to " in shown
    for line in "".join(re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL)).splitlines():
        monkeypatch.setattr(sys, "argv", shlex.split(line))
        with pytest.raises(SystemExit) as stop:
            main()
        printed = capsys.readouterr()
        assert not stop.value.code, (line, printed.err)
        assert printed.out or "--out" in line
    for name in ("forecast.csv", "backtest.csv", "points.csv", "fan.html", "points.html", "models.csv"):
        assert (tmp_path / name).stat().st_size > 100
