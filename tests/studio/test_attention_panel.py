"""Attention: the heat map follows the translator word by word, and its numbers are the model's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from thereafter.ready.tasks import TASKS
from thereafter.task_model import TaskModel, load_task

TEXT = "the red house hides the black cat"
LINK = "/#attention?text=the+red+house+hides+the+black+cat&step="


@pytest.fixture(scope="module")
def model(ready_folder: Path) -> TaskModel:
    return load_task(ready_folder / TASKS / "attention")


def seen(page: Any) -> list[list[float]]:
    """The weights of the rows that can be seen."""
    return page.locator(".looked tbody tr:not(.later)").evaluate_all(
        "rows => rows.map(row => [...row.querySelectorAll('td')].map(cell => Number(cell.dataset.weight)))"
    )


def test_every_step_shows_its_row_of_weights(page: Any, model: TaskModel):
    own = model.explain(TEXT)
    page.goto(LINK + "0")
    page.wait_for_selector(".looked tbody tr")
    assert seen(page) == []
    heads = page.locator(".looked thead th").all_text_contents()
    assert heads == [*TEXT.split(), "</s>"]
    for step in range(1, len(own.target) + 1):
        page.get_by_role("button", name="Next word").click()
        rows = seen(page)
        assert len(rows) == step
        assert rows == [pytest.approx(row) for row in own.weights[:step].tolist()]
        status = page.locator(".place [role=status]", has_text=f"Step {step} of {len(own.target)}").text_content()
        assert f"“{own.target[step - 1].strip()}”" in status
        assert f"“{own.source[int(own.weights[step - 1].argmax())].strip()}”" in status
        assert "sum to 1.000" in page.locator(".card").text_content()
    assert page.get_by_role("button", name="Next word").is_disabled()
    shown = page.locator(".looked tbody tr").first.locator("td").all_text_contents()
    assert [float(number) for number in shown] == pytest.approx(own.weights[0].tolist(), abs=0.0051)


@pytest.mark.wide
def test_arrow_keys_play_and_a_word_lead_through_the_sentence(page: Any, model: TaskModel):
    last = len(model.explain(TEXT).target)
    page.goto(LINK + "1")
    page.wait_for_selector('.looked tr[data-step="1"][aria-current]')
    page.locator("h2").click()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector('.looked tr[data-step="2"][aria-current]')
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector('.looked tr[data-step="1"][aria-current]')
    page.get_by_role("button", name="Play").click()
    page.wait_for_selector('.looked tr[data-step="2"][aria-current]')
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Start again").click()
    page.wait_for_function("() => document.querySelectorAll('.looked tbody tr:not(.later)').length === 0")
    page.goto("about:blank")
    page.goto(f"{LINK}{last}")
    page.wait_for_selector(f'.looked tr[data-step="{last}"][aria-current]')
    page.locator('.looked tr[data-step="1"] button').click()
    page.wait_for_selector('.looked tr[data-step="1"][aria-current]')
    assert len(seen(page)) == 1


def test_another_sentence_is_translated(page: Any, model: TaskModel):
    page.goto(LINK + "1")
    page.wait_for_selector(".looked tbody tr")
    page.get_by_label("The sentence to translate").fill("the round table")
    own = model.explain("the round table")
    page.wait_for_function("count => document.querySelectorAll('.looked thead th').length === count", arg=4)
    page.get_by_role("button", name="Next word").click()
    assert seen(page) == [pytest.approx(row) for row in own.weights[:2].tolist()]
    page.get_by_label("The sentence to translate").fill("")
    page.wait_for_selector(".error >> text=Type a sentence")
