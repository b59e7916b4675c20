"""One walk over all panels: what each of them owes to everybody.

It opens filled on the first screen; it serves by keys alone, by ear, on a phone, in light and dark, without motion and
by a link somebody sent; it outlives a megabyte, an emoji and markup, runs nothing of it and fetches nothing from
elsewhere. These tests know hardly any panel: they look at whatever is in the list of panels. What one panel alone is
there for stands in a file of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from serving_studio import Served
from visits import PANELS, opened, refuse, settle

from breadth import core

WHOLE = {
    "gates": "#picture",
    "recurrence": "#picture",
    "attention": "#picture",
    "bottleneck": ".js-plotly-plot",
    "tagging": ".tagged > li:last-child",
    "sentiment": ".evidence",
    "window": "#sight",
    "keyboard": "#columns .verbs",
    "captions": "#picture",
    "moving": ".belief .levels",
    "glimpses": ".belief .levels",
    "drawing": ".belief .levels",
    "catch": ".belief .levels",
}
"""What a panel is there to show, where all of it stands on the first screen of 1280 by 800 without a click."""
BEGUN = {"units": "#coloured span", "compare": "#distance.js-plotly-plot", "counting": ".pairs td"}
"""And where its beginning does."""
NAMED = (
    *("button", "checkbox", "combobox", "link", "listbox", "menuitem", "option", "radio", "searchbox", "slider"),
    *("spinbutton", "switch", "tab", "textbox", "image", "img", "Canvas", "meter", "progressbar"),
)
"""Roles, as the browser calls them, of what must have a name."""
LOOK = (Path(__file__).parent / "look.js").read_text(encoding="utf-8")
MAIN = "button.main:not(:disabled), button.bar, th button"
CHOICES = "main select:visible:enabled:has(option:nth-of-type(2)):not(:has([value=drawn], [value=own]))"
"""Those after which there is something to see without a drawing or a file of the visitor's."""
VALUES = ("text", "model", "models", "beside", "unit", "property", "of", "name", "corpus", "state", "part", "seed")
"""Of names in an address."""
MARKUP = "<img src=x onerror=\"document.title='run'; alert('run')\"><script>alert('run')</script>"
SENTENCE = "the teacher near the farmers is old ."
MEGABYTE = ("the nurse near the farmers " * 40_000)[: 1 << 20]
WRITES_ON = {"generator", "train"}
"""The main action of these begins something that goes on."""
FEW = 8
"""Frames in which a page changes that shows an answer; a movement changes it in dozens."""


@dataclass
class Visit:
    """A tab that goes from panel to panel: what its page logged, said in dialogs and asked for."""

    tab: Any
    faults: list[str]
    dialogs: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def visit(browser: Any, server: Served) -> Iterator[Visit]:
    with opened(browser, server.address, reduced_motion="reduce") as (tab, faults):
        made = Visit(tab, faults)
        tab.context.on("request", lambda request: made.asked.append(request.url))
        tab.on("websocket", lambda line: made.asked.append(line.url))
        tab.on("dialog", lambda dialog: (made.dialogs.append(dialog.message), dialog.dismiss()))
        yield made


@pytest.fixture(scope="module")
def friend(browser: Any, server: Served) -> Iterator[tuple[Any, list[str]]]:
    """A tab of somebody else, who is sent links."""
    with opened(browser, server.address, reduced_motion="reduce") as tab_and_faults:
        yield tab_and_faults


CORE = ("keyboard", "gates", "surprisal", "tagging", "forecast", "catch", "train")
"""Panels that are walked with every change: of each kind of question one. The others are wide."""


@pytest.fixture(scope="module", params=core(PANELS, CORE))
def panel(request: pytest.FixtureRequest, visit: Visit, server: Served) -> Iterator[Any]:
    """The tab at a panel with its pictures drawn; the tests of a panel share it, in the order they stand here."""
    visit.faults.clear()
    visit.asked.clear()
    visit.tab.set_viewport_size({"width": 1280, "height": 800})
    visit.tab.goto(f"/#{request.param}")
    settle(visit.tab)
    yield visit.tab
    refuse(visit.faults)
    own = server.address.partition("://")[2]
    assert visit.asked
    assert {url.split("/")[2] for url in visit.asked if not url.startswith(("data:", "blob:"))} == {own}


def name_of(panel: Any) -> str:
    return str(panel.url.partition("#")[2].partition("?")[0])


def test_it_is_filled_and_on_the_first_screen(panel: Any):
    name = name_of(panel)
    panel.evaluate("scrollTo(0, 0)")
    if name in WHOLE or name in BEGUN:
        place = panel.locator((WHOLE | BEGUN)[name]).first
        place.wait_for()
        box = place.bounding_box()
        assert box["height"] > 0
        assert box["y"] + (box["height"] if name in WHOLE else 40) <= 800
    assert not panel.get_by_role("button", name="Train the").first.is_visible()


def test_every_control_and_picture_has_a_name(panel: Any):
    """As the browser tells it to a screen reader."""
    nodes = panel.context.new_cdp_session(panel).send("Accessibility.getFullAXTree")["nodes"]
    seen = [node for node in nodes if not node["ignored"] and node.get("role", {}).get("value") in NAMED]
    assert len(seen) > len(PANELS)
    nameless = [node["role"]["value"] for node in seen if not node.get("name", {}).get("value", "").strip()]
    assert not nameless


def test_one_line_says_what_to_see_and_one_or_two_sentences_what_to_do(panel: Any):
    see, about = (
        panel.locator(f"main .{name}").text_content().strip().replace("et al.", "and others")
        for name in ("see", "about")
    )
    assert len(re.findall(r"[.?](?=\s|$)", see)) == 1, see
    lines = panel.locator("main .see").evaluate(
        "one => one.clientHeight / parseFloat(getComputedStyle(one).lineHeight)"
    )
    assert lines < 1.5, see
    assert 1 <= len(re.findall(r"[.?](?=\s|$)", about)) <= 2, about
    assert panel.locator("main h2").count() == 1
    assert panel.locator("#tabs [aria-current=page]").text_content() == panel.locator("main h2").text_content()


def test_it_fits_and_can_be_read(panel: Any):
    """The page is not wider than the screen or a phone, texts have contrast in light and dark, controls are large
    enough for a finger."""
    found = {}
    shown = panel.evaluate("document.documentElement.dataset.theme")
    other = {"light": "dark", "dark": "light"}[shown]
    for width, theme in ((390, shown), (1280, shown), (1280, other)):  # no colour depends on the width
        panel.set_viewport_size({"width": width, "height": 900})
        if theme != shown and panel.locator("main [style*=background]").count():  # coloured by the panel: it opens anew
            panel.locator("#theme").click()
        panel.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
        settle(panel)
        faults = panel.evaluate(LOOK)
        if width > 700:
            del faults["small"]  # a mouse hits them
        found |= {f"{what}, {theme}, {width}": faults[what] for what in faults if faults[what]}
    assert not found


def contents(tab: Any) -> dict[str, list[Any]]:
    """What stands in the controls, in the text and in the charts of a panel, as far as they are shown."""
    shown: dict[str, list[Any]] = tab.evaluate(
        """() => {
          const place = document.querySelector("main");
          const all = (what) => [...place.querySelectorAll(what)].filter((one) => one.checkVisibility());
          const value = (one) => ["checkbox", "radio"].includes(one.type) ? one.checked : one.value;
          return {
            controls: all("input, select, textarea").map((one) => [one.type, value(one)]),
            text: place.innerText.split("\\n"),
            charts: all("*").filter((one) => one.numbers).map((one) => JSON.stringify(one.numbers)),
          };
        }"""
    )
    return shown


def test_a_link_shows_the_same_again(panel: Any, friend: tuple[Any, list[str]], server: Served):
    """With sliders moved, another choice made and another text written, where there are such."""
    settle(panel)
    before = contents(panel)
    for slider in panel.locator("main input[type=range]:visible:enabled").all()[:2]:
        slider.focus()
        lowest = slider.input_value() == slider.get_attribute("min")
        panel.keyboard.press("ArrowRight" if lowest else "ArrowLeft")
    for box in panel.locator("main textarea:visible:enabled").all()[:1]:
        box.fill("the nurses near the farmer are kind .")
    for choice in panel.locator(CHOICES).all()[-1:]:
        options = choice.locator("option:not(:disabled)").evaluate_all("all => all.map(one => one.value)")
        choice.select_option(options[(options.index(choice.input_value()) + 1) % len(options)])
    settle(panel)
    if contents(panel) == before:  # there is nothing but another picture
        panel.locator(MAIN).first.click()
        settle(panel)
    other, faults = friend
    other.goto(panel.url.replace(server.address, ""))
    settle(other)
    shown, again = contents(panel), contents(other)
    assert shown != before
    for name in shown:
        different = [pair for pair in zip_longest(shown[name], again[name]) if pair[0] != pair[1]]
        assert not different, name
    refuse(faults)


def test_keys_alone_reach_and_press_the_main_action_and_nothing_moves(panel: Any, server: Any):
    """Tab leads there in the order of the page, what has the focus is seen, and Enter does it. Whoever wants no motion
    sees its end at once."""
    panel.locator(MAIN).first.wait_for()
    panel.locator("#theme").focus()
    for _ in range(80):
        panel.keyboard.press("Tab")
        where = panel.evaluate(
            """main => {
              const one = document.activeElement, style = getComputedStyle(one);
              const seen = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 1;
              return { there: one.matches(main), seen, name: one.outerHTML.slice(0, 100) };
            }""",
            MAIN,
        )
        assert where["seen"], where["name"]
        if where["there"]:
            break
    assert where["there"], "80 times Tab did not lead to the main action"
    panel.evaluate(
        """() => {
          window.changes = new Set(); // the times of frames in which something changed
          const watched = { subtree: true, childList: true, characterData: true, attributes: true };
          window.watcher = new MutationObserver(() => window.changes.add(document.timeline.currentTime));
          window.watcher.observe(document.querySelector("main"), watched);
        }"""
    )
    panel.keyboard.press("Enter")
    panel.wait_for_function("() => window.changes.size > 0")
    for job in server.studio.jobs.all():  # the main action of Train: it would go on beside all other tests
        if job.state == "running":
            server.studio.jobs.stop(job.name)
    if name_of(panel) not in WRITES_ON:
        settle(panel)
        panel.wait_for_timeout(300)
        assert panel.evaluate("() => window.changes.size") <= FEW
    panel.evaluate("() => window.watcher.disconnect()")


def assert_nothing_was_run(visit: Visit, where: str) -> None:
    assert visit.tab.locator("main :is(img, script, iframe)").count() == 0, where
    assert "run" not in visit.tab.title().split(), where
    assert not visit.dialogs, where


def test_markup_emoji_and_a_megabyte_are_text(panel: Any, visit: Visit):
    """In every text one can write, and in every value an address can give. Whatever a panel makes of them: it answers,
    with a sentence where it cannot, and goes on with an ordinary text."""
    name, hostile = name_of(panel), quote(MARKUP)
    panel.goto(f"/#{name}?" + "&".join(f"{value}={hostile}" for value in VALUES))
    settle(panel)
    assert_nothing_was_run(visit, "of the address")
    panel.goto(f"/#{name}")  # the same page with its own texts
    settle(panel)
    boxes = panel.locator("main :is(textarea, input[type=text]):visible:enabled").all()
    if not boxes:
        return
    for text in (MEGABYTE, f"👩🏽‍🚀 the 😀 {MARKUP}", SENTENCE):
        for box in boxes:
            box.fill(text)
        settle(panel)
        assert_nothing_was_run(visit, f"of what is written: {text[:20]}")
        assert len(panel.url) < 20_000
    assert panel.locator("main .error:not(:empty)").all_text_contents() == []


def test_light_and_dark_are_chosen_and_remembered_and_charts_follow(page: Any):
    page.goto("/#eigenvalue")
    page.wait_for_selector("#gradients .main-svg")
    ink = "() => document.querySelector('#gradients .xtick text').style.fill"
    theme, before = page.evaluate("document.documentElement.dataset.theme"), page.evaluate(ink)
    page.locator("#theme").click()
    page.wait_for_function(
        "before => { const one = document.querySelector('#gradients .xtick text');"
        " return one && one.style.fill !== before }",
        arg=before,
    )
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") != theme
