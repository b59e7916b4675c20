"""The verb `generate` over the wire: whole, and as a text that grows on a socket while others are answered."""

from __future__ import annotations

import json
import shutil
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from websockets.sync.client import connect

import thereafter
from thereafter.studio.panels.generation import PACE, ROOM, GrowingText
from waiting import wait_for


class Line:
    """A socket as a page uses it."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket

    def say(self, **message: Any) -> None:
        self._socket.send(json.dumps(message))

    def raw(self, message: str | bytes) -> None:
        self._socket.send(message)

    def hear(self, seconds: float = 60.0) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._socket.recv(timeout=seconds))
        return found

    def silent(self, seconds: float = 0.3) -> bool:
        try:
            self.hear(seconds)
        except TimeoutError:
            return True
        return False

    def text(self, tokens: int) -> str:
        """The text of so many pieces, which must be all that comes."""
        pieces = [self.hear() for _ in range(tokens)]
        assert all("text" in piece for piece in pieces), pieces
        return "".join(piece["text"] for piece in pieces)


@contextmanager
def opened(server: Any) -> Iterator[Line]:
    with connect(server.address.replace("http", "ws") + "/api/generating") as socket:
        yield Line(socket)


def post(server: Any, path: str, **asked: Any) -> tuple[int, Any]:
    request = urllib.request.Request(
        server.address + path, json.dumps(asked).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


START = {"do": "start", "model": "ready:letters", "prompt": "def ", "temperature": 0.8, "top_k": 20, "seed": 5}


@pytest.fixture(scope="module")
def letters(server: Any) -> Any:
    return thereafter.load(server.studio.shelf.place("ready:letters"))


def test_a_whole_text_is_what_the_library_says(server: Any, letters: Any):
    drawn = {"temperature": 0.8, "top_k": 20, "seed": 5}
    status, answer = post(server, "/api/generate", model="ready:letters", prompt="🙂 def ", max_new_tokens=101, **drawn)
    assert status == 200
    assert answer == {"text": letters.generate("🙂 def ", 101, **drawn), "tokens": 101}


@pytest.mark.parametrize(
    ("asked", "status", "sentence"),
    [
        ({"temperature": -1.0}, 422, "temperature: "),
        ({"temperature": float("nan")}, 422, "temperature: "),
        ({"top_k": 0}, 422, "top_k: "),
        ({"max_new_tokens": 0}, 422, "max_new_tokens: "),
        ({"seed": -1}, 422, "seed: "),
        ({"model": "ready:none"}, 404, "there is no model 'ready:none' (any more); pick one of the list"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_a_sentence(server: Any, asked: dict, status: int, sentence: str):
    got, answer = post(server, "/api/generate", **{"model": "ready:ngram"} | asked)
    assert got == status
    assert answer["error"].startswith(sentence)


def test_the_text_on_the_socket_is_what_the_library_says(server: Any, letters: Any):
    with opened(server) as line:
        line.say(**START, tokens=0)
        first = line.hear()
        assert (first["number"], first["text"]) == (0, "")
        assert [one["text"] for one in first["top"]] == [word for word, _ in letters.next("def ", 10)]
        line.say(do="more", tokens=30)
        assert "def " + line.text(30) == letters.generate("def ", 30, temperature=0.8, top_k=20, seed=5)


def test_no_more_is_written_than_the_page_has_room_for(server: Any):
    with opened(server) as line:
        line.say(**START, tokens=7)
        assert [line.hear()["number"] for _ in range(8)] == list(range(8))
        assert line.silent()
        begun = time.monotonic()  # before it is asked for: a pause of this thread must not look like haste
        for _ in range(5):
            line.say(do="more", tokens=ROOM)  # whoever asks for more than there is room for gets no more than that
        numbers = [line.hear()["number"] for _ in range(ROOM)]
        assert numbers == list(range(8, 8 + ROOM))
        assert ROOM / (time.monotonic() - begun) < 1.3 * PACE


def test_settings_change_a_text_while_it_is_written(server: Any, letters: Any):
    with opened(server) as line:
        line.say(**START, tokens=20)
        line.hear()
        before = "def " + line.text(20)
        line.say(do="set", temperature=0.0)
        line.say(do="more", tokens=20)
        assert before + line.text(20) == letters.generate(before, 20, temperature=0)


def test_pause_resume_stop_and_begin_again(server: Any, letters: Any):
    whole = letters.generate("def ", 60, temperature=0.8, top_k=20, seed=5)
    with opened(server) as line:
        line.say(**START, tokens=10)
        line.hear()
        said = "def " + line.text(10)
        line.say(do="pause")
        line.say(do="more", tokens=10)
        assert line.silent()
        line.say(do="resume")
        said += line.text(10)
        line.say(do="stop")
        assert line.hear() == {"end": "stopped"}
        line.say(do="more", tokens=10)
        assert line.silent()
        assert whole.startswith(said)
        line.say(**START, tokens=5)
        assert line.hear()["number"] == 0
        assert whole.startswith("def " + line.text(5))


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ("", "the message: "),
        ("{", "the message: "),
        (b"\xff\x00", "the message: "),
        ("[]", "the message: "),
        ('{"do": "dance"}', "the message: "),
        ('{"do": "more", "tokens": 1e9}', "more.tokens: "),
        ('{"do": "set", "temperature": "hot"}', "set.temperature: "),
        ('{"do": "start", "model": "../../etc"}', "start.model: "),
        ('{"do": "start", "model": "ready:ngram", "more": 1}', "start.more: "),
        ('{"do": "start", "model": "ready:none"}', "there is no model 'ready:none'"),
    ],
)
def test_what_is_wrong_gets_a_sentence_and_the_socket_stays_usable(server: Any, message: Any, sentence: str):
    with opened(server) as line:
        line.raw(message)
        assert line.hear()["error"].startswith(sentence)
        line.say(do="start", model="ready:ngram", prompt="the", tokens=3)
        assert [line.hear()["number"] for _ in range(4)] == [0, 1, 2, 3]


def test_a_model_that_is_deleted_meanwhile_ends_the_text_with_a_sentence(server: Any):
    run = server.runs / "leaving"
    shutil.copytree(server.studio.shelf.place("ready:lstm"), run)
    with opened(server) as line:
        line.say(do="start", model="runs:leaving", prompt="the", tokens=2)
        assert [line.hear()["number"] for _ in range(3)] == [0, 1, 2]
        shutil.rmtree(run)
        line.say(do="more", tokens=2)
        assert line.hear() == {"error": "there is no model 'runs:leaving' (any more); pick one of the list"}


def test_a_model_that_is_trained_on_meanwhile_is_not_mixed_with_the_old_one(server: Any):
    run = server.runs / "going-on"
    shutil.copytree(server.studio.shelf.place("ready:lstm"), run)
    with opened(server) as line:
        line.say(do="start", model="runs:going-on", prompt="the", tokens=1)
        assert [line.hear()["number"] for _ in range(2)] == [0, 1]
        shutil.copy(server.studio.shelf.place("ready:rnn") / "weights.safetensors", run)
        shutil.copy(server.studio.shelf.place("ready:rnn") / "config.toml", run)
        line.say(do="more", tokens=1)
        assert "has been trained on meanwhile" in line.hear()["error"]
    shutil.rmtree(run)


def test_two_pages_write_at_once_and_fifty_questions_are_answered_meanwhile(server: Any, letters: Any):
    texts: dict[int, str] = {}

    def write(seed: int) -> None:
        with opened(server) as line:
            line.say(**START | {"seed": seed}, tokens=ROOM)
            line.hear()
            texts[seed] = "def " + line.text(ROOM)
            line.say(do="more", tokens=ROOM)
            texts[seed] += line.text(ROOM)

    pages = [threading.Thread(target=write, args=(seed,)) for seed in (1, 2)]
    for page in pages:
        page.start()
    with ThreadPoolExecutor(50) as pool:
        asked = [pool.submit(post, server, "/api/next", models=["ready:letters"], prompt="de", k=3) for _ in range(50)]
        answers = [one.result() for one in asked]
    for page in pages:
        page.join(120)
    expected = [text for text, _ in letters.next("de", 3)]
    assert all(status == 200 for status, _ in answers)
    assert all([one["text"] for one in answer[0]["candidates"]] == expected for _, answer in answers)
    drawn = {"temperature": 0.8, "top_k": 20}
    assert texts == {seed: letters.generate("def ", 2 * ROOM, seed=seed, **drawn) for seed in (1, 2)}


def test_a_closed_socket_ends_the_work_and_a_slow_model_holds_nobody_up(server: Any, monkeypatch: pytest.MonkeyPatch):
    steps = 0
    answered = threading.Event()
    quick = GrowingText.step

    def slow(self: GrowingText) -> str:
        nonlocal steps
        steps += 1
        assert answered.wait(60), "the status waited for the model"
        time.sleep(0.1)
        return quick(self)

    monkeypatch.setattr(GrowingText, "step", slow)
    with opened(server) as line:
        line.say(**START, tokens=ROOM)
        line.hear()
        wait_for(lambda: steps > 0)
        with urllib.request.urlopen(server.address + "/api/status", timeout=60) as answer:
            assert answer.status == 200
        answered.set()
        line.hear()
    before = -1
    while before != steps:  # the slice that was begun is finished, no other follows
        before = steps
        time.sleep(0.5)
    assert 0 < steps < ROOM / 2
