"""Who is let in, what a request may cost, and how a server ends: SIGTERM in the middle of a stream."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import openai
import pytest
from numpy.typing import NDArray

import thereafter
from refusals import assert_refused
from served_runs import ServedRuns, served_language_model, served_runs
from thereafter.api import LanguageModel
from thereafter.errors import OptionError
from thereafter.ngram.model import NgramModel
from thereafter.serving import listening
from thereafter.serving.engine import Engine
from thereafter.serving.engine_prompts import RowEvent
from thereafter.serving.server import start
from thereafter.serving.server.models import ServedModel, ServedModels
from thereafter.serving.server.protocol import LARGER_BODIES, CompletionRequest
from thereafter.serving.server.texts import ChoicePart, ChoiceWriter, read_prompts, wish_of
from waiting import wait_for

TOKEN = "a word that nobody guesses"
LSTM = Path(__file__).resolve().parents[1] / "old_runs" / "lstm" / "finished"
PAUSE = 0.01


@pytest.fixture(scope="module")
def slow() -> LanguageModel:
    """A model whose steps take some time."""
    lm = thereafter.train(text="the cat sat on the mat\n" * 3, tokens="char", order=3)
    model = lm.model
    assert isinstance(model, NgramModel)

    class Slow(NgramModel):
        def step(self, token_B: NDArray, state: object) -> object:
            time.sleep(PAUSE)
            return super().step(token_B, state)

    slowed = object.__new__(Slow)
    slowed.__dict__.update(model.__dict__)
    return LanguageModel(replace(lm.trained, model=slowed))


@pytest.fixture(scope="module")
def server(slow: LanguageModel) -> Iterator[ServedRuns]:
    with served_runs([served_language_model(slow, "slow")]) as one:
        yield one


@contextmanager
def asking(server: ServedRuns, key: str = "none", retries: int = 0) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.address}/v1", api_key=key, max_retries=retries, timeout=60) as client:
        yield client


def test_with_a_token_only_those_who_send_it_as_their_key_are_let_in(slow: LanguageModel):
    with served_runs([served_language_model(slow, "slow")], token=TOKEN) as server:
        with asking(server, TOKEN) as client:
            assert [model.id for model in client.models.list()] == ["slow"]
            assert client.completions.create(model="slow", prompt="the", max_tokens=2).usage.completion_tokens == 2
        with asking(server, "guessed") as client, pytest.raises(openai.AuthenticationError) as caught:
            client.completions.create(model="slow", prompt="the")
        assert caught.value.code == "invalid_api_key"
        assert "expected it as the API key" in caught.value.body["message"]
        for path in ("/health", "/metrics", "/openapi.json", "/v1/models"):
            assert httpx.get(server.address + path).status_code == 401


def test_without_a_token_it_listens_on_this_machine_alone():
    assert start.token_for("127.0.0.1", None) is None
    made = [start.token_for("0.0.0.0", None) for _ in "12"]
    assert made[0] != made[1]
    assert all(made)
    with assert_refused(OptionError, 8):
        start.token_for("127.0.0.1", "short")
    with start.listen("127.0.0.1", [0]) as door, assert_refused(OptionError, 0):
        start.serve([LSTM], port=door.getsockname()[1], say=lambda text: None)


def test_another_name_and_another_page_are_refused(server: ServedRuns):
    for headers in ({"Host": "example.com"}, {"Origin": "http://example.com"}):
        answer = httpx.post(f"{server.address}/v1/completions", json={"prompt": "a"}, headers=headers)
        assert answer.status_code == 403
        assert answer.json()["error"]["type"] == "invalid_request_error"


def line_to(server: ServedRuns, sent: bytes) -> socket.socket:
    line = socket.create_connection(("127.0.0.1", int(server.address.rpartition(":")[2])), 30)
    line.sendall(sent)
    return line


@pytest.mark.parametrize("path", ["/v1/completions", "/score", "/v1/chat/completions", "/health"])
def test_an_empty_chunked_body_is_answered(server: ServedRuns, path: str):
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    for sent in (head + b"0\r\n\r\n", head.replace(b"Transfer-Encoding: chunked", b"Content-Length: 0"), head):
        with line_to(server, sent) as line:
            if sent == head:
                line.sendall(b"0\r\n\r\n")
            assert line.recv(4096)[9:12] in (b"400", b"404", b"405")


def test_wrong_keys_slow_the_right_one_down_in_nothing(slow: LanguageModel):
    """All from one address, as behind a proxy; before, it stood in line with them or was sent away."""
    asked = b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n\r\n"
    with served_runs([served_language_model(slow, "slow")], token=TOKEN) as server, ExitStack() as stack:
        wrong = [stack.enter_context(line_to(server, asked % b"guess")) for _ in range(40)]
        for _ in range(20):
            with line_to(server, asked % TOKEN.encode()) as line:
                assert line.recv(4096)[9:12] == b"200"
        wrong[0].settimeout(30)
        assert wrong[0].recv(4096)[9:12] == b"401"
        unanswered = 0
        for line in wrong[1:]:
            line.setblocking(False)
            try:
                assert line.recv(4096)[9:12] in (b"401", b"429")
            except BlockingIOError:
                unanswered += 1
        assert unanswered  # they still wait


def test_a_body_has_limits(server: ServedRuns):
    with httpx.Client(base_url=server.address, timeout=60) as plain:
        most = LARGER_BODIES["/v1/completions"]
        assert plain.post("/v1/completions", json={"prompt": "a" * most}).status_code == 413
        long = plain.post("/v1/completions", json={"prompt": "a" * (most // 2), "max_tokens": 1})
        assert (long.status_code, long.json()["error"]["param"]) == (400, "prompt")
        assert plain.post("/v1/completions", json={"prompt": ["a"] * 129}).status_code == 400
        ids = plain.post("/v1/completions", json={"prompt": [1] * 50_000, "max_tokens": 1})
        assert ids.json()["usage"]["prompt_tokens"] == 50_000
        assert plain.post("/v1/completions", json={"prompt": [1] * 130_000}).status_code == 422
        for more, param in (
            ({"prompt": "a" * 200_000}, "prompt"),
            ({"prompt": "a" * 50_000, "n": 20}, "n"),
            ({"prompt": "a" * 50_000, "echo": True, "logprobs": 20}, "echo"),
            ({"n": 128, "max_tokens": 1024, "logprobs": 20}, "logprobs"),
            ({"prompt": ["a"] * 60, "n": 2, "max_tokens": 500, "logprobs": 16}, "logprobs"),
        ):
            refused = plain.post("/v1/completions", json={"max_tokens": 1, **more})
            assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)
        fields = plain.post("/v1/completions", json={f"field {number}": 1 for number in range(2_000)})
        assert "2000 fields were sent" in fields.json()["error"]["message"]
        assert plain.post("/v1/completions", content=b"a=1").status_code == 400


def test_a_full_queue_is_a_rate_limit(slow: LanguageModel):
    engine = Engine(slow.model, most_rows=1, most_waiting=1)
    with served_runs([ServedModel("slow", language_model=slow, engine=engine)]) as server, asking(server) as client:
        options = {"model": "slow", "prompt": "the", "max_tokens": 3_000}
        with client.completions.create(stream=True, **options):
            wait_for(lambda: engine.rows == 1)
            with client.completions.create(stream=True, **options):
                wait_for(lambda: engine.waiting == 1)
                with pytest.raises(openai.RateLimitError) as caught:
                    client.completions.create(**options)
        assert caught.value.response.headers["retry-after"] == "1"
        assert "try again in a moment" in caught.value.body["message"]
        with pytest.raises(openai.RateLimitError):  # all rows of a request, or none
            client.completions.create(n=5, **options)
        wait_for(lambda: engine.rows == engine.waiting == 0)


def test_an_answer_that_takes_too_long_is_broken_off(slow: LanguageModel):
    with served_runs([served_language_model(slow, "slow")], seconds=0.3) as server, asking(server) as client:
        options = {"model": "slow", "prompt": "the", "max_tokens": 3_000}
        with assert_refused(openai.InternalServerError, "0.3") as caught:
            client.completions.create(**options)
        assert caught.value.response.headers["x-should-retry"] == "false"
        with assert_refused(openai.APIError, "0.3"):
            list(client.completions.create(stream=True, **options))
        engine = server.models.get().engine
        assert engine is not None
        wait_for(lambda: engine.rows == 0)


def test_whoever_goes_away_frees_the_rows(server: ServedRuns):
    with asking(server) as client:
        engine = server.models.get().engine
        assert engine is not None
        options = {"model": "slow", "prompt": "the", "max_tokens": 30_000, "n": 3}
        stream = client.completions.create(stream=True, **options)
        next(stream)
        assert engine.rows == 3
        stream.close()
        wait_for(lambda: engine.rows == 0, 60)
        with pytest.raises(openai.APITimeoutError):
            client.with_options(timeout=0.3).completions.create(**options)
        wait_for(lambda: engine.rows == 0, 60)
        figures = httpx.get(f"{server.address}/metrics").text
        assert "thereafter_abandoned_requests_total 2" in figures


def test_at_the_end_a_short_answer_is_finished_and_a_long_one_hears_of_it(slow: LanguageModel):
    with served_runs([served_language_model(slow, "slow")], grace=1.0) as server, asking(server) as client:
        short = client.completions.create(model="slow", prompt="the", max_tokens=10, stream=True)
        long = client.completions.create(model="slow", prompt="the", max_tokens=30_000, stream=True)
        next(short)
        server.server.should_exit = True
        assert [chunk.choices[0].finish_reason for chunk in short][-1] == "length"
        with pytest.raises(openai.APIError, match="the server is ending"):
            list(long)


def test_a_second_ctrl_c_ends_at_once_what_still_has_time(slow: LanguageModel):
    with served_runs([served_language_model(slow, "slow")], grace=600.0) as server, asking(server) as client:
        stream = client.completions.create(model="slow", prompt="the", max_tokens=30_000, stream=True)
        next(stream)
        server.server.should_exit = True
        wait_for(lambda: "ending" in httpx.post(f"{server.address}/v1/completions", json={}).text)
        server.server.force_exit = True
        with pytest.raises(openai.APIError, match="the server is ending"):
            list(stream)


def test_sigterm_while_it_streams_ends_it_in_peace():
    """Also where bodies are half sent. Its token is in the environment, which other users cannot see."""
    process = subprocess.Popen(
        [sys.executable, "-m", "thereafter", "serve", str(LSTM), "--port", "0", "--grace", "0.2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env={**os.environ, "OMP_NUM_THREADS": "1", "THEREAFTER_TOKEN": TOKEN},
    )
    try:
        assert process.stdout is not None
        printed = process.stdout.readline()
        address = re.search(r"serving finished at (http://127\.0\.0\.1:(\d+)/v1)", printed)
        assert address, printed
        half = f"POST /score HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
        with ExitStack() as stack:
            lines = [stack.enter_context(socket.create_connection(("127.0.0.1", int(address[2])), 60)) for _ in "12345"]
            for line in lines:
                line.sendall(f"{half}Content-Length: 100\r\n\r\n{{".encode())
            assert httpx.get(f"{address[1]}/models", timeout=60).status_code == 401
            client = stack.enter_context(openai.OpenAI(base_url=address[1], api_key=TOKEN, max_retries=0, timeout=60))
            stream = client.completions.create(model="finished", prompt="a dog", max_tokens=32_000, stream=True)
            next(stream)
            process.send_signal(signal.SIGTERM)
            with pytest.raises(openai.APIError, match="the server is ending; try again"):
                list(stream)
            assert [line.recv(4096)[9:12] for line in lines] == [b"503"] * 5
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def test_the_token_is_read_from_the_command_line_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "token"
    file.write_text("of the file itself\n", encoding="utf-8")
    assert listening.read_token(None, None) is None
    monkeypatch.setenv("THEREAFTER_TOKEN", "of the environment")
    assert listening.read_token(None, None) == "of the environment"
    assert listening.read_token("of the command", None) == "of the command"
    assert listening.read_token(None, file) == "of the file itself"
    for content in (b"", b"\n", b"two\nlines\n", b"\xff\xfe"):
        file.write_bytes(content)
        with pytest.raises(OptionError, match=re.escape(str(file))):
            listening.read_token(None, file)
    for path in (tmp_path, tmp_path / "nowhere"):
        with assert_refused(OptionError, "token"):
            listening.read_token(None, path)
    with assert_refused(OptionError, "--token", "--token-file"):
        listening.read_token("of the command", file)


def test_tokens_that_wait_for_a_slow_reader_go_out_together(slow: LanguageModel):
    asked = CompletionRequest(prompt="the", max_tokens=9)
    (prompt,) = read_prompts(asked, wish_of(asked), slow)
    writer = ChoiceWriter(slow, prompt, wish_of(asked))
    tokens = slow.encode(" cat sat").tolist()
    for token in tokens[:5]:
        writer.take(RowEvent(token))
    assert writer.look() == ChoicePart(" cat ")
    assert writer.look().empty
    for token, end in zip(tokens[5:], ("", "", "length"), strict=True):
        writer.take(RowEvent(token, end=end))
    assert writer.look() == ChoicePart("sat", finish="length")


def test_all_bytes_of_a_character_before_a_stop_string_are_reported():
    lm = thereafter.train(text="aé\n" * 9, tokens="byte", order=2)
    asked = CompletionRequest(prompt="", max_tokens=9, stop=["\n"], logprobs=0)
    (prompt,) = read_prompts(asked, wish_of(asked), lm)
    writer = ChoiceWriter(lm, prompt, wish_of(asked))
    for token in lm.encode("aé\n").tolist():
        writer.take(RowEvent(token, log_prob=-1.0))
    part = writer.look()
    assert (part.text, part.finish) == ("aé", "stop")
    assert [(entry.text, entry.place) for entry in part.entries] == [("a", 0), (r"bytes:\xc3", 1), (r"bytes:\xa9", 1)]


def test_runs_have_names_of_their_own(slow: LanguageModel):
    with assert_refused(OptionError, "a"):
        ServedModels([ServedModel("a", language_model=slow), ServedModel("a", language_model=slow)])
    with assert_refused(OptionError):
        ServedModels([])
