"""The data scientist's errand, walked from the shell with the commands of docs/forecasting.md: sales of two shops."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from walking import DOCS, walk

from thereafter.export.html.target import browser_path

HORIZON = 14  # that of the guide


def sales() -> pd.DataFrame:
    """Two years of two shops by the day, busy on Fridays and Saturdays."""
    random, days = np.random.default_rng(4), pd.date_range("2023-01-01", periods=730, freq="D")
    week = 1 + np.array([0, -0.1, -0.05, 0, 0.1, 0.35, 0.2])[days.day_of_week]
    shops = []
    for shop, base in (("north", 120), ("south", 60)):
        sold = base * week * (1 + 0.0003 * np.arange(730)) + random.normal(0, 0.06 * base, 730)
        shops.append(pd.DataFrame({"date": days, "shop": shop, "sold": sold.round()}))
    return pd.concat(shops)


@pytest.mark.wide
def test_a_data_scientist_forecasts_the_sales_of_two_shops(tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    table = sales()
    table.to_csv(tmp_path / "sales.csv", index=False)
    walked = walk(DOCS / "forecasting.md", 0, tmp_path)
    assert "the last tenth of each series" in walked.stderr

    wide = table.pivot(index="date", columns="shop", values="sold").to_numpy()
    origins = range(730 - 73, 730 - HORIZON + 1)  # the last tenth of the days
    weeks = np.arange(HORIZON) % 7 - 7
    naive = np.array([np.abs(wide[at : at + HORIZON] - wide[at + weeks]) for at in origins]).mean()
    printed, tested = walked.stdout.split("saved      runs/sales")
    test = printed[printed.index("test       this model") :]
    assert test.index("in the unit of sold") < test.index("in standard deviations")
    assert f"seasonal naive  MAE {naive:.4g}, RMSE " in test
    assert tested.splitlines()[1].startswith(
        f"{len(origins)} origins from 2024-10-18 to 2024-12-16, 14 steps each, 2 series"
    )

    values = pd.read_csv(tmp_path / "backtest.csv")
    assert len(values) == 2 * len(origins) * HORIZON
    mae = (values["value"] - values["forecast"]).abs().mean()
    assert mae < naive
    assert re.search(rf"in the unit of sold: MAE {mae:.4g},", test)
    assert re.search(rf"\nall   +{mae:.4g} \([\d.]+ to [\d.]+\) .* {naive:.4g} ", tested)
    for shop, rows in values.groupby("series"):
        assert re.search(rf"\n{shop} +{(rows['value'] - rows['forecast']).abs().mean():.4g} \(", tested)
    ahead = pd.read_csv(tmp_path / "forecast.csv")
    assert (len(ahead), ahead["time"].min()) == (2 * HORIZON, "2024-12-31")

    pages = [tmp_path / name for name in ("backtest.html", "fan.html")]
    assert max(page.stat().st_size for page in pages) < 1_500_000
    browser = browser_path()
    if browser is None:
        pytest.skip("SKIPPED LOUDLY: no chromium, so the figures were written but not opened; try: make browser")
    offline = ["--headless", "--no-sandbox", "--disable-gpu", "--proxy-server=127.0.0.1:9", "--dump-dom"]
    for page in pages:
        words = [browser, *offline, f"--user-data-dir={tmp_path / 'profile'}", page.as_uri()]
        opened = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
        assert opened.stdout.count('<path class="js-line"') >= 4  # two lines or more for each shop
