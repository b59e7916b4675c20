"""Penn Treebank, and its stand-in, against KenLM: the same model, sentence by sentence, from three readers."""

from __future__ import annotations

import json
import math
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import thereafter
from breadth import core

ROOT = Path(__file__).resolve().parents[2]


def oracle_python() -> Path | None:
    named = os.environ.get("THEREAFTER_ORACLES")
    python = Path(named) if named else ROOT / ".oracles" / "bin" / "python"
    return python if python.exists() else None


@pytest.fixture(scope="module")
def ptb5(corpora_on_disk: Path, tmp_path_factory: pytest.TempPathFactory):
    lm = thereafter.train(corpora_on_disk / "ptb" / "ptb.train.txt", tokens="word", order=5)
    arpa = lm.to_arpa(tmp_path_factory.mktemp("arpa") / "ptb.arpa")
    return lm, arpa, corpora_on_disk / "ptb" / "ptb.test.txt"


def log10_by_line(lm: thereafter.LanguageModel, path: Path) -> np.ndarray:
    ids = lm.tokenizer.encode(path.read_text())
    logp, _ = lm.model.log_probs(ids.reshape(1, -1), lm.model.start(1))
    ends = np.flatnonzero(ids == lm.tokenizer.line_end_id)
    return np.add.reduceat(logp[0].astype(float), np.concatenate([[0], ends[:-1] + 1])) / math.log(10)


@pytest.mark.oracle
def test_every_sentence_has_kenlms_probability(ptb5):
    python = oracle_python()
    if python is None:
        pytest.skip("SKIPPED LOUDLY: the oracle kenlm is not installed; run `make oracles`")
    lm, arpa, text = ptb5
    script = ROOT / "tests" / "oracles" / "kenlm_scores.py"
    done = subprocess.run([python, script, arpa, text], capture_output=True, check=True, text=True)
    kenlm = np.array(json.loads(done.stdout))
    assert len(kenlm) == len(text.read_text().splitlines())
    np.testing.assert_allclose(log10_by_line(lm, text), kenlm, rtol=0, atol=1e-4)


@pytest.mark.parametrize("corpora_on_disk", core(["stand-in", "classic"], ["stand-in"]), indirect=True)
def test_every_sentence_survives_the_arpa_file(ptb5):
    lm, arpa, text = ptb5
    again = thereafter.load(arpa)
    np.testing.assert_allclose(log10_by_line(again, text), log10_by_line(lm, text), rtol=0, atol=1e-4)


THREE, FOUR = (pytest.param(*case, marks=pytest.mark.wide) for case in ((3, 148.28150), (4, 142.71561)))


@pytest.mark.corpus("ptb: the perplexities of orders 2 to 5, tokens, bytes, bits per byte")
@pytest.mark.parametrize(("order", "perplexity"), [(2, 185.70489), THREE, FOUR, (5, 141.18621)])
def test_perplexities_of_the_reference_table(data: Path, order: int, perplexity: float):
    lm = thereafter.train("ptb", tokens="word", order=order)
    score = lm.score("ptb")
    assert score.perplexity == pytest.approx(perplexity, abs=0.01)
    assert (score.tokens, score.lines, score.bytes, score.unknown) == (82_430, 3_761, 442_423, 4_794)
    if order == 5:
        assert score.bits_per_byte == pytest.approx(1.3306, abs=5e-5)
        assert lm.log[0]["ngrams"] == [10_000, 264_990, 586_558, 717_733, 737_952]
