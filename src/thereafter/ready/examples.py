"""What ready task models learn from, and how those of pictures and clips are trained: built-in series, and the corpora
that are drawn here.

A part of a series is cut by time. A part of `shapes` is a folder with its pixels (.npz) and its captions (.tsv); one of
moving or still digits is a rule (.json). Still digits stand among pieces of others (`cluttered-glyphs`, 40 x 40) or
alone (`glyphs`).
"""

from __future__ import annotations

from pathlib import Path

from thereafter.base.config import Table
from thereafter.base.storage import replacing, write_text

SHAPES, GLYPH = "shapes", "moving-glyph"
CLUTTERED, GLYPHS = "cluttered-glyphs", "glyphs"
CATCH = "catch"
SHAPES_CAPTIONER: Table = {"embed": 16, "hidden": 32, "width": 6, "stages": 3, "see": "attention", "tied": False}
SHAPES_CAPTIONER |= {"min_count": 1, "flip": False, "shift": 0.0, "zoom": 0.0, "colour": 0.0, "erase": 0.0}
SHAPES_CAPTIONER |= {"dropout": 0.0, "drop_picture": 0.0, "batch": 16, "epochs": 10.0, "rate": 0.01}
MOVING_GLYPH: Table = {"width": 4, "hidden": 28, "dropout": 0.0, "batch": 32, "epochs": 3.0, "rate": 0.005}
NEXT_GLYPHS: Table = {"hidden": 8, "kernel": 3, "layers": 1, "batch": 16, "epochs": 1.0, "rate": 0.01}
GLYPH_GLIMPSES: Table = {"glimpses": 6, "patch": 8, "scales": 3, "hidden": 32, "read": 32, "batch": 64}
GLYPH_GLIMPSES |= {"epochs": 14.0, "rate": 0.01}
GLYPH_DRAWER: Table = {"size": 20, "hidden": 40, "latent": 8, "strokes": 8, "read": 5, "write": 8, "batch": 64}
GLYPH_DRAWER |= {"epochs": 18.0, "rate": 0.008}
CATCHER: Table = {"hidden": 64, "read": 32, "batch": 256, "epochs": 6.0, "rate": 0.003}
_STILL = {CLUTTERED: (40, None), GLYPHS: (29, 0)}
"""Pixels on the side of a picture, and how many pieces of others (None: as the rule has it)."""
_LEAST = {SHAPES: 120, GLYPH: 200, CLUTTERED: 200, GLYPHS: 200, CATCH: 200}  # examples, however short the training is


def picture_part(folder: Path, corpus: str, part: str, examples: int, scale: float = 1.0) -> Path:
    """The file of a part, written where it is not there yet; `scale` takes fewer examples to train on, for tests.

    Of `shapes` it is the captions; their pictures lie beside them.
    """
    short = f"-{scale:g}" if scale < 1 else ""
    count = max(_LEAST[corpus], round(scale * examples)) if part == "train" else 0
    place = folder / "texts" / f"pictures{short}" / corpus
    return _shapes(place / part, part, count) if corpus == SHAPES else _ruled(place, corpus, part, count)


def _shapes(place: Path, part: str, count: int) -> Path:
    """Captions and pictures of a part; of so many pictures, 0: all."""
    import numpy as np

    from thereafter.data import corpora

    captions = place / "captions.tsv"
    if not captions.exists():
        parts = corpora.locate(SHAPES).parts
        with np.load(parts[part], allow_pickle=False) as arrays:
            pixels, names = arrays["pixels"], arrays["names"]
        wanted = names[: count or len(names)]
        header, *lines = parts[f"{part}.captions"].read_text(encoding="utf-8").splitlines()
        known = set(wanted.tolist())
        place.mkdir(parents=True, exist_ok=True)
        with replacing(place / "pictures.npz") as growing, growing.open("wb") as file:
            np.savez_compressed(file, pixels=pixels[: len(wanted)], names=wanted)
        chosen = [line for line in lines if line.partition("\t")[0] in known]
        write_text(captions, "\n".join([header, *chosen]) + "\n")
    return captions


def _ruled(place: Path, corpus: str, part: str, count: int) -> Path:
    """The rule of a part; with so many clips or pictures, 0: all."""
    from dataclasses import replace

    from thereafter.vision.made_pictures import catch_rules, clutter_rules, moving_rules

    path = place / f"{part}.json"
    if not path.exists():
        if corpus in _STILL:
            still, (size, pieces) = clutter_rules(CLUTTERED)[part], _STILL[corpus]
            still = replace(still, size=size, pieces=still.pieces if pieces is None else pieces)
            write_text(path, (replace(still, count=count) if count else still).to_json())
        elif corpus == CATCH:
            games = catch_rules()[part]
            write_text(path, (replace(games, count=count) if count else games).to_json())
        else:
            rule = moving_rules(corpus)[part]
            write_text(path, (replace(rule, count=count) if count else rule).to_json())
    return path


SHARES = {"train": (0.0, 0.7), "valid": (0.7, 0.8), "test": (0.8, 1.0)}
"""Which rows belong to which part."""
_LEAST_ROWS = 600  # rows to train on, however short the training is


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
            begin = max(0, end - max(_LEAST_ROWS, round(scale * end)))
        write_text(path, "\n".join([header, *rows[begin:end]]) + "\n")
    return path
