"""What `make demo` shows: n-grams on the corpora that need no network, scored by one rule, then asked to go on."""

from __future__ import annotations

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

import thereafter
from thereafter import progress
from thereafter.terminal import TerminalReporter

CORPORA = ("agreement", "python-docs", "python-code")
MODELS = (
    ("2-gram add-alpha", {"order": 2, "smoothing": "add-alpha"}),
    ("3-gram katz", {"order": 3, "smoothing": "katz"}),
    ("5-gram kneser-ney", {"order": 5}),
    ("5-gram over bpe", {"order": 5, "tokens": "bpe"}),
)
PROMPTS = {
    "agreement": ("the farmer", "the farmers that the doctor"),
    "python-docs": ("The following", "If the"),
    "python-code": ("    def __init__(self", "import"),
}


def main() -> None:
    console = Console()
    best: dict[str, thereafter.LanguageModel] = {}
    title = "n-grams on the test part of the built-in corpora: lower is better"
    table = Table(title=title, box=SIMPLE, pad_edge=False, collapse_padding=True)
    for column in ("corpus", "model", "tokens", "vocab", "unk", "perplexity", "bits/byte"):
        table.add_column(column, justify="left" if column in ("corpus", "model") else "right", no_wrap=True)
    for corpus in CORPORA:
        for name, options in MODELS:
            lm = thereafter.train(corpus, **options)
            score = lm.score(lm.texts)
            table.add_row(
                corpus,
                name,
                f"{score.tokens:,}",
                f"{score.vocabulary:,}",
                f"{score.unknown:,}",
                f"{score.perplexity:,.2f}",
                f"{score.bits_per_byte:.3f}",
            )
            if name == "5-gram kneser-ney":
                best[corpus] = lm
        console.print(f"[dim]{corpus}: {best[corpus].texts.detail}[/dim]", highlight=False)
    console.print(table)
    console.print("Perplexity compares models over the same tokens; bits per byte compares them all.\n", style="dim")
    for corpus, lm in best.items():
        for prompt in PROMPTS[corpus]:
            words = ",  ".join(f"{piece!r} {p:.3f}" for piece, p in lm.next(prompt, k=5))
            console.print(f"{corpus}: after {prompt!r}: {words}", highlight=False, markup=False, soft_wrap=True)
    console.print("\npython-docs, 60 tokens at temperature 0.8, seed 1:", style="bold")
    console.print(best["python-docs"].generate("The", 60, temperature=0.8, seed=1), highlight=False, markup=False)


if __name__ == "__main__":
    with progress.reporting(TerminalReporter()):
        main()
