"""Tagging: every word with its tag and the likeliest ones, as the tagger says them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from serving_studio import Served
from visits import visiting

from thereafter.ready.tasks import TASKS
from thereafter.task_model import TaskModel, load_task


@pytest.fixture(scope="module")
def model(ready_folder: Path) -> TaskModel:
    return load_task(ready_folder / TASKS / "tagger")


def wait_for_words(page: Any, words: list[str]) -> None:
    page.wait_for_function(
        "words => [...document.querySelectorAll('.tagged > li')].map(one => one.dataset.word).join(' ') === words",
        arg=" ".join(words),
    )


def check(page: Any, model: TaskModel, text: str) -> None:
    own = model.explain(text)
    wait_for_words(page, list(own.words))
    cards = page.locator(".tagged > li")
    assert cards.evaluate_all("all => all.map(one => one.dataset.tag)") == list(own.tags)
    for at, best in enumerate(own.likeliest):
        bars = cards.nth(at).locator(".bar")
        assert bars.evaluate_all("all => all.map(one => one.dataset.word)") == [tag for tag, _ in best]
        shown = [float(one.removesuffix(" %")) for one in bars.locator(".value").all_text_contents()]
        assert shown == pytest.approx([100 * p for _, p in best], abs=0.51)
        assert (" ?" in cards.nth(at).text_content()) == (not own.known[at])


def test_tags_and_their_probabilities_are_the_models_own(page: Any, model: TaskModel):
    page.goto("/#tagging")
    check(page, model, "they fish near the old fish .")
    page.get_by_label("The sentence").fill("the blorp fish zinkly .")
    check(page, model, "the blorp fish zinkly .")


def test_another_sentence_is_tagged(page: Any, model: TaskModel):
    page.goto("/#tagging")
    check(page, model, "they fish near the old fish .")
    page.get_by_role("button", name="Another sentence").click()
    check(page, model, "the cook can often watch this play .")


@pytest.mark.wide
def test_the_tagger_is_trained_from_the_page(browser: Any, untrained: Served):
    with visiting(browser, untrained.address) as page:
        page.goto("/#tagging")
        page.get_by_role("button", name="Train the tagger").click()
        page.locator(".making progress").wait_for()
        page.wait_for_selector(".tagged > li")
        check(page, load_task(untrained.studio.tasks.place("ready:tagger")), "they fish near the old fish .")
