"""The table of forecasts of ETTh1 in docs/results.md: every model, three seeds, both horizons.

    python examples/ett_forecasts.py [--models gru,mingru] [--horizons 24,96] [--seeds 3] [--out FOLDER] [--json FILE]

Target OT, standardised by the training rows, split 12/4/4 months, windows with stride 1 over the whole test part. The
corpus `ett` is looked for as all corpora are. Settings are the defaults of `train --task forecast`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import thereafter
from thereafter.base.progress import show_progress
from thereafter.series.forecasters.settings import ForecastSettings, models


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--models", default=",".join(models()))
    options.add_argument("--horizons", default="24,96")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--out", type=Path, help="keeps every run; the same command again continues")
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as scratch, show_progress():
        for horizon in map(int, given.horizons.split(",")):
            for name in given.models.split(","):
                seeds = given.seeds if ForecastSettings(model=name).trained_in_steps else 1
                comparison = thereafter.compare(
                    "ett",
                    task="forecast",
                    target="OT",
                    horizon=horizon,
                    models={name: {"model": name}},
                    seeds=seeds,
                    out=(given.out or Path(scratch)) / f"{name}-{horizon}",
                )
                figures = comparison.figures(name)
                shown = ("mse_standardised", "mae_standardised", "mase", "crps", "coverage", "coverage_calibrated")
                row = {"model": name, "horizon": horizon, "seeds": seeds}
                row |= {key: [round(value, 5) for value in figures[key]] for key in shown if key in figures}
                row["mse_of_seeds"] = [round(one.figures["mse_standardised"], 5) for one in comparison.trials]
                row["seconds"] = [round(one.seconds, 1) for one in comparison.trials]
                rows.append(row)
                print(json.dumps(row), flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
