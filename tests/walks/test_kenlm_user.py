"""The errand of a user of KenLM, walked from the shell with the commands of docs/export.md: an n-gram, its ARPA file,
and scores that are those of the file and of KenLM."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import thereafter
from thereafter.cli import app

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")
TEST = ["the cat sat on the mat", "the dog saw the cat", "a mat sat on a zebra", "log"]


def corpus() -> str:
    draw = random.Random(3)
    nouns, verbs = ["cat", "dog", "mat", "log", "bird"], ["sat on", "saw", "ran to"]
    lines = [f"{draw.choice(['the', 'a'])} {draw.choice(nouns)} {draw.choice(verbs)} the {draw.choice(nouns)}"
             for _ in range(400)]  # fmt: skip
    return "\n".join([*lines, "once an owl was here"]) + "\n"


def log10_of_lines(arpa: str, lines: list[str]) -> list[float]:
    """The log10 probability of each line by the entries of an ARPA file: the rule of Katz, written for nothing else."""
    logp: dict[tuple[str, ...], float] = {}
    backoff: dict[tuple[str, ...], float] = {}
    for line in arpa.splitlines():
        parts = line.split("\t")
        if len(parts) >= 2:
            gram = tuple(parts[1].split())
            logp[gram], backoff[gram] = float(parts[0]), float(parts[2]) if len(parts) == 3 else 0.0

    def probability(context: tuple[str, ...], word: str) -> float:
        if (*context, word) in logp:
            return logp[(*context, word)]
        return backoff.get(context, 0.0) + probability(context[1:], word)

    totals = []
    for line in lines:
        words = [word if (word,) in logp else "<unk>" for word in line.split()]
        whole = ["<s>", *words, "</s>"]
        totals.append(sum(probability(tuple(whole[max(0, t - 2) : t]), whole[t]) for t in range(1, len(whole))))
    return totals


def test_an_n_gram_its_file_and_its_scores(tmp_path: Path) -> None:
    shell = shutil.which("bash")
    if shell is None:
        pytest.skip("SKIPPED LOUDLY: no bash, so the commands of the guide were not walked")
    block = re.search(r"## ARPA, and KenLM\n\n```sh\n(.*?)```", GUIDE, re.DOTALL)
    assert block is not None
    (tmp_path / "corpus.txt").write_text(corpus(), encoding="utf-8")
    (tmp_path / "test.txt").write_text("\n".join(TEST) + "\n", encoding="utf-8")
    walk = f'thereafter() {{ echo "@@ $1"; "{sys.executable}" -m thereafter "$@"; }}\nset -e\n{block[1]}'
    walked = subprocess.run([shell, "-c", walk], cwd=tmp_path, capture_output=True, text=True, env=os.environ)
    assert walked.returncode == 0, walked.stderr
    printed = dict(re.findall(r"@@ (\w+)\n(.*?)(?=@@ |\Z)", walked.stdout, re.DOTALL))
    assert "n-grams" in printed["train"]
    rows = list(csv.DictReader(io.StringIO(printed["score"])))
    bits = [float(row["bits"]) for row in rows]
    ranked = [(float(line.split()[0]), line.split(maxsplit=1)[1]) for line in printed["rank"].splitlines()]
    arpa = (tmp_path / "lm.arpa").read_text(encoding="utf-8")

    by_file = log10_of_lines(arpa, TEST)
    assert bits == pytest.approx([-total * math.log2(10) for total in by_file], abs=2e-3)
    assert rows[2]["unknown"] == "1"
    by_file = [total * math.log(10) for total in log10_of_lines(arpa, [line for _, line in ranked])]
    assert [total for total, _ in ranked] == pytest.approx(by_file, abs=2e-3)
    assert ranked[0][1] == "the cat sat on the mat"
    assert len(printed["next"].splitlines()) == 3

    python = Path(os.environ.get("THEREAFTER_ORACLES", ROOT / ".oracles" / "bin" / "python"))
    if not python.exists():
        pytest.skip("SKIPPED LOUDLY: walked, but kenlm is not installed to read the file; run `make oracles`")
    script = ROOT / "tests" / "oracles" / "kenlm_scores.py"
    read = subprocess.run(
        [python, script, "lm.arpa", "test.txt"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert bits == pytest.approx([-total * math.log2(10) for total in json.loads(read.stdout)], abs=2e-3)


def test_a_file_that_kenlm_refuses_says_so(tmp_path: Path) -> None:
    lm = thereafter.train(text=corpus(), tokens="prose", order=2)
    words = ["arpa", str(lm.save(tmp_path / "run")), str(tmp_path / "lm.arpa")]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0
    assert "KenLM does not read this file; train with --tokens word" in done.stderr
