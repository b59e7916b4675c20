"""Threads that help with the passes of a stream change no number, whether they come, sleep or are missing."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from thereafter import nn
from thereafter.base.compiled import available
from waiting import wait_for

pytestmark = pytest.mark.skipif(not available(), reason="loops are not compiled here")

SCRIPT = """
import sys, threading, os
import torch
from thereafter import nn
from thereafter.kernels.step import passes
torch.set_num_threads(3)
passes.WORTH_A_TEAM = 0
passes.StepTeam.run = lambda team, call: call(3)
torch.manual_seed(0)
layer, x = nn.LSTM(20, 150).eval(), torch.randn(50, 1, 20)
def steps(stream):
    return torch.stack([stream.step(x_BI).clone() for x_BI in x])
"""


@pytest.fixture
def always_a_team(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every pass is shared by as many threads as torch has, whether that pays or not."""
    from thereafter.kernels.step import passes

    def run(team: Any, call: Callable[[int], None]) -> None:
        call(min(torch.get_num_threads(), team.most))

    monkeypatch.setattr(passes, "WORTH_A_TEAM", 0)
    monkeypatch.setattr(passes.StepTeam, "run", run)
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def layer(kind: str, inputs: int, hidden: int, **options: Any) -> Any:
    torch.manual_seed(5)
    return getattr(nn, kind)(inputs, hidden, batch_first=True, **options).eval()


def run(stream: nn.Stream, x_TBI: torch.Tensor, rest: float = 0.0) -> torch.Tensor:
    outputs = []
    for x_BI in x_TBI:
        outputs.append(stream.step(x_BI).clone())
        time.sleep(rest)
    return torch.stack(outputs)


@pytest.mark.usefixtures("always_a_team")
@pytest.mark.parametrize(("kind", "options"), [("LSTM", {}), ("GRU", {"reset": "before"}), ("RNN", {})])
def test_threads_change_no_bit_of_a_step(kind: str, options: dict[str, Any]) -> None:
    module, x_TBI = layer(kind, 30, 150, **options), torch.randn(200, 2, 30)
    for weights in (None, "int8"):
        steps = []
        for threads in (1, 2, 3, 4):
            torch.set_num_threads(threads)
            steps.append(run(module.stream(2, weights=weights), x_TBI))
        for other in steps[1:]:
            assert torch.equal(steps[0], other)


def asleep(number: int) -> bool:
    from thereafter.kernels.loops import steps as board
    from thereafter.kernels.step.passes import helpers

    return bool(ctypes.c_int64.from_address(helpers()._at(number) + board.ASLEEP).value)


@pytest.mark.usefixtures("always_a_team")
def test_helpers_work_and_those_that_fell_asleep_are_woken() -> None:
    from thereafter.kernels.step.passes import helpers

    module, x_TBI = layer("LSTM", 30, 400), torch.randn(1, 4, 30)
    torch.set_num_threads(1)
    expected = run(module.stream(4), x_TBI)
    torch.set_num_threads(3)
    run(module.stream(4), x_TBI)  # they are there
    for number in (1, 2):
        before = helpers().worked(number)

        def woken_to_work(number: int = number, before: int = before) -> bool:
            wait_for(lambda: asleep(number))
            assert torch.equal(run(module.stream(4), x_TBI), expected)
            return helpers().worked(number) > before  # on a busy machine it may come too late, and once more

        wait_for(woken_to_work)


@pytest.mark.usefixtures("always_a_team")
def test_threads_of_python_that_want_the_helpers_at_once() -> None:
    module, x_NTBI = layer("LSTM", 40, 150), torch.randn(4, 400, 1, 40)
    torch.set_num_threads(1)
    alone = [run(module.stream(1), x_TBI) for x_TBI in x_NTBI]
    torch.set_num_threads(3)
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda x_TBI: run(module.stream(1), x_TBI), x_NTBI))
    for one, other in zip(alone, together, strict=True):
        assert torch.equal(one, other)


@pytest.mark.usefixtures("always_a_team")
def test_a_pass_is_whole_without_helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    from thereafter.kernels.step.passes import Helpers, helpers

    module, x_TBI = layer("LSTM", 30, 150), torch.randn(40, 1, 30)
    torch.set_num_threads(1)
    expected = run(module.stream(1), x_TBI)
    torch.set_num_threads(3)
    assert torch.equal(run(module.stream(1), x_TBI), expected)
    helpers().stop()
    with monkeypatch.context() as patch:
        patch.setattr(Helpers, "start", lambda self, team: None)
        assert torch.equal(run(module.stream(1), x_TBI), expected)
    assert torch.equal(run(module.stream(1), x_TBI), expected)  # with new ones
    helpers().stop()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_more_threads)
        assert torch.equal(run(module.stream(1), x_TBI), expected)
    helpers().stop()


def no_more_threads(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize(
    "ending",
    [
        "steps(layer.stream())",
        pytest.param("steps(layer.stream()); sys.exit(0)", marks=pytest.mark.wide),
        pytest.param(
            "threading.Thread(target=steps, args=(layer.stream(),)).start(); steps(layer.stream())",
            marks=pytest.mark.wide,
        ),
    ],
)
def test_a_process_ends_while_helpers_look_for_work(ending: str) -> None:
    end = subprocess.run([sys.executable, "-c", SCRIPT + ending], capture_output=True, text=True, timeout=180)
    assert end.returncode == 0, end.stderr
    assert "Error" not in end.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are not forked off elsewhere")
def test_a_process_that_was_forked_off_has_helpers_of_its_own() -> None:
    script = (
        SCRIPT
        + """
one, other = layer.stream(), layer.stream()  # to pack matrices torch's own threads are needed, which are not forked
first = steps(one)
child = os.fork()
again = torch.equal(steps(other), first)
again &= sum(thread.name.startswith("thereafter-helper") for thread in threading.enumerate()) == 2
if not child:
    os._exit(0 if again else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) + (0 if again else 2))
"""
    )
    end = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=180)
    assert end.returncode == 0, end.stderr


class Clock:
    """Passes that take as long as they are told to, and who ran them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from thereafter.kernels.step import passes

        self.now, self.took, self.teams = 0, {1: 20, 2: 10}, list[int]()
        monkeypatch.setattr(passes, "perf_counter_ns", lambda: self.now)
        monkeypatch.setattr(passes, "threads_of_torch", lambda: 2)

    def call(self, threads: int) -> None:
        self.teams.append(threads)
        self.now += self.took[threads]


def test_a_team_works_while_it_is_faster_than_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    from thereafter.kernels.step.passes import StepTeam

    clock, team = Clock(monkeypatch), StepTeam(2)
    for _ in range(100):
        team.run(clock.call)
    assert clock.teams == [1] * team.LOOKS + [2] * (100 - team.LOOKS)
    clock.took[2] = 50  # a core is wanted by another program
    clock.teams.clear()
    for _ in range(2000):
        team.run(clock.call)
    assert clock.teams.count(2) < 100  # it is asked again, more and more seldom
    assert clock.teams.count(2) > 10
    clock.took[2] = 10
    for _ in range(5000):
        team.run(clock.call)
    assert clock.teams[-1000:].count(1) <= team.LOOKS
    assert team.rest == team.FEWEST


def test_a_single_late_pass_costs_a_short_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    from thereafter.kernels.step.passes import StepTeam

    clock, team = Clock(monkeypatch), StepTeam(2)
    for _ in range(50):
        team.run(clock.call)
    clock.took[2] = 5000
    team.run(clock.call)
    clock.took[2] = 10
    clock.teams.clear()
    for _ in range(100):
        team.run(clock.call)
    assert clock.teams == [1] * team.FEWEST + [2] * (100 - team.FEWEST)
