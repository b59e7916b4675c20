"""Glimpses in a real browser: squares where the network looked, beliefs of the library, drawn digits and files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from thereafter.ready import tasks as ready_tasks
from thereafter.studio.panels import glimpsing as verbs
from thereafter.studio.panels import pictures as opening
from thereafter.task_model import TaskModel, load_task


@pytest.fixture(scope="module")
def looker(ready_folder: Path) -> TaskModel:
    return load_task(ready_folder / ready_tasks.TASKS / "glyph-glimpses")


def glimpsed(page: Any, glimpse: int) -> None:
    page.wait_for_function(
        "at => document.querySelector('#glimpse-status')?.textContent.startsWith(`After glimpse ${at} of `)",
        arg=glimpse,
    )


def test_beliefs_and_squares_follow_the_glimpses_and_are_the_librarys(page: Any, looker: TaskModel) -> None:
    page.goto("/#glimpses?number=4")
    answer = verbs.glimpse(looker, opening.open_digit_made(4, verbs.glimpse_codec(looker), verbs.PIECES))
    glimpsed(page, 6)
    for at in (6, 1, 3):
        page.locator("#glimpse-film button").nth(at - 1).click()
        glimpsed(page, at)
        belief = [one or 0.0 for one in answer.glimpses[at - 1].belief]
        best = page.locator(".belief").get_attribute("data-best")
        assert best == answer.labels[int(np.argmax(belief))]
        heights = page.locator(".levels .fill").evaluate_all(
            "all => all.map(one => parseFloat(one.style.height) / 100)"
        )
        assert heights == pytest.approx(belief, abs=1e-3)
    sharp = answer.glimpses[2].squares[0]
    side = answer.pixels.width
    colour = page.locator("canvas.seen").evaluate(
        """(canvas, [x, y]) => {
          const ink = canvas.getContext("2d");
          return [...ink.getImageData(x * canvas.width, y * canvas.height, 1, 1).data];
        }""",
        [(sharp.left + sharp.side / 2) / side, min(side - 0.2, max(0.2, sharp.top)) / side],
    )
    if 0 < sharp.top < side:
        assert colour[:3] == [0xE6, 0x9F, 0x00]
    assert page.locator(".patches li").count() == len(answer.glimpses[2].squares)
    assert f"True: {answer.true}." in page.locator("#glimpse-status").text_content()
    page.get_by_role("button", name="Next glimpse").click()
    glimpsed(page, 4)
    assert "glimpse=4" in page.url
    page.get_by_role("slider", name="Glimpse").fill("2")
    glimpsed(page, 2)
    page.get_by_role("button", name="Start again").click()
    page.get_by_text("has been seen yet").wait_for()
    page.get_by_role("button", name="Another picture").click()
    page.wait_for_function("() => !/number=4(&|$)/.test(location.hash)")


@pytest.mark.wide
def test_a_digit_is_drawn_and_put_somewhere_else_by_the_dice(page: Any, looker: TaskModel) -> None:
    page.goto("/#glimpses?source=drawn&number=1")
    pad = page.get_by_role("img", name="Your digit")
    pad.wait_for()
    assert not page.locator("#glimpse-film").is_visible()
    box = pad.bounding_box()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.15 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.85 * box["height"], steps=6)
    page.mouse.up()
    glimpsed(page, 6)
    ink = page.evaluate("new URLSearchParams(location.hash.split('?')[1]).get('ink')")
    own = verbs.glimpse(looker, opening.open_digit_drawn(ink, 1, verbs.glimpse_codec(looker)))
    assert f"it believes: {own.label}, " in page.locator("#glimpse-status").text_content()
    page.get_by_role("button", name="Another picture").click()
    page.wait_for_function("() => !/number=1(&|$)/.test(location.hash)")
    page.get_by_role("button", name="Clear").click()
    page.locator("#glimpse-film").wait_for(state="hidden")


def test_a_file_is_looked_at_and_what_is_no_picture_is_refused(page: Any, looker: TaskModel) -> None:
    page.goto("/#glimpses?source=own")
    chooser = page.get_by_label("A PNG or JPEG")
    chooser.wait_for()
    pixels = np.zeros((60, 60), np.uint8)
    pixels[20:50, 28:33] = 255
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "PNG")
    chooser.set_input_files({"name": "one.png", "mimeType": "image/png", "buffer": content.getvalue()})
    glimpsed(page, 6)
    assert f"of your picture it believes: {looker.predict(pixels)}, " in page.locator("#glimpse-status").text_content()
    chooser.set_input_files({"name": "fake.png", "mimeType": "image/png", "buffer": b"no picture"})
    page.wait_for_function(
        "why => [...document.querySelectorAll('.error')].some(one => one.textContent.includes(why))",
        arg="neither a PNG nor a JPEG",
    )
