"""The name a server is called by, read as strictly as RFC 9112 writes it: a name or an address, and perhaps a port.

Browsers and servers that read it loosely, each in its own way, have let strangers in: "[::1]evil.com" begins like this
machine and is another one, "localhost:80@evil.com" too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")
_HOST = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*)(?::([0-9]{1,5}))?", re.ASCII)
_LONGEST, _LAST_PORT = 253, 65_535


def values_of(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[str]:
    """What a header says, each time it is there."""
    return [value.decode("latin-1") for key, value in headers if key.lower() == name]


def split_host(hosts: list[str]) -> tuple[str, str] | None:
    """The name and the whole of a Host header, in small letters; None where there is not exactly one that is right."""
    if len(hosts) != 1:
        return None
    host = hosts[0].strip(" \t").lower()
    match = _HOST.fullmatch(host)
    if match is None or len(match[1]) > _LONGEST or not 1 <= int(match[2] or 1) <= _LAST_PORT:
        return None
    return match[1], host
