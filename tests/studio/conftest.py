"""A studio over small ready models, served for real; a browser that visits it.

The tests of a process share one set of models, one server and one browser.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving_studio import LEAST, SCALE, Served, served
from visits import forget_windows, opened, refuse, visiting

from thereafter.ready import models as ready
from thereafter.ready import shipped
from thereafter.ready import tasks as ready_tasks
from thereafter.studio.studio import Studio

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


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
        forget_windows()
        running.close()


@pytest.fixture
def page(browser: Any, server: Served) -> Iterator[Any]:
    """A tab of 1280 pixels at the studio; a test fails where the page logged an error.

    The page forbids evaluating strings, so `wait_for_function` takes a function: "() => location.hash.includes('x')".
    """
    with visiting(browser, server.address) as tab:
        yield tab


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
