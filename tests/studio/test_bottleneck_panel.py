"""The bottleneck: two translators by the length of the sentence, trained from the page where they are not there yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from serving_studio import Served
from visits import visiting

from thereafter.ready import tasks as ready_tasks
from thereafter.ready.tasks import TASKS
from thereafter.studio.panels import tasks as verbs
from thereafter.task_model import load_task

OFF, ON = "ready:no-attention", "ready:attention"


def curves(page: Any) -> dict[str, list[float]]:
    page.wait_for_function("() => document.querySelector('.chart')?.numbers?.length > 0")
    return {one["name"]: one["y"] for one in page.evaluate("document.querySelector('.chart').numbers")}


def translation_of(page: Any, model: str) -> list[str]:
    words = page.locator(f'[data-model="{model}"] .translation :is(span, s)').all_text_contents()
    return [word.removeprefix("✗") for word in words]


def test_the_curves_are_the_quality_the_library_measures(page: Any, ready_folder: Path):
    page.goto("/#bottleneck")
    found, test = curves(page), ready_tasks.test_pairs(ready_folder)
    shares = {}
    for name, title in (("no-attention", "attention off"), ("attention", "attention on")):
        points = verbs.quality(load_task(ready_folder / TASKS / name), test).model_dump()["points"]
        shares[name] = [100 * point["words"] for point in points]
        assert found[title] == pytest.approx(shares[name])
    page.locator("summary", has_text="The numbers").click()
    cell = page.locator(f'td[data-model="{OFF}"][data-length="2"]')
    assert float(cell.text_content().removesuffix(" %")) == pytest.approx(shares["no-attention"][0], rel=0.01)


@pytest.mark.wide
def test_attention_is_switched_off_and_on(page: Any):
    page.goto("/#bottleneck")
    assert set(curves(page)) == {"attention off", "attention on"}
    page.wait_for_selector(f'[data-model="{ON}"] .translation')
    for choice, title, model in (("off", "attention off", OFF), ("on", "attention on", ON)):
        page.get_by_role("combobox", name="Attention", exact=True).select_option(choice)
        page.wait_for_function(
            "title => document.querySelector('.chart').numbers.map(one => one.name).join() === title", arg=title
        )
        page.wait_for_function(
            "model => [...document.querySelectorAll('.card')].map(one => one.dataset.model).join() === model", arg=model
        )


def test_a_sentence_of_the_length_asked_for_and_what_both_make_of_it(page: Any, ready_folder: Path):
    page.goto("/#bottleneck?length=6")
    page.wait_for_selector(f'[data-model="{ON}"] .translation')
    slider = page.get_by_role("slider", name="Words of the sentence")
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.querySelector('#source').textContent.split(' ').length === 7")
    source, target = page.locator("#source").text_content(), page.locator("#target").text_content()
    for model, name in ((OFF, "no-attention"), (ON, "attention")):
        own = load_task(ready_folder / TASKS / name)
        assert translation_of(page, model) == own.predict(source).split()
        wrong = page.locator(f'[data-model="{model}"] .translation s').count()
        assert wrong == verbs.judge(own, source, target).model_dump()["right"].count(False)
    page.get_by_role("button", name="Another sentence").click()
    page.wait_for_function("before => document.querySelector('#source').textContent !== before", arg=source)
    other = page.locator("#source").text_content()
    assert len(other.split()) == 7


@pytest.mark.wide
def test_the_translators_are_trained_from_the_page_and_the_panel_comes_alive(browser: Any, untrained: Served):
    with visiting(browser, untrained.address) as page:
        page.goto("/#bottleneck")
        page.get_by_role("button", name="Train the two translators").click()
        page.locator(".making progress").wait_for()
        assert set(curves(page)) == {"attention off", "attention on"}
        page.wait_for_selector(f'[data-model="{OFF}"] .translation')
        assert not page.locator(".making progress").is_visible()
        assert not page.get_by_role("button", name="Train the two translators").is_visible()
        page.goto("/#attention")  # the other panel of these models needs no training any more
        page.wait_for_selector(".looked tbody tr")
