"""What weights stored in fewer bytes cost: log p of a text, token by token, under the same model in each form.

    python benchmarks/stored_weights.py RUN TEXT [--tokens 4000] [--json FILE]

RUN is a run folder of a recurrent model, or `ready:lstm`; TEXT a file or a corpus. Every token is predicted by a single
step, matrices of layers and head stored alike. Beside the means stand the largest difference at a token and how often
the likeliest token is another one.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import thereafter
from report import Report, machine
from thereafter.kernels.step.storing import NARROW
from thereafter.language_model import LanguageModel
from thereafter.text.sources import Source
from thereafter.training.finding import find_texts, part_of

_MOST = 10.0  # thousandths of a nat a token


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("run")
    options.add_argument("text")
    options.add_argument("--tokens", type=int, default=4000)
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    print(machine())
    lm = thereafter.load(given.run)
    if not isinstance(lm, LanguageModel):
        sys.exit(f"{given.run} is no language model")
    texts = find_texts(given.text, None, lm.text_settings())
    chosen: Source = part_of(texts, "test")
    ids = lm.tokenizer.encode(chosen.text())[: given.tokens]
    report = Report()
    plain_T, likeliest_T = log_probs(lm, ids, None)
    report.add("nats a token, float32", -float(plain_T.mean()), None, f"{len(ids):,} tokens of {chosen.name}")
    for weights in NARROW:
        logp_T, best_T = log_probs(lm, ids, weights)
        other = f"largest difference {np.abs(logp_T - plain_T).max():.4f}, another likeliest token at "
        other += f"{100 * (best_T != likeliest_T).mean():.2f} %"
        lost = 1000 * float((plain_T - logp_T).mean())
        report.add(f"thousandths of a nat a token lost by {weights}", lost, _MOST, other, at_least=False)
    return report.close(given.json)


def log_probs(
    lm: LanguageModel, ids: NDArray[np.int32], weights: str | None
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """log p of every token, [T], and the likeliest one in its place."""
    model = lm.stored_model(weights)
    state = model.start(1)
    predicted_1V = np.asarray(model.predict(state))
    logp, best = [], []
    for token in ids.tolist():
        logp.append(float(predicted_1V[0, token]))
        best.append(int(predicted_1V[0].argmax()))
        predicted_1V, state = model.step(np.array([token]), state)
    return np.array(logp), np.array(best)


if __name__ == "__main__":
    sys.exit(main())
