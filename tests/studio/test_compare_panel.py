"""The compare panel: the ladder's table, curves, agreement by distance, as the library measures them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving_studio import Served

import thereafter
from thereafter.ready import models as ready

TEXT = "the cat sat on the mat\nthe dog saw the cat\na bird heard the old dog\n" * 40
THREE = "models=ready:ngram,ready:gru,ready:window"
MEASURED = (
    "() => document.querySelector('#measuring')?.textContent === '' && document.querySelector('#distance .main-svg')"
)


@pytest.fixture(scope="module")
def small(server: Served) -> Iterator[thereafter.Comparison]:
    """A comparison in the folder of the user."""
    folder = server.runs / "small-comparison"
    yield thereafter.compare(text=TEXT, models="unigram,ngram-2,ngram-3", tokens="word", out=folder)
    shutil.rmtree(folder)


def wait_until_measured(page: Any) -> None:
    page.wait_for_function(MEASURED, timeout=60_000)


def column(page: Any, key: str) -> list[str]:
    return page.locator(f'td[data-key="{key}"]').all_text_contents()


def rows(page: Any) -> list[str]:
    return page.locator("tr[data-row]").evaluate_all("rows => rows.map(row => row.dataset.row)")


def drawn(page: Any, chart: str) -> dict[str, Any]:
    return {one["name"]: one for one in page.locator(chart).evaluate("element => element.numbers")}


def test_the_table_and_the_charts_show_what_the_library_measures(page: Any, server: Served, ready_folder: Path):
    page.goto(f"/#compare?{THREE}")
    wait_until_measured(page)
    test = ready.compared_sentences(ready_folder)["test"]
    scores = {name: thereafter.load(ready_folder / name).score(test) for name in ("ngram", "gru", "window")}
    best_first = sorted(scores, key=lambda name: scores[name].bits_per_byte)
    assert rows(page) == best_first
    bits, perplexities = (list(map(float, column(page, key))) for key in ("bits_per_byte", "perplexity"))
    assert bits == pytest.approx([scores[name].bits_per_byte for name in best_first], abs=2e-4)
    assert perplexities == pytest.approx([scores[name].perplexity for name in best_first], abs=0.02)
    assert all(float(milliseconds) > 0 for milliseconds in column(page, "next_ms"))
    validations = [line for line in thereafter.load(ready_folder / "gru").log if line["event"] == "validation"]
    curves = drawn(page, "#learning")
    assert curves["gru"]["y"] == pytest.approx([line["perplexity"] for line in validations])
    assert len(set(curves["ngram"]["y"])) == 1  # a level across
    assert page.locator("#learning").get_attribute("role") == "img"
    distance = drawn(page, "#distance")
    assert set(distance) == {"ngram", "gru", "window"}
    assert all(0 <= share <= 1 for one in distance.values() for share in one["y"])
    assert "chance50 %" in page.locator("#distance").text_content()
    assert "ngram sees 3 words back, so with 3 or more words between" in page.locator("#seen").text_content()
    assert page.locator("#advice li").first.text_content().startswith("For the best predictions of the test sentences")


def test_headings_sort_and_curves_have_other_axes(page: Any):
    page.goto(f"/#compare?{THREE}")
    wait_until_measured(page)
    heading = page.locator('th[data-key="perplexity"]')
    assert heading.get_attribute("aria-sort") == "none"
    heading.get_by_role("button").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector('th[data-key="perplexity"][aria-sort="ascending"]')
    up = rows(page)
    assert [float(value) for value in column(page, "perplexity")] == sorted(map(float, column(page, "perplexity")))
    page.keyboard.press("Enter")  # the heading has kept the focus
    page.wait_for_selector('th[data-key="perplexity"][aria-sort="descending"]')
    assert rows(page) == up[::-1]
    page.get_by_label("Along").select_option("seconds")
    page.get_by_label("Shown").select_option("bits")
    page.wait_for_function(
        "() => document.querySelector('#learning').getAttribute('aria-label')"
        ".startsWith('validation bits per byte by seconds of training')"
    )


@pytest.mark.wide
def test_models_are_ticked_and_other_tokens_stand_apart(page: Any):
    page.goto(f"/#compare?{THREE}")
    wait_until_measured(page)
    page.get_by_role("checkbox", name="letters").check()
    page.wait_for_selector('tr[data-row="letters"]')
    assert rows(page)[-1] == "letters"
    assert page.locator('th[scope="rowgroup"]').text_content().startswith("Other tokens: only bits per byte compares")
    wait_until_measured(page)
    assert "letters" not in drawn(page, "#distance")
    for name in ("letters", "gru", "ngram", "window"):
        page.get_by_role("checkbox", name=name).uncheck()
    page.wait_for_function("() => document.querySelector('#measuring').textContent === 'Choose at least one model.'")


@pytest.mark.wide
def test_curves_of_any_models(page: Any, ready_folder: Path):
    page.goto("/#compare")
    wait_until_measured(page)
    assert len(rows(page)) == len(ready.READY)
    page.get_by_label("What is compared").select_option("curves")
    page.wait_for_selector('th[data-key="kind"]')
    assert "ngram: counted, not trained in steps" in page.locator("#measuring").text_content()
    curves = drawn(page, "#learning")
    assert set(curves) == {one.name for one in ready.READY} - {"ngram"}
    log = [line for line in thereafter.load(ready_folder / "letters").log if line["event"] == "validation"]
    assert curves["letters"]["y"] == pytest.approx([line["perplexity"] for line in log])


@pytest.mark.wide
def test_a_comparison_that_was_made_before(page: Any, small: thereafter.Comparison):
    page.goto("/#compare")
    page.wait_for_selector('option[value="kept:small-comparison"]', state="attached")
    page.get_by_label("What is compared").select_option("kept:small-comparison")
    page.wait_for_selector('tr[data-row="ngram-3"]')
    assert sorted(rows(page)) == sorted(row.name for row in small.rows)
    shown = dict(zip(rows(page), column(page, "perplexity"), strict=True))
    assert shown == {row.name: f"{row.perplexity.mean:.2f}" for row in small.rows}
    assert not page.get_by_role("group", name="Models").is_visible()
    page.goto("/#compare?of=kept:nobody")
    page.wait_for_selector("p.error:not(:empty)")
    assert "there is no comparison 'nobody'" in page.locator("p.error").text_content()
