"""The series that the ready forecasters learn from: the built-in ones, cut by time into files."""

from __future__ import annotations

from pathlib import Path

from thereafter.storage import write_text

SHARES = {"train": (0.0, 0.7), "valid": (0.7, 0.8), "test": (0.8, 1.0)}
"""Which rows belong to which part."""
_LEAST = 600  # rows to train on, however short the training is


def series_part(folder: Path, series: str, part: str, scale: float = 1.0) -> Path:
    """A file of the rows of a part, written where it is not there yet; `scale` takes fewer to train on, for tests."""
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
