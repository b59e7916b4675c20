"""The queue of trainings: who starts at once, who waits, who gives way, and which locks are kept meanwhile."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import ClassVar

import pytest

from refusals import assert_refused
from thereafter.errors import OptionError, StorageError
from thereafter.studio import queue as queues
from thereafter.studio.queue import INTERRUPTED, MOST_RUNNING, QueuedTraining, Rank, Report, SharedLock, TrainingQueue
from thereafter.studio.studio import LOCK, Making, MissingModels, Stage
from thereafter.studio.worker import Command
from waiting import wait_for


class Process:
    """Stands in for a process that trains; it ends when the test says so."""

    started: ClassVar[list[Process]] = []
    last_words = ""

    def __init__(self, command: Command, hear: object, ended: object) -> None:
        self.command, self._ended = command, ended
        self.alive, self.interrupts = True, 0
        Process.started.append(self)

    def interrupt(self) -> None:
        self.interrupts += 1

    def finish(self, code: int = 0) -> None:
        self.alive = False
        assert callable(self._ended)
        self._ended(code)

    def end(self) -> None:
        if self.alive:
            self.finish(INTERRUPTED)


class Lock:
    """Counts how often it is released."""

    def __init__(self) -> None:
        self.released = 0

    def release(self) -> None:
        self.released += 1


@pytest.fixture(autouse=True)
def _processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "Child", Process)
    monkeypatch.setattr(Process, "started", [])


def training(rank: Rank, name: str, codes: list[int] | None = None, lock: Lock | None = None) -> QueuedTraining:
    return QueuedTraining(
        {"do": "resume", "run": name},
        rank=rank,
        name=name,
        hear=lambda report: None,
        ended=(codes if codes is not None else []).append,
        lock=lock,
    )


def started() -> list[str]:
    return [str(one.command.get("run")) for one in Process.started]


def test_own_trainings_start_at_once_up_to_a_number():
    queue = TrainingQueue()
    for name in ("a", "b"):
        queue.check_room()
        queue.submit(training(Rank.OWN, name))
    assert started() == queue.running == ["a", "b"]
    assert MOST_RUNNING == 2
    with assert_refused(OptionError, 2, "a", "b"):
        queue.check_room()
    Process.started[0].finish()
    queue.check_room()


def test_ready_models_wait_until_nothing_else_runs_and_those_asked_for_come_first():
    queue = TrainingQueue()
    queue.submit(training(Rank.OWN, "own"))
    missing, asked = training(Rank.MISSING, "missing"), training(Rank.READY, "asked")
    queue.submit(missing)
    queue.submit(asked)
    assert started() == ["own"]
    assert missing.is_waiting
    assert missing.alive
    Process.started[0].finish()
    assert started() == ["own", "asked"]
    assert queue.running == ["asked"]
    Process.started[1].finish()
    assert started() == ["own", "asked", "missing"]


def test_what_is_being_made_gives_way_to_a_training_and_goes_on_after_it():
    queue, codes, lock = TrainingQueue(), list[int](), Lock()
    ready = training(Rank.READY, "ready", codes, lock)
    queue.submit(ready)
    queue.submit(training(Rank.OWN, "own"))
    assert started() == ["ready", "own"]
    assert Process.started[0].interrupts == 1
    Process.started[0].finish(INTERRUPTED)
    assert (codes, lock.released, ready.is_waiting) == ([], 0, True)
    Process.started[1].finish()
    assert started() == ["ready", "own", "ready"]
    Process.started[2].finish()
    assert (codes, lock.released) == ([0], 1)


@pytest.mark.parametrize("code", [0, 2])
def test_what_ends_by_itself_while_it_is_asked_to_give_way_has_ended(code: int):
    queue, codes = TrainingQueue(), list[int]()
    queue.submit(training(Rank.MISSING, "missing", codes))
    queue.submit(training(Rank.READY, "ready"))
    Process.started[0].finish(code)
    assert codes == [code]
    Process.started[-1].finish()
    assert started() == ["missing", "ready"]


def test_a_training_that_waits_can_be_stopped_and_its_lock_is_released():
    queue, codes, lock = TrainingQueue(), list[int](), Lock()
    queue.submit(training(Rank.OWN, "own"))
    waiting = training(Rank.READY, "waiting", codes, lock)
    queue.submit(waiting)
    queue.interrupt(waiting)
    wait_for(lambda: codes == [INTERRUPTED])
    assert lock.released == 1
    assert not waiting.alive
    Process.started[0].finish()
    assert started() == ["own"]


def test_a_closed_queue_starts_nothing():
    queue, codes = TrainingQueue(), list[int]()
    own, waiting = training(Rank.OWN, "own", codes), training(Rank.READY, "waiting", codes)
    queue.submit(own)
    queue.submit(waiting)
    queue.close()
    for ask in (queue.check_room, lambda: queue.submit(training(Rank.OWN, "late"))):
        with assert_refused(OptionError, "closing"):
            ask()
    queue.end([own, waiting])
    wait_for(lambda: codes == [INTERRUPTED, INTERRUPTED])
    assert started() == ["own"]


def test_a_process_that_cannot_be_started_is_an_error_for_who_asked(monkeypatch: pytest.MonkeyPatch):
    queue, codes, reports = TrainingQueue(), list[int](), list[Report]()
    queue.submit(training(Rank.OWN, "own"))
    waiting = training(Rank.READY, "waiting", codes)
    waiting.hear = reports.append
    queue.submit(waiting)

    def refuse(*given: object) -> None:
        raise StorageError("no process could be started")

    monkeypatch.setattr(queues, "Child", refuse)
    Process.started[0].finish()
    assert ([report.error for report in reports], codes) == (["no process could be started"], [2])
    with pytest.raises(StorageError):
        queue.submit(training(Rank.OWN, "another"))
    assert queue.running == []


def test_a_lock_is_shared_within_a_studio_and_kept_from_others(tmp_path: Path):
    ours, theirs = SharedLock(tmp_path / LOCK), SharedLock(tmp_path / LOCK)
    first, second = ours.take(), ours.take()
    assert first is not None
    assert second is not None
    assert theirs.take() is None
    first.release()
    first.release()  # once is enough
    assert theirs.take() is None
    second.release()
    third = theirs.take()
    assert third is not None
    third.release()


def test_the_start_and_train_anew_take_the_same_lock(tmp_path: Path):
    """Two studios over one folder: while one makes the missing models, the other cannot train one of them anew."""
    queue, lock, stage = TrainingQueue(), SharedLock(tmp_path / LOCK), Stage()
    starting = MissingModels(tmp_path, stage, scale=1.0, shipped=False, queue=queue, lock=lock)
    thread = threading.Thread(target=starting.make)
    thread.start()
    thread.join()
    assert stage.making == "ngram"
    with assert_refused(OptionError, "studio"):
        Making(tmp_path, 1.0).begin_anew("lstm")
    here = Making(tmp_path, 1.0, queue=queue, lock=lock)
    here.begin_anew("lstm")
    assert here.answer().task == "anew"
    Process.started[0].finish(INTERRUPTED)  # it gives way to what somebody asked for
    assert stage.making == "ngram"
    queue.submit(training(Rank.OWN, "own"))
    Process.started[1].finish(INTERRUPTED)
    assert here.answer().status == "waiting for own"
    Process.started[2].finish()
    assert [one.command["do"] for one in Process.started] == ["ready", "anew", "resume", "anew"]
    Process.started[3].finish()
    assert (here.answer().task, here.answer().error) == ("", "")
    Process.started[4].finish()
    assert (stage.making, stage.share) == ("", 1.0)
    assert not (tmp_path / LOCK).exists()
