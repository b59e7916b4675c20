"""The keyboard completes half-typed words: choosing one replaces what is typed of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

import thereafter
from thereafter.studio.panels.prediction import complete


def bars(page: Any, model: str) -> list[str]:
    return page.locator(f'[data-model="{model}"] .bar').evaluate_all("bars => bars.map(bar => bar.dataset.word)")


def wait_for_typed(page: Any, model: str, typed: str) -> None:
    page.wait_for_function(
        "([model, typed]) => document.querySelector(`[data-model='${model}'] .typed`)?.textContent.includes(typed)",
        arg=[model, f"“{typed}”"],
    )


def test_the_verb_gives_the_models_own_completions(ready_folder: Path):
    lm = thereafter.load(ready_folder / "lstm")
    answer, words = complete(lm, "the teach", 8, name="ready:lstm"), lm.complete("the teach", 8)
    assert [(one.text, one.append, one.p) for one in answer.candidates] == [(w.word, w.append, w.p) for w in words]
    assert {"teacher", "teachers"} <= {one.text for one in answer.candidates}
    assert (answer.typed, answer.half_typed, answer.ending) == ("teach", True, 0.0)
    assert sum(one.p for one in answer.candidates) == pytest.approx(1)
    verbs = {one.text: one.number for one in complete(lm, "the teacher wal", 8).candidates}
    assert (verbs["walks"], verbs["walk"]) == ("singular", "plural")
    assert complete(lm, "the teacher ", 3).half_typed is False


def test_typing_a_word_shows_its_completions_and_choosing_one_replaces_it(page: Any, server: Any):
    page.goto("/#keyboard?text=the+nurse&models=ready:lstm,ready:ngram")
    page.wait_for_selector('[data-model="ready:lstm"] .bar')
    page.locator("textarea").fill("the farmers near the teach")
    wait_for_typed(page, "ready:lstm", "teach")
    lm = thereafter.load(server.studio.shelf.place("ready:lstm"))
    assert bars(page, "ready:lstm") == [one.word for one in lm.complete("the farmers near the teach", 8)]
    column = page.locator('[data-model="ready:lstm"]')
    assert column.locator(".verbs").count() == 0
    assert "new to it" not in column.inner_text()  # the half-typed word is not counted as unknown
    column.locator('.bar[data-word="teacher"]').click()
    page.wait_for_function("() => document.querySelector('textarea').value === 'the farmers near the teacher'")
    page.wait_for_function("() => !document.querySelector('[data-model=\"ready:lstm\"] .typed')")
    assert bars(page, "ready:lstm") == [word for word, _ in lm.next("the farmers near the teacher", 8)]


@pytest.mark.wide
def test_a_model_of_letters_offers_whole_words_below_the_letters(page: Any, server: Any):
    page.goto("/#keyboard?models=ready:letters&text=def+sel")
    page.wait_for_selector('[data-model="ready:letters"] .others button')
    lm = thereafter.load(server.studio.shelf.place("ready:letters"))
    assert bars(page, "ready:letters") == [letter for letter, _ in lm.next("def sel", 8)]
    longer = [one for one in lm.complete("def sel", 8) if one.append][:4]
    buttons = page.locator(".others button")
    assert buttons.evaluate_all("all => all.map(one => one.dataset.word)") == [one.word for one in longer]
    buttons.first.click()
    page.wait_for_function(
        "text => document.querySelector('textarea').value === text", arg="def sel" + longer[0].append
    )


def test_several_models_are_asked_at_once_over_the_wire(server: Any):
    asked = {"models": ["ready:lstm", "ready:ngram"], "prompt": "the teach", "k": 3}
    answers = httpx.post(f"{server.address}/api/complete", json=asked).raise_for_status().json()
    assert [one["model"] for one in answers] == asked["models"]
    assert all(one["candidates"][0]["text"].startswith("teach") for one in answers)
    assert all(one["candidates"][0]["append"] == one["candidates"][0]["text"][5:] for one in answers)
