"""No name and no path from the browser leads out of the runs folder."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from serving_studio import Served

import thereafter
from refusals import assert_refused
from thereafter.serving.schema import NotThereError
from thereafter.serving.shelf import Shelf
from thereafter.studio.jobs import Jobs, UnfinishedRuns, curve


def linked(runs: Path, ready: Path) -> list[str]:
    """Runs outside the folder and links to them inside it; the names that must lead nowhere."""
    outside = runs.parent / "outside"
    shutil.copytree(ready / "ngram", outside)
    (runs / "link").symlink_to(outside)
    inner = runs / "inner"
    inner.mkdir()
    for name in ("config.toml", "weights.safetensors", "tokenizer.json", "log.jsonl"):
        (inner / name).symlink_to(outside / name)
    return ["link", "inner"]


HOSTILE = [
    "../outside",
    "..",
    ".",
    "",
    "x/../../outside",
    "/etc",
    "..\\outside",
    "\x00",
    "good\x00",
    "..%2foutside",
    "%2e%2e",
    "．．／outside",  # full-width dots and stroke, which some systems read as plain ones
    "‥/outside",
    "good/",
    "good\n",
    "GOOD",
    "a" * 200,
    "a" * 100_000,
]


def test_names_lead_nowhere_but_to_the_listing(ready_folder: Path, tmp_path: Path):
    runs = tmp_path / "runs"
    shutil.copytree(ready_folder / "ngram", runs / "good")
    names = [*HOSTILE, *linked(runs, ready_folder), str(runs / "good"), str(tmp_path / "outside")]
    shelf = Shelf(ready_folder, runs)
    assert [card.name for card in shelf.cards() if card.name.startswith("runs:")] == ["runs:good"]
    for name in names:
        for prefix in ("runs:", "ready:", "", "other:", "../"):
            with assert_refused(NotThereError, repr(prefix + name)):
                shelf.place(prefix + name)


FILES = ("config.toml", "weights.safetensors", "tokenizer.json", "log.jsonl", "state.safetensors", ".lock")


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run."""
    folder = tmp_path_factory.mktemp("counted") / "run"
    thereafter.train(text="the cat sat on the mat .\n" * 20, model="ngram", order=2, tokens="word", out=folder)
    return folder


@pytest.mark.parametrize("name", FILES)
def test_a_run_with_a_link_or_a_pipe_in_it_is_not_listed_and_hangs_nobody(counted: Path, tmp_path: Path, name: str):
    """Whoever waited for a pipe would be left behind by the test, which waits for half a minute."""
    runs, outside = tmp_path / "runs", tmp_path / "outside"
    shutil.copytree(counted, outside)
    for file in FILES:
        (outside / file).touch()
    (outside / "log.jsonl").write_text('{"event": "step", "step": 1, "loss": 2.0}\n', encoding="utf-8")
    shutil.copytree(outside, runs / "good")
    for sort in ("link", "pipe"):
        run = runs / sort
        shutil.copytree(outside, run)
        (run / name).unlink()
        if sort == "link":
            (run / name).symlink_to(outside / name)
        else:
            os.mkfifo(run / name)

    def look() -> None:
        shelf = Shelf(tmp_path / "ready", runs)
        seen.append([card.name for card in shelf.cards()])
        seen.append(list(UnfinishedRuns(runs).runs()))
        seen.append([job["name"] for job in Jobs(runs).all()])
        seen.append([curve(runs / run).model_dump()["step"] for run in ("good", "link", "pipe")])
        for run in ("link", "pipe"):
            with pytest.raises(NotThereError), shelf.borrow(f"runs:{run}"):
                pass
        seen.append([])

    seen: list[Any] = []
    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    looking.join(30)
    assert len(seen) == 5
    hidden: list[list[int]] = [[], []] if name == "log.jsonl" else [[1], [1]]
    assert seen == [["runs:good"], [], [], [[1], *hidden], []]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_answered_by_a_sentence(server: Served, name: str):
    for path, asked in [
        ("/api/next", {"models": [f"runs:{name}"], "prompt": "the"}),
        ("/api/trace", {"model": f"runs:{name}", "text": "the"}),
    ]:
        answer = httpx.post(server.address + path, json=asked)
        assert answer.status_code in (404, 422)
        assert answer.json()["error"]
        assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    "path",
    ["/page/../app.py", "/page/%2e%2e/app.py", "/page/..%2fapp.py", "//etc/passwd", "/page//etc/passwd", "/page/%00"],
)
def test_files_beside_the_page_are_not_served(server: Served, path: str):
    with socket.create_connection(("127.0.0.1", int(server.address.rpartition(":")[2]))) as line:
        line.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: line.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 404")
    assert b"import" not in answer


@pytest.mark.parametrize("name", ["../../evil", "/tmp/evil", "..", "a/b", "C:\\evil", "\x00", ".hidden", "😀", ""])
def test_a_training_stays_in_the_runs_folder(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch):
    from thereafter.studio import jobs

    orders: list[dict[str, Any]] = []

    class Quiet:
        alive, last_words = False, ""

        def __init__(self, order: dict[str, Any], hear: Any, ended: Any) -> None:
            orders.append(order)

    monkeypatch.setattr("thereafter.studio.queue.Child", Quiet)
    runs = tmp_path / "runs"
    begun = jobs.Jobs(runs)
    begun.begin(name, "ngram", text="a b c", source=None, tokens=None, options={})
    begun.close()
    run, text = Path(orders[0]["run"]), Path(orders[0]["source"])
    assert run.parent == runs
    assert run.resolve().parent == runs.resolve()
    assert text.resolve().parent == (runs / "texts").resolve()
    assert sorted(os.listdir(tmp_path)) == ["runs"]
