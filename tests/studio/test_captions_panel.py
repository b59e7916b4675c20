"""Captions in a real browser: the words of the library, light where it looked, files that are dropped or refused."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from thereafter.ready import tasks as ready_tasks
from thereafter.studio.panels import captioning as opening
from thereafter.studio.panels import captioning as verbs
from thereafter.task_model import TaskModel, load_task


@pytest.fixture(scope="module")
def captioner(ready_folder: Path) -> TaskModel:
    return load_task(ready_folder / ready_tasks.TASKS / "shapes-captioner")


def written(page: Any, text: str) -> None:
    """Wait for a caption."""
    page.wait_for_function(
        "text => document.querySelector('#caption')?.textContent.trim().replace(/\\s+/g, ' ') === text", arg=text
    )


def light(page: Any, rows: int, columns: int) -> np.ndarray[Any, Any]:
    """The mean brightness of the large picture at each place of the grid."""
    means = page.locator("canvas.seen").evaluate(
        """(canvas, [rows, columns]) => {
          const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
          const sums = new Array(rows * columns).fill(0);
          for (let i = 0; i < data.length / 4; i += 1) {
            const row = Math.floor(((i / canvas.width) * rows) / canvas.height);
            const at = row * columns + Math.floor(((i % canvas.width) * columns) / canvas.width);
            sums[at] += data[4 * i] + data[4 * i + 1] + data[4 * i + 2];
          }
          return sums;
        }""",
        [rows, columns],
    )
    return np.array(means) / max(means)


def test_words_bars_and_rule_are_those_of_the_library_and_the_dice_roll(page: Any, captioner: TaskModel):
    page.goto("/#captions?number=9&step=2")
    answer = verbs.caption(captioner, opening.open_made(9))
    written(page, answer.text)
    shown = page.locator("#caption-words button span").all_text_contents()
    assert shown == [*(step.word for step in answer.steps[:-1]), "end"]
    assert page.locator("#caption mark").text_content() == answer.steps[1].word
    bars = page.locator(".bars .bar").evaluate_all("all => all.map(one => one.dataset.word)")
    assert bars == [one.text.replace("</s>", "(end)") for one in answer.steps[1].likeliest]
    assert page.locator("#caption-right li").all_text_contents() == answer.references
    allowed = "allows this" if answer.right else "allows other"
    assert allowed in page.locator("#caption-verdict").text_content()
    before = page.url
    page.get_by_role("button", name="Another picture").click()
    page.wait_for_function("before => location.href !== before && !location.hash.includes('number=9&')", arg=before)
    number = int(page.evaluate("new URLSearchParams(location.hash.split('?')[1]).get('number')"))
    written(page, verbs.caption(captioner, opening.open_made(number)).text)


def test_the_picture_is_brightest_where_the_network_looked_most(page: Any, captioner: TaskModel):
    answer = verbs.caption(captioner, opening.open_made(14))
    weights = [np.array(step.weights, float) for step in answer.steps]
    at = max(range(len(weights)), key=lambda step: float(weights[step].max()))
    page.goto("/#captions?number=14&step=0")
    written(page, answer.text)
    page.get_by_text("Nothing has been written yet").wait_for()
    whole = light(page, answer.rows, answer.columns)
    page.locator("#caption-words button").nth(at).click()
    page.wait_for_function("step => location.hash.includes(`step=${step}`)", arg=at + 1)
    looked = light(page, answer.rows, answer.columns)
    gained = looked / whole
    assert int(gained.argmax()) == int(weights[at].argmax())
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("step => location.hash.includes(`step=${step}`)", arg=at)


@pytest.mark.wide
def test_a_beam_is_searched_and_a_shelf_picture_taken(page: Any, captioner: TaskModel):
    page.goto("/#captions?number=17")
    page.get_by_role("combobox", name="Caption by").select_option("5")
    answer = verbs.caption(captioner, opening.open_made(17), beam=5)
    written(page, answer.text)
    page.wait_for_function("() => document.querySelectorAll('#caption-kept li').length === 5")
    assert answer.kept[1].text in page.locator("#caption-kept li").nth(1).text_content()
    page.locator(".shelf button").nth(3).click()
    written(page, verbs.caption(captioner, opening.open_made(19), beam=5).text)
    assert "number=19" in page.url
    assert page.locator(".shelf button[aria-pressed=true]").count() == 1


def png(pixels: np.ndarray[Any, Any]) -> bytes:
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "PNG")
    return content.getvalue()


@pytest.mark.wide
def test_a_file_is_captioned_a_dropped_one_too_and_others_are_refused(page: Any, captioner: TaskModel):
    page.goto("/#captions?source=own")
    chooser = page.get_by_label("A PNG or JPEG")
    chooser.wait_for()
    assert not page.locator("#picture").is_visible()
    red = np.zeros((40, 60, 3), np.uint8)
    red[10:30, 20:40, 0] = 220
    chooser.set_input_files({"name": "red.png", "mimeType": "image/png", "buffer": png(red)})
    written(page, captioner.predict(red))
    assert page.locator("#caption-right").is_hidden()
    for name, kind, content, why in (
        ("big.png", "image/png", bytes(2_000_001), "big.png has 2.0 MB; expected at most 2 MB"),
        ("notes.txt", "text/plain", b"a", "notes.txt is neither a PNG nor a JPEG"),
        ("fake.png", "image/png", b"no picture", "neither a PNG nor a JPEG"),
        ("cut.png", "image/png", png(red)[:60], "damaged or cut short"),
    ):
        chooser.set_input_files({"name": name, "mimeType": kind, "buffer": content})
        page.wait_for_function(
            "why => [...document.querySelectorAll('.error')].some(one => one.textContent.includes(why))", arg=why
        )
    blue = np.roll(red, 2, axis=2)
    page.goto("/#captions?number=3")
    page.wait_for_selector("#caption-words button")
    dropped = page.evaluate_handle(
        """bytes => {
          const data = new DataTransfer();
          data.items.add(new File([new Uint8Array(bytes)], "blue.png", { type: "image/png" }));
          return data;
        }""",
        list(png(blue)),
    )
    page.dispatch_event(".captions", "drop", {"dataTransfer": dropped})
    written(page, captioner.predict(blue))
    assert "source=own" in page.url
