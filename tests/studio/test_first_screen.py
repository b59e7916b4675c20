"""What each panel is there to show stands on the first screen of 1280 by 800, without a click."""

from __future__ import annotations

from typing import Any

import pytest

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
BEGUN = {"units": "#coloured span", "compare": "#distance.js-plotly-plot", "counting": ".pairs td"}


@pytest.mark.parametrize("panel", [*WHOLE, *BEGUN])
def test_it_is_filled_and_on_the_first_screen(page: Any, panel: str):
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(f"/#{panel}")
    place = page.locator((WHOLE | BEGUN)[panel]).first
    place.wait_for()
    box = place.bounding_box()
    assert box["height"] > 0
    assert box["y"] + (box["height"] if panel in WHOLE else 40) <= 800
    assert not page.get_by_role("button", name="Train the").first.is_visible()
