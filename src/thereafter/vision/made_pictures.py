"""Corpora of clips and pictures that are made here, by name; each is a pure function of its seed.

moving-digit    one digit of MNIST, 10 frames of 64 x 64, one of 16 directions, 2 to 5 pixels a frame
moving-digits   two digits of MNIST, 20 frames, any angle, 3.6 pixels a frame (Srivastava et al. 2015)
moving-glyph, moving-glyphs     the same with digits drawn by rule, which need no MNIST
cluttered-digits    a digit of MNIST among pieces of others, 60 x 60 (Mnih et al. 2014); cluttered-glyphs: drawn ones
catch           episodes of the game of catch, 24 x 24 (`catch_game.py`)
shapes          pictures of one or two coloured shapes, 32 x 32, with five captions each

The files of moving and of cluttered digits and of games are their rules; frames and pictures are rendered when they are
read. The last 5,000 training digits of MNIST are in the validation part alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TypeVar

import numpy as np

from thereafter.base import progress
from thereafter.base.storage import cache_folder, replacing
from thereafter.text.builtin import Built, keep_texts
from thereafter.vision.acting.game import CatchRule
from thereafter.vision.captioning.shapes import captions_of, draw_scene, scene_of
from thereafter.vision.clips.moving import MovingRule
from thereafter.vision.glimpsing.cluttered import ClutterRule

SEED = 20_261_117
_ONE = MovingRule(digits=1, frames=10, directions=16, slowest=2.0, fastest=5.0)
_TWO = MovingRule(digits=2, frames=20, directions=0, slowest=3.6, fastest=3.6)
_MNIST = {"train": ("mnist:train", 0, 55_000), "valid": ("mnist:train", 55_000, 60_000), "test": ("mnist:test", 0, 0)}
_GLYPHS = {"train": ("glyphs", 0, 4_000), "valid": ("glyphs", 4_000, 5_000), "test": ("glyphs", 5_000, 7_000)}
_MOVING = {
    "moving-digit": (_ONE, _MNIST, {"train": 200_000, "valid": 2_000, "test": 10_000}),
    "moving-digits": (_TWO, _MNIST, {"train": 200_000, "valid": 1_000, "test": 3_000}),
    "moving-glyph": (_ONE, _GLYPHS, {"train": 20_000, "valid": 500, "test": 1_000}),
    "moving-glyphs": (_TWO, _GLYPHS, {"train": 20_000, "valid": 500, "test": 1_000}),
}
_CLUTTERED = {
    "cluttered-digits": (_MNIST, {"train": 400_000, "valid": 5_000, "test": 10_000}),
    "cluttered-glyphs": (_GLYPHS, {"train": 20_000, "valid": 1_000, "test": 2_000}),
}
_CATCH = {"train": 100_000, "valid": 2_000, "test": 10_000}
_SHAPES = {"train": range(4_000), "valid": range(100_000, 100_300), "test": range(200_000, 200_500)}
_LIST = "files.json"


_DigitRule = TypeVar("_DigitRule", MovingRule, ClutterRule)


def moving_rules(name: str) -> dict[str, MovingRule]:
    """The rule of each part of a corpus of moving digits."""
    return _parts_of(*_MOVING[name])


def clutter_rules(name: str) -> dict[str, ClutterRule]:
    """The rule of each part of a corpus of cluttered digits."""
    return _parts_of(ClutterRule(), *_CLUTTERED[name])


def catch_rules() -> dict[str, CatchRule]:
    """The rule of each part of the game of catch."""
    return {part: CatchRule(count=count, seed=SEED + k) for k, (part, count) in enumerate(_CATCH.items())}


def _parts_of(
    rule: _DigitRule, sources: Mapping[str, tuple[str, int, int]], counts: Mapping[str, int]
) -> dict[str, _DigitRule]:
    rules = {}
    for number, (part, (source, begin, end)) in enumerate(sources.items()):
        rules[part] = replace(rule, count=counts[part], seed=SEED + number, source=source, begin=begin, end=end)
    return rules


def _moving(name: str) -> Built:
    return _built(name, moving_rules(name), "clips")


def _cluttered(name: str) -> Built:
    return _built(name, clutter_rules(name), "pictures")


moving_digit, moving_digits = partial(_moving, "moving-digit"), partial(_moving, "moving-digits")
moving_glyph, moving_glyphs = partial(_moving, "moving-glyph"), partial(_moving, "moving-glyphs")
cluttered_digits, cluttered_glyphs = partial(_cluttered, "cluttered-digits"), partial(_cluttered, "cluttered-glyphs")


def catch() -> Built:
    """Episodes of the game of catch."""
    return _built("catch", catch_rules(), "games")


def shapes() -> Built:
    """Pictures of shapes with captions, drawn at the first use and after a change of how they are drawn.

    A part has its pixels in an .npz and its captions in a .tsv, by the names of the pictures: `train` and
    `train.captions`.
    """
    sources = [resources.files("thereafter.vision") / file for file in ("captioning/shapes.py", "rules.py")]
    version = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    folder = cache_folder() / "corpora" / f"shapes-{version[:12]}"
    files = {part: f"{part}.npz" for part in _SHAPES} | {f"{part}.captions": f"{part}.captions.tsv" for part in _SHAPES}
    hashes = _intact(folder, list(files.values())) or _drawn(folder)
    counts = " / ".join(f"{len(numbers):,}" for numbers in _SHAPES.values())
    whole = hashlib.sha256("".join(hashes[file] for file in sorted(hashes)).encode()).hexdigest()
    detail = f"generated, seed {SEED}, {counts} pictures, sha256 {whole}"
    return Built({part: folder / file for part, file in files.items()}, detail)


def _intact(folder: Path, files: list[str]) -> dict[str, str] | None:
    """The sha256 of the files of a folder; None if one is missing or not as it was written."""
    try:
        listed = json.loads((folder / _LIST).read_bytes())
        hashes = {file: hashlib.sha256((folder / file).read_bytes()).hexdigest() for file in files}
    except (OSError, ValueError):
        return None
    return hashes if listed == hashes else None


def _drawn(folder: Path) -> dict[str, str]:
    """Draw all pictures and write the files; their list comes last, so that a list means a complete corpus."""
    hashes = {}
    with progress.task("drawing shapes", total=sum(map(len, _SHAPES.values()))) as advance:
        for part, numbers in _SHAPES.items():
            scenes = [scene_of(number) for number in numbers]
            names = [f"{part}-{at:04}" for at in range(len(scenes))]
            pixels = []
            for scene in scenes:
                pixels.append(draw_scene(scene))
                advance(1)
            lines = ["image\tcaption"]
            lines += [
                f"{name}\t{text}" for name, scene in zip(names, scenes, strict=True) for text in captions_of(scene)
            ]
            with replacing(folder / f"{part}.npz") as growing, growing.open("wb") as file:
                np.savez_compressed(file, pixels=np.stack(pixels), names=np.array(names))
            with replacing(folder / f"{part}.captions.tsv") as growing:
                growing.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
            for file_name in (f"{part}.npz", f"{part}.captions.tsv"):
                hashes[file_name] = hashlib.sha256((folder / file_name).read_bytes()).hexdigest()
    with replacing(folder / _LIST) as growing:
        growing.write_text(json.dumps(hashes, indent=1))
    return hashes


def _built(name: str, rules: Mapping[str, MovingRule | ClutterRule | CatchRule], what: str) -> Built:
    """The rules in the cache: so small that they are written each time and compared with what is there."""
    texts = {part: rule.to_json() for part, rule in rules.items()}
    sha256 = hashlib.sha256("".join(texts.values()).encode()).hexdigest()
    parts = keep_texts(cache_folder() / "corpora" / f"{name}-{sha256[:12]}", texts, ".json")
    counts = " / ".join(f"{rule.count:,}" for rule in rules.values())
    return Built(parts, f"generated by rule, seed {SEED}, {counts} {what}, sha256 {sha256}")
