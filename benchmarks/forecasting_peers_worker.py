"""Run by the peers' own interpreter: one model of neuralforecast or statsforecast, its forecasts from many origins.

A job comes as JSON on the standard input. Its folder has series.npy (standardised) and origins.npy; forecast.npy
[origins, horizon] and facts.json (steps, processor seconds, versions) are written there. Every window is a series of
its own, so that a trained network forecasts all of them in one call, without being fitted again.
"""

import copy
import json
import logging
import os
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd

NEURAL = ("LSTM", "NHITS")


def frame(pieces: list[np.ndarray]) -> pd.DataFrame:
    """Series of one length each as the long table that both programs read, with row numbers for times."""
    lengths = [len(piece) for piece in pieces]
    return pd.DataFrame(
        {
            "unique_id": np.repeat(np.arange(len(pieces)), lengths),
            "ds": np.concatenate([np.arange(length) for length in lengths]),
            "y": np.concatenate(pieces),
        }
    )


def histories(series: np.ndarray, origins: np.ndarray, rows: int) -> pd.DataFrame:
    """The rows before each origin, and nothing after them."""
    return frame([series[origin - rows : origin] for origin in origins])


def forecasts(answer: pd.DataFrame, kind: str, windows: int, horizon: int) -> np.ndarray:
    ordered = answer.sort_values(["unique_id", "ds"])
    return ordered[kind].to_numpy(dtype=np.float64).reshape(windows, horizon)


def neural(job: dict, series: np.ndarray, origins: np.ndarray) -> tuple[np.ndarray, dict]:
    """Training on the train part, the valid part only stopping it; the weights that were best there are kept."""
    import pytorch_lightning as pl
    from neuralforecast import NeuralForecast, losses, models

    class BestWeights(pl.Callback):
        """Keeps the weights of the lowest validation loss, which early stopping alone does not; ends with the time."""

        def __init__(self) -> None:
            self.lowest, self.weights, self.steps = float("inf"), None, 0

        def on_train_batch_end(self, trainer: pl.Trainer, *_: object) -> None:
            if time.process_time() - began > 60 * job["minutes"]:
                trainer.should_stop = True

        def on_validation_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
            loss = float(trainer.callback_metrics.get("ptl/val_loss", float("inf")))
            if not trainer.sanity_checking and loss < self.lowest:
                self.lowest, self.weights = loss, copy.deepcopy(module.state_dict())

        def on_train_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
            self.steps = trainer.global_step

    options = dict(job["options"])
    if "loss" in options:
        options["loss"] = getattr(losses.pytorch, options["loss"])()
    stops = "early_stop_patience_steps" in options
    model = getattr(models, job["kind"])(
        h=job["horizon"],
        random_seed=job["seed"],
        valid_batch_size=512,
        **({"input_size": -1} | options),
        callbacks=[BestWeights()],
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    program = NeuralForecast(models=[model], freq=1)
    rows = job["train"] + (job["valid"] if stops else 0)
    began = time.process_time()
    program.fit(frame([series[:rows]]), val_size=job["valid"] if stops else 0)
    seconds = time.process_time() - began
    trained = program.models[0]
    best = next(call for call in trained.trainer_kwargs["callbacks"] if isinstance(call, BestWeights))
    if best.weights is not None:
        trained.load_state_dict(best.weights)
    answer = program.predict(df=histories(series, origins, trained.input_size))
    return forecasts(answer, job["kind"], len(origins), job["horizon"]), {"steps": best.steps, "seconds": seconds}


def statistical(job: dict, series: np.ndarray, origins: np.ndarray) -> tuple[np.ndarray, dict]:
    """A fit in every window, on the rows before it."""
    from statsforecast import StatsForecast, models

    program = StatsForecast(models=[getattr(models, job["kind"])(**job["options"])], freq=1, n_jobs=1)
    began = time.process_time()
    answer = program.forecast(df=histories(series, origins, job["history"]), h=job["horizon"])
    facts = {"seconds": time.process_time() - began}
    return forecasts(answer, job["kind"], len(origins), job["horizon"]), facts


def main() -> None:
    warnings.filterwarnings("ignore")
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    os.environ["NIXTLA_ID_AS_COL"] = "1"
    job = json.load(sys.stdin)
    folder = Path(job["folder"])
    run, packages = (
        (neural, ("neuralforecast", "pytorch-lightning", "torch"))
        if job["kind"] in NEURAL
        else (statistical, ("statsforecast",))
    )
    answer, facts = run(job, np.load(folder / "series.npy"), np.load(folder / "origins.npy"))
    facts["versions"] = {name: version(name) for name in (*packages, "numpy", "pandas")}
    np.save(folder / "forecast.npy", answer)
    (folder / "facts.json").write_text(json.dumps(facts))


if __name__ == "__main__":
    main()
