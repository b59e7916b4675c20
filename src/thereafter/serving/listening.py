"""What a server stands on: where it listens, the token it demands from elsewhere, and which folders are its runs.

The name a server is called by is read as strictly as RFC 9112 writes it: a name or an address, and perhaps a port.

Browsers and servers that read it loosely, each in its own way, have let strangers in: "[::1]evil.com" begins like this
machine and is another one, "localhost:80@evil.com" too.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import quote

from thereafter.errors import OptionError

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


EVERYWHERE = ("0.0.0.0", "::")
TOKEN_VARIABLE = "THEREAFTER_TOKEN"
_SHORTEST_TOKEN, _LONGEST_FILE = 8, 10_000


def listen(host: str, ports: Sequence[int], hint: str = "try another --port, or none for a free one") -> socket.socket:
    """A socket that listens on the first of these ports that is free; 0 is any. `hint` ends the sentence if none is."""
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    failed: Exception | None = None
    for number in ports:
        # only where the protocol is named does asyncio set TCP_NODELAY on what it accepts; without it every answer on a
        # connection that is kept waits some 40 ms for the acknowledgement of the one before
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        if os.name == "posix":  # elsewhere this would let two programs share a port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, number))
            listening.listen(128)
            return listening
        except (OSError, OverflowError) as error:
            listening.close()
            failed = error
    raise OptionError(f"cannot listen on {host} port {ports[0]}: {failed}; {hint}")


def read_token(token: str | None, file: Path | None) -> str | None:
    """The token of the command line, of a file, or of the environment; None if nobody names one."""
    if file is None:
        return token if token is not None else os.environ.get(TOKEN_VARIABLE) or None
    if token is not None:
        raise OptionError("both --token and --token-file are set; expected one of them; try --token-file alone")
    try:
        with file.open(encoding="utf-8") as stream:
            lines = stream.read(_LONGEST_FILE).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"cannot read the token from {file}: {error}; expected a text file; try another") from error
    if len(lines) != 1 or not lines[0].strip():
        raise OptionError(f"{file} has {len(lines)} lines; expected one with the token; try openssl rand -hex 24")
    return lines[0].strip()


def token_for(host: str, token: str | None) -> str | None:
    """The token of a server on that host: where others can reach it one is made up if none is given."""
    if token is not None and len(token) < _SHORTEST_TOKEN:
        raise OptionError(
            f"the token has {len(token)} characters; expected at least {_SHORTEST_TOKEN}; try none: one is made up"
        )
    return secrets.token_urlsafe(24) if token is None and host not in LOOPBACK else token


def address_of(host: str, port: int, token: str | None = None) -> str:
    """What to open in a browser, or to give to a client."""
    name = socket.gethostname() if host in EVERYWHERE else host.strip("[]")
    name = f"[{name}]" if ":" in name else name
    return f"http://{name}:{port}/" + (f"?token={quote(token, safe='')}" if token else "")


def exit_if(busy: bool) -> None:
    """End this process where a thread is still at work: it cannot be stopped, and Python would wait for it."""
    if busy:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


CONFIG, WEIGHTS, LOG = "config.toml", "weights.safetensors", "log.jsonl"
_FILES = frozenset({CONFIG, WEIGHTS, LOG, "tokenizer.json", "state.safetensors", "log.csv", ".lock"})
_FOLDERS = frozenset({"tensorboard"})


def own_runs(folder: Path, needed: frozenset[str], *, only: str | None = None) -> list[Path]:
    """The folders in it, by name, that hold the `needed` files and nothing odd among the files of a run.

    With `only`, the one of exactly that name, where it is there.
    """
    try:
        names = sorted(name for name in os.listdir(folder) if only in (None, name))
    except OSError:
        return []
    return [folder / name for name in names if needed <= _files_of(folder / name)]


def is_own_run(path: Path) -> bool:
    """Whether a folder is a run of the user's own: a plain folder whose files are plain files.

    A run that somebody else made may hold a link in the place of its log or its tokenizer, which leads to any file of
    this machine, or a pipe, which hangs whoever opens it. Only names and kinds are looked at here; whoever opens a file
    looks again (`storage.open_plain`).
    """
    return CONFIG in _files_of(path)


def _files_of(path: Path) -> frozenset[str]:
    """The files of a run that a folder holds; none where the folder, or one of them, is something else."""
    try:
        if path.is_symlink():
            return frozenset()
        with os.scandir(path) as entries:
            kinds = {entry.name: entry for entry in entries if entry.name in _FILES | _FOLDERS}
        plain = all(
            entry.is_dir(follow_symlinks=False) if name in _FOLDERS else entry.is_file(follow_symlinks=False)
            for name, entry in kinds.items()
        )
    except (OSError, ValueError):
        return frozenset()
    return frozenset(kinds) if plain else frozenset()
