"""Pictures of shapes: what their captions say is measured in their pixels; the corpus is drawn once and kept."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from thereafter.data import corpora
from thereafter.vision import made_pictures
from thereafter.vision.captioning.reading import read_captioned
from thereafter.vision.made_pictures import (
    CAPTIONS,
    COLOURS,
    FORMS,
    PLACES,
    RELATIONS,
    SIZES,
    captions_of,
    draw_scene,
    scene_of,
)

THING = rf"(?:({'|'.join(SIZES)}) )?({'|'.join(COLOURS)}) ({'|'.join(FORMS)})"
CONVERSE = {"right of": "left of", "below": "above"}
SCENES = [scene_of(number) for number in range(300)]


def covered(pixels: NDArray[np.uint8], colour: str) -> NDArray[np.bool_]:
    """Where a pixel is nearer to this colour than to any other, or to the background."""
    known = np.array([*COLOURS.values(), (15, 15, 15), (60, 60, 60)])
    nearest = ((pixels[:, :, None].astype(float) - known) ** 2).sum(-1).argmin(-1)
    return nearest == list(COLOURS).index(colour)


def middle(mask: NDArray[np.bool_]) -> tuple[float, float]:
    row, column = np.nonzero(mask)
    return float(column.mean()), float(row.mean())


def claims(caption: str) -> tuple[list[tuple[str, str, str]], str]:
    """What a caption says: the things it names, the first as it lies in the picture, and where that is."""
    things = re.findall(THING, caption)
    for relation in (*RELATIONS, *CONVERSE):
        if re.search(rf"{relation} (a|it)\b", caption):  # not "on the left of the picture"
            if relation not in CONVERSE:
                return things, relation
            turned = caption.endswith(" it")  # "a circle and a square below it"
            return things if turned else things[::-1], CONVERSE[relation]
    places = [word for word in caption.split() if word in PLACES]
    if len(things) == 2:
        return things, {("left", "right"): "left of", ("top", "bottom"): "above"}[(places[0], places[1])]
    return things, places[0]


def test_every_caption_says_what_the_scene_is():
    for scene in SCENES:
        captions = captions_of(scene)
        assert len(set(captions)) == CAPTIONS
        for caption in captions:
            things, where = claims(caption)
            assert where == scene.where, caption
            for (size, colour, form), thing in zip(things, scene.things, strict=True):
                assert (colour, form) == (thing.colour, thing.form)
                assert size in ("", thing.size)
    assert (
        0.4 < np.mean([thing[0] != "" for scene in SCENES for c in captions_of(scene) for thing in claims(c)[0]]) < 0.8
    )


def test_colours_and_places_are_seen_in_the_pixels():
    for scene in SCENES:
        pixels = draw_scene(scene)
        if len({thing.colour for thing in scene.things}) < len(scene.things):
            continue
        places = [middle(covered(pixels, thing.colour)) for thing in scene.things]
        if scene.where == "left of":
            assert places[0][0] < places[1][0] - 8
        elif scene.where == "above":
            assert places[0][1] < places[1][1] - 8
        else:
            column, row = places[0]
            off = {name: np.hypot(column + 0.5 - x, row + 0.5 - y) for name, (x, y) in PLACES.items()}
            assert min(off, key=lambda name: off[name]) == scene.where


def test_forms_and_sizes_are_seen_in_the_pixels():
    """A form by the share of its box that it fills and by its middle, a size by the box."""
    filled: dict[str, list[float]] = {form: [] for form in FORMS}
    for scene in (one for one in SCENES if len(one.things) == 1):
        (thing,) = scene.things
        mask = covered(draw_scene(scene), thing.colour)
        rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
        box = mask[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        assert ("large" if max(box.shape) > 9.5 else "small") == thing.size
        if thing.size == "large":
            filled[thing.form].append(float(box.mean()))
            half = box.shape[0] // 2
            if thing.form == "triangle":
                assert box[half:].sum() > 1.5 * box[:half].sum()
            hole = box[half - 1 : half + 1, box.shape[1] // 2 - 1 : box.shape[1] // 2 + 1].any()
            assert hole != (thing.form == "ring")
    means = {form: np.mean(values) for form, values in filled.items()}
    assert means["square"] > 0.8 > means["circle"] > 0.7
    assert 0.4 < means["triangle"] < 0.65
    assert 0.4 < means["cross"] < 0.65


def test_two_things_can_be_told_apart():
    pairs = [scene.things for scene in SCENES if len(scene.things) == 2]
    assert len(pairs) > 100
    assert all((one.form, one.colour) != (other.form, other.colour) for one, other in pairs)
    assert {scene.where for scene in SCENES} == {*PLACES, *RELATIONS}
    assert {thing.form for pair in pairs for thing in pair} == set(FORMS)


def test_a_picture_is_a_function_of_its_number():
    assert scene_of(7) == SCENES[7]
    assert scene_of(7, seed=1) != SCENES[7]
    assert np.array_equal(draw_scene(scene_of(7)), draw_scene(SCENES[7]))
    assert not np.array_equal(draw_scene(SCENES[7]), draw_scene(SCENES[8]))


@pytest.fixture
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEREAFTER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(made_pictures, "_SHAPES", {"train": range(20), "valid": range(50, 55), "test": range(60, 67)})


@pytest.mark.usefixtures("few")
def test_shapes_are_a_corpus_of_captioned_pictures():
    corpus = corpora.locate("shapes")
    assert corpus.kind == "captioned"
    for part, numbers in (("train", range(20)), ("test", range(60, 67))):
        notes: list[str] = []
        examples = read_captioned([corpus.parts[part], corpus.parts[f"{part}.captions"]], notes)
        assert not notes
        for number, example in zip(numbers, examples, strict=True):
            assert example.captions == captions_of(scene_of(number))
            assert np.array_equal(example.picture.read(), draw_scene(scene_of(number)))


@pytest.mark.usefixtures("few")
def test_the_files_of_shapes_are_kept_and_damaged_ones_drawn_again():
    first = corpora.locate("shapes")
    before = {part: path.read_bytes() for part, path in first.parts.items()}
    first.parts["valid"].write_bytes(b"damaged")
    first.parts["test.captions"].unlink()
    again = corpora.locate("shapes")
    assert again.detail == first.detail
    assert {part: path.read_bytes() for part, path in again.parts.items()} == before
    written = first.parts["train"].stat().st_mtime_ns
    assert corpora.locate("shapes").parts["train"].stat().st_mtime_ns == written
