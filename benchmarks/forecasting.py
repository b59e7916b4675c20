"""Training an LSTM forecaster: windows a second, against the same network in torch.nn with a plain loop.

    python benchmarks/forecasting.py [--rounds 5] [--epochs 1] [--json FILE]

A series of 3,000 rows made here (season of 24, trend, noise), horizon 24. Both sides: the window relative to its last
value and spread, one LSTM layer, a linear head with the mean and the deviation of every step, -log p of a Gaussian,
AdamW, gradients clipped at 1, batches of 64 windows in an order drawn anew each epoch, a validation pass at the end.
Torch's side is a loop as people write it, with windows gathered from one tensor; its faster setting of oneDNN counts.
They take turns; figures are medians, `against torch` the median of the ratios of neighbouring turns.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import thereafter
from report import machine

ROWS, HORIZON, BATCH = 3_000, 24, 64
CASES = {
    "a season at a step": (336, 24, 64),
    "a row at a step": (96, 1, 64),
    "a row at a step, 128 units": (96, 1, 128),
}
"""Lookback, segment, hidden units."""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--epochs", type=float, default=1.0)
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    print(machine(), end="\n\n", flush=True)
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        values = series()
        path = Path(folder) / "series.csv"
        path.write_text("value\n" + "\n".join(f"{value:.6f}" for value in values) + "\n", encoding="utf-8")
        for name, (lookback, segment, hidden) in CASES.items():
            sides = {
                "ours": lambda case=(lookback, segment, hidden): ours(path, case, given.epochs),
                "torch, oneDNN": lambda case=(lookback, segment, hidden): plain(values, case, given.epochs, True),
                "torch": lambda case=(lookback, segment, hidden): plain(values, case, given.epochs, False),
            }
            for side in sides.values():
                side()  # compiles, and warms up
            speeds: dict[str, list[float]] = {side: [] for side in sides}
            for turn in range(given.rounds):
                for side in sorted(sides, reverse=bool(turn % 2)):
                    speeds[side].append(sides[side]())
            best = max(("torch, oneDNN", "torch"), key=lambda side: median(speeds[side]))
            ratio = median([one / other for one, other in zip(speeds["ours"], speeds[best], strict=True)])
            rows[name] = {side: round(median(one)) for side, one in speeds.items()} | {"against torch": round(ratio, 2)}
            print(f"{name:<28} {rows[name]}", flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1))
    return 0


def series() -> np.ndarray:
    rng, t = np.random.default_rng(0), np.arange(ROWS)
    return 0.001 * t + np.sin(2 * math.pi * t / 24) + 0.3 * rng.normal(size=ROWS)


def ours(path: Path, case: tuple[int, int, int], epochs: float) -> float:
    """Windows a second of the whole training, its validation included."""
    lookback, segment, hidden = case
    model = thereafter.train(
        path, task="forecast", model="lstm", horizon=HORIZON, lookback=lookback, segment=segment, hidden=hidden,
        season=24, epochs=epochs, batch=BATCH, device="cpu", seed=0,
    )  # fmt: skip
    last = model.log[-1]
    return epochs * last["examples"] / last["seconds_training"]


class Plain(nn.Module):
    """The same network, as people write it."""

    def __init__(self, segment: int, hidden: int) -> None:
        super().__init__()
        self.segment = segment
        self.read = nn.Linear(segment, hidden) if segment > 1 else None
        self.lstm = nn.LSTM(hidden if segment > 1 else 1, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 2 * HORIZON)

    def forward(self, past_BL: Tensor, future_BH: Tensor) -> Tensor:
        offset_B1, scale_B1 = past_BL[:, -1:], past_BL.std(1, keepdim=True, unbiased=False) + 0.1
        x_BTG = ((past_BL - offset_B1) / scale_B1).view(len(past_BL), -1, self.segment)
        if self.read is not None:
            x_BTG = torch.relu(self.read(x_BTG))
        h_BTH, _ = self.lstm(x_BTG)
        mean_BH, raw_BH = self.head(h_BTH[:, -1]).chunk(2, 1)
        spread_BH = (F.softplus(raw_BH) + 1e-4) * scale_B1
        return (0.5 * ((future_BH - offset_B1 - scale_B1 * mean_BH) / spread_BH) ** 2 + spread_BH.log()).sum()


def plain(values: np.ndarray, case: tuple[int, int, int], epochs: float, onednn: bool) -> float:
    lookback, segment, hidden = case
    torch.manual_seed(0)
    learned = ROWS - round(0.1 * ROWS)
    x_N = torch.tensor((values - values[:learned].mean()) / values[:learned].std(), dtype=torch.float32)
    net = Plain(segment, hidden)
    train = torch.arange(lookback, learned - HORIZON + 1)
    valid = torch.arange(learned, ROWS - HORIZON + 1)
    reach, ahead = torch.arange(-lookback, 0), torch.arange(HORIZON)
    optimizer = torch.optim.AdamW(net.parameters(), 5e-4, weight_decay=0.01)
    steps = max(1, round(epochs * math.ceil(len(train) / BATCH)))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    began, done = time.perf_counter(), 0
    with torch.backends.mkldnn.flags(enabled=onednn):
        while done < steps:
            for at in train[torch.randperm(len(train))].split(BATCH):
                loss = net(x_N[at[:, None] + reach], x_N[at[:, None] + ahead]) / (len(at) * HORIZON)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                done += 1
                if done == steps:
                    break
        with torch.no_grad():
            for at in valid.split(BATCH):
                net(x_N[at[:, None] + reach], x_N[at[:, None] + ahead])
    return epochs * len(train) / (time.perf_counter() - began)


if __name__ == "__main__":
    sys.exit(main())
