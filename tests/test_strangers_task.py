"""A task that the package does not know, defined here by its public contracts alone: a series of numbers, the next of
which is predicted with a Gaussian. It is trained, killed and resumed, saved, loaded, scored and compared by the doors
that serve every task."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self, TypedDict

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import thereafter
from refusals import assert_refused
from thereafter.data.codecs import Scaler
from thereafter.layers.heads import Gaussian
from thereafter.models.task_net import TaskNet
from thereafter.tasks import TASKS
from thereafter.tasks.task import Task

# ---- the task: under 80 lines


@dataclass(frozen=True)
class SeriesSettings:
    hidden: int = 8


class SeriesCodecs(TypedDict):
    scale: Scaler


@dataclass(frozen=True)
class SeriesBatch:
    x_BT: Tensor

    def to(self, device: torch.device) -> Self:
        return type(self)(self.x_BT.to(device))


class SeriesNet(TaskNet[SeriesBatch]):
    """x_1 ... x_t in, Normal(mu, sigma) of x_{t+1} out."""

    def __init__(self, settings: SeriesSettings) -> None:
        super().__init__()
        self.body = nn.GRU(1, settings.hidden, batch_first=True)
        self.head = Gaussian(settings.hidden)

    def nats(self, batch: SeriesBatch) -> Tensor:
        return -self.log_probs(batch.x_BT).sum()

    def log_probs(self, x_BT: Tensor) -> Tensor:
        f_BTH, _ = self.body(x_BT[:, :-1, None])
        return -self.head.nll(f_BTH.flatten(0, 1), x_BT[:, 1:].flatten()).view(len(x_BT), -1)


@dataclass(frozen=True)
class Nats:
    nats: float

    def __str__(self) -> str:
        return f"{self.nats:.4f} nats a number"

    def as_dict(self) -> dict[str, float]:
        return {"nats": self.nats}


class NextNumber(Task[SeriesSettings, tuple[float, ...], SeriesBatch, SeriesNet, float, SeriesCodecs]):
    name: ClassVar[str] = "next-number"
    kind: ClassVar[str] = "numbers"
    settings = SeriesSettings
    defaults: ClassVar[Mapping[str, object]] = {"epochs": 6.0, "batch": 8, "rate": 0.02}

    def read(self, files: Sequence[Path]) -> list[tuple[float, ...]]:
        """A line is a series."""
        return [tuple(map(float, line.split())) for path in files for line in path.read_text().splitlines()]

    def codecs(self, examples: Sequence[tuple[float, ...]]) -> SeriesCodecs:
        return {"scale": Scaler.fit([x for series in examples for x in series])}

    def build(self, settings: SeriesSettings, codecs: SeriesCodecs) -> SeriesNet:
        return SeriesNet(settings)

    def lengths(self, examples: Sequence[tuple[float, ...]], codecs: SeriesCodecs) -> NDArray[np.int64]:
        return np.array([len(series) for series in examples], np.int64)

    def targets(self, examples: Sequence[tuple[float, ...]], codecs: SeriesCodecs) -> int:
        return sum(len(series) - 1 for series in examples)

    def batch(self, examples: Sequence[tuple[float, ...]], codecs: SeriesCodecs) -> SeriesBatch:
        return SeriesBatch(torch.from_numpy(np.stack([codecs["scale"].encode(series) for series in examples])))

    def answers(self, net: SeriesNet, batch: SeriesBatch, codecs: SeriesCodecs) -> list[float]:
        with net.quietly():  # in the units of the user: the density of x is that of z over the deviation
            return [float(row.mean()) - math.log(codecs["scale"].deviation) for row in net.log_probs(batch.x_BT)]

    def example(self, given: object) -> tuple[float, ...]:
        return tuple(map(float, str(given).split()))

    def measure(self, examples: Sequence[tuple[float, ...]], answers: Sequence[float], codecs: SeriesCodecs) -> Nats:
        return Nats(-float(np.mean(answers)))


NEXT_NUMBER = NextNumber()

# ---- what the doors do with it

ROW = ("next-number", "test_strangers_task:NEXT_NUMBER")
"""What a user adds to the table of tasks; here it is taken out again."""
OPTIONS = {"hidden": 6, "seed": 3, "device": "cpu"}
NOISE = 0.1


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    TASKS.add(*ROW)
    yield
    del TASKS.paths[ROW[0]]


def waves(path: Path, count: int = 120) -> Path:
    """x_t = 5 + 0.9 (x_{t-1} - 5) + noise: what the best predictor reaches is known."""
    rng = np.random.default_rng(1)
    rows = []
    for _ in range(count):
        row = [5.0 + rng.normal() * NOISE]
        for _ in range(19):
            row.append(5.0 + 0.9 * (row[-1] - 5.0) + rng.normal() * NOISE)
        rows.append(" ".join(f"{x:.6f}" for x in row))
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def weights(run: Path) -> bytes:
    return (run / "weights.safetensors").read_bytes()


def test_it_is_trained_saved_loaded_and_scored_in_nats(tmp_path: Path):
    source = waves(tmp_path / "waves.txt")
    model = thereafter.train(source, task="next-number", **OPTIONS)
    score = model.score(source)
    best = 0.5 * math.log(2 * math.pi * math.e * NOISE**2)  # the entropy of the noise: -0.884 nats a number
    assert best - 0.1 < score.nats < best + 0.5
    assert "nats a number" in str(score)
    again = thereafter.load(model.save(tmp_path / "run"))
    assert again.score(source).nats == score.nats
    assert again.codecs["scale"] == model.codecs["scale"]
    assert again.predict("5.0 5.1 5.0") == model.predict("5.0 5.1 5.0")


@pytest.mark.wide
def test_a_killed_training_goes_on_to_the_same_bits(tmp_path: Path):
    source = waves(tmp_path / "waves.txt")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    options = OPTIONS | {"checkpoint_every": 5, "checkpoint_seconds": 0.0}
    thereafter.train(source, task="next-number", out=whole, **options)
    script = (
        "import os, signal, thereafter\n"
        "from thereafter.tasks import TASKS\n"
        "from thereafter.training.watching import watching\n"
        f"TASKS.add(*{ROW!r})\n"
        "def kill(training):\n"
        "    if training.at.step == 37:  # some steps after a checkpoint\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "with watching(before_step=kill):\n"
        f"    thereafter.train({str(source)!r}, task='next-number', out={str(killed)!r}, **{options!r})\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    assert subprocess.run([sys.executable, "-c", script], env=environment, check=False).returncode == -signal.SIGKILL
    assert (killed / "state.safetensors").is_file()
    thereafter.resume(killed)
    assert weights(killed) == weights(whole)


def test_it_is_compared_over_seeds(tmp_path: Path):
    source = waves(tmp_path / "waves.txt", 60)
    models = {"small": {"hidden": 2}, "large": {"hidden": 8}}
    options = {"models": models, "seeds": 2, "epochs": 2, "out": tmp_path / "compared"}
    comparison = thereafter.compare(source, task="next-number", **options)
    assert comparison.names == ["small", "large"]
    assert [trial.seed for trial in comparison.trials] == [0, 1, 0, 1]
    nats = [trial.figures["nats"] for trial in comparison.trials if trial.name == "large"]
    assert comparison.figures("large")["nats"] == pytest.approx((sum(nats) / 2, abs(nats[0] - nats[1]) / 2))
    assert nats[0] != nats[1]
    table = comparison.table()
    assert "±" in table
    assert "measured on its validation part" in table
    again = thereafter.compare(source, task="next-number", **options)  # all of it is there: nothing is trained
    assert [trial.figures for trial in again.trials] == [trial.figures for trial in comparison.trials]


def test_what_does_not_apply_is_refused_by_name(tmp_path: Path):
    source = waves(tmp_path / "waves.txt", 20)
    with assert_refused(thereafter.ThereafterError, "hiden", "hidden"):
        thereafter.train(source, task="next-number", hiden=3)
    with assert_refused(thereafter.ThereafterError, "split=", "next-number"):
        thereafter.train(source, task="next-number", split="90/10")
    with assert_refused(thereafter.ThereafterError, "jitter", True):
        thereafter.train(source, task="next-number", jitter=True)
    model = thereafter.train(source, task="next-number", epochs=1)
    with assert_refused(thereafter.ThereafterError, "next-number"):
        model.explain("1 2 3")
