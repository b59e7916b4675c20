"""How long after the very first `thereafter studio` each panel shows what it is there to show.

    python benchmarks/first_start.py [--panels keyboard gates ...] [--rounds 3] [--json FILE]

For each panel and round a studio in a process of its own, with an empty cache and no runs, and a browser that is open
already and goes to the address as soon as it is printed. The clock starts with the process. A panel counts as alive
when its picture (`SHOWN`) stands in the page; some go on growing, Compare's by a line a model. Medians over the rounds.
Compiled kernels (numba) are kept from before: the installation's first minute is another matter. Needs chromium.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from report import Report, machine
from thereafter.base.storage import cache_folder

REQUIRED = 3.0
SHOWN = {
    "counting": ".pairs td",
    "window": "#sight",
    "recurrence": "#picture",
    "backprop": "#distances.js-plotly-plot",
    "eigenvalue": "#powers.js-plotly-plot",
    "gates": "#picture",
    "bottleneck": ".js-plotly-plot",
    "attention": "#picture",
    "keyboard": "#columns .verbs",
    "generator": "#strips",
    "surprisal": "#surprises section",
    "tagging": ".tagged > li:last-child",
    "sentiment": ".evidence",
    "units": "#coloured span",
    "forecast": "#forecast-picture .main-svg",
    "captions": "#caption-words button",
    "moving": "#film button",
    "glimpses": "#glimpse-film button",
    "drawing": "#drawing-film button",
    "catch": ".patches canvas",
    "train": "main form, main button.main",
    "compare": "#distance.js-plotly-plot",
}
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--panels", nargs="+", choices=SHOWN, default=list(SHOWN), metavar="PANEL")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    print(machine(), end="\n\n", flush=True)
    report = Report()
    with browsing() as browser:
        for panel in given.panels:
            times = [first_look(browser, panel) for _ in range(given.rounds)]
            page, alive = (statistics.median(column) for column in zip(*times, strict=True))
            report.add(f"{panel}: seconds until it is alive", alive, REQUIRED, f"page {page:.2f}", at_least=False)
    return report.close(given.json)


def first_look(browser: Any, panel: str) -> tuple[float, float]:
    """Seconds from the start of the process until the page stands, and until the panel's picture does."""
    with tempfile.TemporaryDirectory() as folder:
        # what numba compiled is kept: it belongs to the installation, not to the studio
        env = os.environ | {"THEREAFTER_CACHE": folder}
        env.setdefault("NUMBA_CACHE_DIR", str(cache_folder() / "numba"))
        began = time.perf_counter()
        command = [sys.executable, "-m", "thereafter", "studio", "--no-browser", "--runs", str(Path(folder) / "runs")]
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            address = re.search(r"http://\S+", process.stdout.readline())
            assert address is not None
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.goto(f"{address.group().rstrip('/')}/#{panel}")
            page.wait_for_selector("#tabs a")
            opened = time.perf_counter() - began
            page.wait_for_selector(SHOWN[panel], timeout=120_000)
            alive = time.perf_counter() - began
            page.close()
            return opened, alive
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()


@contextmanager
def browsing() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    path = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if path is None:
        raise SystemExit("no chromium was found; try: make browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


if __name__ == "__main__":
    sys.exit(main())
