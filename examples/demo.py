"""What `make demo` shows: every generation of language model on the corpora that need no network, under one protocol.

Some minutes on two cores: the ladder on sentences whose verb must agree with a subject further back, then on the
Python manual; a table for each, which model to use when, and how the best goes on. Budgets are in tokens, the same for
all models: another machine, or a busy one, takes longer and shows the same table.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

import thereafter
from thereafter import progress
from thereafter.comparing.advice import advice
from thereafter.comparing.compare import compare
from thereafter.comparing.comparison import Comparison
from thereafter.terminal import TerminalReporter
from thereafter.text.agreement import write_corpus
from thereafter.text.sources import Source, Texts

LONGEST = 6
"""Words between subject and verb, at most: the whole corpus has up to 40, and takes minutes to learn, not seconds."""
SIZES = {"train": 40_000, "valid": 1_000, "test": 2_000}
AGREEMENT: dict[str, Any] = {
    "tokens_budget": 300_000,
    # Every sentence begins afresh, as it does when it is judged: what stood in the one before says nothing of its verb.
    "text.context": "line",
    "batching": "lines",
    "batch": 16,
    "validate_every": 400,
    "hidden": 128,
    "layers": 1,
    "dropout": 0.0,
    "rate": 0.01,
    "lstm.rate": 0.015,
    # A tied embedding would make "dog" and "dogs" alike: as words to be predicted they are.
    "tied": False,
    "transformer.layers": 2,
    "transformer.context": 64,
    "transformer.rate": 0.005,
}
DOCS: dict[str, Any] = {
    "tokens_budget": 120_000,
    "validate_every": 60,
    "hidden": 96,
    "transformer.layers": 2,
    "transformer.context": 64,
}
PROMPTS = ("The following", "If the", "import")
REPORTS = Path("runs") / "demo"


def main() -> None:
    began = time.monotonic()
    console = Console(highlight=False, markup=False, soft_wrap=True)
    with tempfile.TemporaryDirectory(prefix="thereafter-demo-") as name:
        folder = Path(name)
        found = {
            "agreement": compare(sentences(folder / "sentences"), out=folder / "agreement", **AGREEMENT),
            "python-docs": compare("python-docs", out=folder / "python-docs", **DOCS),
        }
        for title, compared in found.items():
            show(console, title, compared)
        console.print("Which model to use when, by these figures", style="bold")
        for sentence in advice(list(found.values())):
            console.print(f"- {sentence}")
        go_on(console, found["python-docs"])
    console.print(f"\n{(time.monotonic() - began) / 60:.1f} minutes", style="dim")


def sentences(folder: Path, sizes: Mapping[str, int] = SIZES) -> Texts:
    """Sentences made for the demo, so many for each part."""
    files = write_corpus(folder, sizes=sizes, max_distance=LONGEST)
    return Texts(
        f"agreement, up to {LONGEST} words between",
        {part: Source(f"agreement:{part}", (path,)) for part, path in files.items()},
        tokens="word",
        detail=" / ".join(f"{size:,}" for size in sizes.values()) + " generated sentences",
    )


def show(console: Console, title: str, compared: Comparison) -> None:
    """The table, and the page with the curves."""
    console.print(f"\n{compared.about['source']}: {compared.about['detail']}", style="bold")
    console.print(compared.table())
    console.print(f"curves and samples: {compared.save(REPORTS / title) / 'report.html'}\n", style="dim")


def go_on(console: Console, compared: Comparison) -> None:
    """What the best model of a comparison says next."""
    best = min(compared.rows, key=lambda row: row.bits_per_byte.mean)
    assert compared.folder is not None
    lm = thereafter.load(compared.folder / "runs" / best.first.run)
    console.print(f"\nWhat comes next, by {best.name}", style="bold")
    for prompt in PROMPTS:
        words = ",  ".join(f"{piece!r} {p:.3f}" for piece, p in lm.next(prompt, k=5))
        console.print(f"after {prompt!r}: {words}")
    console.print("\nThe same, 60 tokens at temperature 0.8, seed 1", style="bold")
    console.print(lm.generate("The", 60, temperature=0.8, seed=1))


if __name__ == "__main__":
    with progress.reporting(TerminalReporter()):
        main()
