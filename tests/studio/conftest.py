"""A studio over small ready models, served for real; a browser that visits it.

The tests of a process share one set of models, one server and one browser.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from remembering import Remembering
from thereafter.ready import models as ready
from thereafter.ready import shipped
from thereafter.ready import tasks as ready_tasks
from thereafter.studio.app import PAGE
from thereafter.studio.serve import listen, make_server
from thereafter.studio.studio import Studio
from waiting import wait_for

SCALE = 0.05
LEAST = 0.001
"""Of a training whose end is looked at, and nothing that it has learned: the fewest examples."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
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


@pytest.fixture(scope="session")
def ready_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ready models as they ship; the n-gram model is counted."""
    folder = tmp_path_factory.mktemp("ready")
    for one in ready.READY:
        if not shipped.unpack(one, folder):
            ready.make(one, folder)
    for task in ready_tasks.READY_TASKS:
        assert shipped.unpack(task, folder / ready_tasks.TASKS, folder / "texts")
    return folder


def unit_of(model: str, property: str = "number") -> tuple[str, int]:
    """What is known of the units of a ready model: the field, such as "l0.c", and the number of the unit."""
    name = str(shipped.cards()[model]["scores"]["units"][property][0])
    field, _, number = name.rstrip("]").partition("[")
    return field, int(number)


@dataclass(frozen=True)
class Served:
    """A studio and its address."""

    studio: Studio
    address: str

    @property
    def runs(self) -> Path:
        return self.studio.jobs.folder


def served(studio: Studio, token: str | None = None, port: int = 0, *, remembering: bool = False) -> Iterator[Served]:
    """A studio behind a real server, on a thread, for as long as the generator is open."""
    listening = listen("127.0.0.1", port)
    server = make_server(studio, token=token)
    # A server that outlives its file asks an open page every 20 s whether it is there, with a number from Python's own
    # generator. Where hypothesis draws for a later test meanwhile, it takes that for a draw of the test's.
    server.config.ws_ping_interval = None
    if remembering:
        server.config.app = Remembering(server.config.app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        wait_for(lambda: server.started and studio.stage.loaded)
        yield Served(studio, f"http://127.0.0.1:{listening.getsockname()[1]}")
    finally:
        server.should_exit = True
        thread.join(60)
        listening.close()
    assert not thread.is_alive(), "the server did not end"


@pytest.fixture(scope="session")
def server(ready_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The studio all tests visit that do not change it for good."""
    yield from served(Studio(tmp_path_factory.mktemp("runs"), ready_folder, scale=SCALE), remembering=True)


@pytest.fixture
def untrained(ready_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A studio that has no task models yet. Its trainings take no compiled kernels: to load them takes longer."""
    monkeypatch.setenv("THEREAFTER_NUMBA", "0")
    shutil.copytree(ready_folder, tmp_path / "ready", ignore=shutil.ignore_patterns("tasks"))
    yield from served(Studio(tmp_path / "runs", tmp_path / "ready", scale=LEAST, shipped=False))


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A real headless Chromium."""
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("no chromium in CI; make browser installs it")
        pytest.skip("SKIPPED LOUDLY: no chromium, so no panel was tested; try: make browser")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # all tabs of a window in one process: what it has compiled of the page's scripts serves the next one.
        # They live for seconds: what V8's optimising compiler makes is thrown away
        options = ["--no-sandbox", "--disable-gpu", "--process-per-site", "--js-flags=--no-opt"]
        running = playwright.chromium.launch(executable_path=found, args=options)
        yield running
        _FREE.clear()
        running.close()


@pytest.fixture
def page(browser: Any, server: Served) -> Iterator[Any]:
    """A tab of 1280 pixels at the studio; a test fails where the page logged an error.

    The page forbids evaluating strings, so `wait_for_function` takes a function: "() => location.hash.includes('x')".
    """
    with visiting(browser, server.address) as tab:
        yield tab


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


@pytest.fixture(scope="module")
def _long_visit(browser: Any, server: Served) -> Iterator[tuple[Any, list[str]]]:
    with opened(browser, server.address) as visit:
        yield visit


@pytest.fixture
def visitor(_long_visit: tuple[Any, list[str]]) -> Iterator[Any]:
    """The tab of one visitor who goes from panel to panel through all tests of a file, so that the page and its charts
    are loaded once; a test fails where the page logged an error."""
    tab, faults = _long_visit
    faults.clear()
    yield tab
    refuse(faults)


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
