"""Pictures of one or two coloured shapes, and five captions for each: a pure function of (seed, number).

A shape is drawn by its signed distance d, in pixels, with soft edges: its colour covers clip(1/2 - d, 0, 1) of a pixel.
Captions follow a small grammar: all are right, no two say the same words. Shapes: H = W = 32 pixels, 3 colours.

>>> scene = scene_of(4)
>>> draw_scene(scene).shape, str(scene)
((32, 32, 3), 'large blue circle left of small yellow circle')

>>> from thereafter.vision.captioning.shapes import scene_of
>>> captions_of(scene_of(4))[:2]
('a blue circle left of a yellow circle', 'two shapes, a large blue circle left of a small yellow circle')
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

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
_AT = {
    "left": "on the left",
    "right": "on the right",
    "top": "at the top",
    "bottom": "at the bottom",
    "centre": "in the centre",
}
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
