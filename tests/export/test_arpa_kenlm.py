"""ARPA files as `export` writes them, read by KenLM: every sentence has the probability that the model gives it."""

from __future__ import annotations

import json
import math
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import thereafter

ROOT = Path(__file__).parents[2]
LEARNED = "the cat sat on the mat\na dog ran after the cat\nand then it rained for days and days\nthe dog sat\n" * 5
ASKED = "the dog ran after the cat\nit rained on the mat\na zebra sat\ndays\n"


def ask_kenlm(arpa: Path, text: Path) -> list[float]:
    """log10 p of every line by KenLM, in the oracles' own environment."""
    named = os.environ.get("THEREAFTER_ORACLES")
    python = Path(named) if named else ROOT / ".oracles" / "bin" / "python"
    if not python.exists() or subprocess.run([python, "-c", "import kenlm"], capture_output=True).returncode:
        pytest.skip("SKIPPED LOUDLY: the oracle kenlm is not installed; run `make oracles`")
    script = ROOT / "tests" / "oracles" / "kenlm_scores.py"
    done = subprocess.run([python, script, arpa, text], capture_output=True, check=True, text=True)
    scores: list[float] = json.loads(done.stdout)
    return scores


@pytest.mark.oracle
@pytest.mark.parametrize("order", [2, 4])
def test_kenlm_reads_an_exported_arpa_file_as_the_model_means_it(order: int, tmp_path: Path) -> None:
    lm = thereafter.train(text=LEARNED, model="ngram", tokens="word", order=order, smoothing="kneser-ney")
    exported = lm.export(tmp_path / "m.arpa", "arpa")
    assert exported.program == "our reader of ARPA files"
    (tmp_path / "asked.txt").write_text(ASKED)
    theirs = ask_kenlm(exported.path, tmp_path / "asked.txt")
    ids = lm.encode(ASKED)
    logp_1T, _ = lm.model.log_probs(ids.reshape(1, -1), lm.model.start(1))
    ends = np.flatnonzero(ids == lm.tokenizer.line_end_id)
    ours = np.add.reduceat(logp_1T[0].astype(float), [0, *(ends[:-1] + 1)]) / math.log(10)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-4)
