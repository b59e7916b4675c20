"""The generator: the text on the page is the model's, pausing stops it, and the sliders work while it grows."""

from __future__ import annotations

from typing import Any

import pytest

import thereafter
from thereafter.ready.models import LETTER_UNITS

LINK = "/#generator?seed=3&temperature=0.8"


@pytest.fixture(scope="module")
def letters(server: Any) -> Any:
    return thereafter.load(server.studio.shelf.place("ready:letters"))


def visit(page: Any, link: str = LINK) -> None:
    page.goto(link)
    page.wait_for_selector("#next .bar")


def press(page: Any, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def text(page: Any) -> str:
    found: str = page.locator("#text").evaluate("node => node.textContent")
    return found


def wait_for_text(page: Any, characters: int) -> None:
    """Wait until the text is longer by so many characters than it is now."""
    page.wait_for_function(
        "length => document.getElementById('text').textContent.length >= length", arg=len(text(page)) + characters
    )


def test_at_first_it_shows_what_comes_after_the_seed_text(page: Any, letters: Any):
    visit(page, "/#generator")
    words = page.locator("#next .bar").evaluate_all("bars => bars.map(bar => bar.dataset.word)")
    assert words == [word for word, _ in letters.next("def ", 10)]
    assert text(page) == "def "
    assert f"{LETTER_UNITS} units" in page.locator("#strips canvas").get_attribute("aria-label")
    assert page.get_by_role("button", name="Pause").is_disabled()


def test_pausing_stops_the_text_and_resuming_goes_on(page: Any, letters: Any):
    visit(page)
    press(page, "Generate")
    wait_for_text(page, 20)
    press(page, "Pause")
    paused = text(page)
    page.wait_for_timeout(500)
    assert text(page) == paused
    shown = page.locator("#next .bar").evaluate_all("bars => bars.map(bar => bar.dataset.word)")
    assert shown == [word for word, _ in letters.next(paused, 10)]
    press(page, "Resume")
    wait_for_text(page, 20)
    press(page, "Stop")
    stopped = text(page)
    page.wait_for_timeout(300)
    assert text(page) == stopped
    assert stopped.startswith(paused)
    assert letters.generate("def ", len(stopped) - 4, temperature=0.8, seed=3) == stopped


@pytest.mark.wide
def test_at_least_thirty_characters_a_second_with_the_display_on(page: Any):
    visit(page)
    press(page, "Generate")
    wait_for_text(page, 10)
    strip = "document.querySelector('#strips canvas').toDataURL()"
    look = f"[performance.now(), document.getElementById('text').textContent.length, {strip}]"
    rates: list[float] = []
    # a window in which other work had the processor says nothing
    while max(rates, default=0.0) < 30 and len(rates) < 20:
        before = page.evaluate(look)
        page.wait_for_timeout(1500)
        after = page.evaluate(look)
        assert after[2] != before[2]
        rates.append((after[1] - before[1]) / ((after[0] - before[0]) / 1000))
    assert max(rates) >= 30
    page.wait_for_function("() => parseInt(document.getElementById('rate').innerText) >= 30")


@pytest.mark.wide
def test_the_temperature_works_while_it_writes(page: Any, letters: Any):
    visit(page, "/#generator?seed=3&temperature=1.5")
    press(page, "Generate")
    wait_for_text(page, 20)
    page.get_by_role("slider", name="Temperature").press("Home")
    page.wait_for_function("() => location.hash.includes('temperature=0&')")
    wait_for_text(page, 60)
    press(page, "Pause")
    whole = text(page)
    hot = letters.generate("def ", len(whole) - 4, temperature=1.5, seed=3)
    parted = next(at for at, (one, other) in enumerate(zip(whole, hot, strict=True)) if one != other)
    assert parted > 20
    assert len(whole) - parted > 10
    assert letters.generate(whole[:parted], len(whole) - parted, temperature=0) == whole


@pytest.mark.wide
def test_top_k_works_while_it_writes(page: Any, letters: Any):
    visit(page, "/#generator?seed=4&temperature=2")
    press(page, "Generate")
    wait_for_text(page, 10)
    page.get_by_role("slider", name="Top-k").press("Home")  # the likeliest alone, however hot
    page.wait_for_function("() => location.hash.includes('&k=1')")
    wait_for_text(page, 60)
    press(page, "Pause")
    whole = text(page)
    end = whole[-20:]
    assert letters.generate(whole[:-20], 20, temperature=0) == whole[:-20] + end
    page.get_by_role("slider", name="Top-k").press("End")
    assert "Top-k: all" in page.locator("label", has_text="Top-k").inner_text()


@pytest.mark.wide
def test_any_seed_text_is_text(page: Any, letters: Any):
    visit(page)
    prompt = "🙂 <img src=x onerror=alert(1)> "
    page.get_by_label("Seed text").fill(prompt)
    press(page, "Generate")
    page.wait_for_function("prompt => document.getElementById('text').textContent.startsWith(prompt)", arg=prompt)
    wait_for_text(page, 20)
    press(page, "Pause")
    assert letters.generate(prompt, 200, temperature=0.8, seed=3).startswith(text(page))
    assert page.locator("#text img").count() == 0


@pytest.mark.wide
@pytest.mark.parametrize("name", ["ngram", "transformer"])
def test_models_without_a_state_write_too_and_say_why_there_is_no_strip(page: Any, server: Any, name: str):
    visit(page, f"/#generator?model=ready:{name}&text=the+nurse&seed=2&temperature=1")
    press(page, "Generate")
    wait_for_text(page, 60)
    press(page, "Pause")
    lm = thereafter.load(server.studio.shelf.place(f"ready:{name}"))
    assert lm.generate("the nurse", 200, seed=2).startswith(text(page))
    assert page.locator("#strips canvas").count() == 0
    assert "there is no strip" in page.locator("#strips").inner_text()


@pytest.mark.wide
def test_a_megabyte_is_refused_with_a_sentence_and_nothing_breaks(page: Any):
    visit(page)
    page.get_by_label("Seed text").evaluate("(node, text) => { node.value = text }", "a b " * 250_000)
    press(page, "Generate")
    page.wait_for_selector("text=the seed text has 1,000,000 characters; expected at most 20,000; try a shorter one")
    page.get_by_label("Seed text").fill("def ")
    press(page, "Generate")
    wait_for_text(page, 10)
    assert page.locator(".error").inner_text() == ""


@pytest.mark.wide
def test_only_the_end_of_a_long_text_is_kept_on_the_page(page: Any, letters: Any):
    visit(page)
    prompt = "".join(f"x{line:03} = 1{' ' * 90}\n" for line in range(200))[:19_990] + "\n"
    page.get_by_label("Seed text").fill(prompt)
    page.get_by_role("slider", name="Tokens per second").press("End")
    press(page, "Generate")
    page.wait_for_function(
        "() => { const now = document.getElementById('text').textContent;"
        " return now.length > 10_000 && !now.includes('x001 ') }"
    )
    press(page, "Pause")
    found = text(page)
    assert 19_000 < len(found) <= 20_000
    assert letters.generate(prompt, 500, temperature=0.8, seed=3).find(found) > 0


@pytest.mark.wide
def test_two_tabs_write_at_once(page: Any, letters: Any):
    visit(page)
    other = page.context.new_page()
    other.goto("/#generator?seed=9&temperature=0.8")
    other.wait_for_selector("#next .bar")
    for tab in (page, other):
        press(tab, "Generate")
    for tab in (page, other):
        wait_for_text(tab, 40)
        press(tab, "Pause")
    for tab, seed in ((page, 3), (other, 9)):
        written = text(tab)  # on a busy machine a tab goes on for long before it is paused
        assert letters.generate("def ", len(written), temperature=0.8, seed=seed).startswith(written)


@pytest.mark.wide
def test_a_line_that_breaks_is_said_and_another_can_be_begun(page: Any):
    lines: list[Any] = []

    def pass_on(line: Any) -> None:
        line.connect_to_server()
        lines.append(line)

    page.route_web_socket("**/api/generating", pass_on)
    visit(page)
    press(page, "Generate")
    wait_for_text(page, 5)
    lines[-1].close()
    page.wait_for_selector("text=the studio no longer answers this text; try: Generate again")
    press(page, "Generate")
    wait_for_text(page, 30)
    assert page.locator(".error").inner_text() == ""
