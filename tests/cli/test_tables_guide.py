"""The guide to tables does what it says: its Python blocks run in order, and so do the commands it shows."""

from __future__ import annotations

import csv
import re
import shlex
import sys
from pathlib import Path

import pytest

from thereafter.cli import app, main

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "tables.md").read_text(encoding="utf-8")


@pytest.mark.wide
def test_the_blocks_and_the_commands_of_the_guide_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    pytest.importorskip("plotly")
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL):
        exec(compile(block, "docs/tables.md", "exec"), names)  # noqa: S102, our own page
    shown = capsys.readouterr().out
    assert "mean norm of d loss / d state" in shown
    assert "False" not in shown.split()
    with (tmp_path / "models.csv").open(encoding="utf-8") as file:
        assert [row["model"] for row in csv.DictReader(file)] == ["unigram", "ngram-2"]
    (block,) = re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL)
    for line in block.splitlines():
        monkeypatch.setattr(sys, "argv", shlex.split(line.partition(" > ")[0]))
        with pytest.raises(SystemExit) as stop:
            main()
        printed = capsys.readouterr()
        assert not stop.value.code, (line, printed.err)
        assert printed.out or "--out" in line
    assert (tmp_path / "norm.csv").read_text(encoding="utf-8").startswith("layer,distance,field,")


def test_the_guide_names_every_command_that_prints_a_table():
    import typer
    from typer.core import TyperGroup

    def paths(command: object, path: tuple[str, ...]) -> list[tuple[str, ...]]:
        if isinstance(command, TyperGroup):
            context = typer.Context(command)
            inner = {name: command.get_command(context, name) for name in command.list_commands(context)}
            return [one for name, command in inner.items() for one in paths(command, (*path, name))]
        return [path]

    section = GUIDE.partition("## From Python")[0]
    silent = {"arpa", "gallery", "generate", "lm-eval", "serve", "studio", "train", "get", "path"}
    last = {path[-1] for path in paths(typer.main.get_command(app), ())} - silent
    assert not {name for name in last if not re.search(rf"\b{name}\b", section)}
