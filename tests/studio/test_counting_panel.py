"""Counting: reading on makes the table grow, smoothing fills it, and a sentence is drawn from it."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, quote

import pytest

import thereafter
from thereafter.studio.panels.counting import FOUR, LONGEST


def cell(page: Any, row: str, column: str) -> float:
    return float(page.locator(f'td[data-row="{row}"][data-column="{column}"]').get_attribute("data-value"))


def address(page: Any) -> dict[str, list[str]]:
    return parse_qs(page.url.partition("?")[2])


def wait_at(page: Any, at: int) -> None:
    """Until the table of that position is shown."""
    page.wait_for_function("at => document.querySelector('output').textContent.startsWith(`${at} of`)", arg=at)


def press(page: Any, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def bigrams(text: str, smoothing: str, **options: Any) -> thereafter.LanguageModel:
    return thereafter.train(text=text, tokens="word", order=2, smoothing=smoothing, min_count=1, **options)


def test_reading_on_makes_the_cell_of_each_pair_grow(page: Any):
    page.goto("/#counting")
    wait_at(page, 7)
    assert page.locator("td.grown").get_attribute("data-row") == "mat"
    press(page, "Start again")
    wait_at(page, 0)
    assert page.locator(".pairs td").count() == 0
    for at, (before, word) in enumerate([("<s>", "the"), ("the", "cat"), ("cat", "sat")], start=1):
        press(page, "Next word")
        wait_at(page, at)
        grown = page.locator("td.grown")
        assert (grown.get_attribute("data-row"), grown.get_attribute("data-column")) == (before, word)
        assert grown.inner_text().startswith("1")
        assert page.locator(".lines .now").inner_text() == word
    press(page, "Next sentence")
    wait_at(page, 7)
    press(page, "Next sentence")
    wait_at(page, 13)
    press(page, "All")
    wait_at(page, 26)
    assert (cell(page, "the", "cat"), cell(page, "the", "fish"), cell(page, "fish", "ate")) == (2, 1, 0)
    assert page.locator('[data-sum="the"]').inner_text() == "8"
    page.get_by_label("probabilities").check()
    page.wait_for_function(
        """() => document.querySelector('td[data-row="the"][data-column="cat"]').textContent === '0.25'"""
    )


@pytest.mark.parametrize(
    ("smoothing", "options"),
    [("add-alpha", {"alpha": 1.0}), pytest.param("kneser-ney", {}, marks=pytest.mark.wide)],
)
def test_a_smoothing_shows_the_probabilities_of_the_librarys_model(page: Any, smoothing: str, options: Any):
    page.goto("/#counting?at=26")
    wait_at(page, 26)
    page.get_by_label("Smoothing").select_option(smoothing)
    page.wait_for_function(
        """() => document.querySelector('td[data-row="fish"][data-column="ate"]').dataset.value > 0"""
    )
    lm = bigrams(FOUR, smoothing, **options)
    for row in ("the", "cat", "bone"):
        expected = lm.distribution(row)
        for column in ("the", "sat", "mat", "</s>"):
            assert cell(page, row, column) == pytest.approx(expected[lm.tokenizer.vocabulary.index[column]], abs=1e-6)
    assert {page.locator(".pairs td.sum").nth(row).inner_text() for row in range(10)} == {"1"}
    assert address(page)["smoothing"] == [smoothing]


@pytest.mark.wide
def test_generate_draws_the_librarys_sentence_and_shows_each_steps_probability(page: Any):
    page.goto("/#counting?at=26")
    wait_at(page, 26)
    lm = bigrams(FOUR, "mle")
    for seed in range(3):
        press(page, "Generate")
        page.wait_for_url(f"**seed={seed}")
        expected = lm.generate("", LONGEST, stop_strings="\n", seed=seed, return_log_probs=True)[0]
        words = [lm.tokenizer.vocabulary.forms[token] for token in expected.tokens]
        page.wait_for_function(
            "words => [...document.querySelectorAll('#drawn li')].map(one => one.dataset.word).join(' ') === words",
            arg=" ".join(words),
        )
        shown = page.locator("#drawn li").evaluate_all("all => all.map(one => Math.log(one.dataset.p))")
        assert shown == pytest.approx(expected.log_probs, abs=1e-5)


@pytest.mark.wide
def test_a_dead_end_is_said_in_words_and_gone_with_smoothing(page: Any):
    page.goto("/#counting?at=2&view=probabilities")
    wait_at(page, 2)
    assert "dead end" in page.locator(".pairs td.none").inner_text()
    press(page, "Generate")
    page.wait_for_selector("#drawn li")
    assert "nothing was ever read after “cat”" in page.locator("#drawn").inner_text()
    page.get_by_label("Smoothing").select_option("add-alpha")
    page.wait_for_function("() => !document.querySelector('#drawn').textContent.includes('dead end')")
    assert page.locator(".pairs td.none").count() == 0


@pytest.mark.wide
def test_play_reads_on_by_itself_and_pause_stops_it(page: Any):
    page.goto("/#counting?at=0")
    wait_at(page, 0)
    press(page, "Play")
    wait_at(page, 2)
    press(page, "Pause")
    held = page.locator("output").inner_text()
    page.wait_for_timeout(1600)  # longer than two words take
    assert page.locator("output").inner_text() == held
    assert page.get_by_role("button", name="Play", exact=True).is_visible()


@pytest.mark.wide
def test_the_keyboard_alone_reads_and_switches(page: Any):
    page.goto("/#counting?at=3")
    wait_at(page, 3)
    page.get_by_role("button", name="Next word", exact=True).focus()
    page.keyboard.press("Enter")
    wait_at(page, 4)
    page.keyboard.press("Space")
    wait_at(page, 5)
    page.get_by_role("slider").focus()
    page.keyboard.press("End")
    wait_at(page, 26)
    page.get_by_label("counts").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_url("**view=probabilities**")


@pytest.mark.wide
def test_a_pasted_text_is_counted(page: Any):
    page.goto("/#counting")
    page.get_by_role("combobox", name="Text").select_option("text")
    page.get_by_label("One sentence per line").fill("<img src=x onerror=alert(1)> 🙂\nthe 🙂")
    press(page, "All")
    wait_at(page, 8)
    page.get_by_label("Smoothing").select_option("add-alpha")
    page.get_by_role("combobox", name="α").select_option("0.1")
    press(page, "Generate")
    page.wait_for_selector("#drawn li")
    assert page.get_by_label("probabilities").is_checked()


@pytest.mark.wide
def test_a_text_without_words_gets_a_sentence(page: Any):
    page.goto("/#counting?corpus=text&text=" + quote(" \n "))
    page.wait_for_function("() => document.querySelector('.error').textContent.includes('no words')")
    page.get_by_label("One sentence per line").fill("a b")
    page.wait_for_selector("td.grown")
    assert page.locator(".error").inner_text() == ""


@pytest.mark.wide
def test_of_the_ready_sentences_the_panel_says_what_is_left_out_and_a_phone_shows_the_new_cell(page: Any):
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto("/#counting?corpus=sentences&at=300")
    wait_at(page, 300)
    assert "18 most frequent have a row" in page.locator("#left-out").inner_text()
    grown = page.locator("td.grown").bounding_box()
    inside = page.locator(".pairs").bounding_box()
    assert inside["x"] <= grown["x"]
    assert grown["x"] + grown["width"] <= inside["x"] + inside["width"]


@pytest.mark.wide
def test_more_than_a_link_carries_is_refused_by_the_server_and_cut_by_the_page(page: Any):
    answer = page.request.post("/api/count", data={"corpus": "text", "text": "a " * 3000})
    assert answer.status == 422
    assert "4000" in answer.json()["error"]
    page.goto("/#counting?corpus=text")
    page.get_by_label("One sentence per line").fill("")
    page.get_by_label("One sentence per line").focus()
    page.keyboard.insert_text("word " * 200_000)
    assert len(page.get_by_label("One sentence per line").input_value()) == 4000
    press(page, "All")
    wait_at(page, 801)
