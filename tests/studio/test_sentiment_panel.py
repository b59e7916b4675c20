"""Sentiment: the label of a review and the evidence of its words, as the classifier says them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from serving_studio import Served

from thereafter.ready.tasks import TASKS
from thereafter.task_model import TaskModel, load_task

TEXT = "the film was not good ."


@pytest.fixture(scope="module")
def model(ready_folder: Path) -> TaskModel:
    return load_task(ready_folder / TASKS / "sentiment")


def check(page: Any, model: TaskModel, text: str) -> None:
    own = model.explain(text)
    page.wait_for_function(
        "words => [...document.querySelectorAll('.evidence button')].map(one => one.dataset.word).join(' ') === words",
        arg=" ".join(own.words),
    )
    chips = page.locator(".evidence button")
    given = chips.evaluate_all("all => all.map(one => Number(one.dataset.evidence))")
    assert given == pytest.approx(list(own.evidence), abs=1e-6)
    shown = [one.replace("−", "-") for one in chips.locator(".value").all_text_contents()]
    assert [float(one) for one in shown] == pytest.approx(list(own.evidence), abs=0.0051)
    assert all(one[0] in "+-" for one in shown)  # the sign is said, not only coloured
    assert page.locator("#verdict strong").text_content() == own.label
    bars = page.locator(".card .bar")
    assert bars.evaluate_all("all => all.map(one => one.dataset.word)") == list(own.probabilities)
    percents = [float(one.removesuffix(" %")) for one in bars.locator(".value").all_text_contents()]
    assert percents == pytest.approx([100 * p for p in own.probabilities.values()], abs=0.51)


def test_the_evidence_of_every_word_is_the_models_own(page: Any, model: TaskModel):
    page.goto("/#sentiment")
    check(page, model, TEXT)
    page.get_by_label("The review").fill("The music was GREAT, but the plot was dull")
    check(page, model, "The music was GREAT, but the plot was dull")


def test_a_word_is_left_out_by_clicking_it(page: Any, model: TaskModel):
    page.goto("/#sentiment")
    check(page, model, TEXT)
    page.get_by_role("button", name="not, ").click()
    check(page, model, "the film was good .")
    assert page.get_by_label("The review").input_value() == "the film was good ."
    page.get_by_role("button", name="Another review").click()
    check(page, model, TEXT)


@pytest.mark.wide
def test_a_run_of_the_users_can_be_picked(page: Any, server: Served, model: TaskModel):
    shutil.copytree(server.studio.tasks.place("ready:sentiment"), server.runs / "my-reviews")
    try:
        page.goto("/#sentiment")
        check(page, model, TEXT)
        page.get_by_label("Classifier").select_option("runs:my-reviews")
        page.wait_for_function("() => location.hash.includes('my-reviews')")
        page.reload()
        check(page, model, TEXT)
        assert page.get_by_label("Classifier").input_value() == "runs:my-reviews"
    finally:
        shutil.rmtree(server.runs / "my-reviews")
