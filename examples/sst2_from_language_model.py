"""Good or bad reviews from a language model: SST-2 with the body of an LSTM that has read wikitext-2 and the reviews.

    python examples/sst2_from_language_model.py [--seeds 5] [--minutes 3.5] [--json FILE] [--runs FOLDER] [--quick]

1. An LSTM learns wikitext-2 with the 6,920 training sentences after it, without labels, in lower case, words between
   spaces. The signs of wikitext-2 for hyphens and points inside words are taken out and its "didn 't" is written
   "did n't", as the reviews are.
2. It goes on with the reviews alone (`start_from`), by rates that fall from layer to layer.
3. Its word vectors and layers get the head of a classifier (`task="classify", start_from=...`), trained in three
   ways: layers unfrozen one after the other at rates that fall by 1 / 2.6 a layer (Howard and Ruder 2018), all layers
   at rates that fall by 0.7 a layer, and all at once at one rate.
4. The control is the same network with fresh weights. Naive Bayes is there too.

The part `dev` chooses the weights of each training, and which of the three ways is the result. A GPU takes about
six minutes. --quick is the same in miniature, in less than two minutes on one core, and its figures mean
nothing. The corpora wikitext-2 and sst2 are found as `thereafter data list` says.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

import thereafter
from thereafter.data.corpora import locate_source
from thereafter.text.labelled import read_labelled
from thereafter.text.sources import TEXT_FILES, resolve

PARTS = ("train", "valid", "test")
LANGUAGE_MODEL: dict[str, Any] = {
    "hidden": 650,
    "layers": 2,
    "dropout": 0.5,
    "dropout_input": 0.5,
    "dropout_hidden": 0.3,
    "dropout_embed": 0.1,
    "weight_drop": 0.5,
    "batch": 40,
    "steps": 70,
    "rate": 0.003,
    "weight_decay": 0.03,
    "clip": 0.5,
    "schedule": "one-cycle",
    "seed": 1,
}
REVIEWS: dict[str, Any] = {
    "batch": 20,
    "steps": 40,
    "epochs": 3.0,
    "rate": 0.0002,
    "layer_decay": 0.7,
    "weight_decay": 0.03,
    "clip": 0.5,
    "schedule": "one-cycle",
    "seed": 1,
}
CLASSIFIER: dict[str, Any] = {
    "pooling": "concat",
    "dropout": 0.5,
    "weight_drop": 0.4,
    "drop_words": 0.1,
    "batch": 64,
    "schedule": "one-cycle",
    "warmup": 0.1,
    "clip": 1.0,
    "weight_decay": 0.05,
    "epochs": 4.0,
}
WAYS: dict[str, dict[str, Any]] = {
    "gradual": {"unfreeze": True, "layer_decay": 1 / 2.6, "rate": 0.004},
    "falling rates": {"layer_decay": 0.7, "rate": 0.003},
    "at once": {"rate": 0.002},
    "fresh weights": {"rate": 0.002},
}
CONTROL = "fresh weights"
AS_IT_IS: dict[str, Any] = {"keep_licence": True, "wrapped": True, "lower": True, "tokens": "word"}
"""The files written here are in their form already."""


@dataclass(frozen=True)
class Trial:
    """A training of the classifier with one seed; accuracies in per cent."""

    way: str
    seed: int
    valid: float
    test: float
    seconds: float


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--minutes", type=float, default=3.5, help="of the first language model")
    options.add_argument("--json", type=Path, help="where the figures go")
    options.add_argument("--runs", type=Path, help="a folder for the runs; else they are thrown away")
    options.add_argument("--quick", action="store_true", help="a miniature whose figures mean nothing")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.runs or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        figures = experiment(folder, 0.1 if given.quick else given.minutes, given.seeds, quick=given.quick)
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0


def experiment(folder: Path, minutes: float, seeds: int, *, quick: bool) -> dict[str, object]:
    """Everything, in the order of the list at the top; returns the figures."""
    began = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {line}", flush=True)

    write_corpora(folder, quick=quick)
    body, perplexities = train_language_model(folder, minutes, quick=quick)
    say("perplexities: " + ", ".join(f"{name} {ppl:.1f}" for name, ppl in perplexities.items()))
    trials: list[Trial] = []
    bayes = {"valid": 0.0, "test": 0.0}
    for way in WAYS:
        for seed in range(1, seeds + 1):
            model, trial = train_classifier(way, seed, folder, body, quick=quick)
            if not trials:
                bayes = {part: naive_bayes(model, folder / f"{part}.tsv") for part in bayes}
                say(f"Naive Bayes: valid {bayes['valid']:.2f} %, test {bayes['test']:.2f} %")
            trials.append(trial)
            say(f"{way}, seed {seed}: valid {trial.valid:.2f} %, test {trial.test:.2f} %, {trial.seconds:.0f} s")
    print(table(trials, bayes), flush=True)
    return {
        "perplexities": perplexities,
        "naive_bayes": bayes,
        "trials": [asdict(trial) for trial in trials],
        "seconds": round(time.monotonic() - began, 1),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "torch": torch.__version__,
        "quick": quick,
    }


def write_corpora(folder: Path, *, quick: bool) -> None:
    """The texts and the examples as files."""
    reviews = locate_source("sst2", TEXT_FILES)
    for part in PARTS:
        rows = [one for path in reviews.parts[part].files for one in read_labelled(path)]
        rows = rows[: 500 if part == "train" else 100] if quick else rows
        write_lines(folder / f"{part}.tsv", (f"{one.text}\t{one.label}" for one in rows))
        write_lines(folder / f"reviews-{part}.txt", (one.text for one in rows))
    wiki = resolve("wikitext-2")
    for part in ("train", "valid"):
        lines = as_in_the_reviews(wiki.parts[part].text()).split("\n")
        own = (folder / "reviews-train.txt").read_text(encoding="utf-8").splitlines() if part == "train" else []
        write_lines(folder / f"wiki-{part}.txt", [*(lines[:150] if quick else lines), *own])


def as_in_the_reviews(text: str) -> str:
    """The writing of wikitext-2 as that of the reviews.

    >>> as_in_the_reviews("a well @-@ known film didn 't cost 1 @,@ 000")
    "a well known film did n't cost 1,000"
    """
    text = text.replace(" @-@ ", " ").replace(" @,@ ", ",").replace(" @.@ ", ".")
    return re.sub(r"(\w)n 't\b", r"\1 n't", text)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def train_language_model(folder: Path, minutes: float, *, quick: bool) -> tuple[Path, dict[str, float]]:
    """The run folder of the second language model, and validation perplexities."""
    sizes = {"hidden": 24, "batch": 20, "steps": 20} if quick else {}
    first = thereafter.train(
        folder / "wiki-train.txt",
        model="lstm",
        valid=folder / "wiki-valid.txt",
        out=folder / "language-model",
        minutes=minutes,
        **LANGUAGE_MODEL | AS_IT_IS | sizes,
    )
    second = thereafter.train(
        folder / "reviews-train.txt",
        valid=folder / "reviews-valid.txt",
        start_from=folder / "language-model",
        out=folder / "language-model-of-reviews",
        **REVIEWS | {"keep_licence": True, "wrapped": True} | ({"epochs": 1.0} if quick else {}),
    )
    before = next(line["perplexity"] for line in second.log if line["event"] == "validation")
    perplexities = {
        "wikitext-2": float(first.log[-1]["validation_perplexity"]),
        "reviews before": float(before),
        "reviews": float(second.log[-1]["validation_perplexity"]),
        "epochs": float(first.log[-1]["epochs"]),
    }
    return folder / "language-model-of-reviews", perplexities


def train_classifier(way: str, seed: int, folder: Path, body: Path, *, quick: bool) -> tuple[Any, Trial]:
    """The classifier trained one way with one seed, and its figures."""
    options = CLASSIFIER | WAYS[way] | {"seed": seed} | ({"epochs": 2.0} if quick else {})
    if way == CONTROL:
        sizes = (24, 24) if quick else (650, 650)
        options |= {"encoder": "lstm", "embed": sizes[0], "sizes": sizes}
    else:
        options["start_from"] = body
    began = time.monotonic()
    model = thereafter.train(folder / "train.tsv", task="classify", valid=folder / "valid.tsv", **options)
    seconds = time.monotonic() - began
    valid, test = (accuracy(model.score(folder / f"{part}.tsv")) for part in ("valid", "test"))
    return model, Trial(way, seed, valid, test, round(seconds, 1))


def naive_bayes(model: Any, path: Path) -> float:
    return accuracy(model.baselines(path, trained=False)[0][1])


def accuracy(figures: Any) -> float:
    return 100 * float(figures.accuracy)


def table(trials: Sequence[Trial], bayes: dict[str, float]) -> str:
    """A row for each way, a column for each seed; the way with the highest mean on valid is the result."""
    seeds = sorted({trial.seed for trial in trials})
    lines = ["| | valid, mean | test, mean | deviation | " + " | ".join(f"seed {seed}" for seed in seeds) + " |"]
    lines.append("|---" * (4 + len(seeds)) + "|")
    means: dict[str, float] = {}
    for way in WAYS:
        own = [trial for trial in trials if trial.way == way]
        tests = [trial.test for trial in own]
        means[way] = statistics.mean(trial.valid for trial in own)
        spread = statistics.stdev(tests) if len(tests) > 1 else 0.0
        row = [
            f"{means[way]:.2f}",
            f"{statistics.mean(tests):.2f}",
            f"{spread:.2f}",
            *(f"{test:.2f}" for test in tests),
        ]
        lines.append(f"| {way} | " + " | ".join(row) + " |")
    lines.append(f"| Naive Bayes | {bayes['valid']:.2f} | {bayes['test']:.2f} |" + " |" * (1 + len(seeds)))
    best = max((way for way in WAYS if way != CONTROL), key=means.__getitem__)
    result = statistics.mean(trial.test for trial in trials if trial.way == best)
    lines.append(f"\nchosen by valid: {best}; test {result:.2f} %, Naive Bayes {bayes['test']:.2f} %")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
