"""Five captions for a picture of shapes, by a small grammar: all are right, no two say the same words.

>>> from thereafter.images.shapes import scene_of
>>> captions_of(scene_of(4))[:2]
('a blue circle left of a yellow circle', 'two shapes, a large blue circle left of a small yellow circle')
"""

from __future__ import annotations

from thereafter.images.shapes import RELATIONS, Scene, Thing

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
