"""Moving digits in a real browser: beliefs of the library frame by frame, a drawn digit, the frames that come next."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serving_studio import Served

from thereafter.ready import tasks as ready_tasks
from thereafter.studio.panels import moving as opening
from thereafter.studio.panels import moving as verbs
from thereafter.task_model import TaskModel, load_task, train_task
from thereafter.vision.clips.clip import ClipCodec
from thereafter.vision.clips.moving import MovingRule

CODEC = ClipCodec(64, 64)


@pytest.fixture(scope="module")
def watcher(ready_folder: Path) -> TaskModel:
    return load_task(ready_folder / ready_tasks.TASKS / "moving-glyph")


@pytest.fixture
def next_run(server: Served, tmp_path: Path) -> Iterator[TaskModel]:
    """A run of the user's that expects frames, badly: it took two steps."""
    for seed, part in enumerate(("train", "valid")):
        rule = MovingRule(count=8, frames=7, size=36, slowest=2, fastest=4, seed=seed)
        (tmp_path / f"{part}.json").write_text(rule.to_json(), encoding="utf-8")
    options = {"hidden": 4, "layers": 1, "kernel": 3, "read": 4, "epochs": 1.0, "batch": 4, "device": "cpu"}
    run = server.runs / "next"
    yield train_task("next-frames", tmp_path / "train.json", options, valid=tmp_path / "valid.json", out=run)
    shutil.rmtree(run)


def believed(page: Any, frame: int) -> None:
    page.wait_for_function(
        "frame => document.querySelector('#moving-status')?.textContent.startsWith(`After frame ${frame} of `)",
        arg=frame,
    )


def best(page: Any) -> dict[str, str]:
    return dict(page.locator(".belief").evaluate_all("all => all.map(one => [one.dataset.column, one.dataset.best])"))


def test_beliefs_follow_the_frames_and_are_the_librarys(page: Any, watcher: TaskModel):
    page.goto("/#moving?number=4")
    answer = verbs.watch(watcher, opening.open_made(4, CODEC, 10))
    believed(page, 10)
    for frame in (10, 1, 3):
        page.locator("#film button").nth(frame - 1).click()
        believed(page, frame)
        expected = {one.column: one.labels[int(np.argmax(one.belief[frame - 1]))] for one in answer.beliefs}
        assert best(page) == expected
    heights = page.locator(".levels .fill").evaluate_all("all => all.map(one => parseFloat(one.style.height) / 100)")
    assert heights == pytest.approx(answer.beliefs[0].belief[2], abs=1e-3)
    page.wait_for_function("() => document.querySelectorAll('.belief .by-frame')[1].numbers")
    lines = page.locator(".belief .by-frame").nth(1).evaluate("chart => chart.numbers")
    for line in lines:
        at = answer.beliefs[1].labels.index(line["name"])
        assert line["y"] == pytest.approx([row[at] for row in answer.beliefs[1].belief])
    page.get_by_role("button", name="Next frame").click()
    believed(page, 4)
    assert "frame=4" in page.url
    page.get_by_role("button", name="Another clip").click()
    page.wait_for_function("() => !/number=4(&|$)/.test(location.hash)")


def test_a_digit_is_drawn_with_the_mouse_and_sent_off(page: Any, watcher: TaskModel):
    page.goto("/#moving?source=drawn")
    pad = page.get_by_role("img", name="Your digit")
    pad.wait_for()
    assert not page.locator("#film").is_visible()
    box = pad.bounding_box()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.15 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.85 * box["height"], steps=6)
    page.mouse.up()
    believed(page, 10)
    ink = page.evaluate("new URLSearchParams(location.hash.split('?')[1]).get('ink')")
    levels = np.array([int(one, 16) for one in ink]).reshape(28, 28)
    assert levels[4:24, 13:15].min() == 15  # the stroke goes from top to bottom, in the middle
    assert levels[:, :11].max() == levels[:, 17:].max() == 0
    page.get_by_role("combobox", name="It goes").select_option("4")
    page.get_by_role("slider", name="Speed").fill("2")
    page.wait_for_function("() => document.querySelector('#moving-status').textContent.includes('True: direction N.')")
    page.wait_for_function("() => location.hash.includes('speed=2')")
    own = watcher.explain(opening.open_drawn(ink, 4, 2.0, CODEC, 10).frames_THW)
    page.wait_for_function(
        "digit => document.querySelector('.belief[data-column=digit]').dataset.best === digit",
        arg=own.answer.labels["digit"],
    )
    page.get_by_role("button", name="Clear").click()
    page.locator("#film").wait_for(state="hidden")
    page.get_by_role("combobox", name="Begin with").select_option("3")
    believed(page, 10)


@pytest.mark.wide
def test_the_next_frames_of_a_run_stand_beside_what_came(page: Any, next_run: TaskModel):
    page.goto("/#moving?number=2&next=runs:next")
    page.wait_for_selector("#foreseen-errors .main-svg")
    page.get_by_role("combobox", name="Network").last.select_option("runs:next")
    page.wait_for_function("() => document.querySelectorAll('.foreseen canvas').length === 9")
    answer = verbs.foresee(next_run, opening.open_made(2, verbs.codec_of(next_run, "next-frames"), 7))
    page.wait_for_function("() => document.querySelector('#foreseen-errors').numbers[0].y.length === 3")
    network, copied = page.locator("#foreseen-errors").evaluate("chart => chart.numbers")
    assert network["y"] == pytest.approx(answer.errors)
    assert copied["y"] == pytest.approx(answer.copied)
    assert "read 4 frames and expected 3" in page.locator("#foreseen-note").text_content()
