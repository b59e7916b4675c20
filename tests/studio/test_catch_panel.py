"""Catch in a real browser: the network's game step by step, another game, and the same game played by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from thereafter.ready import tasks as ready_tasks
from thereafter.studio.panels import glimpsing as verbs
from thereafter.task_model import TaskModel, load_task
from thereafter.vision.acting.game import Episode, caught, foreseeing, play


@pytest.fixture(scope="module")
def catcher(ready_folder: Path) -> TaskModel:
    return load_task(ready_folder / ready_tasks.TASKS / "catch")


def said(page: Any, text: str) -> None:
    page.wait_for_function("text => document.querySelector('#catch-status')?.textContent.includes(text)", arg=text)


def test_a_game_is_shown_step_by_step_as_the_library_plays_it(page: Any, catcher: TaskModel) -> None:
    answer = verbs.play(catcher, 4)
    page.goto("/#catch?number=4")
    for step in (0, 1, 2):
        said(page, f"Step {step + 1} of 23 of game 4")
        assert page.locator(".catch output").text_content() == f"{step + 1} of 23"
        one = answer.steps[step]
        said(page, f"and chose {answer.actions[one.action]}")
        heights = page.locator(".levels .fill").evaluate_all(
            "all => all.map(one => parseFloat(one.style.height) / 100)"
        )
        assert heights == pytest.approx(one.chances, abs=1e-3)
        page.get_by_role("button", name="Next step").click()
    assert "step=3" in page.url
    assert page.locator(".patches canvas").count() == 3
    assert page.get_by_role("list", name="What the colours mean").locator("li").count() == 4
    page.get_by_role("slider", name="Step").fill("23")
    said(page, f"game 4 is over: the ball was {'caught' if answer.caught else 'missed'}.")
    assert page.locator(".catch output").text_content() == "the end"
    page.get_by_role("button", name="Another game").click()
    page.wait_for_function("() => !/number=4(&|$)/.test(location.hash)")
    said(page, "Step 1 of 23 of game ")


def test_the_same_game_is_played_by_keys(page: Any, catcher: TaskModel) -> None:
    page.goto("/#catch?number=9")
    said(page, "Step 1 of 23 of game 9")
    page.get_by_role("button", name="Play it yourself").click()
    assert page.get_by_text("your paddle").is_visible()
    episode = Episode(9, verbs.SEED)
    act = foreseeing(episode, 24)
    for moment in play(episode, act)[:-1]:
        said(page, f"Step {moment.row + 1} of 23: move the paddle")
        page.keyboard.press("asd"[act(moment)])
    assert caught(play(episode, act)[-1])
    said(page, "You caught the ball; the network ")
    page.get_by_role("button", name="Let the network play").click()
    said(page, "Step 1 of 23 of game 9")
