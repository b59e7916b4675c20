"""Drawing in a real browser: canvases, windows and nats of the library, stroke by stroke; new pictures by the dice."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from thereafter.ready import tasks as ready_tasks
from thereafter.studio.panels import glimpsing as verbs
from thereafter.studio.panels import pictures as opening
from thereafter.studio.panels.glimpsing import DrawingAnswer
from thereafter.task_model import TaskModel, load_task


@pytest.fixture(scope="module")
def drawer(ready_folder: Path) -> TaskModel:
    return load_task(ready_folder / ready_tasks.TASKS / "glyph-drawer")


def drawn(page: Any, stroke: int, name: str) -> None:
    page.wait_for_function(
        "([at, name]) => { const text = document.querySelector('#drawing-status')?.textContent ?? '';"
        " const begin = at ? `After stroke ${at} of ` : 'Before the first';"
        " return text.startsWith(begin) && text.includes(`of ${name}.`); }",
        arg=[stroke, name],
    )


def means(page: Any, selector: str) -> list[float]:
    """The mean brightness of canvases."""
    grey: list[float] = page.locator(selector).evaluate_all(
        """all => all.map((canvas) => {
          const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
          let sum = 0;
          for (let at = 0; at < data.length; at += 4) sum += data[at];
          return (4 * sum) / data.length;
        })"""
    )
    return grey


def brightness(answer: DrawingAnswer) -> list[float]:
    packed = np.frombuffer(base64.b64decode(answer.canvases.data), np.uint8)
    return [float(one.mean()) for one in packed.reshape(answer.canvases.count, -1)]


def test_a_new_picture_grows_stroke_by_stroke_and_the_dice_draw_another(page: Any, drawer: TaskModel) -> None:
    page.goto("/#drawing?number=3")
    answer = verbs.draw_new(drawer, 3)
    drawn(page, 8, "new picture 3")
    assert means(page, "#drawing-film canvas") == pytest.approx(brightness(answer), abs=2.5)
    assert page.locator("#drawing-target").is_hidden()
    heights = page.locator(".levels .fill").evaluate_all("all => all.map(one => parseFloat(one.style.height) / 100)")
    changed = np.array([one.changed for one in answer.strokes])
    assert heights == pytest.approx((changed / changed.max()).tolist(), abs=1e-3)
    page.get_by_role("slider", name="Stroke").fill("0")
    drawn(page, 0, "new picture 3")
    page.get_by_role("button", name="Next stroke").click()
    drawn(page, 1, "new picture 3")
    assert "stroke=1" in page.url
    page.keyboard.press("ArrowRight")
    drawn(page, 2, "new picture 3")
    page.get_by_role("button", name="Another picture").click()
    page.wait_for_function("() => !/number=3(&|$)/.test(location.hash)")
    seed = int(page.evaluate("new URLSearchParams(location.hash.split('?')[1]).get('number')"))
    drawn(page, 2, f"new picture {seed}")
    assert means(page, "#drawing-film canvas") == pytest.approx(brightness(verbs.draw_new(drawer, seed)), abs=2.5)


def test_a_digit_is_drawn_again_with_its_nats_and_windows(page: Any, drawer: TaskModel) -> None:
    page.goto("/#drawing?source=made&number=6&stroke=2")
    answer = verbs.draw_again(drawer, opening.open_digit_made(6, verbs.drawer_of(drawer)[1], 0))
    drawn(page, 2, "picture 6")
    cards = page.locator(".belief")
    assert cards.count() == 2
    for at, name in enumerate(("latent", "left")):
        values = np.array([vars(one)[name] for one in answer.strokes], float)
        heights = (
            cards.nth(at).locator(".fill").evaluate_all("all => all.map(one => parseFloat(one.style.height) / 100)")
        )
        assert heights == pytest.approx((values / values.max()).tolist(), abs=1e-3)
    strokes, left = sum(one.latent or 0.0 for one in answer.strokes), answer.strokes[-1].left
    assert left is not None
    assert answer.nats == pytest.approx(strokes + left, abs=0.1)
    assert (
        f"cost {answer.nats:.3g} nats ({strokes:.3g} and {left:.3g})" in page.locator("#drawing-status").text_content()
    )
    without = means(page, "#drawing-target")
    page.get_by_role("button", name="Start again").click()
    drawn(page, 0, "picture 6")
    assert means(page, "#drawing-target") != without  # the window of reading is drawn over it
    label = page.locator("#drawing-canvas").get_attribute("aria-label")
    assert label is not None
    assert label.startswith("The canvas. Before the first of 8 strokes")


@pytest.mark.wide
def test_the_visitors_digit_is_drawn_again(page: Any, drawer: TaskModel) -> None:
    page.goto("/#drawing")
    drawn(page, 8, "new picture 0")
    page.get_by_role("combobox", name="Picture").select_option("drawn")
    page.locator("#drawing-film").wait_for(state="hidden")
    page.get_by_role("combobox", name="Begin with").select_option("5")
    drawn(page, 8, "your digit")
    ink = page.evaluate("new URLSearchParams(location.hash.split('?')[1]).get('ink')")
    own = verbs.draw_again(drawer, opening.open_digit_drawn(ink, 0, verbs.drawer_of(drawer)[1]))
    assert f"cost {own.nats:.3g} nats" in page.locator("#drawing-status").text_content()
