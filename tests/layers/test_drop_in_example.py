"""The example that replaces torch.nn.LSTM in a program, run as it stands."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "drop_in.py"


def test_a_torch_program_with_one_line_changed(capsys: pytest.CaptureFixture[str]):
    differences = runpy.run_path(str(EXAMPLE))["main"]()
    assert len(differences) == 20  # the loss, the embedding, 16 of the LSTM, 2 of the head
    assert max(differences.values()) < 1e-10
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split()[-1] == shown[1].split()[-1]
