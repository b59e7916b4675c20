"""What strangers do to a server of runs: no 500, no traceback, and its health is answered throughout.

schemathesis makes requests from the description, right ones and wrong ones; others are malformed by chance (`hostile`).
The server is a process of its own, so that whatever it prints is seen. `make test-slow` runs the whole numbers.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
import schemathesis
from hostile import ODD_TEXTS, PATHS, exchange, half_open, malformed, post, throw
from hypothesis import HealthCheck, settings
from ready_runs import unpack_runs
from victim import Victim, attacked

from breadth import core
from thereafter.serving.server.app import make_app
from thereafter.serving.server.models import ServedModel, ServedModels
from waiting import run_async

RUNS = ("letters", "lstm", "tagger", "sentiment", "attention", "sine-lstm")
OF_PATH = dict(zip(PATHS, ("letters", "lstm", "letters", "tagger", "sentiment", "attention", "sine-lstm"), strict=True))
FEW, SOME, MANY = 1, 4, 60
"""Requests made of the description of an address: in `make test`, `make test-all` and `make test-slow`."""
ANSWERED = ["2xx", "400", "404", "429"]
CONFIG = {"checks": {"positive_data_acceptance": {"expected-statuses": ANSWERED}}, "cache": {"enabled": False}}
schema = schemathesis.openapi.from_dict(
    make_app(ServedModels([ServedModel("nobody")])).openapi(), config=schemathesis.Config.from_dict(CONFIG)
)


@schema.hook
def map_body(context: Any, body: Any) -> Any:
    """Names of runs there are, in two of three requests, and answers of few tokens; what is wrong stays so."""
    if not isinstance(body, dict):
        return body
    changed = dict(body)
    number = len(repr(body))
    model = body.get("model")
    if number % 3 and (model is None or (isinstance(model, str) and len(model) <= 200)):
        changed["model"] = OF_PATH.get(context.operation.path, RUNS[number % len(RUNS)])
    for name, few, most in (("max_tokens", 16, 32_768), ("n", 4, 128), ("horizon", 100, 1_000)):
        given = body.get(name)
        if isinstance(given, int) and few < given <= most:
            changed[name] = few
    return changed


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    folder = tmp_path_factory.mktemp("victim")
    with attacked(unpack_runs(folder, *RUNS), folder) as server:
        yield server


def promise(path: str, method: str, requests: int) -> Any:
    """A test of one address. schemathesis would give the tests of all one id."""

    @schema.include(path=path, method=method).parametrize()
    @settings(max_examples=requests, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    def test(case: Any, victim: Victim) -> None:
        case.call_and_validate(base_url=victim.address, timeout=60)

    return test


for path, methods in schema.raw_schema["paths"].items():
    for method in methods:
        name = f"{method}_{'_'.join(re.findall(r'[a-z0-9]+', path))}"
        globals()[f"test_the_server_keeps_its_description_of_{name}"] = promise(path, method, FEW)
        globals()[f"test_the_server_takes_some_requests_to_{name}"] = pytest.mark.wide(promise(path, method, SOME))
        globals()[f"test_the_server_takes_many_requests_to_{name}"] = pytest.mark.slow(promise(path, method, MANY))


def test_the_description_of_the_server_is_valid_and_names_every_address():
    schema.validate()
    described = set(schema.raw_schema["paths"])
    assert {*PATHS, "/health", "/metrics", "/v1/models"} <= described


def assert_malformed_are_refused(victim: Victim, number: int, seed: int) -> None:
    draw = random.Random(seed)
    requests = [malformed(draw, (*RUNS, "nobody")) for _ in range(number)]
    with victim.watched() as waits:
        counts = run_async(throw(victim.port, requests))
    assert counts.total() == number
    assert counts["400"] > number / 3
    assert counts["200"] > 0
    print(f"{number} malformed requests: {dict(counts)}; health at most {max(waits):.2f} s")  # noqa: T201


def test_malformed_requests_are_refused_one_by_one(victim: Victim):
    assert_malformed_are_refused(victim, 20, seed=0)


@pytest.mark.wide
def test_two_hundred_malformed_requests(victim: Victim):
    assert_malformed_are_refused(victim, 200, seed=2)


@pytest.mark.slow
def test_ten_thousand_malformed_requests(victim: Victim):
    assert_malformed_are_refused(victim, 10_000, seed=1)


@pytest.mark.parametrize("path", core(PATHS, ["/v1/completions", "/tag"]))
def test_unicode_of_all_kinds_gets_an_answer_or_a_sentence(victim: Victim, path: str):
    """As characters, as escapes, as bytes that are no text."""
    name = {"/next": "prompt", "/v1/completions": "prompt", "/forecast": "table"}.get(path, "text")
    bodies = [
        json.dumps({"model": OF_PATH[path], name: text}, ensure_ascii=ascii_only).encode()
        for text in ODD_TEXTS
        for ascii_only in (True, False)
    ]
    for raw in (rb"\ud800", rb"\udc00\ud800", rb"a\udfff", b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80"):
        bodies.append(b'{"model": "%s", "%s": "%s"}' % (OF_PATH[path].encode(), name.encode(), raw))
        bodies.append(b'{"model": "%s", "%s": "a"}' % (raw, name.encode()))
        bodies.append(b'{"%s": "a"}' % raw)
    with victim.watched():
        counts = run_async(throw(victim.port, [post(path, body) for body in bodies], at_once=8))
    assert set(counts) <= {"200", "400", "404"}
    assert counts["200"] > 0 or path == "/forecast"  # none of them is a table


def long_prompt(victim: Victim, path: str, model: str, text: str, **more: Any) -> httpx.Response:
    name = {"/next": "prompt", "/v1/completions": "prompt", "/forecast": "table"}.get(path, "text")
    return httpx.post(f"{victim.address}{path}", json={"model": model, name: text, **more}, timeout=300)


@pytest.mark.wide
def test_prompts_of_ten_megabytes_are_refused_with_a_sentence(victim: Victim):
    text = "the teacher near the farmers 😀 " * 330_000
    assert len(text) > 10_000_000
    with victim.watched(), ThreadPoolExecutor(4) as pool:
        for answer in pool.map(lambda path: long_prompt(victim, path, OF_PATH[path], text), PATHS):
            assert answer.status_code == 413
            assert "bytes were sent" in answer.json()["error"]["message"]


@pytest.mark.wide
def test_a_million_spaces_are_read_or_refused(victim: Victim):
    """By a model of words, for which they are nothing; others refuse them or stay quick for the rest."""
    spaces = " " * 1_000_000
    with victim.watched():
        answer = long_prompt(victim, "/v1/completions", "lstm", spaces, max_tokens=2)
        assert answer.status_code in (200, 400), answer.text
        for path in PATHS[1:]:
            answer = long_prompt(victim, path, OF_PATH[path], spaces)
            assert answer.status_code in (400, 413), (path, answer.text)


@pytest.mark.slow
def test_a_million_spaces_are_a_million_letters(victim: Victim):
    """While a model reads them letter by letter, others are answered, by that model too."""
    spaces = " " * 1_000_000
    with victim.watched(), ThreadPoolExecutor(1) as pool:
        reading = pool.submit(long_prompt, victim, "/v1/completions", "letters", spaces, max_tokens=2)
        for _ in range(10):
            answer = long_prompt(victim, "/v1/completions", "letters", "the", max_tokens=2)
            assert answer.status_code == 200, answer.text
        answer = reading.result()
        assert answer.status_code in (200, 400, 503), answer.text


@pytest.mark.parametrize(
    "part", core([b"", b"POST /v1/completions HTTP/1.1\r\nHost: 127.0", b"body", b"stream"], [b"body"])
)
def test_two_hundred_half_open_connections_keep_nobody_out(victim: Victim, part: bytes):
    """They open, or begin a head, a body, or to read a stream, and do no more."""
    body = json.dumps({"model": "letters", "prompt": "the", "max_tokens": 200, "stream": True}).encode()
    sent = {b"body": post("/v1/completions", body)[:-5], b"stream": post("/v1/completions", body)}.get(part, part)
    lines = half_open(victim.port, 200, sent)
    try:
        with victim.watched():
            answer = long_prompt(victim, "/v1/completions", "lstm", "the", max_tokens=4)
            assert answer.status_code == 200, answer.text
    finally:
        for line in lines:
            line.close()
    victim.assert_well()


@pytest.mark.wide
def test_a_client_that_goes_away_takes_its_rows_with_it(victim: Victim):
    body = json.dumps({"model": "letters", "prompt": "the", "max_tokens": 32_000, "stream": True}).encode()

    async def leave() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", victim.port)
        writer.write(post("/v1/completions", body))
        assert (await reader.read(100)).startswith(b"HTTP/1.1 200")
        writer.transport.abort()

    async def visit() -> None:
        await asyncio.gather(*(leave() for _ in range(20)))
        for _ in range(600):
            figures = await exchange(
                victim.port, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            )
            if b'thereafter_rows{model="letters"} 0\n' in figures:
                return
            await asyncio.sleep(0.1)
        raise AssertionError("rows of clients that have gone are still in the engine")

    run_async(visit())
    victim.assert_well()
