"""Forecast in a real browser: forecasts follow the sliders, k steps ahead, a pasted table, gates beside it."""

from __future__ import annotations

from typing import Any

import pytest

from thereafter.studio.panels import forecasting as verbs


def opened(page: Any, link: str) -> None:
    page.goto(link)
    page.wait_for_selector("#forecast-picture .main-svg")


def lines(page: Any, chart: str = "#forecast-picture") -> dict[str, list[float | None]]:
    return {one["name"]: one["y"] for one in page.locator(chart).evaluate("chart => chart.numbers")}


def drawn(page: Any, name: str, count: int) -> None:
    """Wait for a line of so many points."""
    page.wait_for_function(
        "([name, count]) => document.querySelector('#forecast-picture').numbers"
        "?.find(one => one.name === name)?.y.length === count",
        arg=[name, count],
    )


def test_the_forecast_is_the_librarys_and_follows_the_horizon(page: Any):
    opened(page, "/#forecast?series=noisy-sine&models=naive,linear&horizon=20&back=50")
    drawn(page, "least squares", 20)
    sine = verbs.open_series("noisy-sine")

    def expected(model: str, horizon: int, back: int = 50) -> list[float | None]:
        return verbs.expect(verbs.solve(sine, model), verbs.place_of(sine, back, horizon), name=model).mean

    assert lines(page)["least squares"] == pytest.approx(expected("linear", 20))
    assert lines(page)["last value"] == pytest.approx(expected("naive", 20))
    page.get_by_role("slider", name="Horizon").fill("7")
    drawn(page, "least squares", 7)
    assert lines(page)["least squares"] == pytest.approx(expected("linear", 7))
    assert "horizon=7" in page.url
    page.get_by_role("button", name="Move on by one horizon").click()
    page.wait_for_function("() => location.hash.includes('back=43')")
    page.wait_for_function(
        "last => Math.abs(document.querySelector('#forecast-picture').numbers"
        ".find(one => one.name === 'last value').y[0] - last) < 1e-6",
        arg=expected("naive", 7, 43)[0],
    )
    errors = page.locator("#forecast-errors tbody tr td:first-child").all_text_contents()
    assert sorted(errors) == ["last value", "least squares"]


@pytest.mark.wide
def test_k_steps_ahead_and_the_error_by_k(page: Any):
    opened(page, "/#forecast?series=noisy-sine&models=ar,ready:sine-lstm&shown=ahead&k=1")
    page.wait_for_selector("#forecast-curve .main-svg")
    sine = verbs.open_series("noisy-sine")
    measured = verbs.measure_ahead(verbs.solve(sine, "ar"), sine)
    assert lines(page, "#forecast-curve")["autoregression"] == pytest.approx(measured["rmse"].tolist())
    page.get_by_role("button", name="64", exact=True).click()
    page.wait_for_function("() => document.querySelector('#forecast-errors').textContent.includes('Error at k = 64')")
    shown = lines(page)["autoregression"]
    assert shown[:63] == [None] * 63
    assert shown[-1] == pytest.approx(measured["predicted"][63, -1])
    assert "sine-lstm" in page.locator("#forecast-verdict").text_content()


def test_a_pasted_table_is_forecast_and_a_bad_one_refused(page: Any):
    opened(page, "/#forecast?series=own&models=naive&horizon=4&back=0")
    rows = "".join(f"{row},{row * row}\n" for row in range(40))
    page.get_by_role("textbox", name="Your table").fill(f"t,x\n{rows}")
    page.wait_for_function(
        "() => document.querySelector('#forecast-picture').numbers"
        "?.find(one => one.name === 'last value')?.y[0].toFixed(3) === '1521.000'"
    )
    assert lines(page)["last value"] == pytest.approx([1521] * 4)
    assert "nothing has been observed yet" in page.locator("#forecast-verdict").text_content()
    page.get_by_role("textbox", name="Your table").fill("no table at all")
    page.wait_for_function("() => document.querySelector('.error').textContent.includes('expected')")


@pytest.mark.wide
def test_gates_stand_beside_the_forecast_of_a_network(page: Any):
    opened(page, "/#forecast?series=seasonal&models=ready:season-lstm&horizon=24&back=48")
    page.wait_for_selector("#window-gates .main-svg")
    drawn(page, "season-lstm", 24)
    curves = lines(page, "#window-gates")
    assert list(curves) == ["input gate", "forget gate", "output gate"]
    assert all(0 < value < 1 for values in curves.values() for value in values if value is not None)
    page.get_by_role("combobox", name="Gates of").select_option("ready:season-gru")
    page.wait_for_function("() => document.querySelector('#window-gates').numbers[0].name === 'reset gate'")
