"""The units: the colours are the trace's values, a unit of the ranking is shown in the text, a link shows it again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from serving_studio import unit_of

import thereafter
from thereafter.inspection.properties import PROPERTIES
from thereafter.inspection.units import search
from thereafter.studio.panels.units import LIMIT, own_text


@pytest.fixture(scope="module")
def letters(server: Any) -> Any:
    return thereafter.load(server.studio.shelf.place("ready:letters"))


def visit(page: Any, link: str = "/#units") -> None:
    page.goto(link)
    page.wait_for_selector("#ranking .bar")
    page.wait_for_selector("#coloured span")


def shown(page: Any) -> tuple[str, list[float], list[str]]:
    """The text as it stands, the values on hover, the colours."""
    spans = page.locator("#coloured span")
    whole = "".join(spans.evaluate_all("all => all.map(one => one.textContent)")).replace("⏎\n", "\n")
    values = spans.evaluate_all("all => all.map(one => Number(one.title))")
    return whole, values, spans.evaluate_all("all => all.map(one => one.style.background)")


def ranking(page: Any) -> list[str]:
    found: list[str] = page.locator("#ranking [data-unit]").evaluate_all("all => all.map(one => one.dataset.unit)")
    return found


def wait_for_unit(page: Any, unit: str) -> None:
    page.wait_for_function("unit => document.getElementById('unit').textContent === `Unit ${unit}`", arg=unit)


@pytest.mark.wide
def test_the_ranking_is_the_librarys_and_its_best_unit_is_shown_with_the_values_of_the_trace(page: Any, letters: Any):
    visit(page, "/#units?property=quotes-or-comment")
    text, _ = own_text(letters)
    known = search(letters.model, letters.tokenizer, text, [PROPERTIES["quotes-or-comment"]], top=10, limit=LIMIT)
    units = ranking(page)
    order = np.argsort(-known["held_out"][0], kind="stable")
    assert units == known["unit"][0][order].tolist()
    figures = page.locator("#ranking [data-unit] .value").evaluate_all("all => all.map(one => Number(one.textContent))")
    assert figures == pytest.approx(known["held_out"][0][order].tolist(), abs=0.0051)
    assert figures == sorted(figures, reverse=True)
    luck = page.locator("#ranking [data-unit] .luck").evaluate_all("all => all.map(one => parseFloat(one.style.left))")
    assert luck == pytest.approx([100 * max(0.0, 2 * float(known["control"][0]) - 1)] * 10, abs=0.1)
    wait_for_unit(page, units[0])
    whole, values, colours = shown(page)
    field, number = units[0].rstrip("]").split("[")
    traced = letters.trace(whole)[field][:, int(number)]
    assert values == pytest.approx(traced.tolist(), abs=0.00051)
    truth = PROPERTIES["quotes-or-comment"].of(whole)
    holds = page.locator("#coloured span").evaluate_all("all => all.map(one => one.className === 'holds')")
    assert holds == truth.tolist()
    # from blue to orange: the redder, the higher
    reds = np.array([int(colour.split("(")[1].split(",")[0]) for colour in colours])
    assert reds[traced <= np.percentile(traced, 5)].max() == reds.min()
    assert reds[np.argmax(traced)] > reds[np.argmin(traced)]


@pytest.mark.wide
def test_it_opens_on_a_known_unit_in_a_text_that_shows_its_property(page: Any, letters: Any):
    page.goto("/#units")
    page.wait_for_selector("#coloured span")
    field, number = unit_of("letters", "quotes-or-comment")
    wait_for_unit(page, f"{field}[{number}]")
    assert page.get_by_label("Property of the text").input_value() == "quotes-or-comment"
    whole, values, _ = shown(page)
    assert values == pytest.approx(letters.trace(whole)[field][:, number].tolist(), abs=0.00051)
    assert 0.05 < PROPERTIES["quotes-or-comment"].of(whole).mean() < 0.95
    page.wait_for_selector("#ranking .bar")
    page.get_by_label("Property of the text").select_option("comment")
    field, number = unit_of("letters", "comment")
    wait_for_unit(page, f"{field}[{number}]")
    page.get_by_label("Property of the text").select_option("keyword")  # no unit is known for it
    page.wait_for_selector("#ranking .bar")
    wait_for_unit(page, ranking(page)[0])


def test_clicking_a_unit_of_the_ranking_shows_it(page: Any, letters: Any):
    visit(page, "/#units?property=quotes-or-comment")
    units = ranking(page)
    wait_for_unit(page, units[0])
    before = shown(page)[1]
    page.locator(f'#ranking [data-unit="{units[2]}"]').click()
    wait_for_unit(page, units[2])
    whole, values, _ = shown(page)
    assert values != before
    field, number = units[2].rstrip("]").split("[")
    assert values == pytest.approx(letters.trace(whole)[field][:, int(number)].tolist(), abs=0.00051)
    assert page.locator("#ranking [aria-pressed=true]").get_attribute("data-unit") == units[2]
    assert page.get_by_label("State").input_value() == field
    assert page.get_by_label("Unit", exact=True).input_value() == number
    page.get_by_role("button", name="Show the next unit").press("Enter")
    wait_for_unit(page, units[3])


@pytest.mark.wide
def test_a_unit_can_be_asked_for_by_its_number(page: Any, letters: Any):
    visit(page, "/#units?text=x+%3D+%22a%22&unit=l0.h%5B5%5D")
    wait_for_unit(page, "l0.h[5]")
    page.get_by_label("Unit", exact=True).fill("6")
    wait_for_unit(page, "l0.h[6]")
    assert shown(page)[1] == pytest.approx(letters.trace('x = "a"')["l0.h"][:, 6].tolist(), abs=0.00051)
    page.get_by_label("State").select_option("l0.c")
    wait_for_unit(page, "l0.c[0]")


@pytest.mark.wide
def test_arrow_keys_read_the_values_out(page: Any, letters: Any):
    visit(page, "/#units?text=x+%3D+%22a%22&unit=l0.h%5B5%5D&property=quotes")
    wait_for_unit(page, "l0.h[5]")
    known = letters.trace('x = "a"')["l0.h"][:, 5]
    page.locator("#coloured").focus()
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    assert page.locator("#readout").inner_text() == f"token 6, “a”: {known[5]:.3f}; inside a Python string"
    page.locator("#coloured span").first.hover()
    assert page.locator("#readout").inner_text() == f"token 1, “x”: {known[0]:.3f}; not inside a Python string"


@pytest.mark.wide
def test_another_property_gives_another_ranking(page: Any):
    visit(page, "/#units?property=quotes-or-comment")
    before = ranking(page)
    wait_for_unit(page, before[0])
    page.get_by_label("Property of the text").select_option("boundary")
    page.wait_for_function(
        "before => { const now = [...document.querySelectorAll('#ranking [data-unit]')].map((one) => one.dataset.unit);"
        " return now.length && now.join() !== before }",
        arg=",".join(before),
    )
    wait_for_unit(page, ranking(page)[0])
    assert "property=boundary" in page.url


@pytest.mark.wide
def test_a_late_answer_does_not_bring_the_unit_of_the_last_property_back(page: Any):
    late: dict[str, Any] = {}

    def hold(route: Any) -> None:
        asked = route.request.post_data_json
        question = route.request.url.rsplit("/", 1)[1]
        if (asked["property"], question) in {("quotes-or-comment", "shown"), ("boundary", "ranked")}:
            late[question] = route
        else:
            route.continue_()

    for question in ("shown", "ranked"):
        page.route(f"**/api/units/{question}", hold)
    page.goto("/#units?property=quotes-or-comment")
    page.wait_for_selector("#ranking .bar")
    page.get_by_label("Property of the text").select_option("boundary")
    while "ranked" not in late:
        page.wait_for_timeout(20)
    with page.expect_response("**/api/units/shown"):
        late["shown"].continue_()
    late["ranked"].continue_()
    page.wait_for_selector("#ranking .bar")
    wait_for_unit(page, ranking(page)[0])


@pytest.mark.wide
def test_a_property_the_text_has_not_is_said_and_the_text_is_still_coloured(page: Any):
    visit(page, "/#units?model=ready:lstm")
    assert page.get_by_label("Property of the text").input_value() == "line-position"
    page.get_by_label("Property of the text").select_option("quotes")
    page.wait_for_selector("#ranking :text(\"No ranking: 'quotes' holds at 0 of\")")
    page.wait_for_selector("#coloured span")
    assert page.get_by_role("button", name="Show the next unit").is_disabled()


@pytest.mark.wide
def test_a_text_of_ones_own_is_coloured(page: Any, letters: Any):
    visit(page)
    units = ranking(page)
    page.locator(f'#ranking [data-unit="{units[4]}"]').click()
    wait_for_unit(page, units[4])
    own = 'say("🙂<img src=x onerror=alert(1)>")\n# done'
    page.get_by_text("Use a text of your own").click()
    page.get_by_label("Text to colour").fill(own)
    page.get_by_role("button", name="Colour this text").click()
    page.wait_for_function("length => document.querySelectorAll('#coloured span').length === length", arg=len(own))
    whole, values, _ = shown(page)
    assert whole == own
    field, number = units[4].rstrip("]").split("[")
    assert values == pytest.approx(letters.trace(own)[field][:, int(number)].tolist(), abs=0.00051)
    page.get_by_role("button", name="Back to the model's text").click()
    page.wait_for_function("() => document.querySelectorAll('#coloured span').length > 500")


@pytest.mark.wide
def test_a_megabyte_is_refused_with_a_sentence(page: Any):
    visit(page)
    page.get_by_text("Use a text of your own").click()
    page.get_by_label("Text to colour").evaluate("(node, text) => { node.value = text }", "a b " * 250_000)
    page.get_by_role("button", name="Colour this text").click()
    page.wait_for_selector("text=the text has 1,000,000 characters; expected at most 20,000; try a shorter one")


@pytest.mark.wide
def test_only_models_with_units_are_offered(page: Any):
    visit(page)
    offered = page.get_by_label("Model").locator("option").evaluate_all("all => all.map(one => one.value)")
    assert {"ready:letters", "ready:lstm", "ready:rnn", "ready:gru"} <= set(offered)
    assert not {"ready:ngram", "ready:window", "ready:transformer"} & set(offered)
