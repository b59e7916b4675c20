"""The address of the page: the panel that is shown puts its values there, and a link that was followed is not lost."""

from __future__ import annotations

from typing import Any

SHOWN = "() => document.querySelector('#panel .place')?.dataset.panel === 'surprisal'"
WRITTEN_AFTER_A_CLICK = """async (late) => {
  const { writeState } = await import("/page/state.js");
  location.hash = "#surprisal?text=a+link";
  writeState("keyboard", { text: late }); // before the browser has said that the address changed
  return location.hash;
}"""


def test_a_link_is_followed_although_the_old_panel_writes_its_values_late(page: Any) -> None:
    page.goto("/#keyboard?text=the")
    page.wait_for_selector('#panel .place[data-panel="keyboard"] *')
    assert page.evaluate(WRITTEN_AFTER_A_CLICK, "the old") == "#surprisal?text=a+link"
    page.wait_for_function(SHOWN, timeout=20_000)
    assert "text=a+link" in page.evaluate("() => location.hash")
