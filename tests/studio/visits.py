"""Visits of a browser to a studio: windows and tabs that are kept for the next visitor, and what a test waits for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from thereafter.studio.app import PAGE

AWAITED = Path(__file__).parent / "awaited.js"
FRAMES = 6
"""So many frames of the page in a row without a change: nothing is to come any more."""
POLLED = 50
"""Milliseconds between two looks at whether a function holds: a look at each frame has all of them drawn."""
MOST_FREE = 4
_FREE: list[Window] = []
"""Windows that nobody visits at the moment, the one used last at the end."""
SIZE = {"width": 1280, "height": 900}
RESTING = "keyboard?models=ready:ngram&text=the"
"""Where a tab waits for its next visitor: a panel that is quickly there."""


def _panels() -> list[str]:
    """The names of the panels, in the order of their tabs."""
    page = PAGE / "panels"
    files = re.findall(r'from "\./(\w+)\.js"', (page / "index.js").read_text(encoding="utf-8"))
    named = [re.search(r'\bid: "(\w+)"', (page / f"{name}.js").read_text(encoding="utf-8")) for name in files]
    return [found[1] for found in named if found]


PANELS = _panels()


@dataclass
class Window:
    """A window, its address and options in words, and the tab that the next visitor gets, where one is kept."""

    kind: str
    context: Any
    tab: Any = None
    faults: list[str] = field(default_factory=list)


@contextmanager
def visiting(
    browser: Any,
    address: str,
    *,
    viewport: dict[str, int] | None = None,
    reduced_motion: str | None = None,
    fresh: bool = False,
    **options: Any,
) -> Iterator[Any]:
    """A tab of a visitor of its own; answers of 4xx are part of what is tested, other errors are not.

    It is opened in a window that nobody else uses. Windows and their tabs are kept for the next visitors, who find
    nothing stored in them and no panel open: scripts are fetched and compiled once. All that a page knows is in its
    address and on the page, so that a panel opened by a link there is as new as in a `fresh` tab.
    """
    kind = f"{address} {options}"
    at = next((at for at, window in enumerate(_FREE) if window.kind == kind), None)
    window = _window(browser, address, kind, **options) if at is None else _FREE.pop(at)
    if fresh or window.tab is None:
        _close_tabs(window)
        window.tab, window.faults = _tab(window.context)
    tab, faults = window.tab, window.faults
    faults.clear()
    whole = False
    try:
        tab.set_viewport_size(viewport or SIZE)
        tab.emulate_media(reduced_motion=reduced_motion or "no-preference")
        yield tab
        whole = not fresh and _left(tab, address)
    finally:
        _close_tabs(window, but=tab if whole else None)
        window.context.pages[0].evaluate("localStorage.clear()")
        window.context.clear_cookies()
        _FREE.append(window)
        if len(_FREE) > MOST_FREE:
            _FREE.pop(0).context.close()
    refuse(faults)


def forget_windows() -> None:
    """Those of a browser that is closed."""
    _FREE.clear()


def _left(tab: Any, address: str) -> bool:
    """Leave the panel that is open in a tab and take it off the page; whether nothing of the visit is left there."""
    if tab.is_closed() or not tab.url.startswith(f"{address}/#"):
        return False
    tab.unroute_all(behavior="ignoreErrors")
    tab.mouse.move(0, 0)
    tab.goto(f"/#{RESTING}")
    settle(tab)
    tab.evaluate(
        """async () => {
          const { writeState } = await import("/page/state.js");
          writeState("", {});
          document.getElementById("panel").replaceChildren();
          const dark = matchMedia("(prefers-color-scheme: dark)").matches;
          document.documentElement.dataset.theme = dark ? "dark" : "light";
          scrollTo(0, 0);
        }"""
    )
    return True


def _close_tabs(window: Window, but: Any = None) -> None:
    """Close the tabs of a window, the one that keeps its process alive excepted."""
    for other in window.context.pages[1:]:
        if other is not but:
            other.close()
    window.tab = but


def _window(browser: Any, address: str, kind: str, **options: Any) -> Window:
    """A window whose first tab keeps its process alive."""
    context = _context(browser, address, **options)
    context.new_page().goto("/page/studio.css")
    return Window(kind, context)


@contextmanager
def opened(browser: Any, address: str, **options: Any) -> Iterator[tuple[Any, list[str]]]:
    """A tab in a window that has never seen the studio, and the errors that its page logs."""
    context = _context(browser, address, **options)
    try:
        yield _tab(context)
    finally:
        context.close()


def _context(browser: Any, address: str, **options: Any) -> Any:
    context = browser.new_context(**{"viewport": SIZE, "base_url": address} | options)
    context.add_init_script(path=AWAITED)
    return context


def _tab(context: Any) -> tuple[Any, list[str]]:
    """A tab, and the errors that its page logs."""
    tab = context.new_page()
    tab.set_default_timeout(180_000)  # as long as `wait_for`: a busy machine is no fault of the page
    tab.wait_for_function = partial(tab.wait_for_function, polling=POLLED)
    faults: list[str] = []
    tab.on("pageerror", lambda error: faults.append(str(error)))
    tab.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
    return tab, faults


def refuse(faults: list[str]) -> None:
    assert not [fault for fault in faults if "status of 4" not in fault], faults


def settle(tab: Any) -> None:
    """Wait until nothing is awaited any more (awaited.js) and nothing changes any more."""
    tab.evaluate("window.settling = { seen: -1, frames: 0 }")
    tab.wait_for_function(
        """frames => {
          const before = window.settling, place = document.querySelector('.place');
          window.settling = { seen: -1, frames: 0 };
          if (document.readyState !== 'complete' || window.awaited()) return false; // a look at the place takes longer
          if (!place || place.querySelectorAll('*').length <= 5) return false;
          const seen = place.innerHTML.length;
          window.settling = { seen, frames: seen === before.seen ? before.frames + 1 : 0 };
          return window.settling.frames >= frames;
        }""",
        arg=FRAMES,
        polling="raf",
    )
