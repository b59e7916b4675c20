"""Files that ready models learn from: the sentences, which models are also compared on, and the built-in series."""

from __future__ import annotations

from pathlib import Path

from thereafter.base.storage import write_text

BETWEEN = 10
"""Words between a subject and its verb, at most: the whole corpus has up to 40, which takes longer to learn."""
SENTENCES = {"train": 40_000, "valid": 1_000, "test": 4_000}
COMPARED = 1_000
"""Test sentences that models are compared on while somebody waits."""
SENTENCES_NAME = "sentences"


def sentences(folder: Path) -> dict[str, Path]:
    """The files of the sentences, written where they are not there yet: train, valid, test."""
    from thereafter.text.agreement import write_corpus

    place = folder / "texts" / f"{SENTENCES_NAME}-{BETWEEN}-{SENTENCES['train']}"
    parts = {part: place / f"agreement.{part}.txt" for part in SENTENCES}
    if not all(path.exists() and path.with_suffix(".jsonl").exists() for path in parts.values()):
        parts = write_corpus(place, sizes=SENTENCES, max_distance=BETWEEN)
    return parts


def compared_sentences(folder: Path) -> dict[str, Path]:
    """The same with a shorter test part: what models are compared on while somebody waits."""
    parts = sentences(folder)
    test = parts["test"]
    short = test.with_name(f"agreement.test-{COMPARED}.txt")
    if not short.exists():
        for suffix in (".jsonl", ".txt"):  # the text last: where it is, both are
            lines = test.with_suffix(suffix).read_text(encoding="utf-8").splitlines(keepends=True)
            write_text(short.with_suffix(suffix), "".join(lines[:COMPARED]))
    return parts | {"test": short}


SHARES = {"train": (0.0, 0.7), "valid": (0.7, 0.8), "test": (0.8, 1.0)}
"""Which rows belong to which part."""
_LEAST = 600  # rows to train on, however short the training is


def series_part(folder: Path, series: str, part: str, scale: float = 1.0) -> Path:
    """A file of the rows of a part of a built-in series, which is cut by time; written where it is not there yet.

    `scale` takes fewer rows to train on, for tests.
    """
    from thereafter.data import corpora

    short = f"-{scale:g}" if scale < 1 else ""
    path = folder / "texts" / f"series{short}" / f"{series}.{part}.csv"
    if not path.exists():
        header, *rows = corpora.locate(series).parts["text"].read_text(encoding="utf-8").splitlines()
        begin, end = (round(share * len(rows)) for share in SHARES[part])
        if part == "train" and scale < 1:
            begin = max(0, end - max(_LEAST, round(scale * end)))
        write_text(path, "\n".join([header, *rows[begin:end]]) + "\n")
    return path
