"""Real trainings, really stopped and killed at random moments, resumed, and the same to the last bit in the end."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.toys import tagged
from thereafter.runs.writer import read_snapshot
from thereafter.training.control import COUNTED
from warm import Command

WORDS = ["the", "a", "cat", "dog", "bird", "saw", "heard", "and", "or", "which", "old", "small", ".", ",", "it", "was"]
COMMON = ["--tokens", "word", "--hidden", "16", "--batch", "4", "--steps", "8", "--set", "min_count=1"]
COMMON += ["--set", "log_every=1", "--set", "checkpoint_every=10", "--set", "checkpoint_seconds=0"]
VARIANTS: dict[str, list[str]] = {
    "adamw, carried state": ["--dropout", "0.3", "--set", "weight_drop=0.3", "--set", "dropout_embed=0.1"],
    "nt-asgd": ["--optimizer", "nt-asgd", "--rate", "3", "--set", "nonmono=1", "--set", "weight_drop=0.2"],
    "partition": ["--set", "batching=partition", "--layers", "2", "--set", "dropout_hidden=0.2"],
}
TIMEOUT = 300.0


@pytest.fixture
def book(tmp_path: Path) -> Path:
    rng = random.Random(7)
    lines = [" ".join(rng.choices(WORDS, k=rng.randint(3, 12))) for _ in range(300)]
    path = tmp_path / "book.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def start(*words: object, compiled: bool = False, threads: int = 1) -> Command:
    """One thread, since the machine may be busy; compiled kernels where asked for: loading them takes its time."""
    return Command(["train", *map(str, words)], {"THEREAFTER_NUMBA": "1" if compiled else "0"}, threads)


def finished(process: Command) -> str:
    assert process.wait(TIMEOUT) == 0, process.output()
    return process.output()


def last_step(run: Path) -> int:
    """The last step in the log, the half line of a moment left out."""
    try:
        with (run / "log.jsonl").open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 2000))
            lines = log.read().split(b"\n")[:-1]
    except FileNotFoundError:
        return 0
    return max((json.loads(line).get("step", 0) for line in lines[-3:] if line.startswith(b"{")), default=0)


def kill_when(process: Command, moment: Callable[[], bool]) -> None:
    """SIGKILL at the first moment that something holds."""
    wait_for(process, moment)
    process.send_signal(signal.SIGKILL)
    assert process.wait(TIMEOUT) == -signal.SIGKILL


def stop_when(process: Command, moment: Callable[[], bool], how: signal.Signals) -> int:
    """Ask it to stop at the first moment that something holds; the step that it says it stopped at."""
    wait_for(process, moment)
    process.send_signal(how)
    assert process.wait(TIMEOUT) > 0, process.output()  # it ended by itself
    sentence = re.search(r"stopped at step ([\d,]+); go on with: thereafter train --resume", process.output())
    assert sentence is not None, process.output()
    return int(sentence[1].replace(",", ""))


def wait_for(process: Command, moment: Callable[[], bool]) -> None:
    give_up = time.monotonic() + TIMEOUT
    while not moment():
        if process.returncode is not None:
            pytest.fail(f"it ended before it could be killed: {process.output()}")
        assert time.monotonic() < give_up
        time.sleep(0.0005)  # leave the processor to what is watched


def log_of(run: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    clock = {"seconds", "seconds_training", "seconds_tokenizing", "tokens_per_second"}
    return [{k: v for k, v in line.items() if k not in clock} for line in lines if line["event"] != "resumed"]


def assert_same_end(whole: Path, broken: Path) -> None:
    assert (whole / "weights.safetensors").read_bytes() == (broken / "weights.safetensors").read_bytes()
    assert log_of(whole) == log_of(broken)  # every loss of every step
    assert not (broken / "state.safetensors").exists()  # there is nothing left to go on with
    assert not list(broken.glob(".*.tmp"))


@pytest.mark.parametrize(
    ("variant", "kills"),
    [pytest.param(variant, 1, marks=pytest.mark.wide) for variant in ("adamw, carried state", "nt-asgd", "partition")]
    + [pytest.param(variant, 6, marks=pytest.mark.slow) for variant in VARIANTS],
)
def test_killed_at_random_moments(variant: str, kills: int, book: Path, tmp_path: Path):
    """Before the first checkpoint, then again and again between 20 and 80 % of its steps."""
    options = VARIANTS[variant]
    words = [*COMMON, *options, "--model", "lstm", "--epochs", "3", "--set", "validate_every=20"]
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    compiled = variant == "adamw, carried state"
    together = [start(book, "--out", run, *words, compiled=compiled) for run in (whole, broken)]
    kill_when(together[1], lambda: (broken / "config.toml").is_file())  # it has just begun
    assert not (broken / "state.safetensors").exists()
    finished(together[0])
    steps = last_step(whole)
    assert steps > 150
    rng = random.Random(variant)
    moments = sorted(rng.randint(steps // 5 + 1, steps * 6 // 10) for _ in range(kills))
    for moment in moments:
        process = start("--resume", broken, compiled=compiled)
        kill_when(process, lambda moment=moment: last_step(broken) >= moment)  # type: ignore[misc]
        assert 0.2 <= last_step(broken) / steps <= 0.8
    finished(start("--resume", broken, compiled=compiled))
    assert_same_end(whole, broken)


def test_killed_inside_a_checkpoint(book: Path, tmp_path: Path):
    """With a checkpoint at every step: killed while the next one is being written beside the last."""
    words = [*COMMON, "--model", "gru", "--dropout", "0.3", "--epochs", "1", "--set", "validate_every=7"]
    words += ["--set", "checkpoint_every=1"]
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    together = [start(book, "--out", whole, *words), start(book, "--out", broken, *words)]
    inside = 0

    def writing(after: int) -> Callable[[], bool]:
        def look() -> bool:
            try:
                names = os.listdir(broken)
            except FileNotFoundError:
                return False
            return any(name.startswith(".state.safetensors.") for name in names) and last_step(broken) >= after

        return look

    kill_when(together[1], writing(0))
    inside += bool(list(broken.glob(".state.safetensors.*.tmp")))
    finished(together[0])
    steps = last_step(whole)
    for share in (0.3, 0.6):
        kill_when(start("--resume", broken), writing(int(share * steps)))
        inside += bool(list(broken.glob(".state.safetensors.*.tmp")))  # the write was begun and never ended
    assert inside >= 1
    finished(start("--resume", broken))
    assert_same_end(whole, broken)


STOPPED: dict[str, list[str]] = {
    "lstm": [*COMMON[:8], "--model", "lstm", "--epochs", "2", "--dropout", "0.3", "--set", "min_count=1"],
    "tagger": ["--task", "tag", "--hidden", "4", "--batch", "4", "--epochs", "3", "--no-baselines"],
}


HOW = (signal.SIGINT, signal.SIGTERM)


@pytest.mark.parametrize("kind", ["lstm", pytest.param("tagger", marks=pytest.mark.wide)])
def test_stopped_at_random_moments(kind: str, book: Path, tmp_path: Path):
    """Ctrl-C, and what a system says before it goes down: nothing is lost, however rarely checkpoints are written."""
    source = book if kind == "lstm" else tagged(tmp_path / "tags.tsv", 120)
    words = [*STOPPED[kind], "--set", "log_every=1", "--set", "validate_every=20", "--set", "checkpoint_every=10000"]
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    finished(start(source, "--out", whole, *words))
    steps = last_step(whole)
    assert steps > 60
    rng = random.Random(kind)
    process, at = start(source, "--out", broken, *words), 0
    for drawn, how in zip(sorted(rng.sample(range(1, steps * 7 // 10), len(HOW))), HOW, strict=True):
        moment = max(drawn, at + 1)  # a process that has not begun to train yet hears no signal
        at = stop_when(process, lambda moment=moment: last_step(broken) >= moment, how)  # type: ignore[misc]
        assert at >= moment
        assert at == last_step(broken) == read_snapshot(broken / "state.safetensors", COUNTED).facts["at"]["step"]
        process = start("--resume", broken)
    assert f"going on at step {at}," in finished(process)
    assert_same_end(whole, broken)
