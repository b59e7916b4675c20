"""Trainings without a browser: real processes that are begun, paused, resumed, stopped, left behind."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from safetensors.numpy import load_file
from serving_studio import Served

from refusals import assert_refused
from thereafter.base.storage import write_text
from thereafter.errors import OptionError, SourceError, TrainingError
from thereafter.ready import models as ready
from thereafter.serving.schema import NotThereError
from thereafter.studio import worker
from thereafter.studio.jobs import TEXTS, JobAnswer, Jobs, UnfinishedRuns, curve
from thereafter.studio.queue import MOST_RUNNING
from waiting import wait_for

WORDS = ["the", "a", "cat", "dog", "bird", "saw", "heard", "and", "or", "which", "old", "small", ".", ",", "it", "was"]
SMALL: dict[str, Any] = {"hidden": 8, "batch": 4, "steps": 8, "dropout": 0.2, "validate_every": 50, "min_count": 1}
ENDLESS = SMALL | {"epochs": 100_000.0}
BUDGET = SMALL | {"epochs": 30.0}
ORDERED = {"hidden": 8, "epochs": 1000.0}
"""Options that an order read from a file may have: those of the API."""


def book(lines: int = 120) -> str:
    rng = random.Random(7)
    return "\n".join(" ".join(rng.choices(WORDS, k=rng.randint(3, 12))) for _ in range(lines)) + "\n"


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


def job_of(jobs: Jobs, name: str) -> dict[str, Any]:
    """What the list says of a training."""
    return next((job.model_dump() for job in jobs.all() if job.name == name), {"state": "gone"})


def wait_for_state(jobs: Jobs, name: str, state: str) -> dict[str, Any]:
    wait_for(lambda: job_of(jobs, name)["state"] in (state, "failed"))
    found = job_of(jobs, name)
    assert found["state"] == state, found
    return found


def wait_for_steps(jobs: Jobs, name: str, steps: int) -> None:
    wait_for(lambda: max(jobs.curve(name).step, default=0) >= steps or job_of(jobs, name)["state"] != "running")


def pid_of(jobs: Jobs, name: str) -> int:
    training = jobs._jobs[name].training
    assert training is not None
    assert training.child is not None
    return training.child.pid


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.wide
def test_a_paused_training_goes_on_to_the_weights_of_one_that_was_never_paused(jobs: Jobs):
    paused = jobs.begin("paused", "lstm", text=book(), tokens="word", options=BUDGET).name
    whole = jobs.begin("whole", "lstm", text=book(), tokens="word", options=BUDGET).name
    with assert_refused(OptionError, 2, paused, whole):
        jobs.begin("third", "lstm", text=book())
    assert MOST_RUNNING == 2
    wait_for_steps(jobs, paused, 30)
    early = jobs.curve(paused).step
    assert jobs.pause(paused).state in ("pausing", "paused")
    pid = pid_of(jobs, paused)
    found = wait_for_state(jobs, paused, "paused")
    assert found["resumable"]
    assert 0 < found["share"] < 1
    assert not is_running(pid)
    assert (jobs.folder / paused / "state.safetensors").is_file()
    assert len(jobs.curve(paused).step) >= len(early)

    # another studio over the same folder: the one that was paused is there, with what it had
    wait_for_state(jobs, whole, "finished")
    later = Jobs(jobs.folder)
    (left,) = later.all()
    assert (left.name, left.state, left.model, left.resumable) == (paused, "paused", "lstm", True)
    assert left.share == pytest.approx(found["share"], abs=1 / 30 + 0.01)
    later.resume(paused)
    wait_for_state(later, paused, "finished")
    one, other = (load_file(jobs.folder / name / "weights.safetensors") for name in (paused, whole))
    assert one.keys() == other.keys()
    assert all(np.array_equal(one[name], other[name]) for name in one)
    assert later.curve(paused).valid_loss == jobs.curve(whole).valid_loss
    with assert_refused(OptionError, paused, "finished", "paused"):
        later.resume(paused)
    later.close()


@pytest.mark.wide
def test_stop_close_and_what_was_not_begun_yet(jobs: Jobs):
    stopped = jobs.begin("stopped", "rnn", text=book(), tokens="word", options=ENDLESS).name
    closed = jobs.begin("closed", "gru", text=book(), tokens="word", options=ENDLESS).name
    for name in (stopped, closed):
        wait_for_steps(jobs, name, 60)
    pids = [pid_of(jobs, name) for name in (stopped, closed)]
    jobs.stop(stopped)
    assert wait_for_state(jobs, stopped, "stopped")["resumable"]
    assert (jobs.folder / stopped / "weights.safetensors").is_file()  # validated at step 50
    with assert_refused(OptionError, stopped, "stopped"):
        jobs.pause(stopped)
    waiting = jobs.begin("waiting", "rnn", text=book(), tokens="word", options=ORDERED).name
    pids.append(pid_of(jobs, waiting))

    jobs.close()
    assert not any(map(is_running, pids))
    with assert_refused(OptionError, "closing"):
        jobs.begin("late", "rnn", text=book())
    later = Jobs(jobs.folder)
    assert {job.name: job.state for job in later.all()} == dict.fromkeys((stopped, closed, waiting), "paused")
    assert all(job.resumable for job in later.all())
    later.resume(waiting)  # its process was ended while it was still importing torch: it begins again from its text
    wait_for_steps(later, waiting, 10)
    later.stop(waiting)
    wait_for_state(later, waiting, "stopped")
    assert sorted(path.name for path in (jobs.folder / TEXTS).iterdir()) == [
        f"{name}.txt" for name in sorted((stopped, closed, waiting))
    ]
    later.stop(closed)
    assert job_of(later, closed)["state"] == "stopped"
    later.close()


@pytest.mark.wide
def test_a_training_ended_while_its_folder_was_being_made_begins_again(jobs: Jobs):
    """The tokenizer is there and the configuration is not: no run yet, but the order says what was wanted."""
    name = jobs.begin("half", "rnn", text=book(), tokens="word", options=ORDERED).name
    jobs.close()
    folder = jobs.folder / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    order = {"do": "train", "source": str((jobs.folder / TEXTS / f"{name}.txt").absolute()), "model": "rnn"}
    order |= {"tokens": "word", "options": ORDERED, "run": str(folder.absolute())}
    write_text(jobs.folder / TEXTS / f"{name}.json", json.dumps(order))
    later = Jobs(jobs.folder)
    assert job_of(later, name)["resumable"]
    later.resume(name)
    wait_for_steps(later, name, 10)
    later.close()


def test_a_studio_that_is_killed_leaves_no_training_behind_and_one_that_can_go_on(tmp_path: Path):
    """Nobody listens any more: the worker finds out with its next line, saves its state and ends."""
    write_text(tmp_path / "text.txt", book())
    order = {"do": "train", "source": str(tmp_path / "text.txt"), "model": "rnn", "tokens": "word", "options": ENDLESS}
    process = subprocess.Popen(
        [sys.executable, "-m", "thereafter.studio.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(order | {"run": str(tmp_path / "run")}))
    process.stdin.close()
    wait_for(lambda: max(curve(tmp_path / "run").model_dump()["step"], default=0) >= 20)
    process.stdout.close()
    assert process.wait(120) == 130
    assert (tmp_path / "run" / "state.safetensors").is_file()
    assert list(UnfinishedRuns(tmp_path).runs()) == ["run"]


def test_failures_are_sentences_and_leave_nothing_behind(jobs: Jobs):
    for text, source, facts in (
        (None, None, ("text", "corpus")),
        ("a", "agreement", ("text", "corpus")),
        (" \n\t ", None, ("empty",)),
    ):
        with assert_refused(SourceError, *facts):
            jobs.begin("none", "lstm", text=text, source=source)
    assert jobs.all() == []
    tiny = jobs.begin("", "lstm", text="too few words").name
    wait_for(lambda: job_of(jobs, tiny)["state"] == "failed")
    found = job_of(jobs, tiny)
    assert "too little to hold out some for validation" in found["error"]
    assert not found["resumable"]
    assert list((jobs.folder / TEXTS).iterdir()) == []
    with assert_refused(NotThereError, tiny):
        jobs.resume(tiny)
    for ask in (jobs.pause, jobs.stop, jobs.resume, jobs.curve):
        with assert_refused(NotThereError, "nobody"):
            ask("nobody")


def test_names_are_plain_and_no_two_are_the_same(jobs: Jobs, monkeypatch: pytest.MonkeyPatch):
    begun = []

    class Quiet:
        alive = False

        def __init__(self, command: dict[str, Any], hear: Any, ended: Any) -> None:
            begun.append(command)

    monkeypatch.setattr("thereafter.studio.queue.Child", Quiet)
    names = [
        jobs.begin(name, "ngram", text="a b").name for name in ("", "", "my book: 1!", "../../x", "βιβλίο", "x" * 60)
    ]
    assert names == ["text-ngram", "text-ngram-2", "my-book-1", "x", "βιβλίο", "x" * 40]
    assert jobs.begin(TEXTS, "ngram", text="a b").name == f"{TEXTS}-2"
    assert [Path(command["run"]).parent for command in begun] == [jobs.folder.absolute()] * 7


def test_a_run_that_is_deleted_meanwhile_goes_from_the_list(jobs: Jobs):
    name = jobs.begin("counted", "ngram", text=book(), tokens="word").name
    wait_for_state(jobs, name, "finished")
    assert jobs.curve(name).step == []
    shutil.rmtree(jobs.folder / name)
    assert jobs.all() == []
    with assert_refused(NotThereError, name):
        jobs.curve(name)
    assert jobs.begin("counted", "ngram", text=book(), tokens="word").name == "counted-2"  # its text is still there


@pytest.mark.wide
def test_a_run_that_is_deleted_while_it_is_trained_ends_with_a_sentence(jobs: Jobs):
    name = jobs.begin("lost", "rnn", text=book(), tokens="word", options=ENDLESS).name
    wait_for_steps(jobs, name, 20)
    pid = pid_of(jobs, name)
    shutil.rmtree(jobs.folder / name)
    wait_for(lambda: job_of(jobs, name)["state"] == "failed")
    found = job_of(jobs, name)
    assert "its run folder was removed while it was trained" in found["error"]
    assert not found["resumable"]
    assert not is_running(pid)


def test_a_link_to_a_run_elsewhere_is_not_followed(tmp_path: Path):
    runs, elsewhere = tmp_path / "runs", tmp_path / "elsewhere"
    runs.mkdir()
    write_text(elsewhere / "log.jsonl", '{"event": "began"}\n')
    write_text(elsewhere / "config.toml", 'format = 1\nmodel = "lstm"\n[training]\nseed = 0\n')
    assert list(UnfinishedRuns(tmp_path).runs()) == ["elsewhere"]
    (runs / "link").symlink_to(elsewhere)
    assert Jobs(runs).all() == []


def test_a_curve_is_read_from_whatever_a_log_holds(tmp_path: Path):
    assert curve(tmp_path).model_dump()["step"] == []
    lines: list[Any] = [
        {"event": "step", "step": step, "seen": 10 * step, "loss": 5 - step / 1000} for step in range(1, 1501)
    ]
    lines += [
        {"event": "step", "step": "x"},
        {"event": "step", "step": 1501, "seen": None, "loss": float("nan")},
        [],
        3,
    ]
    lines += [{"event": "validation", "step": 1205, "loss": 2.0, "perplexity": 10**400, "seconds": 3.5}]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, lines)) + '\n{"event": "st', encoding="utf-8")
    found = curve(tmp_path).model_dump()
    assert (found["step"][-1], found["loss"][-1]) == (1501, None)
    assert len(found["step"]) == len(found["loss"]) == len(found["seen"]) <= 600
    assert found["valid_seen"] == [12050.0]
    assert (found["valid_loss"], found["valid_perplexity"], found["valid_seconds"]) == ([2.0], [None], [3.5])


def test_an_interrupt_that_python_ignored_is_heard_where_the_next_task_begins_or_goes_on():
    lines = worker.Lines(io.StringIO())
    reading = lines.begin("reading", None, "")
    with contextlib.suppress(KeyboardInterrupt):  # as a callback of an import would
        lines.interrupt(signal.SIGINT, None)
    with pytest.raises(KeyboardInterrupt):
        reading(1.0)
    with pytest.raises(KeyboardInterrupt):
        lines.begin(worker.TRAINING, 100, "%")


def test_a_worker_stops_between_two_steps_and_at_once_when_asked_again():
    with pytest.raises(KeyboardInterrupt):
        worker.Lines(io.StringIO()).interrupt(signal.SIGINT, None)  # nothing is being trained
    out = io.StringIO()
    lines = worker.Lines(out)
    advance = lines.begin("training", 100, "%")
    lines.interrupt(signal.SIGINT, None)
    with pytest.raises(KeyboardInterrupt):
        advance(1.0, "loss 3")
    with pytest.raises(KeyboardInterrupt):
        lines.interrupt(signal.SIGINT, None)
    assert [json.loads(line)["task"] for line in out.getvalue().splitlines()] == ["training", "training"]


def test_ready_models_are_made_again_by_another_recipe_and_when_they_are_broken(
    tmp_path: Path, ready_folder: Path, monkeypatch: pytest.MonkeyPatch
):
    assert ready.missing(ready_folder) == []
    folder = tmp_path / "ready"
    shutil.copytree(ready_folder, folder)
    assert ready.missing(folder) == []
    (folder / "gru" / "weights.safetensors").unlink()
    shutil.rmtree(folder / "rnn")
    write_text(folder / "recipes" / "ngram.txt", "another")
    assert [one.name for one in ready.missing(folder)] == ["ngram", "rnn", "gru"]
    ready.make(ready.READY[0], folder)
    assert [one.name for one in ready.missing(folder)] == ["rnn", "gru"]

    def make(one: ready.Ready, place: Path, scale: float) -> None:
        if one.name == "rnn":
            raise TrainingError("it does not learn")
        made.append(one.name)

    made: list[str] = []
    monkeypatch.setattr(ready, "make", make)
    out = io.StringIO()
    assert not worker.obey({"do": "ready", "folder": str(folder), "scale": 1.0}, worker.Lines(out))
    assert made == ["gru"]
    assert "the ready model rnn could not be made: it does not learn" in out.getvalue()


def test_the_routes_refuse_in_sentences_and_take_only_what_a_kind_has(server: Served, monkeypatch: pytest.MonkeyPatch):
    asked: list[dict[str, Any]] = []

    def begin(name: str, model: str, **given: Any) -> JobAnswer:
        asked.append(given["options"])
        return _running(name, model)

    monkeypatch.setattr(server.studio.jobs, "begin", begin)
    numbers = {"minutes": 1.0, "hidden": 8, "layers": 2, "order": 3, "text": "a"}
    for model in ("ngram", "window", "average", "lstm"):
        assert httpx.post(f"{server.address}/api/train", json=numbers | {"model": model}).status_code == 200
    assert [sorted(options) for options in asked] == [
        ["order"],
        ["hidden", "minutes"],
        ["minutes"],
        ["hidden", "layers", "minutes"],
    ]
    for wrong in ({"model": "lstn"}, {"minutes": 0}, {"hidden": 1.5}, {"order": 11}, {"extra": 1}, {"text": 1}):
        answer = httpx.post(f"{server.address}/api/train", json={"text": "a"} | wrong)
        assert answer.status_code == 422, wrong
        assert next(iter(wrong)) in answer.json()["error"]
    for path, status in (("nobody/pause", 404), ("..%2Fx/pause", 404), ("nobody/burn", 404)):
        assert httpx.post(f"{server.address}/api/jobs/{path}").status_code == status
    assert httpx.get(f"{server.address}/api/jobs/nobody/curve").status_code == 404


def _running(name: str, model: str) -> JobAnswer:
    words = dict.fromkeys(("status", "note", "error", "owner"), "")
    return JobAnswer(name=name, model=model, state="running", share=0.0, run="runs:x", resumable=False, **words)
