"""Mistakes on the command line are one sentence; what is printed as JSON is JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import thereafter
from thereafter.cli import main


@pytest.mark.parametrize("words", [["generate", "RUN", "--seed", "-1"], ["score", "a" * 5000, "x"], ["next", "a\0b"]])
def test_more_mistakes_are_one_sentence(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    run = str(thereafter.train(text="a b a b").save(tmp_path / "run"))
    monkeypatch.setattr(sys, "argv", ["thereafter", *(run if word == "RUN" else word for word in words)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_json_is_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    run = str(thereafter.train(text="a b\n" * 3, tokens="word", smoothing="mle", order=2).save(tmp_path / "run"))
    monkeypatch.setattr(sys, "argv", ["thereafter", "score", run, "--text", "b a", "--json"])
    with pytest.raises(SystemExit):
        main()
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail)["perplexity"] is None
