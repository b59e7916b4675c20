"""Requests as strangers and broken programs send them, made by chance from a seed, and sent as raw bytes."""

from __future__ import annotations

import asyncio
import json
import random
import re
import socket
from collections import Counter
from collections.abc import Sequence
from typing import Any

PATHS = ("/v1/completions", "/score", "/next", "/tag", "/classify", "/translate", "/forecast")
GETS = ("/health", "/metrics", "/v1/models", "/openapi.json")
ODD_TEXTS = (
    *("", " ", "\x00", "\x00" * 100, "\ufeff", "\ufffe", "\u2028\u2029\x85", "\r\n\r\n", "\t" * 50),
    *(
        "\u202eabc\u202c",
        "\u2066\u2067\u2068",
        "ﷺ" * 50,
        "e" + "\u0301" * 500,
        "👩🏽‍🚀" * 20,
        "🇩🇪" * 9,
        "\U0010ffff",
        "𝔘𝔫𝔦",
    ),
    *("<s>", "</s>", "<unk>", "${jndi:ldap://x}", "../../etc/passwd", "%00%s%n", "'; DROP TABLE runs;--", "{{7*7}}"),
)
ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 1.5, -0.0, 1e308, -1e308, 10**9, 2**63, -(2**63), 10**30, 0.1, 1e-320),
    *("", "5", "true", "lstm", "x" * 300, [], [[]], [0], [-1], [10**9], [1.5], [None], [True], ["a", 1], {}, {"a": {}}),
    *([[0], [1]], [["a"]], "\x00", {"include_usage": True}, ["\n"] * 20, {"5": 100}),
)
FIELDS = (
    *("model", "prompt", "text", "table", "max_tokens", "temperature", "top_p", "top_k", "min_p", "n", "echo", "stop"),
    *("logprobs", "seed", "stream", "stream_options", "user", "best_of", "suffix", "logit_bias", "presence_penalty"),
    *("frequency_penalty", "repetition_penalty", "k", "tokens", "beam", "length_penalty", "horizon", "samples", "odd"),
)


def post(path: str, body: bytes, *headers: str) -> bytes:
    """A whole request as bytes."""
    lines = ("Host: 127.0.0.1", "Content-Type: application/json", f"Content-Length: {len(body)}", "Connection: close")
    return "\r\n".join([f"POST {path} HTTP/1.1", *lines, *headers, "", ""]).encode("utf-8", "surrogateescape") + body


def malformed(draw: random.Random, models: Sequence[str]) -> bytes:
    """A request that is wrong in one way or another; some turn out to be right."""
    kind = draw.choice((broken_json, broken_json, wrong_fields, wrong_fields, wrong_fields, broken_http, noise))
    return kind(draw, models)


def right_body(draw: random.Random, models: Sequence[str]) -> dict[str, Any]:
    text = draw.choice(("the teacher near the", "a b c", draw.choice(ODD_TEXTS)))
    body = {"model": draw.choice(models), draw.choice(("prompt", "prompt", "text", "table")): text, "max_tokens": 4}
    return body | ({"stream": True} if draw.random() < 0.3 else {})


def broken_json(draw: random.Random, models: Sequence[str]) -> bytes:
    """JSON that was cut, doubled or hit by chance; escapes that are no characters."""
    body = bytearray(json.dumps(right_body(draw, models), ensure_ascii=draw.random() < 0.5).encode())
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(body))
        way = draw.randrange(6)
        if way == 0:
            del body[at:]
        elif way == 1:
            body[at : at + 1] = bytes([draw.randrange(256)])
        elif way == 2:
            body[at:at] = draw.choice(
                (b"\\ud800", b"\\udfff\\ud800", b"\\u0000", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\\")
            )
        elif way == 3:
            body[at:at] = draw.choice((b"{", b"[", b"]", b"}", b'"', b",", b":", b"NaN", b"Infinity", b"1e999", b"//"))
        elif way == 4:
            body += body[:at]
        else:
            del body[at : at + draw.randint(1, 5)]
        if not body:
            break
    return post(draw.choice(PATHS), bytes(body))


def wrong_fields(draw: random.Random, models: Sequence[str]) -> bytes:
    """Fields of the wrong kind, too many of them, unknown ones."""
    body = right_body(draw, models)
    for _ in range(draw.randint(1, 3)):
        body[draw.choice(FIELDS)] = draw.choice(
            (draw.choice(ODD_VALUES), draw.choice(ODD_VALUES), draw.choice(ODD_TEXTS))
        )
    given = body.get("max_tokens")
    if isinstance(given, int) and 64 < given <= 1 << 15:
        body["max_tokens"] = 64
    whole: Any = draw.choice((body, body, body, body, [body], None, "text", 5, [], True))
    return post(draw.choice(PATHS), json.dumps(whole).encode())


def broken_http(draw: random.Random, models: Sequence[str]) -> bytes:
    """Wrong methods, addresses, headers and lengths."""
    body = json.dumps(right_body(draw, models)).encode()
    path = draw.choice((*PATHS, *GETS))
    odd_path = draw.choice(("/", "//", "/..%2f..%2fetc/passwd", "/v1", "/%00", "/v1/models/%ff", "*", "/" + "a" * 5000))
    host, close = "Host: 127.0.0.1", "Connection: close"
    heads = (
        [f"{draw.choice(('GET', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'HEAD', 'TRACE'))} {path} HTTP/1.1", host, close],
        [f"POST {odd_path} HTTP/1.1", host, close, f"Content-Length: {len(body)}"],
        [f"GET {odd_path} HTTP/1.1", host, close],
        [f"GET {path}?{'a=b&' * draw.randint(1, 500)} HTTP/1.1", host, close],
        [f"POST {path} HTTP/1.1", host, close, "Content-Length: -5"],
        [f"POST {path} HTTP/1.1", host, close, "Content-Length: 5", "Content-Length: 6"],
        [f"POST {path} HTTP/1.1", host, close, "Content-Length: 99999999999999999999999"],
        [f"POST {path} HTTP/1.1", host, close, "Transfer-Encoding: chunked"],
        [f"POST {path} HTTP/1.1", close, f"Content-Length: {len(body)}"],
        [f"POST {path} HTTP/1.1", "Host: evil.example", close, f"Content-Length: {len(body)}"],
        [f"POST {path} HTTP/1.1", host, "Origin: https://evil.example", close, f"Content-Length: {len(body)}"],
        [f"POST {path} HTTP/1.1", host, close, f"Content-Length: {len(body)}", "Content-Type: text/plain"],
        [f"POST {path} HTTP/1.1", host, close, f"Content-Length: {len(body)}", "Content-Encoding: gzip"],
        [f"POST {path} HTTP/1.1", host, close, f"Content-Length: {len(body)}", "Expect: 100-continue"],
        [f"GET {path} HTTP/1.1", host, "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: x"],
        [f"GET {path} HTTP/9.9", host, close],
        [f"GET {path} HTTP/1.1", host, close, f"X: {'y' * 70_000}"],
        [f"GET {path} HTTP/1.1", host, close, *(f"X-{number}: y" for number in range(300))],
    )
    return "\r\n".join([*draw.choice(heads), "", ""]).encode() + body


def noise(draw: random.Random, models: Sequence[str]) -> bytes:
    """Bytes that are no request at all."""
    starts = (
        b"",
        b"\x16\x03\x01\x02\x00\x01",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET\r\n",
        b"\r\n" * 20,
        b"POST / ",
    )
    return draw.choice(starts) + draw.randbytes(draw.randint(1, 300)) + b"\r\n\r\n"


async def throw(port: int, requests: Sequence[bytes], at_once: int = 24) -> Counter[str]:
    """Send requests, each on a connection of its own: what came back, by status. Every one is answered or cut off."""
    counts: Counter[str] = Counter()
    waiting = iter(requests)

    async def thrower() -> None:
        for request in waiting:
            answer = (await exchange(port, request)).removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
            status = (
                answer[9:12].decode("latin-1") if answer.startswith(b"HTTP/1.1 ") else "cut off" if not answer else "?"
            )
            counts[status] += 1
            assert b"Traceback" not in answer, request[:500]
            assert status == "cut off" or status.isdigit(), (request[:500], answer[:500])
            assert not status.startswith("5"), (request[:2000], answer[:1000])
            head, _, body = answer.partition(b"\r\n\r\n")
            if b"content-type: application/json" in head and status.startswith("4") and body:  # that of HEAD is empty
                facts, _ = json.JSONDecoder().raw_decode(body.decode())
                assert facts["error"]["message"], request[:500]

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(thrower())
    return counts


async def exchange(port: int, request: bytes, seconds: float = 60.0) -> bytes:
    """The first answer of a server to some bytes; b"" where it only cuts the line."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = b""
    try:
        async with asyncio.timeout(seconds):
            try:
                writer.write(request)
                await writer.drain()
                while not is_whole(answer) and (piece := await reader.read(1 << 16)):
                    answer += piece
            except ConnectionError:
                pass
        return answer
    except TimeoutError as error:
        raise AssertionError(f"no answer to {request[:500]!r}, only {answer[:500]!r}") from error
    finally:
        writer.close()


def is_whole(answer: bytes) -> bool:
    """Whether an answer is here to its end, as far as it says where that is."""
    head, _, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    if length:
        return len(body) >= int(length[1])
    return b"transfer-encoding: chunked" in head and answer.endswith(b"0\r\n\r\n")


def half_open(port: int, number: int, sent: bytes) -> list[socket.socket]:
    """Connections that begin a request and say no more."""
    lines = []
    for _ in range(number):
        line = socket.create_connection(("127.0.0.1", port), 30)
        line.sendall(sent)
        lines.append(line)
    return lines
