"""What `thereafter train` says, it says once to whoever looks at one terminal."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from thereafter.cli import main

TEXT = "the cat sat on the mat\n" * 40


@pytest.mark.parametrize("on_a_terminal", [True, False])
def test_notes_that_stand_on_the_terminal_are_not_repeated(
    on_a_terminal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    book = tmp_path / "book.txt"
    book.write_text(TEXT)
    monkeypatch.setenv("NO_COLOR", "1")
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: on_a_terminal)
    monkeypatch.setattr(sys, "argv", ["thereafter", "train", str(book), "--order", "2", "--out", str(tmp_path / "run")])
    with pytest.raises(SystemExit):
        main()
    out, err = capsys.readouterr()
    assert err.count("form: ") == 1
    assert out.count("form: ") == (0 if on_a_terminal else 1)
    assert "order 1: too few" in out  # the training itself found out
