"""The panel Glimpses without a browser: pictures of the rule, squares of what was seen, beliefs of the library."""

from __future__ import annotations

import base64
import io
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from serving_studio import Served

from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.studio.panels import glimpsing as verbs
from thereafter.studio.panels import pictures as opening
from thereafter.studio.panels.moving import written_digit
from thereafter.studio.panels.pictures import PixelsAnswer
from thereafter.task_model import TaskModel, train_task
from thereafter.vision.glimpsing.task import GlimpsesExplained
from thereafter.vision.made_pictures import clutter_rules
from thereafter.vision.pictures.codec import PictureCodec
from thereafter.vision.pictures.glyphs import SIDE, ClutteredPictures, ClutterRule, numbered_glyphs
from thereafter.vision.pictures.labelled_pictures import LabelledPicture

SEVEN = written_digit(7).ink
OPTIONS = {"glimpses": 3, "patch": 6, "scales": 2, "hidden": 8, "read": 8, "epochs": 1.0, "batch": 8, "device": "cpu"}


def codec(side: int) -> PictureCodec:
    return PictureCodec("pixels", side, side, 1, (0.1,), (0.3,))


def trained_looker(folder: Path, size: int, **options: object) -> TaskModel:
    """A network that has hardly learned where to look."""
    for seed, part in enumerate(("train", "valid")):
        rule = ClutterRule(count=16 if seed else 64, size=size, seed=seed, end=200)
        (folder / f"{part}.json").write_text(rule.to_json(), encoding="utf-8")
    return train_task("glimpse", folder / "train.json", OPTIONS | options, valid=folder / "valid.json")


@pytest.fixture(scope="module")
def looker(tmp_path_factory: pytest.TempPathFactory) -> TaskModel:
    return trained_looker(tmp_path_factory.mktemp("rules"), 40)


@pytest.fixture
def looker_run(server: Served, looker: TaskModel) -> Iterator[str]:
    """The same as a run of the user's."""
    looker.save(server.runs / "looker")
    yield "runs:looker"
    shutil.rmtree(server.runs / "looker")


def pixels_of(answer: PixelsAnswer) -> NDArray[np.uint8]:
    shape = (answer.count, answer.height, answer.width, answer.channels)
    return np.frombuffer(base64.b64decode(answer.data), np.uint8).reshape(shape)


def test_made_digits_are_of_the_test_part_and_as_large_as_the_network_reads() -> None:
    large = opening.open_digit_made(2003, codec(60), pieces=4)
    test = ClutteredPictures(clutter_rules("cluttered-glyphs")["test"])
    assert np.array_equal(large.picture.read(), test.read(3))
    assert (large.label, large.count, large.name) == (test.labels()[3], 2_000, "picture 3")
    assert opening.open_digit_made(3, codec(40), pieces=0).picture.read().shape == (40, 40, 1)
    small = opening.open_digit_made(7, codec(28), pieces=4)
    assert np.array_equal(small.picture.read()[..., 0], numbered_glyphs([5_007])[0])
    assert small.label == "7"


def test_a_drawn_digit_is_put_where_its_number_says() -> None:
    places = []
    for number in range(6):
        opened = opening.open_digit_drawn(SEVEN, number, codec(60))
        pixels_HW = opened.picture.read()[..., 0]
        assert pixels_HW.shape == (60, 60)
        assert (opened.label, opened.name) == (None, "your digit")
        rows, columns = np.nonzero(pixels_HW)
        places.append((int(rows.min()), int(columns.min())))
        assert max(np.ptp(rows), np.ptp(columns)) == 18  # as large as digits of a training
    assert len(set(places)) > 3
    whole = opening.open_digit_drawn(SEVEN, 5, codec(SIDE)).picture.read()
    assert whole.shape == (SIDE, SIDE, 1)
    with assert_refused(OptionError, "drawn"):
        opening.open_digit_drawn("", 0, codec(60))


def test_glimpses_and_beliefs_are_those_of_explain_and_squares_hold_what_was_seen(looker: TaskModel) -> None:
    opened = opening.open_digit_made(4, codec(40), verbs.PIECES)
    answer = verbs.glimpse(looker, opened)
    own = looker.explain(LabelledPicture(opened.picture))
    assert isinstance(own, GlimpsesExplained)
    picture_HW = opened.picture.read()[..., 0]
    assert np.array_equal(pixels_of(answer.pixels)[0, ..., 0], picture_HW)
    assert (answer.label, answer.true, answer.labels) == (own.label, opened.label, list(own.names))
    framed = np.pad(picture_HW.astype(np.float64), 60)
    for at, one in enumerate(answer.glimpses):
        assert (one.column, one.row) == pytest.approx(own.places_T2[at].tolist(), abs=1e-3)
        assert one.belief == pytest.approx(own.beliefs_TL[at].tolist(), abs=1e-5)
        assert [square.side for square in one.squares] == [6, 12]
        for square, seen in zip(one.squares, pixels_of(one.patches), strict=True):
            top, left = 60 + square.top, 60 + square.left
            cut = framed[top : top + square.side, left : left + square.side]
            times = square.side // 6
            means = cut.reshape(6, times, 6, times).mean((1, 3))
            np.testing.assert_allclose(seen[..., 0], means, atol=0.51)


def test_a_network_that_sees_the_whole_picture_has_no_squares(tmp_path: Path) -> None:
    whole = trained_looker(tmp_path, 30, places="all")
    (seen,) = verbs.glimpse(whole, opening.open_digit_made(1, codec(30), 4)).glimpses
    assert seen.squares == []
    assert (seen.patches.height, seen.patches.width) == (30, 30)


def test_over_the_wire_glimpses_are_the_same_and_others_get_a_sentence(
    server: Served, looker: TaskModel, looker_run: str
) -> None:
    def ask(**asked: object) -> httpx.Response:
        return httpx.post(f"{server.address}/api/tasks/glimpse", json={"model": looker_run, **asked})

    made = ask(number=5).json()
    own = verbs.glimpse(looker, opening.open_digit_made(5, codec(40), verbs.PIECES))
    assert made == own.model_dump()
    held_out = ask(source="held-out", number=17).json()
    assert (held_out["name"], held_out["count"]) == ("picture 1", 16)
    assert held_out["true"] in "0123456789"
    drawn = ask(source="drawn", ink=SEVEN, number=3).json()
    assert (drawn["name"], drawn["true"]) == ("your digit", None)
    content = io.BytesIO()
    Image.fromarray(np.full((20, 50, 3), 90, np.uint8)).save(content, "PNG")
    file = ask(source="own", picture=base64.b64encode(content.getvalue()).decode()).json()
    assert (file["pixels"]["height"], file["pixels"]["width"], file["pixels"]["channels"]) == (40, 40, 1)
    assert "there is no picture yet" in ask(source="own").json()["error"]
    assert "nothing is drawn yet" in ask(source="drawn").json()["error"]
    assert ask(source="drawn", ink="f" * 783).status_code == 422
    assert "expected one trained to glimpse" in ask(model="ready:moving-glyph").json()["error"]
