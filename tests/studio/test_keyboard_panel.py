"""The keyboard: clicking a word changes the bars, and a link shows the same again."""

from __future__ import annotations

from typing import Any

import pytest
from visits import visiting

import thereafter
from thereafter.text.agreement.lexicon import verb_number


def words(page: Any, model: str) -> list[str]:
    return page.locator(f'[data-model="{model}"] .bar').evaluate_all("bars => bars.map(bar => bar.dataset.word)")


def wait_for_words(page: Any, model: str, expected: list[str]) -> None:
    page.wait_for_function(
        "([model, words]) => JSON.stringify([...document.querySelectorAll(`[data-model='${model}'] .bar`)]"
        ".map(bar => bar.dataset.word)) === JSON.stringify(words)",
        arg=[model, expected],
    )


def test_clicking_a_word_writes_it_and_changes_the_bars(page: Any, server: Any):
    page.goto("/#keyboard?text=the+nurse")
    page.wait_for_selector('[data-model="ready:lstm"] .bar')
    before = words(page, "ready:lstm")
    word = before[0]
    page.locator('[data-model="ready:lstm"] .bar').first.click()
    page.wait_for_function("before => document.querySelector('textarea').value !== before", arg="the nurse")
    assert page.locator("textarea").input_value() == f"the nurse {word}"
    lm = thereafter.load(server.studio.shelf.place("ready:lstm"))
    expected = [text for text, _ in lm.next(f"the nurse {word}", 8)]
    wait_for_words(page, "ready:lstm", expected)
    assert expected != before


def test_the_numbers_are_the_models_own_and_all_bars_have_one_scale(page: Any, server: Any):
    models = ["ready:ngram", "ready:rnn", "ready:lstm", "ready:transformer"]  # those shown at first
    page.goto("/#keyboard?text=the+nurse")
    page.wait_for_selector('[data-model="ready:transformer"] .bar')
    assert page.locator("[data-model]").evaluate_all("all => all.map(one => one.dataset.model)") == models
    expected = {name: thereafter.load(server.studio.shelf.place(name)).next("the nurse", 8) for name in models}
    most = max(p for found in expected.values() for _, p in found)
    for name, found in expected.items():
        column = page.locator(f'[data-model="{name}"]')
        said = column.locator(".value").all_text_contents()
        assert [float(one.removesuffix(" %")) for one in said] == pytest.approx([100 * p for _, p in found], abs=0.5)
        widths = column.locator(".bar .fill").evaluate_all("all => all.map(one => parseFloat(one.style.width))")
        assert widths == pytest.approx([100 * p / most for _, p in found], rel=0.01)


@pytest.mark.wide
def test_by_keys_alone_word_after_word_is_added_in_one_column(page: Any, server: Any):
    page.goto("/#keyboard?text=the+nurse&models=ready:ngram,ready:lstm")
    page.wait_for_selector('[data-model="ready:lstm"] .bar')
    page.locator("textarea").focus()
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.closest('[data-model]')?.dataset.model") == "ready:lstm":
            break
    lm, text = thereafter.load(server.studio.shelf.place("ready:lstm")), "the nurse"
    for _ in range(3):
        page.keyboard.press("Enter")
        text = f"{text} {lm.next(text, 1)[0][0]}"
        wait_for_words(page, "ready:lstm", [word for word, _ in lm.next(text, 8)])
        assert page.locator("textarea").input_value() == text
        assert page.evaluate("document.activeElement.matches('[data-model=\"ready:lstm\"] li:first-child .bar')")


@pytest.mark.wide
def test_taking_back_and_starting_again(page: Any, server: Any):
    page.goto("/#keyboard?text=the+nurse+near&models=ready:lstm")
    page.wait_for_selector('[data-model="ready:lstm"] .bar')
    lm = thereafter.load(server.studio.shelf.place("ready:lstm"))
    page.get_by_role("button", name="Undo").click()
    wait_for_words(page, "ready:lstm", [text for text, _ in lm.next("the nurse", 8)])
    page.get_by_role("button", name="Start again").click()
    wait_for_words(page, "ready:lstm", [text for text, _ in lm.next("", 8)])
    page.reload()  # an empty text is a state too
    wait_for_words(page, "ready:lstm", [text for text, _ in lm.next("", 8)])
    assert page.locator("textarea").input_value() == ""


@pytest.mark.wide
def test_it_opens_on_a_subject_with_a_nearer_noun_of_the_other_number_and_verbs_are_tinted(
    page: Any, browser: Any, server: Any
):
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto("/#keyboard")
    page.wait_for_selector('[data-model="ready:transformer"] .bar')
    text = page.locator("textarea").input_value()
    assert text == "the teachers near the farmer"
    assert page.locator(".tints").inner_text().split("\n") == ["sg singular verb", "pl plural verb", "other words"]
    colours: dict[str, set[str]] = {}

    def look(tab: Any) -> None:
        for bar in tab.locator("#columns .bar").all():
            number = verb_number(bar.get_attribute("data-word")) or ""
            assert bar.get_attribute("data-number") == number
            assert bar.locator(".mark").inner_text() == {"singular": "sg", "plural": "pl", "": ""}[number]
            colours.setdefault(number, set()).add(
                bar.locator(".fill").evaluate("one => getComputedStyle(one).backgroundColor")
            )

    look(page)
    with visiting(browser, server.address) as twin:
        twin.goto("/#keyboard?text=the+teacher+near+the+farmers")
        twin.wait_for_selector('[data-model="ready:transformer"] .bar[data-number="singular"]')
        look(twin)
    assert all(len(own) == 1 for own in colours.values())
    assert len(set.union(*colours.values())) == len(colours) == 3
    first = page.locator("#columns .bar").first.bounding_box()
    assert first["y"] + first["height"] < 800
    lm = thereafter.load(server.studio.shelf.place("ready:lstm"))
    everything = lm.next(text, len(lm.tokenizer.vocabulary))
    mass = {
        number: sum(p for word, p in everything if verb_number(word) == number) for number in ("singular", "plural")
    }
    share = round(100 * mass["plural"] / sum(mass.values()))
    column = page.locator('[data-model="ready:lstm"] .verbs')
    assert column.inner_text().strip() == f"verbs: sg {100 - share} %, pl {share} %"


@pytest.mark.wide
def test_models_of_other_texts_are_not_tinted(page: Any):
    page.goto("/#keyboard?models=ready:letters&text=def+")
    page.wait_for_selector('[data-model="ready:letters"] .bar')
    assert page.locator("#columns .mark, #columns .verbs").count() == 0
    assert not page.locator(".tints").is_visible()
