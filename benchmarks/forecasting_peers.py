"""Forecasters of other programs on the windows of docs/forecasting.md: ETTh1, target OT.

    make peers
    python benchmarks/forecasting_peers.py [--horizons 24 96] [--seeds 1 2 3] [--minutes 10] [--json FILE]

The series is standardised by its first 8,640 rows; the next 2,880 choose settings, the last 2,880 are forecast from
every row (stride 1), each window from the rows before it. The first seed tries every setting, the others the default
and the one that the valid part chose. With --json the rows of that file are kept, and only what is missing is run.
Exit code 2 if something it needs is not here.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from forecasting_peers_table import Row, Table
from forecasting_peers_windows import (
    LOOKBACK,
    TRAIN,
    VALID,
    Floats,
    errors,
    futures,
    lags,
    least_squares,
    origins,
    read_series,
)

ROOT = Path(__file__).resolve().parents[1]
WORKER = Path(__file__).with_name("forecasting_peers_worker.py")
STRIDE = 11  # of the models that are fitted anew in every window; all hours of the day come about alike often


class Absent(Exception):
    """Something the benchmark needs is not here."""


@dataclass(frozen=True)
class Peer:
    """A model of another program and one setting of it; options that are not named keep that program's defaults."""

    program: str
    kind: str
    setting: str
    options: dict[str, object] = field(default_factory=dict)
    history: int = LOOKBACK  # rows that a window's own fit sees

    @property
    def name(self) -> str:
        return f"{self.program} {self.kind}, {self.setting}"


def neural_peers(horizon: int) -> list[Peer]:
    """The default first, then the settings of which the valid part chooses one."""
    stop: dict[str, object] = {"early_stop_patience_steps": 3, "val_check_steps": 100, "loss": "MSE"}
    small = {**stop, "encoder_n_layers": 1, "encoder_hidden_size": 64, "learning_rate": 3e-3, "scaler_type": "standard"}
    wide = {**stop, "input_size": LOOKBACK, "windows_batch_size": 256, "learning_rate": 3e-4}
    thin = {**wide, "mlp_units": 3 * [[64, 64]], "dropout_prob_theta": 0.2, "val_check_steps": 50}
    return [
        Peer("neuralforecast", "NHITS", "default", {"input_size": 3 * horizon}),  # it has no default of that one
        Peer("neuralforecast", "NHITS", "336 values", wide),
        Peer("neuralforecast", "NHITS", "336 values, scaled by window", {**wide, "scaler_type": "standard"}),
        Peer("neuralforecast", "NHITS", "64 units", thin),
        Peer("neuralforecast", "NHITS", "64 units, scaled by window", {**thin, "scaler_type": "standard"}),
        Peer("neuralforecast", "LSTM", "default"),
        Peer("neuralforecast", "LSTM", "short input", {**small, "input_size": horizon - 1}),
        Peer("neuralforecast", "LSTM", "recursive", {**small, "recurrent": True, "input_size": 168, "h_train": 24}),
    ]


STATISTICAL_PEERS = [Peer("statsforecast", "AutoETS", "season of 24", {"season_length": 24})]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--horizons", type=int, nargs="+", default=[24, 96])
    options.add_argument("--seeds", type=int, nargs="+", default=[1])
    options.add_argument("--minutes", type=float, default=10, help="of processor time in training, each, at most")
    options.add_argument("--only", nargs="+", default=[], help="rows whose name contains one of these")
    options.add_argument("--json", type=Path, metavar="FILE", help="keep the rows there")
    given = options.parse_args()
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {date.today()}", flush=True
    )
    try:
        table = Table(given.json)
        with tempfile.TemporaryDirectory(prefix="thereafter-peers-") as scratch:
            bench = Bench(read_series(find_data()), find_peers(), given.minutes, table, Path(scratch))
            for horizon in given.horizons:
                bench.run(horizon, given.seeds, given.only)
    except Absent as absent:
        print(f"\n*** THE BENCHMARK DID NOT RUN: {absent} ***\n", file=sys.stderr)
        return 2
    print()
    table.show()
    return 0


def find_data() -> Path:
    """The table: in `$THEREAFTER_DATA`, else in the folder beside the checkout."""
    named = os.environ.get("THEREAFTER_DATA")
    file = (Path(named).expanduser() if named else ROOT.parent / "shared" / "data") / "ett" / "ETTh1.csv"
    if not file.is_file():
        raise Absent(f"there is no {file}; set THEREAFTER_DATA to a folder that has ett/ETTh1.csv")
    return file


def find_peers() -> Path:
    """The Python that has the other programs: what `make peers` made."""
    python = ROOT / ".peers" / "bin" / "python"
    if not python.exists():
        raise Absent(f"{python} is not here; run `make peers`")
    return python


class Bench:
    """One series, the peers' interpreter, and the table that rows are added to."""

    def __init__(self, series: Floats, python: Path, minutes: float, table: Table, scratch: Path) -> None:
        self._series, self._python, self._minutes, self._table, self._scratch = series, python, minutes, table, scratch
        np.save(scratch / "series.npy", series)

    def run(self, horizon: int, seeds: list[int], only: list[str]) -> None:
        """Ours in two lines first, then every peer whose name is asked for."""
        self._baselines(horizon, 1)
        for seed in seeds:
            for peer in self._peers_of_seed(horizon, seed, seeds[0]):
                if _asked(peer, only):
                    self._peer(peer, horizon, seed, 1)
        for peer in STATISTICAL_PEERS:
            if _asked(peer, only):
                self._baselines(horizon, STRIDE)
                self._peer(peer, horizon, 0, STRIDE)

    def _peers_of_seed(self, horizon: int, seed: int, first: int) -> Iterator[Peer]:
        """Every setting with the first seed; then each kind's default and the one the valid part chose."""
        peers = neural_peers(horizon)
        if seed == first:
            yield from peers
            return
        for kind in dict.fromkeys(peer.kind for peer in peers):
            yield from (peer for peer in peers if peer.kind == kind and peer.setting == "default")
            settings = [peer for peer in peers if peer.kind == kind and peer.setting != "default"]
            scores = {peer.name: self._table.rows.get((peer.name, horizon, first, 1)) for peer in settings}
            tried = [(row.valid_mse, name) for name, row in scores.items() if row is not None and row.valid_mse]
            if tried:
                yield from (peer for peer in settings if peer.name == min(tried)[1])

    def _baselines(self, horizon: int, stride: int) -> None:
        weights = least_squares(self._series, horizon)
        measured: dict[str, list[tuple[float, float]]] = {}
        for part in ("valid", "test"):
            first = origins(part, horizon, stride)
            actual, last = futures(self._series, first, horizon), self._series[first - 1, None]
            linear = last + lags(self._series, first) @ weights
            measured.setdefault("last value", []).append(errors(actual, np.broadcast_to(last, actual.shape)))
            measured.setdefault(f"least squares on {LOOKBACK} values", []).append(errors(actual, linear))
        for name, ((valid_mse, _), (mse, mae)) in measured.items():
            windows = len(origins("test", horizon, stride))
            self._add(Row(name, horizon, 0, stride, windows, mse, mae, valid_mse, date=str(date.today())))

    def _add(self, row: Row) -> None:
        if row.key not in self._table.rows:
            self._table.add(row)

    def _peer(self, peer: Peer, horizon: int, seed: int, stride: int) -> None:
        if (peer.name, horizon, seed, stride) in self._table.rows:
            return
        parts = ("valid", "test") if stride == 1 else ("test",)  # a fit in every window: the test part alone
        firsts = [origins(part, horizon, stride) for part in parts]
        facts, forecast = self._ask(peer, horizon, seed, np.concatenate(firsts))
        *valid, (mse, mae) = (
            errors(futures(self._series, first, horizon), piece)
            for first, piece in zip(firsts, np.split(forecast, np.cumsum([len(f) for f in firsts])[:-1]), strict=True)
        )
        self._add(
            Row(
                peer.name,
                horizon,
                seed,
                stride,
                len(firsts[-1]),
                mse,
                mae,
                valid[0][0] if valid else None,
                options=peer.options,
                date=str(date.today()),
                **facts,
            )
        )

    def _ask(self, peer: Peer, horizon: int, seed: int, first: NDArray[np.int64]) -> tuple[dict, Floats]:
        """What the worker says of its training, and its forecasts [windows, horizon]."""
        np.save(self._scratch / "origins.npy", first)
        job = {
            "folder": str(self._scratch),
            "kind": peer.kind,
            "horizon": horizon,
            "seed": seed,
            "train": TRAIN,
            "valid": VALID,
            "minutes": self._minutes,
            "options": peer.options,
            "history": peer.history,
        }
        done = subprocess.run(
            [self._python, WORKER],
            input=json.dumps(job),
            capture_output=True,
            text=True,
            cwd=self._scratch,
            check=False,
        )
        if done.returncode:
            raise Absent(f"{peer.name} failed:\n{done.stderr[-3000:]}")
        return json.loads((self._scratch / "facts.json").read_text()), np.load(self._scratch / "forecast.npy")


def _asked(peer: Peer, only: Iterable[str]) -> bool:
    return not only or any(part in peer.name for part in only)


if __name__ == "__main__":
    sys.exit(main())
