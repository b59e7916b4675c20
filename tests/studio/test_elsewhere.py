"""A training that somebody else runs, in a terminal or in another studio: shown with its owner, left to them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from serving_studio import SCALE, Served, served
from test_jobs import ORDERED, book, job_of, pid_of, wait_for_state, wait_for_steps
from visits import visiting

from refusals import assert_refused
from thereafter.errors import BusyError
from thereafter.studio.jobs import TEXTS, Jobs, curve
from thereafter.studio.studio import Studio
from waiting import wait_for

_TRAIN = """
import sys
import thereafter
thereafter.train(sys.argv[1], model="rnn", tokens="word", out=sys.argv[2], hidden=8, batch=4, steps=8, epochs=100000.0,
                 min_count=1, validate_every=50)
"""
_OWN = """
import sys, time
from pathlib import Path
from thereafter.runs.folder import owning
with owning(Path(sys.argv[1])):
    print("owned", flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread, and no compiled kernels: loading them takes longer than these trainings."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("THEREAFTER_NUMBA", "0")


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    made = Jobs(tmp_path / "runs")
    yield made
    made.close()


@contextmanager
def process(code: str, *given: Any) -> Iterator[subprocess.Popen[str]]:
    """Another process, for as long as the block lasts."""
    command = [sys.executable, "-c", code, *map(str, given)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def unfinished(folder: Path, ready: Path, name: str) -> Path:
    """A run whose training was broken off."""
    run = folder / name
    shutil.copytree(ready / "gru", run)
    log = (run / "log.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (run / "log.jsonl").write_text("".join(log[:-1]), encoding="utf-8")
    return run


@pytest.mark.wide
def test_of_two_studios_one_trains_and_the_other_says_who(jobs: Jobs):
    """From the moment it is asked for, while it is trained, and until it is paused."""
    other = Jobs(jobs.folder)
    name = jobs.begin("mine", "rnn", text=book(), tokens="word", options=ORDERED).name
    pid = pid_of(jobs, name)
    for steps in (0, 20):  # while the process that trains it is still loading, and after
        wait_for_steps(jobs, name, steps)
        (seen,) = other.all()
        assert (seen.name, seen.state, seen.resumable) == (name, "elsewhere", False)
        assert f"process {os.getpid()} (thereafter studio), since " in seen.owner
        for ask in (other.resume, other.pause, other.stop):
            with assert_refused(BusyError, "mine", os.getpid()):
                ask(name)
    assert job_of(jobs, name)["state"] == "running"
    assert other.curve(name).step
    second = other.begin("mine", "ngram", text=book(), tokens="word").name
    assert second == "mine-2"
    jobs.pause(name)
    wait_for_state(jobs, name, "paused")
    assert job_of(other, name)["resumable"]
    other.resume(name)
    assert job_of(jobs, name)["state"] == "elsewhere"
    with assert_refused(BusyError, name):
        jobs.resume(name)
    assert pid_of(other, name) != pid
    other.close()
    assert job_of(jobs, name)["resumable"]
    assert not [path for path in (jobs.folder / TEXTS).iterdir() if path.suffix == ".lock"]


@pytest.mark.wide
def test_a_training_in_a_terminal_is_running_elsewhere_until_it_ends(jobs: Jobs, tmp_path: Path):
    (tmp_path / "book.txt").write_text(book(), encoding="utf-8")
    run = jobs.folder / "typed"
    with process(_TRAIN, tmp_path / "book.txt", run) as terminal:
        wait_for(lambda: max(curve(run).model_dump()["step"], default=0) >= 5)
        seen = job_of(jobs, "typed")
        assert (seen["state"], seen["model"], seen["resumable"]) == ("elsewhere", "rnn", False)
        assert f"process {terminal.pid} (" in seen["owner"]
        with assert_refused(BusyError, "typed", terminal.pid):
            jobs.resume("typed")
        terminal.kill()
        terminal.wait()
    seen = job_of(jobs, "typed")
    assert (seen["state"], seen["owner"]) == ("paused", "")
    assert seen["resumable"]


def test_a_task_is_listed_while_it_is_trained_elsewhere_and_never_offered(jobs: Jobs, ready_folder: Path):
    run = jobs.folder / "tagger"
    shutil.copytree(ready_folder / "tasks" / "tagger", run)
    log = (run / "log.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (run / "log.jsonl").write_text("".join(log[:-1]), encoding="utf-8")
    assert jobs.all() == []
    with process(_OWN, run) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "owned\n"
        (seen,) = jobs.all()
        assert (seen.name, seen.model, seen.state, seen.resumable) == ("tagger", "tag", "elsewhere", False)


def test_the_page_says_who_and_offers_nothing(browser: Any, ready_folder: Path, tmp_path: Path):
    """A real second process owns the run: its card has no button, the route answers 409 with a sentence."""
    run = unfinished(tmp_path / "runs", ready_folder, "theirs")

    def visit(server: Served) -> None:
        with visiting(browser, server.address) as tab, process(_OWN, run) as owner:
            assert owner.stdout is not None
            assert owner.stdout.readline() == "owned\n"
            tab.goto("/#train")
            card = tab.locator('[data-job="theirs"][data-state="elsewhere"]')
            card.wait_for()
            assert "running elsewhere" in card.locator("h3").text_content()
            assert f"trained by process {owner.pid} (" in card.text_content()
            for button in ("Resume", "Pause", "Stop"):
                assert card.get_by_role("button", name=button).count() == 0
            for what in ("resume", "pause", "stop"):
                answer = httpx.post(f"{server.address}/api/jobs/theirs/{what}")
                assert answer.status_code == 409
                assert f"'theirs' is running elsewhere, by process {owner.pid}" in answer.json()["error"]
            owner.kill()
            owner.wait()
            paused = tab.locator('[data-job="theirs"][data-state="paused"]')
            paused.get_by_role("button", name="Resume").wait_for()

    for server in served(Studio(tmp_path / "runs", ready_folder, scale=SCALE)):
        visit(server)


# what an order may say


@pytest.mark.parametrize(
    "change",
    [
        {"source": "/etc/passwd"},
        {"source": "book.txt"},
        {"source": "../outside.txt"},
        {"source": "https://example.org/book"},
        {"source": ["/etc/passwd"]},
        {"do": "resume"},
        {"do": "ready"},
        {"run": "/tmp/elsewhere"},
        {"model": "pickle"},
        {"model": 5},
        {"tokens": "lines"},
        {"options": {"valid": "/etc/passwd"}},
        {"options": {"out": "/tmp/elsewhere"}},
        {"options": {"hidden": 10**9}},
        {"options": {"order": 3}},
        {"options": []},
        {"extra": 1},
    ],
)
def test_an_order_of_a_stranger_is_taken_only_as_a_request_would_be(tmp_path: Path, change: dict[str, Any]):
    folder = tmp_path / "runs"
    (folder / TEXTS).mkdir(parents=True)
    text = folder / TEXTS / "one.txt"
    text.write_text(book(), encoding="utf-8")
    order = {"do": "train", "source": str(text), "model": "rnn", "tokens": None, "options": {"hidden": 8}}
    order |= {"run": str(folder / "one")}
    place = folder / TEXTS / "one.json"
    for fine in ({}, {"source": "agreement"}, {"options": {}}, {"tokens": "char"}):
        place.write_text(json.dumps(order | fine), encoding="utf-8")
        assert [job.resumable for job in Jobs(folder).all()] == [True]
    place.write_text(json.dumps(order | change), encoding="utf-8")
    assert Jobs(folder).all() == []


def test_an_order_leads_to_no_file_by_links_or_pipes(tmp_path: Path):
    folder = tmp_path / "runs"
    (folder / TEXTS).mkdir(parents=True)
    secret = tmp_path / "secret.txt"
    secret.write_text(book(), encoding="utf-8")

    def order(name: str) -> str:
        source = str(folder / TEXTS / f"{name}.txt")
        made = {"do": "train", "source": source, "model": "rnn", "tokens": None, "options": {}}
        return json.dumps(made | {"run": str(folder / name)})

    (folder / TEXTS / "linked.json").write_text(order("linked"), encoding="utf-8")
    (folder / TEXTS / "linked.txt").symlink_to(secret)
    (folder / TEXTS / "piped.json").write_text(order("piped"), encoding="utf-8")
    os.mkfifo(folder / TEXTS / "piped.txt")
    os.mkfifo(folder / TEXTS / "pipe.json")
    (tmp_path / "order.json").write_text(order("away"), encoding="utf-8")
    (folder / TEXTS / "away.json").symlink_to(tmp_path / "order.json")
    (folder / TEXTS / "away.txt").write_text(book(), encoding="utf-8")
    assert Jobs(folder).all() == []


def test_nothing_is_written_through_a_link_that_leads_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    class Quiet:
        alive = False

        def __init__(self, order: dict[str, Any], hear: Any, ended: Any) -> None:
            pass

    monkeypatch.setattr("thereafter.studio.queue.Child", Quiet)
    folder = tmp_path / "runs"
    (folder / TEXTS).mkdir(parents=True)
    (folder / TEXTS / "text-rnn.txt").symlink_to(tmp_path / "planted.txt")
    (folder / "text-rnn-2").symlink_to(tmp_path / "planted")
    jobs = Jobs(folder)
    assert jobs.begin("", "rnn", text=book()).name == "text-rnn-3"
    jobs.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs"]
