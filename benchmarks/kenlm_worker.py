"""The kenlm package, timed in a process and an environment of its own; `benchmarks/ngram.py` talks to it.

    python kenlm_worker.py MODEL.arpa SENTENCES.txt

It loads the model in every way the package offers, keeps the fastest one, and says so in one line of JSON. Then each
line `go` on its input scores all sentences once and answers with the seconds, as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import kenlm

LOAD_METHODS = ("LAZY", "POPULATE_OR_LAZY", "POPULATE_OR_READ", "READ", "PARALLEL_READ")
TRIALS = 5


def loaded(arpa: str, method: str) -> Any:
    config = kenlm.Config()
    config.load_method = getattr(kenlm.LoadMethod, method)
    config.show_progress = False
    return kenlm.Model(arpa, config)


def seconds(model: Any, sentences: list[Any]) -> tuple[float, float]:
    """Score every sentence once, with `<s>` before and `</s>` after it: (seconds, sum of log10 p)."""
    score = model.score
    total = 0.0
    began = time.perf_counter()
    for sentence in sentences:
        total += score(sentence)
    return time.perf_counter() - began, total


def main() -> None:
    arpa, file = sys.argv[1:]
    as_text = Path(file).read_text(encoding="utf-8").splitlines()
    # The package takes bytes as well, which spares it encoding each sentence.
    forms: dict[str, list[Any]] = {"str": as_text, "bytes": [line.encode("utf-8") for line in as_text]}
    settings: dict[str, float] = {}
    best: tuple[float, Any, list[Any]] | None = None
    for method in LOAD_METHODS:
        model = loaded(arpa, method)
        for form, sentences in forms.items():
            took = median(seconds(model, sentences)[0] for _ in range(TRIALS))
            settings[f"{method}, {form}"] = took
            if best is None or took < best[0]:
                best = took, model, sentences
        del model
    if best is None:
        raise SystemExit("no setting of kenlm could be timed")
    _, model, sentences = best
    log10 = seconds(model, sentences)[1]
    tokens = sum(len(line.split()) + 1 for line in as_text)
    print(json.dumps({"settings": settings, "log10": log10, "tokens": tokens, "order": model.order}), flush=True)
    for line in sys.stdin:
        if line.strip() == "go":
            print(json.dumps(seconds(model, sentences)[0]), flush=True)


if __name__ == "__main__":
    main()
