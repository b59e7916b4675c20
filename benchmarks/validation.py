"""Validation inside a training beside `score` of the same text, at every validation of that training.

    python benchmarks/validation.py BOOK.txt --model lstm --seed 0 [--tokens prose] [--epochs 3] [--set steps=35]

Trains on the first characters of a book and prints one line of JSON: the largest difference to `score` in per cent of
the perplexity, and the perplexity by `score` of the weights that are kept, under two rules. "before": rows begin in
mid text from a state that has read nothing. "now": `thereafter.training.neural`. One training serves both, since no
rule changes what is learned. Results: docs/comparing.md.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np
import torch

import thereafter
from thereafter.models.neural import NeuralModel
from thereafter.text.encoded import IdArray
from thereafter.training.blocks import Blocks, stream
from thereafter.training.neural import Validation

Figures = list[dict[str, float]]


def rows_from_nothing(model: NeuralModel, ids: IdArray) -> float:
    """The rule before: up to 32 rows of at least 500 tokens, each from a fresh state at its first token."""
    plan = stream(len(ids), min(32, max(1, len(ids) // 500)), 64)
    blocks, state, nats = Blocks(ids, model.vocabulary_size, model.device), None, 0.0
    with model.quietly():
        for k in range(len(plan)):
            block = blocks.cut(plan, k)
            f_BTH, state = model.features(block.inputs_BT, state or model.fresh(len(block.inputs_BT)))
            mask_BT = torch.ones_like(block.targets_BT, dtype=torch.bool) if block.mask_BT is None else block.mask_BT
            nats -= float(model.head.log_prob_of(f_BTH[mask_BT], block.targets_BT[mask_BT]).sum(dtype=torch.float64))
    return nats / len(ids)


def watched() -> Figures:
    """The figures of every validation from now on: by both rules and by reading the text as `score` does."""
    figures: Figures = []
    make, measure = Validation.__init__, Validation.measure

    def remember(self: Validation, ids: IdArray, model: NeuralModel, device: torch.device) -> None:
        make(self, ids, model, device)
        self.ids = np.asarray(ids)  # type: ignore[attr-defined]

    def compare(self: Validation) -> float:
        now = measure(self)
        model, ids, was_training = self.model, self.ids, self.model.training  # type: ignore[attr-defined]
        model.eval()
        logp_1T, _ = model.log_probs(ids[None], model.start(1))
        before = now if model.context == "line" else rows_from_nothing(model, ids)
        figures.append({"now": now, "before": before, "score": -float(np.asarray(logp_1T).mean(dtype=float))})
        model.train(was_training)
        return now

    Validation.__init__, Validation.measure = remember, compare  # type: ignore[method-assign]
    return figures


def summary(figures: Figures) -> dict[str, float]:
    """The largest differences in per cent, and the perplexities of the weights that each rule keeps."""
    line: dict[str, float] = {"validations": len(figures)}
    for rule in ("before", "now"):
        line[f"{rule}_off"] = round(100 * max(abs(math.expm1(f[rule] - f["score"])) for f in figures), 2)
        line[f"{rule}_keeps"] = round(math.exp(min(figures, key=lambda f: f[rule])["score"]), 2)
    return line | {"last": round(math.exp(figures[-1]["score"]), 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("book", type=Path)
    parser.add_argument("--model", default="lstm")
    parser.add_argument("--tokens", default="prose")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=float, default=3.0)
    parser.add_argument("--characters", type=int, default=450_000)
    parser.add_argument("--every", type=int, default=40, help="steps between two validations")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="options of the training")
    given = parser.parse_args()
    text = given.book.read_text(encoding="utf-8")[: given.characters]
    options = dict(pair.split("=", 1) for pair in given.set)
    figures = watched()
    thereafter.train(
        text=text,
        model=given.model,
        tokens=given.tokens,
        seed=given.seed,
        epochs=given.epochs,
        validate_every=given.every,
        **options,
    )
    about = {"book": given.book.stem, "model": given.model, "tokens": given.tokens, "seed": given.seed, **options}
    print(json.dumps(about | summary(figures)), flush=True)


if __name__ == "__main__":
    main()
