"""Figures as files: pages that need no network, pictures with title and caption, numbers that can be read again."""

from __future__ import annotations

import asyncio
import csv
import json
import re
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from refusals import assert_refused
from thereafter.errors import ExportError, MissingPackageError, OptionError
from thereafter.export.html.target import browser_path
from thereafter.figures import pictures
from thereafter.figures.figure import Figure, page
from thereafter.figures.pictures import write
from thereafter.figures.style import canvas


def figure(
    name: str = "decay", caption: str = "The norm by distance, rnn on <s> & </script>.", rows: int = 3
) -> Figure:
    plot = canvas("distance", "norm", width=500, height=300)
    values = [0.5**k for k in range(rows)]
    plot.add_scatter(x=list(range(rows)), y=values, name="rnn")
    return Figure(name, f"How {name} falls", caption, plot, {"distance": list(range(rows)), "norm": values})


@pytest.fixture(scope="module")
def drawn() -> dict[str, bytes]:
    """A PNG and an SVG of one figure, by one browser each."""
    one = figure(caption='A "caption" long enough to be wrapped, ' * 6)
    try:
        return {kind: pictures.render([one], kind, 1.0)[0] for kind in ("png", "svg")}
    except MissingPackageError as error:
        pytest.skip(str(error))


def test_pages_of_a_folder_share_plotly_and_ask_the_network_for_nothing(tmp_path: Path):
    written = write([figure("one"), figure("two")], tmp_path / "page.html").read_text(encoding="utf-8")
    (script,) = set(tmp_path.iterdir()) - {tmp_path / "page.html"}
    assert re.findall(r"<script[^>]*src=\"([^\"]*)\"", written) == [script.name]
    assert "plotly.js v" in script.read_text(encoding="utf-8")[:100]
    assert f"need {script.name} in the folder of this page" in written
    assert len(written) < 100_000
    before = script.stat().st_mtime_ns
    write([figure("three")], tmp_path / "other.html")
    assert (len(list(tmp_path.iterdir())), script.stat().st_mtime_ns) == (3, before)
    assert not re.search(r"<(script|link|img)[^>]*(src|href)=[\"']?https?:", written)
    assert page([figure()], title="whole").count("plotly.js v") == 1
    assert written.count("Plotly.newPlot(") >= 2
    for text in ("How one falls", "How two falls", "The numbers (3 rows)", "prefers-color-scheme: dark"):
        assert text in written


def test_a_page_draws_its_plots_from_disk_and_says_what_it_misses(tmp_path: Path):
    browser = browser_path()
    if browser is None:
        pytest.skip("SKIPPED LOUDLY: no chromium, so no page was opened; try: make browser")
    page_path = write([figure("one"), figure("two")], tmp_path / "page.html")
    (tmp_path / "alone").mkdir()
    shutil.copy(page_path, tmp_path / "alone")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--proxy-server=127.0.0.1:9", "--dump-dom"]

    def shown(path: Path) -> str:
        profile = f"--user-data-dir={tmp_path / 'profile'}"
        words = [browser, *options, profile, path.as_uri()]
        return subprocess.run(words, capture_output=True, text=True, timeout=120, check=True).stdout

    whole, alone = shown(page_path), shown(tmp_path / "alone" / "page.html")
    assert (len(re.findall(r'<path class="js-line"', whole)), whole.count('class="bare"')) == (2, 0)
    assert (len(re.findall(r'<path class="js-line"', alone)), alone.count('class="bare"')) == (0, 1)


def test_what_a_caption_says_cannot_end_the_script():
    written = page([figure()], title="How decay falls")
    assert "&lt;s&gt; &amp; &lt;/script&gt;" in written
    assert written.count("</script>") == written.count("<script")


def test_a_long_table_is_shortened_on_the_page_and_whole_in_its_file():
    import base64

    written = page([figure(rows=250)], title="t")
    assert "250 rows, the first 200 below" in written
    inside = re.search(r'href="data:text/csv;base64,([^"]+)"', written)
    assert inside is not None
    assert len(base64.b64decode(inside[1]).decode().splitlines()) == 251


def test_numbers_and_the_plot_itself_can_be_read_again(tmp_path: Path):
    with write([figure()], tmp_path / "one.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["norm"]) for row in rows] == [1.0, 0.5, 0.25]
    described = json.loads(write([figure()], tmp_path / "one.json").read_text(encoding="utf-8"))
    assert described["data"][0]["name"] == "rnn"


def test_several_figures_get_a_file_each(tmp_path: Path):
    first = write([figure("one"), figure("two")], tmp_path / "flow.csv")
    assert first.name == "flow-one.csv"
    assert (tmp_path / "flow-two.csv").exists()
    with assert_refused(OptionError, "name"):
        write([figure("one"), figure("one")], tmp_path / "flow.csv")


@pytest.mark.parametrize("name", ["picture", "picture.gif"])
def test_an_unknown_ending_is_refused_with_the_known_ones(tmp_path: Path, name: str):
    with assert_refused(OptionError, ".html", ".png", ".svg", ".csv", ".json"):
        write([figure()], tmp_path / name)


def test_a_picture_has_room_for_title_and_caption(drawn: dict[str, bytes]):
    width, height = struct.unpack(">II", drawn["png"][16:24])
    assert drawn["png"].startswith(b"\x89PNG")
    assert width == 500
    # the plot's own 300 pixels, a line of title, four of caption
    assert height >= 300 + 26 + 3 * 18


@pytest.mark.wide
def test_an_svg_says_title_and_caption_as_text(drawn: dict[str, bytes]):
    text = drawn["svg"].decode()
    assert "How decay falls" in text
    assert 'A "caption" long enough' in text


def test_without_a_browser_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("BROWSER_PATH", str(tmp_path / "nowhere"))
    with assert_refused(MissingPackageError, "apt-get install chromium", ".html"):
        write([figure()], tmp_path / "one.png")
    assert not list(tmp_path.iterdir())


@pytest.mark.wide
def test_a_browser_that_stops_to_answer_is_followed_by_another(monkeypatch: pytest.MonkeyPatch):
    kaleido = pytest.importorskip("kaleido")
    opened: list[Any] = []
    draw = kaleido.Kaleido.calc_fig

    async def stall_in_the_first(browser: Any, *given: Any, **options: Any) -> Any:
        opened.extend([browser] if browser not in opened else [])
        if browser is opened[0]:
            raise TimeoutError
        return await draw(browser, *given, **options)

    monkeypatch.setattr(kaleido.Kaleido, "calc_fig", stall_in_the_first)
    try:
        (picture,) = pictures.render([figure()], "png", 1.0)
    except MissingPackageError as error:
        pytest.skip(str(error))
    assert picture.startswith(b"\x89PNG")
    assert len(opened) == 2


@pytest.mark.wide
def test_browsers_that_never_answer_are_given_up_in_a_sentence(monkeypatch: pytest.MonkeyPatch):
    kaleido = pytest.importorskip("kaleido")

    async def stall(browser: Any, *given: Any, **options: Any) -> None:
        await asyncio.sleep(1000)

    monkeypatch.setattr(pictures, "PATIENCE", 1)
    monkeypatch.setattr(kaleido.Kaleido, "open", stall)
    monkeypatch.setattr(kaleido.Kaleido, "close", stall)
    with assert_refused(ExportError, 1, ".html"):
        pictures.render([figure()], "png", 1.0)
