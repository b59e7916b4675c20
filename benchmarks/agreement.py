"""Why a recurrent network learns agreement or does not: one cause at a time switched on and off, over several seeds.

    python benchmarks/agreement.py causes --seeds 5 --processes 12 --out causes.jsonl     # the tables of docs/claims.md
    python benchmarks/agreement.py defaults --seeds 5                                      # what stands in the package

Every row trains on the same sentences: `agreement` with up to 10 words between subject and verb, 40,000 to train on,
1.2 million tokens. Figures are the share of right verbs at 6 to 10 words between, in %: on the validation sentences, by
which a setting may be chosen, and on the test sentences. One process and one thread a training.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SIZES = {"train": 40_000, "valid": 1_000, "test": 4_000}
LONGEST = 10
"""Words between subject and verb, at most."""
FAR = (6, 10)
BUDGET = 1_200_000
SMALL: dict[str, Any] = {"hidden": 128, "layers": 1, "dropout": 0.0, "batch": 16, "rate": 0.01, "tied": False}
LINES: dict[str, Any] = {"batching": "lines"}
STREAM: dict[str, Any] = {"batching": "stream"}


@dataclass(frozen=True)
class Variant:
    """A training: options as `thereafter.train` takes them, and what is done to fresh weights beyond the options."""

    name: str
    kind: str = "lstm"
    options: dict[str, Any] = field(default_factory=dict)
    weights: tuple[str, ...] = ()


def _small(name: str, kind: str = "lstm", *, weights: tuple[str, ...] = (), **options: Any) -> Variant:
    return Variant(name, kind, SMALL | options, weights)


CAUSES = (
    _small("LSTM, state carried", **STREAM),
    _small("LSTM, line by line", **LINES),
    _small("carried, rate 0.005", **STREAM, rate=0.005),
    _small("carried, rate 0.02", **STREAM, rate=0.02),
    _small("carried, batch 8", **STREAM, batch=8),
    _small("carried, 17 steps", **STREAM, steps=17),
    _small("carried, 70 steps", **STREAM, steps=70),
    _small("pieces of 35, fresh state", batching="partition"),
    _small("carried, clip 0.25", **STREAM, clip=0.25),
    _small("carried, clip 5", **STREAM, clip=5.0),
    _small("carried, beta2 0.98", **STREAM, betas=(0.9, 0.98)),
    _small("carried, forget bias 2", **STREAM, forget_bias=2.0),
    _small("carried, forget bias 3", **STREAM, forget_bias=3.0),
    _small("carried, chrono bias", **STREAM, weights=("chrono",)),
    _small("carried, orthogonal U", **STREAM, weights=("orthogonal",)),
    _small("carried, orthogonal U, forget bias 2", **STREAM, forget_bias=2.0, weights=("orthogonal",)),
    _small("carried, W by Glorot", **STREAM, weights=("glorot",)),
    _small("carried, word vectors within 0.5", **STREAM, init=0.5),
    _small("carried, no weight decay", **STREAM, weight_decay=0.0),
    _small("carried, coupled gates", **STREAM, coupled=True),
    _small("carried, layer norm", **STREAM, layer_norm=True),
    _small("line by line, rate 0.003", **LINES, rate=0.003),
    _small("line by line, rate 0.005", **LINES, rate=0.005),
    _small("line by line, rate 0.02", **LINES, rate=0.02),
    _small("line by line, forget bias 0", **LINES, forget_bias=0.0),
    _small("line by line, forget bias 2", **LINES, forget_bias=2.0),
    _small("line by line, chrono bias", **LINES, weights=("chrono",)),
    _small("line by line, orthogonal U", **LINES, weights=("orthogonal",)),
    _small("GRU, state carried", "gru", **STREAM),
    _small("GRU, line by line", "gru", **LINES),
    _small("RNN, state carried, rate 0.002", "rnn", **STREAM, rate=0.002),
    _small("RNN, line by line, rate 0.002", "rnn", **LINES, rate=0.002),
    _small("RNN, line by line, rate 0.005", "rnn", **LINES, rate=0.005),
    _small("minGRU, state carried", "mingru", **STREAM),
    _small("minGRU, line by line", "mingru", **LINES),
    Variant("256 units, line by line, rate 0.003", options={**LINES, "rate": 0.003}),
    Variant("256 units, line by line, rate 0.006", options={**LINES, "rate": 0.006}),
    Variant("256 units, line by line, rate 0.01", options={**LINES, "rate": 0.01}),
)
DEFAULTS = tuple(Variant(f"{kind}, defaults", kind) for kind in ("lstm", "gru", "rnn"))
SETS = {"causes": CAUSES, "defaults": DEFAULTS}


def _orthogonal(cell: Any, weights: dict[str, Any]) -> None:
    """Each gate's recurrent matrix a rotation (Saxe, McClelland and Ganguli 2014)."""
    import torch

    for gate in cell.blocks:
        torch.nn.init.orthogonal_(weights["weight_hh"][cell.rows(gate)])


def _glorot(cell: Any, weights: dict[str, Any]) -> None:
    """Each gate's input matrix as Glorot and Bengio 2010 would draw it."""
    import torch

    for gate in cell.blocks:
        torch.nn.init.xavier_uniform_(weights["weight_ih"][cell.rows(gate)])


def _chrono(cell: Any, weights: dict[str, Any]) -> None:
    """Biases for memories of 2 to 20 steps: b_f = log u, b_i = -b_f (Tallec and Ollivier 2018)."""
    import torch

    spread = torch.empty(cell.hidden_size).uniform_(1.0, 19.0).log()
    weights["bias_ih"][cell.rows("forget")], weights["bias_ih"][cell.rows("input")] = spread, -spread
    weights["bias_hh"].zero_()


AFTER: dict[str, Callable[[Any, dict[str, Any]], None]] = {
    "orthogonal": _orthogonal,
    "glorot": _glorot,
    "chrono": _chrono,
}


def _change_fresh_weights(names: tuple[str, ...]) -> None:
    """From here on, in this process alone, cells do these things to their fresh weights."""
    import torch

    from thereafter.cells.base import Cell
    from thereafter.cells.lstm import LSTM

    for kind in (Cell, LSTM):
        plain = kind.initialise

        def initialise(self: Any, weights: dict[str, Any], plain: Any = plain, kind: Any = kind) -> None:
            plain(self, weights)
            if kind is LSTM or not isinstance(self, LSTM):
                with torch.no_grad():
                    for name in names:
                        AFTER[name](self, weights)

        kind.initialise = initialise  # type: ignore[method-assign]


def run(job: tuple[Variant, int, dict[str, Path]]) -> dict[str, Any]:
    """Train one variant with one seed; what came of it."""
    variant, seed, parts = job
    import torch

    import thereafter
    from thereafter.evaluation.agreement import measure_agreement
    from thereafter.text.agreement import read_sentences
    from thereafter.text.sources import Source, Texts

    torch.set_num_threads(1)
    if variant.weights:
        _change_fresh_weights(variant.weights)
    texts = Texts(
        "agreement",
        {name: Source(f"agreement:{name}", (path,)) for name, path in parts.items()},
        tokens="word",
        independent_lines=True,
    )
    began = time.monotonic()
    options = {"tokens_budget": BUDGET, "validate_every": 300, "device": "cpu", **variant.options}
    lm = thereafter.train(texts, model=variant.kind, seed=seed, **options)
    row: dict[str, Any] = {"name": variant.name, "seed": seed, "seconds": round(time.monotonic() - began, 1)}
    row["perplexity"] = round(math.exp(min(line["loss"] for line in lm.log if line["event"] == "validation")), 3)
    for part in ("valid", "test"):
        sentences = list(read_sentences(parts[part].with_suffix(".jsonl")))
        agreement = measure_agreement(lm.model, lm.tokenizer, sentences, context=lm.config["text"]["context"])
        row[part] = round(100 * agreement.between(*FAR).accuracy, 2)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", choices=SETS)
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", default="", help="variants whose name holds this")
    parser.add_argument("--out", type=Path, help="a file that gets a line of JSON for each training")
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"

    from thereafter.text.agreement import write_corpus

    variants = [variant for variant in SETS[given.which] if given.only in variant.name]
    rows: dict[str, list[dict[str, Any]]] = {variant.name: [] for variant in variants}
    with tempfile.TemporaryDirectory(prefix="thereafter-agreement-") as folder:
        parts = write_corpus(Path(folder), sizes=SIZES, max_distance=LONGEST)
        jobs = [
            (variant, seed, parts)
            for seed in range(given.first_seed, given.first_seed + given.seeds)
            for variant in variants
        ]
        with multiprocessing.get_context("spawn").Pool(given.processes, maxtasksperchild=1) as pool:
            for row in pool.imap_unordered(run, jobs):
                rows[row["name"]].append(row)
                if given.out:
                    with given.out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(row) + "\n")
    print(f"{'% right at 6 to 10 words between':<44} valid   test   by seed")
    for variant in variants:
        trials = sorted(rows[variant.name], key=lambda row: row["seed"])
        valid, test = (statistics.mean(row[part] for row in trials) for part in ("valid", "test"))
        seeds = "  ".join(f"{row['test']:.1f}" for row in trials)
        print(f"{variant.name:<44} {valid:5.1f}  {test:5.1f}   {seeds}")


if __name__ == "__main__":
    main()
