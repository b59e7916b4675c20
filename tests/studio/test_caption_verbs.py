"""The Captions panel without a browser: captions and attention are the library's, files from outside are checked."""

from __future__ import annotations

import base64
import io
import shutil
import struct
import zlib
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image
from serving_studio import Served

from thereafter.ready import tasks as ready_tasks
from thereafter.studio.panels import captioning as opening
from thereafter.studio.panels import captioning as verbs
from thereafter.studio.panels.pictures import OWN, PixelsAnswer, decode_own
from thereafter.task_model import TaskModel, load_task, train_task
from thereafter.vision.captioning.task import CaptionExplained
from thereafter.vision.made_pictures import captions_of, draw_scene, scene_of


@pytest.fixture(scope="module")
def captioner(ready_folder: Path) -> TaskModel:
    return load_task(ready_folder / ready_tasks.TASKS / "shapes-captioner")


def pixels(answer: PixelsAnswer) -> np.ndarray[Any, np.dtype[np.uint8]]:
    shape = (answer.count, answer.height, answer.width, answer.channels)
    return np.frombuffer(base64.b64decode(answer.data), np.uint8).reshape(shape)


def file_of(array: np.ndarray[Any, np.dtype[np.uint8]], kind: str = "PNG") -> str:
    content = io.BytesIO()
    Image.fromarray(array).save(content, kind)
    return base64.b64encode(content.getvalue()).decode()


def ask(server: Served, **asked: Any) -> httpx.Response:
    return httpx.post(f"{server.address}/api/tasks/caption", json=asked, timeout=60)


def test_a_made_picture_is_that_of_its_number_and_was_in_no_training():
    opened = opening.open_made(3)
    scene = scene_of(200_003)
    assert np.array_equal(opened.picture.read(), draw_scene(scene))
    assert opened.references == captions_of(scene)
    shelf = opening.pictures(8)
    assert (shelf.first, len(shelf.shows), shelf.pixels.count) == (8, 8, 8)
    assert np.array_equal(pixels(shelf.pixels)[2], draw_scene(scene_of(200_010)))
    assert shelf.shows[2] == str(scene_of(200_010))
    assert len(opening.pictures(opening.MADE - 1).shows) == 1


def test_the_rule_allows_all_its_sentences_and_no_others():
    for number in (1, 2):
        opened = opening.open_made(number)
        assert opened.scene is not None
        assert len(opening.right_captions(opened.scene)) == 14  # seven forms, with sizes and without
        assert all(opened.allows(caption) for caption in opened.references)
        assert not opened.allows(f"{opened.references[0]} red")
        assert not opened.allows("")


def test_greedy_words_probabilities_and_attention_are_those_of_explain(captioner: TaskModel):
    opened = opening.open_made(5)
    answer = verbs.caption(captioner, opened)
    own = captioner.explain(opened.picture)
    assert isinstance(own, CaptionExplained)
    assert (answer.text, answer.rows, answer.columns) == (own.caption, *own.grid)
    assert [step.word for step in answer.steps] == [*own.words, "</s>"]
    assert [step.p for step in answer.steps[:-1]] == pytest.approx(own.probabilities, rel=1e-4)
    for step, weights in zip(answer.steps, own.weights, strict=False):
        assert step.weights == pytest.approx(weights.tolist(), abs=1e-4)
        assert sum(weight or 0 for weight in step.weights or ()) == pytest.approx(1, abs=1e-3)
        assert step.likeliest[0].text == step.word  # greedy takes the likeliest
        assert [one.p for one in step.likeliest] == sorted((one.p or 0 for one in step.likeliest), reverse=True)
    assert answer.pixels is not None
    assert np.array_equal(pixels(answer.pixels)[0], draw_scene(scene_of(200_005)))
    assert answer.kept == []
    assert answer.right is opened.allows(own.caption)


def test_a_beam_writes_what_predict_does_and_keeps_the_others(captioner: TaskModel):
    opened = opening.open_made(2)
    answer = verbs.caption(captioner, opened, beam=4)
    assert answer.text == captioner.predict(opened.picture, beam=4)
    assert answer.kept[0].text == answer.text
    assert len({one.text for one in answer.kept}) == len(answer.kept) > 1
    total = sum(np.log(step.p or 0) for step in answer.steps)
    assert answer.kept[0].log_prob == pytest.approx(total, rel=1e-3)


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_a_file_of_the_visitors_is_captioned_as_the_library_does(captioner: TaskModel, kind: str):
    photo = np.random.default_rng(0).integers(0, 255, (50, 80, 3), np.uint8)
    opened = opening.OpenedPicture(decode_own(file_of(photo, kind)), OWN)
    answer = verbs.caption(captioner, opened)
    assert answer.text == captioner.predict(opened.picture.read())
    assert (answer.references, answer.right, answer.name) == ([], None, "your picture")
    assert answer.pixels is not None
    assert (answer.pixels.height, answer.pixels.width) == (32, 32)


def huge_png(width: int, height: int) -> bytes:
    """A file of some bytes whose header promises millions of pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "there is no picture yet"),
        (b"\x89PNG\r\n\x1a\n" + bytes(2_000_000), "has 2.0 MB; expected at most 2 MB"),
        (b"GIF89a" + bytes(100), "neither a PNG nor a JPEG"),
        (b"no picture at all", "neither a PNG nor a JPEG"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "your picture is"),
        (huge_png(5_000, 4_000), "promises 5,000 x 4,000 pixels; expected at most 16 million"),
        (huge_png(100_000, 100_000), "your picture promises"),
        (huge_png(40, 40), "damaged or cut short"),
    ],
    ids=["none", "large", "gif", "text", "header", "20 megapixels", "bomb", "cut"],
)
def test_a_file_that_is_no_small_picture_is_refused_with_a_sentence(server: Served, content: bytes, why: str):
    asked = {"model": "ready:shapes-captioner", "source": "own", "picture": base64.b64encode(content).decode()}
    answer = ask(server, **asked)
    assert answer.status_code == 400, answer.text
    assert why in answer.json()["error"]


def test_over_the_wire_the_same_caption_and_wrong_requests_get_sentences(server: Served, captioner: TaskModel):
    answer = ask(server, model="ready:shapes-captioner", number=7, beam=2).json()
    assert answer["text"] == captioner.predict(opening.open_made(7).picture, beam=2)
    assert answer["count"] == opening.MADE
    shelf = httpx.get(f"{server.address}/api/tasks/caption/pictures?first=16").json()
    assert shelf["shows"][0] == str(scene_of(200_016))
    assert "trained to tag; expected one trained to caption" in ask(server, model="ready:tagger").json()["error"]
    assert "is not base64" in ask(server, model="ready:shapes-captioner", source="own", picture="?!").json()["error"]
    assert ask(server, model="ready:shapes-captioner", source="own", picture="A" * 2_900_000).status_code == 413


@pytest.fixture
def few_pictures(tmp_path: Path) -> list[Path]:
    """Two folders of PNG files with their captions: to learn from, and to be held out."""
    folders = [tmp_path / "train", tmp_path / "valid"]
    for folder, numbers in zip(folders, (range(4), range(4, 8)), strict=True):
        folder.mkdir()
        rows = ["image\tcaption"]
        for number in numbers:
            scene = scene_of(number)
            Image.fromarray(draw_scene(scene)).save(folder / f"{number}.png")
            rows += [f"{number}.png\t{caption}" for caption in captions_of(scene)]
        (folder / "captions.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folders


def test_a_run_of_the_users_shows_the_pictures_that_it_held_out(
    captioner: TaskModel, server: Served, few_pictures: list[Path]
):
    """Where they are still there; else a sentence says what is missing."""
    train, valid = few_pictures
    options = {**captioner.config["caption"], "epochs": 1.0, "device": "cpu"}
    train_task("caption", train, options, valid=valid, out=server.runs / "mine")
    try:
        answer = ask(server, model="runs:mine", source="held-out", number=5).json()
        assert (answer["name"], answer["count"], answer["right"]) == ("5.png", 4, None)
        assert answer["references"] == list(captions_of(scene_of(5)))
        shutil.rmtree(valid)
        server.studio.tasks.drop("runs:mine")
        gone = ask(server, model="runs:mine", source="held-out")
        assert gone.status_code == 400
        assert ask(server, model="runs:mine", number=1).status_code == 200
    finally:
        shutil.rmtree(server.runs / "mine")


def test_without_attention_there_are_no_weights(captioner: TaskModel, few_pictures: list[Path]):
    train, valid = few_pictures
    options = {**captioner.config["caption"], "see": "every", "epochs": 1.0, "device": "cpu"}
    plain = train_task("caption", train, options, valid=valid)
    answer = verbs.caption(plain, opening.open_made(1))
    assert all(step.weights is None for step in answer.steps)
    assert answer.pixels is not None
