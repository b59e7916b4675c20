"""What `make screenshots` takes: every panel of the studio, wide and narrow, in light and dark, over the ready models.

Ready models that are not in the cache yet are trained first, which takes about a minute. Panels are asked for by the
page itself, so that a new one is taken without a change here; `STATES` says what to show of a panel beside its first
view.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from thereafter.base.storage import cache_folder
from thereafter.studio.serve import listen, make_server
from thereafter.studio.studio import Studio

LOOKS = (("light", 1280), ("light", 390), ("dark", 1280))
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
STATES = {
    "catch": "number=4&step=6",
    "counting": "at=14",
    "drawing": "source=made&number=3&stroke=5",
    "eigenvalue": "radius=1.1",
}
"""What stands in the address of a panel."""


def generated(page: Any) -> None:
    """Some lines of text, then a pause."""
    page.get_by_role("button", name="Generate", exact=True).click()
    page.wait_for_timeout(4000)
    page.get_by_role("button", name="Pause").click()


def trained(page: Any) -> None:
    """The models of a task are trained when they are asked for, and kept."""
    offer = page.get_by_role("button", name="Train the")
    if offer.is_visible():
        offer.click()
        page.locator("main progress").wait_for()
        page.locator("main progress").wait_for(state="hidden", timeout=300_000)


ACTS: dict[str, Callable[[Any], None]] = {"generator": generated} | dict.fromkeys(
    (
        "bottleneck",
        "attention",
        "tagging",
        "sentiment",
        "forecast",
        "captions",
        "moving",
        "glimpses",
        "drawing",
        "catch",
    ),
    trained,
)
"""What is done in a panel before it is taken."""


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--out", type=Path, default=Path("screenshots"), help="The folder the pictures go to.")
    asked.add_argument("--panels", nargs="*", help="Some panels only, by name.")
    asked.add_argument("--first-screen", action="store_true", help="As they open, wide, as far as a screen shows them.")
    asked.add_argument(
        "--first-start",
        action="store_true",
        help="A studio without models yet, each panel 5 seconds after it opens.",
    )
    given = asked.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.first_start:
        first_start(given.out, given.panels)
        return
    with serving() as address, browsing() as browser:
        for theme, width in [look for look in LOOKS if look[1] > 700 or not given.first_screen]:
            for panel in given.panels or panels(browser, address):
                path = given.out / (_first_name(panel, theme) if given.first_screen else f"{panel}-{width}-{theme}.png")
                take(browser, address, panel, theme, width, path, whole=not given.first_screen)
                print(path)


OPENED = 5_000
"""Milliseconds a visitor gives a panel before it is looked at."""


def first_start(out: Path, wanted: list[str] | None) -> None:
    """What somebody sees who has just installed the package: nothing is kept from before, nothing is waited for."""
    with tempfile.TemporaryDirectory() as folder, browsing() as browser, listen("127.0.0.1", 0) as listening:
        studio = Studio(Path(folder) / "runs", Path(folder) / "ready")
        server = make_server(studio)
        began = time.monotonic()
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            address = f"http://127.0.0.1:{listening.getsockname()[1]}"
            for panel in wanted or panels(browser, address):
                page = browser.new_page(base_url=address, viewport={"width": 1280, "height": 800})
                page.goto(f"/#{panel}")
                page.wait_for_timeout(OPENED)
                page.screenshot(path=out / f"{panel}.png")
                print(f"{panel}, {time.monotonic() - began:.1f} s after the start")
                page.close()
        finally:
            server.should_exit = True
            thread.join()


def _first_name(panel: str, theme: str) -> str:
    return f"{panel}.png" if theme == "light" else f"{panel}-{theme}.png"


@contextmanager
def serving() -> Iterator[str]:
    """A studio over the ready models of this user; its address."""
    with tempfile.TemporaryDirectory() as runs, listen("127.0.0.1", 0) as listening:
        studio = Studio(Path(runs), cache_folder() / "studio")
        server = make_server(studio)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            said = ""
            while not studio.stage.loaded or studio.stage.making:
                if studio.stage.making != said:
                    said = studio.stage.making
                    print(f"training the ready model {said}")
                time.sleep(0.1)
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def browsing() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        raise SystemExit("no chromium was found; try: make browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def panels(browser: Any, address: str) -> list[str]:
    """The panels in the order of their tabs."""
    page = browser.new_page(base_url=address)
    page.goto("/")
    page.wait_for_selector("#tabs a")
    found: list[str] = page.locator("#tabs a").evaluate_all("tabs => tabs.map(tab => tab.dataset.panel)")
    page.close()
    return found


def take(browser: Any, address: str, panel: str, theme: str, width: int, path: Path, *, whole: bool) -> None:
    """One panel, as long as it is, or what a screen shows of it."""
    page = browser.new_page(
        base_url=address,
        viewport={"width": width, "height": 800},
        color_scheme=theme,
        reduced_motion="reduce",
    )
    page.goto(f"/#{panel}?{STATES.get(panel, '')}")
    settle(page)
    if panel in ACTS:
        ACTS[panel](page)
        settle(page)
    page.screenshot(path=path, full_page=whole)
    page.close()


def settle(page: Any) -> None:
    """Wait until nothing is asked and nothing changes any more."""
    page.wait_for_function("() => document.querySelectorAll('.place *').length > 5", timeout=60_000)
    page.wait_for_load_state("networkidle")
    length, before = 0, -1
    while length != before:
        before = length
        page.wait_for_timeout(500)
        length = page.evaluate("document.querySelector('.place').innerHTML.length")


if __name__ == "__main__":
    main()
