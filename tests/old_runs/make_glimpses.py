"""Writes the run folder of a network that glimpses at pictures, beside those of `make.py`; not to be run again either.

    cd tests && python -m old_runs.make_glimpses

Trained to its end and stopped on its way, by the code of the day on which this task came; on the pictures of
`make_pictures.py`.
"""

from __future__ import annotations

from typing import Any

from old_runs.make import STEPS, Made, add_runs

OPTIONS: dict[str, Any] = {**STEPS, "batch": 8, "rate": 0.03, "hidden": 4, "epochs": 16}
RUNS = {
    "glimpse": Made(
        "lit.npz",
        {**OPTIONS, "glimpses": 2, "patch": 2, "scales": 2, "read": 3, "cell": "gru", "samples": 2},
        40,
        task="glimpse",
    )
}


def main() -> None:
    add_runs(RUNS)


if __name__ == "__main__":
    main()
