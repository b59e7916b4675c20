"""Window: the strips are the model's own numbers, shapes come with hover and focus, and a clicked word slides it on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thereafter

TEXT = "the teachers behind the doctor near the farmer"


@pytest.fixture(scope="module")
def lm(server: Any) -> thereafter.LanguageModel:
    return thereafter.load(server.studio.shelf.place("ready:window"))


def strip(page: Any, part: str) -> list[list[float]]:
    return page.locator(f'[data-part="{part}"] canvas').evaluate_all("all => all.map(one => one.numbers)")


def bars(page: Any) -> list[str]:
    return page.locator('[data-part="output"] .bar').evaluate_all("all => all.map(one => one.dataset.word)")


def visit(page: Any, link: str = "/#window") -> None:
    page.goto(link)
    page.wait_for_selector('[data-part="output"] .bar')


def entry(page: Any, name: str) -> str:
    return page.locator(f'#shapes [data-entry="{name}"]').inner_text()


def test_the_strips_and_bars_are_what_the_model_computes(page: Any, lm: thereafter.LanguageModel):
    visit(page)
    vectors = np.array(strip(page, "embedding"))
    ids = lm.encode(TEXT)[-5:]
    np.testing.assert_allclose(vectors, lm.model.input_embedding()[ids], atol=1e-7)  # type: ignore[attr-defined]
    np.testing.assert_allclose(strip(page, "joined")[0], vectors.reshape(-1))
    np.testing.assert_allclose(strip(page, "hidden")[0], lm.trace(TEXT)["hidden"][-1], atol=1e-6)
    expected = lm.next(TEXT, 10)
    assert bars(page) == [word for word, _ in expected]
    percent = float(page.locator('[data-part="output"] .bar .value').first.inner_text().removesuffix(" %"))
    assert percent == pytest.approx(100 * expected[0][1], abs=0.5)


def test_clicking_a_word_slides_the_window_and_greys_what_fell_out(page: Any, lm: thereafter.LanguageModel):
    visit(page, "/#window?text=the+teachers+behind+the+doctor")
    assert page.locator(".gone").count() == 0
    hidden = strip(page, "hidden")
    word = next(word for word in bars(page) if word.isalpha())
    page.locator(f'[data-part="output"] .bar[data-word="{word}"]').click()
    page.wait_for_selector(".gone")
    text = f"the teachers behind the doctor {word}"
    assert page.get_by_label("The text so far").input_value() == text
    gone = page.locator(".gone")
    assert gone.locator(".token").all_inner_texts() == ["the"]
    assert "the model no longer sees these" in gone.inner_text()
    assert page.locator(".seen .token").all_inner_texts() == ["teachers", "behind", "the", "doctor", word]
    assert bars(page) == [one for one, _ in lm.next(text, 10)]
    assert strip(page, "hidden") != hidden
    page.get_by_role("button", name="Append the likeliest word").click()
    page.wait_for_function("() => document.querySelectorAll('.gone .token').length === 2")
    page.get_by_role("button", name="Undo").click()
    page.wait_for_function("() => document.querySelectorAll('.gone .token').length === 1")
    assert page.get_by_label("The text so far").input_value() == text


@pytest.mark.wide
def test_shapes_come_with_hover_with_focus_and_with_a_tap(page: Any, lm: thereafter.LanguageModel):
    visit(page)
    words, (embed, hidden) = len(lm.tokenizer.vocabulary), (lm.config["window"]["embed"], lm.config["window"]["hidden"])
    page.locator('.stage[data-part="joined"] canvas').hover()
    page.wait_for_selector('#shapes[data-part="joined"]')
    assert (entry(page, "in"), entry(page, "out")) == (f"[1, 5, {embed}]", f"[1, {5 * embed}]")
    page.mouse.move(5, 5)
    page.get_by_role("button", name="Hidden layer").focus()
    page.wait_for_selector('#shapes[data-part="hidden"]')
    assert entry(page, "weights") == f"A [{5 * embed}, {hidden}] + d [{hidden}]"
    assert entry(page, "learned") == f"{5 * embed * hidden + hidden:,}"
    page.keyboard.press("Tab")
    page.wait_for_selector('#shapes[data-part="output"]')
    assert entry(page, "out") == f"[1, {words}]"
    page.get_by_role("button", name="Word vectors").click()
    page.wait_for_selector('#shapes[data-part="embedding"]')
    assert entry(page, "weights") == f"E [{words + 1}, {embed}]"


@pytest.mark.wide
def test_the_keyboard_alone_appends_words_and_keeps_its_place(page: Any):
    visit(page, "/#window?text=the")
    page.get_by_role("button", name="Softmax over all words").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelectorAll('.seen .token').length === 2")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelectorAll('.seen .token').length === 3")
    assert page.evaluate("document.activeElement.classList.contains('bar')")


@pytest.mark.wide
def test_parameters_are_listed_by_component_and_add_up(page: Any, lm: thereafter.LanguageModel):
    visit(page)
    rows = {
        part: int(page.locator(f'#sizes [data-part="{part}"] .parameters').inner_text().replace(",", ""))
        for part in ("embedding", "joined", "hidden", "output", "all")
    }
    assert rows["all"] == lm.model.parameters_count() == sum(rows.values()) - rows["all"]  # type: ignore[attr-defined]
    assert rows["output"] == (lm.config["window"]["hidden"] + 1) * len(lm.tokenizer.vocabulary)


@pytest.mark.wide
def test_an_empty_text_says_so(page: Any):
    visit(page)
    page.get_by_role("button", name="Start again").click()
    page.wait_for_function("() => document.querySelector('.seen').textContent.includes('nothing is in the window yet')")
    assert page.locator(".token.empty").count() == 5


@pytest.mark.wide
def test_only_window_models_are_offered_and_another_gets_a_sentence(page: Any):
    visit(page)
    offered = page.get_by_label("Model").locator("option").evaluate_all("all => all.map(one => one.value)")
    assert offered == ["ready:window"]
    answer = page.request.post("/api/window", data={"model": "ready:lstm", "text": "the"})
    assert (answer.status, answer.json()["error"].partition(";")[0]) == (400, "the model is of the kind 'lstm'")
