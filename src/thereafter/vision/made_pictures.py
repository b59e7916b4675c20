"""Corpora of clips and pictures that are made here, by name; each is a pure function of its seed.

moving-digit    one digit of MNIST, 10 frames of 64 x 64, one of 16 directions, 2 to 5 pixels a frame
moving-digits   two digits of MNIST, 20 frames, any angle, 3.6 pixels a frame (Srivastava et al. 2015)
moving-glyph, moving-glyphs     the same with digits drawn by rule, which need no MNIST
cluttered-digits    a digit of MNIST among pieces of others, 60 x 60 (Mnih et al. 2014); cluttered-glyphs: drawn ones
catch           episodes of the game of catch, 24 x 24 (`catch_game.py`)
shapes          pictures of one or two coloured shapes, 32 x 32, with five captions each

The files of moving and of cluttered digits and of games are their rules; frames and pictures are rendered when they are
read. The last 5,000 training digits of MNIST are in the validation part alone.

A picture of one or two coloured shapes and its five captions are a pure function of (seed, number). A shape is drawn by
its signed distance d, in pixels, with soft edges: its colour covers clip(1/2 - d, 0, 1) of a pixel.
Captions follow a small grammar: all are right, no two say the same words. Shapes: H = W = 32 pixels, 3 colours.

>>> scene = scene_of(4)
>>> draw_scene(scene).shape, str(scene)
((32, 32, 3), 'large blue circle left of small yellow circle')


>>> captions_of(scene_of(4))[:2]
('a blue circle left of a yellow circle', 'two shapes, a large blue circle left of a small yellow circle')
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.base.storage import cache_folder, replacing
from thereafter.text.builtin import Built, keep_corpus
from thereafter.vision.acting.game import CatchRule
from thereafter.vision.clips.moving import MovingRule
from thereafter.vision.pictures.glyphs import ClutterRule
from thereafter.vision.rules import uniforms

SIDE = 32
"""Pixels from edge to edge."""
SEED = 20_261_117
COLOURS = {
    "red": (222, 44, 40),
    "green": (44, 180, 64),
    "blue": (52, 92, 232),
    "yellow": (236, 214, 48),
    "purple": (164, 60, 204),
    "white": (240, 240, 240),
}
FORMS = ("circle", "square", "triangle", "cross", "ring")
SIZES = {"small": (3.4, 4.2), "large": (6.2, 7.2)}
"""The least and the largest radius of each."""
PLACES = {"left": (8, 16), "right": (24, 16), "top": (16, 8), "bottom": (16, 24), "centre": (16, 16)}
"""Where the middle of a single shape is, columns from the left and rows from the top."""
RELATIONS = {"left of": ("left", "right"), "above": ("top", "bottom")}
"""The places of the first and the second of two shapes."""
_DRAWS = 7  # of a thing: form, colour, size, radius, column, row, turn
_SCENE = 3  # draws before those of the things: one or two, place or relation, background
_MIDDLES = np.arange(SIDE) + 0.5
CAPTION_DRAWS = 32
"""Draws that are left for the wording of captions; they come last."""


@dataclass(frozen=True)
class Thing:
    """One shape: what it is called, and where it is."""

    form: str
    colour: str
    size: str
    column: float
    row: float
    radius: float
    turn: float

    def __str__(self) -> str:
        return f"{self.size} {self.colour} {self.form}"


@dataclass(frozen=True)
class Scene:
    """What a picture shows: a thing at a place, or two things, the first of them `where` of the second."""

    things: tuple[Thing, ...]
    where: str
    background: float
    number: int
    drawn: tuple[float, ...] = field(repr=False)

    def __str__(self) -> str:
        return (
            f" {self.where} ".join(map(str, self.things)) if len(self.things) > 1 else f"{self.things[0]} {self.where}"
        )


def scene_of(number: int, seed: int = SEED) -> Scene:
    """The scene of a number; two things of one scene differ in form or colour."""
    drawn = uniforms(seed, [number], _SCENE + 2 * _DRAWS + CAPTION_DRAWS)[0].tolist()
    two, which, background = drawn[:_SCENE]
    first, second = drawn[_SCENE : _SCENE + _DRAWS], drawn[_SCENE + _DRAWS : _SCENE + 2 * _DRAWS]
    words = tuple(drawn[_SCENE + 2 * _DRAWS :])
    if two < 0.5:
        place = _one_of(tuple(PLACES), which)
        return Scene((_thing(first, PLACES[place]),), place, background, number, words)
    relation = _one_of(tuple(RELATIONS), which)
    here, there = (PLACES[place] for place in RELATIONS[relation])
    one, other = _thing(first, here), _thing(second, there)
    if (one.form, one.colour) == (other.form, other.colour):
        other = _thing([(second[0] + 1 / len(FORMS)) % 1, *second[1:]], there)
    return Scene((one, other), relation, background, number, words)


def draw_scene(scene: Scene) -> NDArray[np.uint8]:
    """The pixels, [H, W, 3]: things over a dark background with a little noise."""
    noise = np.rint(np.random.default_rng([SEED, scene.number]).normal(0, 2, (SIDE, SIDE, 1))) * 2
    pixels = np.full((SIDE, SIDE, 3), 15 + 45 * scene.background)
    for thing in scene.things:
        cover = np.clip(0.5 - _distance(thing), 0, 1)[:, :, None]
        pixels += cover * (np.array(COLOURS[thing.colour]) - pixels)
    return np.asarray(np.rint(np.clip(pixels + noise, 0, 255)), np.uint8)


def _distance(thing: Thing) -> NDArray[np.float64]:
    """The signed distance of the middle of each pixel to the edge of a shape, negative inside; [H, W]."""
    right, up, r = _MIDDLES - thing.column, thing.row - _MIDDLES[:, None], thing.radius
    x = right * math.cos(thing.turn) + up * math.sin(thing.turn)
    y = up * math.cos(thing.turn) - right * math.sin(thing.turn)
    away = np.hypot(x, y)
    if thing.form == "circle":
        return np.asarray(away - r)
    if thing.form == "ring":
        return np.asarray(np.abs(away - 0.74 * r) - 0.26 * r)
    if thing.form == "square":
        return np.asarray(np.maximum(np.abs(x), np.abs(y)) - 0.88 * r)
    if thing.form == "triangle":
        y = y + 0.3 * r  # its middle is that of its height
        return np.asarray(np.maximum(-y - 0.6 * r, math.sqrt(0.75) * np.abs(x) + y / 2 - 0.6 * r))
    bar, beam = np.abs(x), np.abs(y)
    return np.asarray(np.minimum(np.maximum(bar - r, beam - 0.3 * r), np.maximum(beam - r, bar - 0.3 * r)))


def _thing(drawn: list[float], middle: tuple[int, int]) -> Thing:
    form, colour, size, radius, column, row, turn = drawn
    called = _one_of(tuple(SIZES), size)
    least, most = SIZES[called]
    return Thing(
        _one_of(FORMS, form),
        _one_of(tuple(COLOURS), colour),
        called,
        middle[0] + 2.4 * (column - 0.5),
        middle[1] + 2.4 * (row - 0.5),
        least + (most - least) * radius,
        0.3 * (turn - 0.5),
    )


def _one_of(names: tuple[str, ...], drawn: float) -> str:
    return names[int(drawn * len(names))]


CAPTIONS = 5
"""For each picture."""
_AT = {"left": "on the left", "right": "on the right", "top": "at the top", "bottom": "at the bottom"}
_AT["centre"] = "in the centre"
_CONVERSE = {"left of": "right of", "above": "below"}
_ONE = (
    "a {thing} {at}",
    "there is a {thing} {at}",
    "{at} is a {thing}",
    "a {thing} {at} of the picture",
    "the picture shows a {thing} {at}",
    "one {thing} {at}",
    "just a {thing} {at}",
)
_TWO = (
    "a {first} {where} a {second}",
    "a {second} {converse} a {first}",
    "there is a {first} {where} a {second}",
    "the picture shows a {second} {converse} a {first}",
    "{here} is a {first} and {there} a {second}",
    "a {first} and a {second} {converse} it",
    "two shapes, a {first} {where} a {second}",
)


def captions_of(scene: Scene) -> tuple[str, ...]:
    """Sentences of `CAPTIONS` different forms; about half of them name sizes."""
    forms = _TWO if len(scene.things) > 1 else _ONE
    order = sorted(range(len(forms)), key=lambda at: scene.drawn[at])[:CAPTIONS]
    return tuple(_filled(forms[at], scene, sized=scene.drawn[len(forms) + at] < 0.6) for at in order)


def _filled(form: str, scene: Scene, sized: bool) -> str:
    if len(scene.things) == 1:
        return form.format(thing=_named(scene.things[0], sized), at=_AT[scene.where])
    first, second = (_named(thing, sized) for thing in scene.things)
    here, there = (_AT[place] for place in RELATIONS[scene.where])
    return form.format(
        first=first, second=second, where=scene.where, converse=_CONVERSE[scene.where], here=here, there=there
    )


def _named(thing: Thing, sized: bool) -> str:
    return str(thing) if sized else f"{thing.colour} {thing.form}"


_ONE_DIGIT = MovingRule(digits=1, frames=10, directions=16, slowest=2.0, fastest=5.0)
_TWO_DIGITS = MovingRule(digits=2, frames=20, directions=0, slowest=3.6, fastest=3.6)
_Sources = Mapping[str, tuple[str, int, int]]
_MNIST = {"train": ("mnist:train", 0, 55_000), "valid": ("mnist:train", 55_000, 60_000), "test": ("mnist:test", 0, 0)}
_GLYPHS = {"train": ("glyphs", 0, 4_000), "valid": ("glyphs", 4_000, 5_000), "test": ("glyphs", 5_000, 7_000)}
_Counts = Mapping[str, int]
_MOVING: dict[str, tuple[MovingRule, _Sources, _Counts]] = {
    "moving-digit": (_ONE_DIGIT, _MNIST, {"train": 200_000, "valid": 2_000, "test": 10_000}),
    "moving-digits": (_TWO_DIGITS, _MNIST, {"train": 200_000, "valid": 1_000, "test": 3_000}),
    "moving-glyph": (_ONE_DIGIT, _GLYPHS, {"train": 20_000, "valid": 500, "test": 1_000}),
    "moving-glyphs": (_TWO_DIGITS, _GLYPHS, {"train": 20_000, "valid": 500, "test": 1_000}),
}
_CLUTTERED: dict[str, tuple[ClutterRule, _Sources, _Counts]] = {
    "cluttered-digits": (ClutterRule(), _MNIST, {"train": 400_000, "valid": 5_000, "test": 10_000}),
    "cluttered-glyphs": (ClutterRule(), _GLYPHS, {"train": 20_000, "valid": 1_000, "test": 2_000}),
}
_CATCH = {"train": 100_000, "valid": 2_000, "test": 10_000}
_SHAPES = {"train": range(4_000), "valid": range(100_000, 100_300), "test": range(200_000, 200_500)}
_LIST = "files.json"


_DigitRule = TypeVar("_DigitRule", MovingRule, ClutterRule)
_Rules = Mapping[str, MovingRule | ClutterRule | CatchRule]


def moving_rules(name: str) -> dict[str, MovingRule]:
    """The rule of each part of a corpus of moving digits."""
    return _parts_of(*_MOVING[name])


def clutter_rules(name: str) -> dict[str, ClutterRule]:
    """The rule of each part of a corpus of cluttered digits."""
    return _parts_of(*_CLUTTERED[name])


def catch_rules(name: str = "catch") -> dict[str, CatchRule]:
    """The rule of each part of the game of catch."""
    return {part: CatchRule(count=count, seed=SEED + k) for k, (part, count) in enumerate(_CATCH.items())}


def _parts_of(rule: _DigitRule, sources: _Sources, counts: _Counts) -> dict[str, _DigitRule]:
    rules = {}
    for number, (part, (source, begin, end)) in enumerate(sources.items()):
        rules[part] = replace(rule, count=counts[part], seed=SEED + number, source=source, begin=begin, end=end)
    return rules


def _by_rule(
    name: str, rules_of: Callable[[str], Mapping[str, MovingRule | ClutterRule | CatchRule]], what: str
) -> Built:
    """The rules in the cache: so small that they are written each time and compared with what is there."""
    rules = rules_of(name)
    counts = " / ".join(f"{rule.count:,}" for rule in rules.values())
    texts = {part: rule.to_json() for part, rule in rules.items()}
    return keep_corpus(name, texts, f"generated by rule, seed {SEED}, {counts} {what}", ".json")


moving_digit, moving_digits, moving_glyph, moving_glyphs = (
    partial(_by_rule, name, moving_rules, "clips") for name in _MOVING
)
cluttered_digits, cluttered_glyphs = (partial(_by_rule, name, clutter_rules, "pictures") for name in _CLUTTERED)
catch = partial(_by_rule, "catch", catch_rules, "games")


def shapes() -> Built:
    """Pictures of shapes with captions, drawn at the first use and after a change of how they are drawn.

    A part has its pixels in an .npz and its captions in a .tsv, by the names of the pictures: `train` and
    `train.captions`.
    """
    sources = [resources.files("thereafter.vision") / file for file in ("made_pictures.py", "rules.py")]
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
            pixels, names, lines = [], [], ["image\tcaption"]
            for at, scene in enumerate(map(scene_of, numbers)):
                names.append(f"{part}-{at:04}")
                pixels.append(draw_scene(scene))
                lines += [f"{names[at]}\t{text}" for text in captions_of(scene)]
                advance(1)
            with replacing(folder / f"{part}.npz") as growing, growing.open("wb") as file:
                np.savez_compressed(file, pixels=np.stack(pixels), names=np.array(names))
            with replacing(folder / f"{part}.captions.tsv") as growing:
                growing.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
            for file_name in (f"{part}.npz", f"{part}.captions.tsv"):
                hashes[file_name] = hashlib.sha256((folder / file_name).read_bytes()).hexdigest()
    with replacing(folder / _LIST) as growing:
        growing.write_text(json.dumps(hashes, indent=1))
    return hashes
