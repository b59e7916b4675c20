"""The panel Catch without a browser: games are the library's, what is seen is the screen around the place."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from serving_studio import Served

from thereafter.ready import tasks as ready_tasks
from thereafter.studio.panels import glimpsing as verbs
from thereafter.task_model import TaskModel, load_task
from thereafter.vision.acting.game import ACTIONS, Episode, Moment, play, screen
from thereafter.vision.made_pictures import catch_rules


@pytest.fixture(scope="module")
def catcher(ready_folder: Path) -> TaskModel:
    return load_task(ready_folder / ready_tasks.TASKS / "catch")


def ask(server: Served, **asked: Any) -> httpx.Response:
    return httpx.post(f"{server.address}/api/tasks/act", json=asked, timeout=60)


def test_a_game_is_one_of_the_test_part_and_goes_as_the_network_plays_it(catcher: TaskModel) -> None:
    assert catch_rules()["test"].seed == verbs.SEED
    for number in (0, 7):
        answer = verbs.play(catcher, number)
        own = catcher.explain(Episode(number, verbs.SEED))
        moments = play(Episode(number, verbs.SEED), lambda moment, own=own: own.actions_T[moment.row])  # type: ignore[misc]
        assert [one.ball for one in answer.steps] + [answer.ball] == [one.column for one in moments]
        assert [one.paddle for one in answer.steps] + [answer.paddle] == [one.paddle for one in moments]
        assert answer.caught == own.answer.caught
        assert (answer.size, answer.wide, answer.actions) == (24, 2, list(ACTIONS))
        for one, chances in zip(answer.steps, own.chances_TA, strict=True):
            assert one.chances == pytest.approx(chances, abs=1e-5)
            assert one.action == int(np.argmax(chances))


def test_what_a_step_saw_is_what_lies_in_its_squares(catcher: TaskModel) -> None:
    for step, one in enumerate(verbs.play(catcher, 3).steps):
        around = np.pad(screen(Moment(step, one.ball, one.paddle), 24), 48)
        shape = (one.patches.count, one.patches.height, one.patches.width)
        patches = np.frombuffer(base64.b64decode(one.patches.data), np.uint8).reshape(shape)
        for square, patch in zip(one.squares, patches, strict=True):
            left, top = square.left + 48, square.top + 48
            cut = around[top : top + square.side, left : left + square.side]
            cell = square.side // 6
            lit = cut.reshape(6, cell, 6, cell).max((1, 3))
            np.testing.assert_array_equal(patch, lit)


def test_games_over_the_wire_and_models_of_other_tasks_get_a_sentence(server: Served, catcher: TaskModel) -> None:
    answer = ask(server, model="ready:catch", number=5).json()
    assert answer["caught"] == catcher.predict(Episode(5, verbs.SEED)).caught
    assert len(answer["steps"]) == 23
    assert "expected one trained to act" in ask(server, model="ready:tagger").json()["error"]
    assert ask(server, model="ready:catch", number=-1).status_code == 422
