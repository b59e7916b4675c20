"""The panel Drawing without a browser: canvases, windows and nats are the library's, stroke by stroke."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray
from serving_studio import Served

from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.studio.panels import glimpsing as verbs
from thereafter.studio.panels import pictures as opening
from thereafter.studio.panels.moving import written_digit
from thereafter.studio.panels.pictures import PixelsAnswer
from thereafter.task_model import TaskModel, train_task
from thereafter.vision.drawing.network import Drawer
from thereafter.vision.drawing.task import RedrawnExplained
from thereafter.vision.pictures.glyphs import ClutterRule
from thereafter.vision.pictures.picture import given_array

OPTIONS = {"hidden": 8, "latent": 3, "strokes": 4, "read": 2, "write": 3, "epochs": 1.0, "batch": 8, "device": "cpu"}


def trained_drawer(folder: pytest.TempPathFactory, **options: object) -> TaskModel:
    """A network that has hardly learned to draw."""
    place = folder.mktemp("rules")
    for seed, part in enumerate(("train", "valid")):
        rule = ClutterRule(count=16, size=29, pieces=0, seed=seed, end=200)
        (place / f"{part}.json").write_text(rule.to_json(), encoding="utf-8")
    return train_task("draw", place / "train.json", OPTIONS | options, valid=place / "valid.json")


@pytest.fixture(scope="module")
def drawer(tmp_path_factory: pytest.TempPathFactory) -> TaskModel:
    return trained_drawer(tmp_path_factory)


@pytest.fixture
def drawer_run(server: Served, drawer: TaskModel) -> Iterator[str]:
    """The same as a run of the user's."""
    drawer.save(server.runs / "drawer")
    yield "runs:drawer"
    shutil.rmtree(server.runs / "drawer")


def canvases_of(answer: PixelsAnswer) -> NDArray[np.uint8]:
    shape = (answer.count, answer.height, answer.width)
    return np.frombuffer(base64.b64decode(answer.data), np.uint8).reshape(shape)


def test_a_picture_is_drawn_again_as_explain_and_trace_have_it(drawer: TaskModel) -> None:
    _, codec = verbs.drawer_of(drawer)
    opened = opening.open_digit_made(6, codec, 0)
    answer = verbs.draw_again(drawer, opened)
    own, trace = drawer.explain(opened.picture), drawer.trace(opened.picture)
    assert isinstance(own, RedrawnExplained)
    canvases = canvases_of(answer.canvases)
    assert len(canvases) == 5  # the empty one as well
    np.testing.assert_allclose(canvases[1:] / 255, own.canvases_TCHW[:, 0], atol=0.503 / 255)
    assert [one.latent for one in answer.strokes] == pytest.approx(own.answer.latent_T, abs=1e-3)
    assert answer.strokes[-1].left == pytest.approx(own.answer.pixels, rel=1e-4)
    assert answer.nats == pytest.approx(own.answer.nats, rel=1e-5)
    for stroke, one in enumerate(answer.strokes):
        for name, window, places in (("read", one.read, 2), ("write", one.write, 3)):
            assert window is not None
            assert (window.row, window.column) == pytest.approx(trace.arrays[f"{name}.centre"][stroke], abs=1e-3)
            assert window.stride == pytest.approx(trace.arrays[f"{name}.stride"][stroke], abs=1e-3)
            assert window.deviation == pytest.approx(trace.arrays[f"{name}.deviation"][stroke], abs=1e-3)
            assert window.places == places
    shown = canvases_of(answer.pixels) if answer.pixels else None
    assert shown is not None
    assert np.array_equal(shown[0], opened.picture.read()[..., 0])


def test_what_is_left_are_the_nats_of_the_drawn_pixels_by_each_canvas(drawer: TaskModel) -> None:
    """All pixels of this picture are 0 or 255, so that the drawn ones are known."""
    _, codec = verbs.drawer_of(drawer)
    black = opening.OpenedDigit(given_array(np.zeros((29, 29, 1), np.uint8)), "black")
    answer = verbs.draw_again(drawer, black)
    own = drawer.explain(black.picture)
    assert isinstance(own, RedrawnExplained)
    left = -np.log1p(-own.canvases_TCHW.astype(np.float64)).sum((1, 2, 3))
    assert [one.left for one in answer.strokes] == pytest.approx(left, rel=1e-4)
    changed = np.abs(np.diff(own.canvases_TCHW.astype(np.float64), axis=0)).sum((1, 2, 3))
    assert [one.changed for one in answer.strokes[1:]] == pytest.approx(changed, abs=1e-3)
    blank = 29 * 29 * -np.log1p(-codec.mean[0])
    assert answer.left == pytest.approx(blank, rel=0.2)  # it has learned a little


def test_a_new_picture_is_that_of_its_seed_and_reads_nothing(drawer: TaskModel) -> None:
    answer = verbs.draw_new(drawer, 3)
    assert isinstance(drawer.net, Drawer)
    own = drawer.net.sample(1, 3).numpy()[0, 0]
    np.testing.assert_allclose(canvases_of(answer.canvases)[-1] / 255, own, atol=0.503 / 255)
    assert (answer.pixels, answer.left, answer.nats) == (None, None, None)
    assert {(one.read, one.latent, one.left) for one in answer.strokes} == {(None, None, None)}
    assert all(one.write is not None for one in answer.strokes)
    other = verbs.draw_new(drawer, 4)
    assert other.canvases.data != answer.canvases.data


def test_without_attention_there_are_no_windows_and_lone_pixels_are_refused(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    plain = trained_drawer(tmp_path_factory, attend=False)
    answer = verbs.draw_again(plain, opening.open_digit_made(1, verbs.drawer_of(plain)[1], 0))
    assert {(one.read, one.write) for one in answer.strokes} == {(None, None)}
    assert len(answer.strokes) == 4
    with assert_refused(OptionError, "pixel"):
        verbs.draw_new(trained_drawer(tmp_path_factory, model="pixels"), 0)


def test_over_the_wire_drawings_are_the_same_and_others_get_a_sentence(
    server: Served, drawer: TaskModel, drawer_run: str
) -> None:
    def ask(verb: str = "draw", **asked: object) -> httpx.Response:
        return httpx.post(f"{server.address}/api/tasks/{verb}", json={"model": drawer_run, **asked})

    assert ask("draw/new", seed=2).json() == verbs.draw_new(drawer, 2).model_dump()
    _, codec = verbs.drawer_of(drawer)
    assert ask(number=3).json() == verbs.draw_again(drawer, opening.open_digit_made(3, codec, 0)).model_dump()
    held_out = ask(source="held-out", number=17).json()
    assert (held_out["name"], held_out["count"]) == ("picture 1", 16)
    drawn = ask(source="drawn", ink=written_digit(4).ink).json()
    assert (drawn["name"], len(drawn["strokes"])) == ("your digit", 4)
    assert ask("draw/new", seed=-1).status_code == 422
    assert "expected one trained to draw" in ask("draw/new", model="ready:tagger").json()["error"]
