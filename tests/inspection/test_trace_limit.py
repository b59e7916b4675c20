"""A trace never leaves out tokens without saying so."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import thereafter
from thereafter.cli import app
from thereafter.inspection import trace as traces
from thereafter.inspection.trace import Trace
from thereafter.studio.panels.stepping import trace as trace_verb

TEXT = "the cat sat on the mat\n" * 6


@pytest.fixture(scope="module")
def lm() -> thereafter.LanguageModel:
    return thereafter.train(text=TEXT, tokens="word", order=2)


def test_a_trace_that_was_cut_says_so(lm: thereafter.LanguageModel, tmp_path: Path):
    cut = lm.trace(TEXT, limit=10)
    assert len(cut.tokens) == 10
    assert cut.about["cut"].startswith("only the first 10 of 42 tokens were recorded")
    assert Trace.load(cut.save(tmp_path / "cut.npz")).about["cut"] == cut.about["cut"]
    assert "cut" not in lm.trace(TEXT, limit=42).about
    assert trace_verb(lm, TEXT, limit=10, top=1).cut == cut.about["cut"]
    assert trace_verb(lm, TEXT, limit=100, top=1).cut == ""


def test_without_a_limit_it_is_a_warning(lm: thereafter.LanguageModel, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("thereafter.language_model.LIMIT", 10)
    with pytest.warns(UserWarning, match="only the first 10 of 42"):
        lm.trace(TEXT)
    assert traces.LIMIT == 2000


def test_the_command_line_says_it_loudly(lm: thereafter.LanguageModel, tmp_path: Path):
    run = lm.save(tmp_path / "run")
    out = tmp_path / "trace.npz"
    result = CliRunner().invoke(app, ["inspect", "trace", str(run), TEXT, "--limit", "10", "--out", str(out)])
    assert "caution: only the first 10 of 42 tokens" in result.output
