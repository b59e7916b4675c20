"""Every panel for everybody: by keys alone, by ear, on a phone, in light and dark, and by a link somebody sent.

These tests know no panel: they look at whatever is in the list of panels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import PANELS, SIZE, Served, opened, refuse, settle

NAMED = (
    *("button", "checkbox", "combobox", "link", "listbox", "menuitem", "option", "radio", "searchbox", "slider"),
    *("spinbutton", "switch", "tab", "textbox", "image", "img", "Canvas", "meter", "progressbar"),
)
"""Roles, as the browser calls them, of what must have a name."""
LOOK = (Path(__file__).parent / "look.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def visit(browser: Any, server: Served) -> Iterator[tuple[Any, list[str]]]:
    """A tab that goes from panel to panel, and the errors that its page logs."""
    with opened(browser, server.address, reduced_motion="reduce") as tab_and_faults:
        yield tab_and_faults


@pytest.fixture(scope="module")
def friend(browser: Any, server: Served) -> Iterator[tuple[Any, list[str]]]:
    """A tab of somebody else, who is sent links."""
    with opened(browser, server.address, reduced_motion="reduce") as tab_and_faults:
        yield tab_and_faults


@pytest.fixture(scope="module", params=PANELS)
def panel(request: pytest.FixtureRequest, visit: tuple[Any, list[str]]) -> Iterator[Any]:
    """The tab at a panel with its pictures drawn; the tests of a panel share it, in the order they stand here."""
    tab, faults = visit
    faults.clear()
    tab.set_viewport_size(SIZE)
    tab.goto(f"/#{request.param}")
    settle(tab)
    yield tab
    refuse(faults)


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
    """In light and dark, wide and narrow: the page is not wider than the screen, texts have contrast, controls are
    large enough for a finger."""
    found = {}
    shown = panel.evaluate("document.documentElement.dataset.theme")
    for theme in (shown, {"light": "dark", "dark": "light"}[shown]):  # the panel is opened anew for the other one alone
        if panel.evaluate("document.documentElement.dataset.theme") != theme:
            panel.locator("#theme").click()
        for width in (390, 1280):
            panel.set_viewport_size({"width": width, "height": 900})
            settle(panel)
            assert panel.evaluate("document.documentElement.dataset.theme") == theme
            faults = panel.evaluate(LOOK)
            if width > 700:
                del faults["small"]  # a mouse hits them
            found |= {f"{what}, {theme}, {width}": faults[what] for what in faults if faults[what]}
    assert not found


def values(tab: Any) -> list[Any]:
    return tab.locator("main :is(input, select, textarea)").evaluate_all(
        "all => all.map(one => [one.type, ['checkbox', 'radio'].includes(one.type) ? one.checked : one.value])"
    )


def test_a_link_shows_the_same_again(panel: Any, friend: tuple[Any, list[str]], server: Served):
    """With a slider moved, another choice made and another text written, where there are such."""
    for slider in panel.locator("main input[type=range]:visible:enabled").all()[:2]:
        slider.focus()
        panel.keyboard.press("ArrowLeft")
    for box in panel.locator("main textarea:visible:enabled").all()[:1]:
        box.fill("the nurses near the farmer are kind .")
    settle(panel)
    other, faults = friend
    other.goto(panel.url.replace(server.address, ""))
    settle(other)
    assert values(other) == values(panel)
    refuse(faults)


def test_keys_alone_reach_and_press_the_main_action(panel: Any, server: Any):
    """Tab leads there in the order of the page, what has the focus is seen, and Enter does it."""
    main = "button.main:not(:disabled), button.bar, th button"
    panel.locator(main).first.wait_for()
    panel.locator("#theme").focus()
    for _ in range(80):
        panel.keyboard.press("Tab")
        where = panel.evaluate(
            """main => {
              const one = document.activeElement, style = getComputedStyle(one);
              const seen = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 1;
              return { there: one.matches(main), seen, name: one.outerHTML.slice(0, 100) };
            }""",
            main,
        )
        assert where["seen"], where["name"]
        if where["there"]:
            break
    assert where["there"], "80 times Tab did not lead to the main action"
    before = panel.locator("main").evaluate("main => main.innerHTML")
    panel.keyboard.press("Enter")
    panel.wait_for_function("before => document.querySelector('main').innerHTML !== before", arg=before)
    for job in server.studio.jobs.all():  # the main action of Train: it would go on beside all other tests
        if job.state == "running":
            server.studio.jobs.stop(job.name)
