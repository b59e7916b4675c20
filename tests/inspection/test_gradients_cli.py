"""`thereafter inspect gradients` in words: what was measured, at which distance, and nothing beyond it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import thereafter
from thereafter.cli import main
from thereafter.inspection.gradients import VERDICTS
from thereafter.inspection.measurement import Measurement
from thereafter.text.agreement import sentences


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    text = "\n".join(one.text for one in sentences(1500, max_distance=5)) + "\n"
    for kind in ("rnn", "lstm"):
        options = {"hidden": 8, "layers": 1, "tied": False, "tokens_budget": 2000, "seed": 0}
        thereafter.train(text=text, model=kind, tokens="word", out=folder / kind, **options)
    return folder


def asked(*arguments: str | Path) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["thereafter", "inspect", "gradients", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
    return int(ended.value.code or 0)


def test_at_the_verb(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "flow.npz"
    assert asked(runs / "lstm", "--at", "verb", "--distance", "5", "--rows", "20", "--out", out) == 0
    output = capsys.readouterr().out
    lines = output.splitlines()
    assert lines[0].startswith(
        "gradient of the loss at the verb back to its subject, 5 words between; 20 new sentences"
    )
    rows = {line.split()[2]: line.split() for line in lines[2:] if " l0 " in line}
    assert set(rows) == {"h", "c", "gates", "direct"}
    flow = Measurement.load(out)
    c_D = flow["norm"][1, :, flow["field"].tolist().index("c")]
    shown = [1, 2, 3, 5]
    assert lines[1].split()[-5:-1] == [*map(str, shown)]
    assert float(rows["c"][3]) == pytest.approx(c_D[1], rel=0.05)  # the absolute norm
    gates_D = flow["gates"][1]
    assert [float(cell) for cell in rows["c"][4:8]] == pytest.approx([100 * c_D[d] / c_D[1] for d in shown], rel=0.01)
    assert [float(cell) for cell in rows["gates"][3:7]] == pytest.approx([100 * gates_D[d] for d in shown], rel=0.01)
    assert "is right at" in output


def test_words_are_those_of_measured_distances(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "the small dogs near the old house are here"
    for options in (["--distance", "6", "--text", text], ["--at", "verb", "--distance", "6", "--rows", "10"]):
        assert asked(runs / "rnn", runs / "lstm", *options) == 0
        output = capsys.readouterr().out
        told = re.findall(rf"({'|'.join(VERDICTS)}), (.*)", output)
        assert len(told) == 5  # words and h of one, words, h and c of the other
        assert all("at 6 steps" in measured for _, measured in told)
        assert "about" not in output
        assert "extrapolated" not in output


def test_options_that_do_not_go_together(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options, words in (
        (["--at", "verb", "--ends", "3"], "a sentence has one verb"),
        (["--at", "verb", "--text", "the cat sat"], "measured on new sentences of agreement"),
        (["--at", "verb", "--distance", "99"], "expected 2 to 40"),
    ):
        assert asked(runs / "rnn", *options) == 2
        assert words in " ".join(capsys.readouterr().err.split())
