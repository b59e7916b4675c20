"""Writes the run folder of a network that plays catch, beside those of `make.py`; not to be run again either.

    cd tests && python -m old_runs.make_games

Trained to its end and stopped on its way, by the code of the day on which this task came.
"""

from __future__ import annotations

from typing import Any

from old_runs.make import HERE, STEPS, Made, add_runs

OPTIONS: dict[str, Any] = {**STEPS, "batch": 8, "rate": 0.03, "hidden": 4, "epochs": 16}
RUNS = {
    "act": Made("catch.json", {**OPTIONS, "patch": 2, "scales": 2, "read": 3, "cell": "gru"}, 40, task="act"),
}


def main() -> None:
    from thereafter.vision.acting.game import CatchRule

    rule = CatchRule(size=6, count=60, seed=1)
    (HERE / "texts" / "catch.json").write_text(rule.to_json(), encoding="utf-8", newline="\n")
    add_runs(RUNS)


if __name__ == "__main__":
    main()
