"""Recurrence: a step changes the state and the prediction that are shown, and both are the library's own."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from serving_studio import unit_of

import thereafter
from thereafter.ready.models import WORD_UNITS

NUMBER = unit_of("gru")[1]
"""The unit that carries the subject's number."""

TEXT = "the teacher near the farmers is old ."
WORDS = TEXT.split()
AT = "/#recurrence?text=" + TEXT.replace(" ", "+")


def at_step(page: Any, step: int) -> None:
    page.wait_for_selector(f'.unrolled button[data-step="{step}"][aria-current="step"]')


def size(page: Any, row: str) -> float:
    """The mean size that is written beside a strip."""
    return float(page.locator(f'[data-row="{row}"]').inner_text().split("mean size")[1])


def bars(page: Any) -> list[str]:
    return page.locator(".place .bar").evaluate_all("bars => bars.map(bar => bar.dataset.word)")


@pytest.fixture(params=[pytest.param("rnn", marks=pytest.mark.wide), "lstm"])
def lm(server: Any, request: pytest.FixtureRequest) -> Any:
    return thereafter.load(server.studio.shelf.place(f"ready:{request.param}"))


def unit_boxes(page: Any, which: int) -> list[float]:
    """The numbers in the upper boxes of the unrolled view (0: this sentence), or the lower ones (1: its twin)."""
    boxes = page.locator(f".unrolled button .one:nth-of-type({3 if which == 0 else 5}) b").all_text_contents()
    return [float(text.replace("−", "-")) for text in boxes]


@pytest.mark.wide
def test_it_opens_on_the_unit_that_carries_the_number_with_the_picture_on_the_first_screen(page: Any, server: Any):
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto("/#recurrence")
    at_step(page, 5)
    box = page.locator("#picture").bounding_box()
    assert box["y"] + box["height"] <= 800
    assert page.locator(".loop").is_visible()
    assert page.get_by_role("slider", name="Unit").input_value() == str(NUMBER)
    assert f"h of unit {NUMBER}, which carries the number" in page.locator("#unit").inner_text()
    text, twin = "the teachers near the farmer are old .", "the teacher near the farmers is old ."
    assert page.get_by_role("textbox", name="The sentence").input_value() == text
    lm = thereafter.load(server.studio.shelf.place("ready:gru"))
    assert lm.tokenizer.unknown_id not in lm.encode(f"{text} {twin}")
    for which, sentence in enumerate((text, twin)):
        assert unit_boxes(page, which)[1:] == pytest.approx(lm.trace(sentence)["l0.h"][:, NUMBER].tolist(), abs=6e-3)
    number = page.locator('.equations [data-field="h"] .number').inner_text().replace("−", "-")
    assert float(number) == pytest.approx(float(lm.trace(text)["l0.h"][4, NUMBER]), abs=6e-3)


@pytest.mark.wide
def test_another_unit_can_be_followed(page: Any, server: Any):
    page.goto(f"{AT}&model=ready:rnn&step=4")
    at_step(page, 4)
    page.get_by_role("slider", name="Unit").fill("40")
    page.wait_for_function("() => document.getElementById('unit').textContent.includes('unit 40;')")
    trace = thereafter.load(server.studio.shelf.place("ready:rnn")).trace(TEXT)
    assert unit_boxes(page, 0)[1:] == pytest.approx(trace["l0.h"][:, 40].tolist(), abs=6e-3)
    assert page.locator(".equations .formula").inner_text() == "ht = tanh(W xt + U ht−1 + b)"


def test_every_step_shows_the_state_and_the_prediction_of_the_library(page: Any, lm: Any):
    page.goto(f"{AT}&model=ready:{lm.config['model']}&step=0")
    at_step(page, 0)
    trace = lm.trace(TEXT)
    for step in range(1, len(WORDS) + 1):
        if step % 2:
            page.get_by_role("button", name="Next word").click()
        else:
            page.keyboard.press("ArrowRight")
        at_step(page, step)
        assert page.locator('.token[aria-current="step"]').text_content().split()[0] == WORDS[step - 1]
        h = trace["l0.h"][step - 1].astype(float)
        assert size(page, "h after") == pytest.approx(np.abs(h).mean(), abs=6e-4)
        if step > 1:
            before = trace["l0.h"][step - 2].astype(float)
            assert size(page, "h before") == pytest.approx(np.abs(before).mean(), abs=6e-4)
            assert size(page, "h change") == pytest.approx(np.abs(h - before).mean(), abs=6e-4)
        if "l0.c" in trace.arrays:
            assert size(page, "c after") == pytest.approx(np.abs(trace["l0.c"][step - 1]).mean(), abs=6e-4)
        assert bars(page) == [word for word, _ in lm.next(" ".join(WORDS[:step]), 8)]
    assert page.get_by_role("button", name="Next word").is_disabled()


@pytest.mark.wide
def test_a_unit_of_the_strip_says_its_value(page: Any, server: Any):
    page.goto(f"{AT}&model=ready:gru&step=4")
    at_step(page, 4)
    strip = page.locator('[data-row="h after"] + dd canvas')
    strip.hover(position={"x": strip.bounding_box()["width"] * 20.5 / WORD_UNITS, "y": 8})
    unit, value = re.fullmatch(r"unit (\d+): (-?[\d.]+)", strip.get_attribute("title")).groups()
    trace = thereafter.load(server.studio.shelf.place("ready:gru")).trace(TEXT)
    assert float(value) == pytest.approx(float(trace["l0.h"][3, int(unit)]), abs=6e-4)
    assert abs(int(unit) - 20) <= 1


@pytest.mark.wide
def test_the_unrolled_view_has_a_column_a_word_and_leads_back(page: Any, server: Any):
    page.goto(f"{AT}&model=ready:rnn&step=6")
    at_step(page, 6)
    lm = thereafter.load(server.studio.shelf.place("ready:rnn"))
    columns = page.locator(".unrolled button")
    assert columns.count() == len(WORDS) + 1
    for step in (0, 3, 6):
        word, p = lm.next(" ".join(WORDS[:step]), 1)[0]
        label = page.locator(f'.unrolled button[data-step="{step}"]').get_attribute("aria-label")
        shown = re.fullmatch(rf"Step {step}: reads (\S+), expects (\S+), ([\d.]+) %", label)
        assert shown, label
        assert (shown[1], shown[2]) == (["start", *WORDS][step], word.replace("\n", "⏎"))
        assert float(shown[3]) == pytest.approx(100 * p, abs=0.51)
    assert page.locator(".unrolled button.later").count() == len(WORDS) - 6
    page.locator('.unrolled button[data-step="2"]').click()
    at_step(page, 2)
    assert page.locator(".unrolled button.later").count() == len(WORDS) - 2
    assert page.locator(".loop .word").first.text_content() == WORDS[1]
    page.keyboard.press("ArrowLeft")
    at_step(page, 1)
    page.get_by_role("button", name="Start again").click()
    at_step(page, 0)
    assert page.get_by_role("button", name="Back").is_disabled()


@pytest.mark.wide
def test_play_walks_on_by_itself_and_pause_stops_it(page: Any):
    page.goto(f"{AT}&step=0")
    at_step(page, 0)
    page.get_by_role("button", name="Play").click()
    at_step(page, 2)
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Play").wait_for()
    stopped = page.url
    page.wait_for_timeout(1300)  # longer than a step lasts
    assert page.url == stopped


WATCH = """() => {
  window.places = new Set();
  const look = (changes) => changes.forEach(({ target }) => {
    if (target.matches(".loop g")) window.places.add(target.getAttribute("transform"));
  });
  const watched = { subtree: true, attributes: true, attributeFilter: ["transform"] };
  new MutationObserver(look).observe(document.body, watched);
}"""


@pytest.mark.wide
def test_the_state_goes_round_the_loop(page: Any):
    page.goto(f"{AT}&step=1")
    at_step(page, 1)
    page.evaluate(WATCH)  # from before the click: on a busy machine the movement may be over when that returns
    page.get_by_role("button", name="Next word").click()
    at_step(page, 2)
    page.wait_for_function("() => window.places.size > 2")


def test_a_word_that_is_expected_can_be_read_instead(page: Any, server: Any):
    page.goto(f"{AT}&model=ready:lstm&step=3")
    at_step(page, 3)
    word = bars(page)[1]
    page.locator(".place .bar").nth(1).click()
    page.wait_for_function("text => document.querySelector('textarea').value === text", arg=f"the teacher near {word}")
    at_step(page, 4)
    lm = thereafter.load(server.studio.shelf.place("ready:lstm"))
    expected = [text for text, _ in lm.next(f"the teacher near {word}", 8)]
    page.wait_for_function(
        "words => JSON.stringify([...document.querySelectorAll('.place .bar')].map(bar => bar.dataset.word))"
        " === JSON.stringify(words)",
        arg=expected,
    )


@pytest.mark.wide
def test_what_it_does_not_know_is_said_and_a_long_text_is_cut(page: Any):
    page.goto(f"{AT}&model=ready:rnn&view=folded")
    page.wait_for_selector(".token")
    page.locator("textarea").fill("the 😀 is old")
    page.wait_for_selector(".token:has-text('😀')")
    page.wait_for_selector("text=Unknown to this model")
    page.locator("textarea").fill("the farmer " * 300)
    page.wait_for_selector("text=The first 60 of")
    assert page.locator(".token").count() == 60


@pytest.mark.wide
def test_letters_are_read_one_by_one(page: Any):
    page.goto("/#recurrence?model=ready:letters&text=def+main(self):&step=15")
    at_step(page, 15)
    assert page.locator(".loop").get_attribute("aria-label").startswith("The lstm cell reads :")


@pytest.mark.wide
def test_an_answer_that_comes_when_another_panel_is_shown_leaves_the_address_alone(page: Any):
    held: list[Any] = []
    page.route("**/api/step", lambda route: held.append(route))
    with page.expect_request("**/api/step"):
        page.goto(AT)
    page.get_by_role("link", name="Keyboard").click()
    page.wait_for_selector("#columns")
    with page.expect_response("**/api/step"):
        held[0].continue_()
    page.wait_for_selector("#columns .bar")
    assert "#keyboard" in page.url
