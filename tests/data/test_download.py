"""The downloader against a real HTTP server that misbehaves on demand."""

from __future__ import annotations

import gzip
import hashlib
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from refusals import assert_refused
from thereafter.base import progress
from thereafter.data import download
from thereafter.data.download import fetch
from thereafter.errors import ChecksumError, DownloadError, StorageError

CONTENT = random.Random(7).randbytes(300_000)
SHA = hashlib.sha256(CONTENT).hexdigest()


@dataclass
class Server:
    """What the server holds, how it shall behave at the next requests for a path, and what it did."""

    port: int = 0
    files: dict[str, bytes] = field(default_factory=lambda: {"/a.txt": CONTENT})
    orders: dict[str, list[str]] = field(default_factory=dict)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    """The test has ended: whoever has fallen silent need not wait any more."""

    def url(self, path: str = "/a.txt") -> str:
        return f"http://127.0.0.1:{self.port}{path}"


class Handler(BaseHTTPRequestHandler):
    stage: Server

    def log_message(self, format: str, *args: Any) -> None:
        return None

    def head(self, status: int, length: int | None = None, **more: str) -> None:
        self.send_response(status)
        if length is not None:
            self.send_header("Content-Length", str(length))
        for key, value in more.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()

    def body(self, content: bytes) -> None:
        self.stage.sent.append(len(content))  # before they leave, so that the count is right when they arrive
        self.wfile.write(content)

    def do_GET(self) -> None:
        stage, wanted = self.stage, self.headers.get("Range")
        stage.asked.append((self.path, wanted))
        queue = stage.orders.get(self.path, [])
        order, _, value = (queue.pop(0) if queue else "normal").partition(" ")
        content = stage.files.get(self.path, b"")
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and order != "ignore-range" else 0
        if order == "status" or (not content and order == "normal"):
            return self.head(int(value or 404), 0)
        if order == "redirect":
            return self.head(302, 0, Location=value)
        if start >= len(content):
            return self.head(416, 0)
        if order == "endless":
            self.head(200)
            for _ in range(2000):
                self.body(content[:50_000])
            return None
        if order in ("wrong", "page"):
            content = content[::-1] if order == "wrong" else b"<html>please log in</html>"
        status = 206 if start else 200
        more = {"Content_Range": f"bytes {start}-{len(content) - 1}/{len(content)}"} if start else {}
        if order == "wrong-place":
            more = {"Content_Range": f"bytes 0-{len(content) - 1}/{len(content)}"}
        if order == "encoded":
            more["Content_Encoding"] = "gzip"
        length = None if order == "cut-unannounced" else len(content) - start
        if order == "announce":
            length = int(value)
        self.head(status, length, **more)
        if order.startswith("cut"):
            return self.body(content[start : start + int(value)])
        if order == "stall":
            self.body(content[start : start + int(value)])
            self.stage.over.wait(120)
            return None
        if order == "slow":
            for at in range(start, len(content), 30_000):
                self.body(content[at : at + 30_000])
                time.sleep(0.03)
            return None
        return self.body(content[start:])


class Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        return None  # a client that hangs up is part of the play


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    stage = Server()
    with Quiet(("127.0.0.1", 0), type("Staged", (Handler,), {"stage": stage})) as running:
        stage.port = running.server_address[1]
        thread = threading.Thread(target=running.serve_forever, args=(0.02,))
        thread.start()
        yield stage
        stage.over.set()
        running.shutdown()
        thread.join()


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("THEREAFTER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "corpora" / "mine" / "a.txt"


def left(target: Path) -> list[str]:
    return sorted(path.name for path in target.parent.iterdir())


def get(url: str | list[str], target: Path, **more: Any) -> Path:
    return fetch(url, target, **{"sha256": SHA, "size": len(CONTENT), "timeout": 5.0, **more})


def test_a_good_file_arrives_whole_and_alone(server: Server, target: Path) -> None:
    assert get(server.url(), target) == target
    assert target.read_bytes() == CONTENT
    assert left(target) == ["a.txt"]
    assert get(server.url(), target) == target
    assert len(server.asked) == 1  # a right file is not fetched twice


@pytest.mark.parametrize("cut", ["cut", "cut-unannounced"])  # with and without a Content-Length
def test_a_cut_transfer_is_resumed_within_the_call(server: Server, target: Path, cut: str) -> None:
    server.orders["/a.txt"] = [f"{cut} 100000", f"{cut} 50000"]
    get(server.url(), target)
    assert target.read_bytes() == CONTENT
    assert [wanted for _, wanted in server.asked] == [None, "bytes=100000-", "bytes=150000-"]
    assert sum(server.sent) == len(CONTENT)  # no byte was sent twice


def test_an_interrupted_download_is_resumed_by_the_next_call(server: Server, target: Path) -> None:
    server.orders["/a.txt"] = ["cut 120000"]
    with assert_refused(DownloadError, 120000, 300000):
        get(server.url(), target, attempts=1)
    assert left(target) == ["a.txt.part"]
    get(server.url(), target)
    assert server.sent == [120_000, 180_000]
    assert target.read_bytes() == CONTENT
    assert left(target) == ["a.txt"]


def test_a_server_that_falls_silent_is_given_up_and_resumed(server: Server, target: Path) -> None:
    server.orders["/a.txt"] = ["stall 70000"]
    get(server.url(), target, timeout=1.5)
    assert server.asked[1][1] == "bytes=70000-"
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize(("order", "requests"), [("ignore-range", 2), ("wrong-place", 3), ("status 416", 3)])
def test_a_server_that_cannot_resume_starts_over(server: Server, target: Path, order: str, requests: int) -> None:
    server.orders["/a.txt"] = ["cut 120000", order]
    get(server.url(), target)
    assert target.read_bytes() == CONTENT
    assert [wanted for _, wanted in server.asked] == [None, "bytes=120000-", None][:requests]


def test_a_partial_file_with_nothing_beyond_it(server: Server, target: Path) -> None:
    """416: for a .gz the whole may be there already; else it is fetched afresh."""
    packed = gzip.compress(CONTENT)
    server.files["/a.txt.gz"] = packed
    target = target.with_name("a.txt.gz")
    target.parent.mkdir(parents=True)
    part = target.with_name("a.txt.gz.part")
    part.write_bytes(packed)
    get(server.url("/a.txt.gz"), target)
    assert server.sent == []
    target.unlink()
    part.write_bytes(bytes(len(packed)))
    get(server.url("/a.txt.gz"), target)
    assert target.read_bytes() == packed
    assert left(target) == ["a.txt.gz"]


@pytest.mark.parametrize("beginning", [bytes(1000), bytes(len(CONTENT)), bytes(len(CONTENT) + 5)])
def test_a_stale_partial_file_does_no_harm(server: Server, target: Path, beginning: bytes) -> None:
    target.parent.mkdir(parents=True)
    target.with_name("a.txt.part").write_bytes(beginning)
    get(server.url(), target, attempts=1)
    assert target.read_bytes() == CONTENT
    assert left(target) == ["a.txt"]


def test_wrong_bytes_leave_nothing_and_touch_nothing(server: Server, target: Path) -> None:
    server.orders["/a.txt"] = ["wrong", "wrong"]
    with pytest.raises(ChecksumError) as raised:
        get(server.url(), target)
    for word in (hashlib.sha256(CONTENT[::-1]).hexdigest(), SHA, server.url(), str(target), "THEREAFTER_DATA"):
        assert word in str(raised.value)
    assert left(target) == []
    target.write_bytes(b"old")
    with pytest.raises(ChecksumError):
        get(server.url(), target)
    assert target.read_bytes() == b"old"
    assert left(target) == ["a.txt"]


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ("endless", "more than 300,000 bytes"),
        ("announce 300001", "300,001 bytes announced, expected 300,000 at most"),
        ("page", "got 26 bytes, expected 300,000"),
    ],
)
def test_too_much_and_too_little_leave_nothing(server: Server, target: Path, order: str, said: str) -> None:
    server.orders["/a.txt"] = [order]
    with pytest.raises(ChecksumError, match=said):
        get(server.url(), target)
    assert left(target) == []
    time.sleep(0.1)
    assert sum(server.sent) < 50_000_000  # the endless one was hung up on, not listened to


@pytest.mark.parametrize("status", [404, 403, 500, 204])
def test_an_error_status(server: Server, target: Path, status: int) -> None:
    server.orders["/a.txt"] = [f"status {status}"]
    with assert_refused(DownloadError, status, "a.txt"):
        get(server.url(), target)
    assert left(target) == []


@pytest.mark.parametrize("where", ["file:///etc/hostname", "ftp://127.0.0.1/a", "http://[nonsense", "data:,hello"])
def test_redirects_lead_to_http_alone(server: Server, target: Path, where: str) -> None:
    server.orders["/a.txt"] = [f"redirect {where}"]
    with pytest.raises(DownloadError):
        get(server.url(), target)
    assert left(target) == []


def test_a_redirect_within_http_is_followed_and_circles_are_not(server: Server, target: Path) -> None:
    server.orders["/old.txt"] = [f"redirect {server.url()}"]
    get(server.url("/old.txt"), target)
    assert target.read_bytes() == CONTENT
    target.unlink()
    server.orders["/old.txt"] = [f"redirect {server.url('/old.txt')}"] * 30
    with pytest.raises(DownloadError):
        get(server.url("/old.txt"), target)


def test_no_server_and_other_schemes(server: Server, tmp_path: Path, target: Path) -> None:
    (tmp_path / "a.txt").write_bytes(CONTENT)
    with pytest.raises(DownloadError, match="only http and https"):
        get((tmp_path / "a.txt").as_uri(), target)
    with pytest.raises(DownloadError, match=r"no connection.*try again when the network is back"):
        get("http://127.0.0.1:9/a.txt", target)
    assert left(target) == []


def test_addresses_are_tried_in_order(server: Server, target: Path) -> None:
    server.files["/b.txt"] = CONTENT[::-1]
    get([server.url("/none.txt"), server.url("/b.txt"), server.url()], target)
    assert [path for path, _ in server.asked] == ["/none.txt", "/b.txt", "/a.txt"]
    assert target.read_bytes() == CONTENT
    assert left(target) == ["a.txt"]


def test_a_transfer_cut_at_one_address_goes_on_at_the_next(server: Server, target: Path) -> None:
    server.files["/b.txt"] = CONTENT
    server.orders["/a.txt"] = ["cut 200000"]
    get([server.url(), server.url("/b.txt")], target, attempts=1)
    assert server.sent == [200_000, 100_000]
    assert target.read_bytes() == CONTENT


def test_gzip_is_kept_and_checked_inflated(server: Server, target: Path) -> None:
    server.files["/a.txt.gz"] = gzip.compress(CONTENT)
    packed = target.with_name("a.txt.gz")
    server.orders["/a.txt.gz"] = ["cut 100000"]
    get(server.url("/a.txt.gz"), packed)
    assert gzip.decompress(packed.read_bytes()) == CONTENT
    assert sum(server.sent) == len(server.files["/a.txt.gz"])
    packed.unlink()
    for bad in (gzip.compress(CONTENT + b"x"), gzip.compress(CONTENT)[:-9], CONTENT, gzip.compress(bytes(10**8))):
        server.files["/a.txt.gz"] = bad
        with pytest.raises(ChecksumError):
            get(server.url("/a.txt.gz"), packed)
        assert left(packed) == []


def test_an_encoding_nobody_asked_for_is_refused(server: Server, target: Path) -> None:
    server.orders["/a.txt"] = ["encoded"]
    with pytest.raises(DownloadError, match="encoded as gzip"):
        get(server.url(), target)
    assert left(target) == []


def test_progress_adds_up_to_the_size(server: Server, target: Path) -> None:
    seen: list[tuple[str, float | None, str]] = []
    moved: list[list[float]] = []

    class Listener(progress.Silent):
        def begin(self, label: str, total: float | None, unit: str) -> Callable[[float], None]:
            seen.append((label, total, unit))
            moved.append([])
            return moved[-1].append

    server.orders["/a.txt"] = ["cut 100000"]
    with progress.reporting(Listener()):
        get(server.url(), target)
    assert seen == [("downloading a.txt", 300_000, "B")] * 2
    assert [sum(amounts) for amounts in moved] == [100_000, 300_000]


FETCH = """
import sys
from pathlib import Path
from thereafter.data.download import fetch

fetch(sys.argv[1], Path(sys.argv[2]), sha256=sys.argv[3], size=int(sys.argv[4]))
"""


def start(url: str, target: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", FETCH, url, str(target), SHA, str(len(CONTENT))], env=dict(os.environ)
    )


def test_three_processes_at_once_download_once(server: Server, target: Path) -> None:
    server.orders["/a.txt"] = ["slow"] * 3
    running = [start(server.url(), target) for _ in range(3)]
    assert [process.wait(120) for process in running] == [0, 0, 0]
    assert target.read_bytes() == CONTENT
    assert left(target) == ["a.txt"]
    assert sum(server.sent) == len(CONTENT)


def test_a_killed_process_leaves_no_lock_and_its_part_is_resumed(server: Server, target: Path) -> None:
    server.orders["/a.txt"] = ["stall 150000"]
    process = start(server.url(), target)
    part = target.with_name("a.txt.part")
    deadline = time.monotonic() + 120
    while not (part.exists() and part.stat().st_size >= 65_536):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.kill()
    process.wait()
    kept = part.stat().st_size
    assert left(target) == ["a.txt.part"]
    get(server.url(), target)
    assert server.asked[-1][1] == f"bytes={kept}-"
    assert target.read_bytes() == CONTENT


def test_without_locks_each_has_a_part_of_its_own(
    server: Server, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(handle: object) -> None:
        raise OSError("no locks here")

    monkeypatch.setattr(download, "lock_now", refuse)
    server.orders["/a.txt"] = ["cut 1000"]
    with pytest.raises(DownloadError):
        get(server.url(), target, attempts=1)
    assert left(target) == []
    get(server.url(), target)
    assert left(target) == ["a.txt"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_said_and_leaves_nothing(server: Server, target: Path) -> None:
    target.parent.mkdir(parents=True)
    target.with_name("a.txt.part").symlink_to("/dev/full")
    with assert_refused(StorageError, "No space left on device"):
        get(server.url(), target)
    assert left(target) == []


def test_a_folder_that_cannot_be_made(server: Server, tmp_path: Path, target: Path) -> None:
    (tmp_path / "cache").write_text("in the way")
    with assert_refused(StorageError, "THEREAFTER_CACHE"):
        get(server.url(), target)
