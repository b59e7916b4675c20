"""Download one file, complete and checked, or not at all.

The file is written as `NAME.part` beside its target and gets its real name only when its sha256 is right, so that no
reader ever sees an incomplete file. Only an interrupted transfer leaves its `.part`: the next call requests the
rest. Wrong content, too much content and a full disk leave nothing.

One process downloads a file at a time; a second one waits, and then finds the file. The lock is the operating
system's, on a file in the `locks` folder of the cache, so that a killed process leaves no lock. Where locks do not work
(some network folders) each process writes a `.part` of its own and cannot resume it.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.client import HTTPException, HTTPMessage, HTTPResponse
from pathlib import Path
from typing import IO
from urllib import request
from urllib.error import HTTPError, URLError
from uuid import uuid4

from thereafter.base import progress
from thereafter.base.storage import cache_folder, lock_now
from thereafter.errors import ChecksumError, DownloadError, StorageError

_BLOCK = 1 << 16


class _Failed(Exception):
    """The download from this address failed; another address may work."""


class _Mismatch(_Failed):
    """This address delivers other content than expected."""


class _Interrupted(_Failed):
    """The transfer stopped midway; the part that came is kept."""


class _Unresumable(_Failed):
    """The server will not continue where the partial file ends."""


def fetch(
    urls: str | Sequence[str],
    target: Path,
    *,
    sha256: str,
    size: int,
    label: str | None = None,
    timeout: float = 20.0,
    attempts: int = 3,
) -> Path:
    """Download `target` from the first of `urls` that delivers the content with this `sha256` and `size`.

    Both describe the uncompressed content; a target that ends in .gz is stored compressed and checked decompressed. An
    interrupted transfer is resumed up to `attempts` times per address. Never reads more than the expected size.
    Raises ChecksumError (wrong content), DownloadError (no content) or StorageError (the disk), each with what to do.
    """
    addresses = (urls,) if isinstance(urls, str) else tuple(urls)
    compressed = target.suffix == ".gz"
    failures: list[tuple[str, _Failed]] = []
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as trouble:
        raise storage_error(target.parent, trouble) from trouble
    with _alone(target) as alone:
        if target.is_file() and content_problem(target, sha256=sha256, size=size) is None:
            return target  # another process brought it while this one waited
        part = target.with_name(f"{target.name}.part" if alone else f"{target.name}.{uuid4().hex}.part")
        try:
            for url in addresses:
                try:
                    _download(url, part, label or target.name, sha256, size, compressed, timeout, attempts)
                except _Failed as failure:
                    failures.append((url, failure))
                    continue
                try:
                    os.replace(part, target)
                except OSError as trouble:
                    part.unlink(missing_ok=True)
                    raise storage_error(target, trouble) from trouble
                return target
        finally:
            if not alone:
                part.unlink(missing_ok=True)
    raise _explain(failures, target)


def content_problem(path: Path, *, sha256: str, size: int, compressed: bool | None = None) -> str | None:
    """What is wrong with the content of a file, as "got ..., expected ..."; None if it is right.

    A .gz (or `compressed=True`) is decompressed block by block, to one byte beyond the expected size and no further: a
    small file that would decompress to gigabytes does no harm.
    """
    expected = f"expected {size:,} bytes with sha256 {sha256}"
    digest, seen = hashlib.sha256(), 0
    try:
        with ExitStack() as stack:
            if path.suffix == ".gz" if compressed is None else compressed:
                file: IO[bytes] | gzip.GzipFile = stack.enter_context(gzip.open(path, "rb"))
                expected += " inside the gzip file"
            elif path.stat().st_size != size:
                return f"got {path.stat().st_size:,} bytes, {expected}"
            else:
                file = stack.enter_context(path.open("rb"))
            while block := file.read(min(_BLOCK, size + 1 - seen)):
                digest.update(block)
                seen += len(block)
    except (gzip.BadGzipFile, EOFError, zlib.error) as broken:
        return f"got damaged gzip data ({broken}), {expected}"
    except OSError as trouble:
        return f"got nothing ({trouble.strerror or trouble}), {expected}"
    if seen > size:
        return f"got more than {size:,} bytes, {expected}"
    if digest.hexdigest() != sha256:
        return f"got {seen:,} bytes with sha256 {digest.hexdigest()}, {expected}"
    return None


def _download(
    url: str, part: Path, label: str, sha256: str, size: int, compressed: bool, timeout: float, attempts: int
) -> None:
    """Fill `part` from one address until its content is right; raises a _Failed.

    It terminates: interruptions are counted, and content that came complete from this address is checked once.
    """
    # Deflate adds at most a few bytes per block to what it cannot compress; a hundredth is far above that.
    limit = size + size // 100 + 4096 if compressed else size
    cuts = 0
    while True:
        if _size(part) > limit:
            part.unlink()
        began_at = _size(part)
        if compressed or began_at < size:
            try:
                began_at = _transfer(url, part, label, limit, None if compressed else size, timeout)
            except _Interrupted:
                cuts += 1
                if cuts >= attempts:
                    raise
                continue
            except _Unresumable:
                pass  # the partial file is complete already, or no longer the beginning of the file: check it
        problem = content_problem(part, sha256=sha256, size=size, compressed=compressed)
        if problem is None:
            return
        part.unlink(missing_ok=True)
        if began_at == 0:
            raise _Mismatch(problem)
        # The older beginning may be wrong, so once more from the start.


def _transfer(url: str, part: Path, label: str, limit: int, size: int | None, timeout: float) -> int:
    """One request. Appends to `part` if the server continues it, else starts over; returns the offset it began at."""
    offset = _size(part)
    with _ask(url, offset, timeout) as response:
        if response.status == 206 and offset:
            if not (response.headers.get("Content-Range") or "").startswith(f"bytes {offset}-"):
                raise _Unresumable("the server continued in the wrong place")
        elif response.status == 200:
            offset = 0  # the server sends the whole file, whatever range was requested
        else:
            raise _Failed(f"the server answered {response.status}")
        encoding = response.headers.get("Content-Encoding") or "identity"
        if encoding.lower() != "identity":
            raise _Failed(f"the server sent the content encoded as {encoding}, which was not requested")
        length = response.length
        if length is not None and offset + length > limit:
            raise _Mismatch(f"got {offset + length:,} bytes announced, expected {limit:,} at most")
        total = offset + length if length is not None else size
        received = offset
        try:
            with (
                part.open("ab" if offset else "wb") as file,
                progress.task(f"downloading {label}", total, "B") as moved,
            ):
                moved(offset)
                for block in _blocks(response):
                    received += len(block)
                    if received > limit:
                        raise _Mismatch(f"got more than {limit:,} bytes, the maximum it can have")
                    file.write(block)
                    moved(len(block))
                if total is not None and received < total:
                    raise _Interrupted(f"the connection ended after {received:,} of {total:,} bytes")
        except _Interrupted:
            if _size(part) == 0:
                part.unlink(missing_ok=True)
            raise
        except _Mismatch:
            part.unlink(missing_ok=True)
            raise
        except OSError as trouble:  # the disk: errors of the network became _Interrupted in _blocks
            part.unlink(missing_ok=True)
            raise storage_error(part, trouble) from trouble
    return offset


def _ask(url: str, offset: int, timeout: float) -> HTTPResponse:
    """Open the response, asking for the bytes from `offset` on."""
    if not url.lower().startswith(("http://", "https://")):
        raise _Failed("only http and https addresses are followed")
    headers = {"User-Agent": "thereafter", "Accept-Encoding": "identity"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
    try:
        response = _opener().open(request.Request(url, headers=headers), timeout=timeout)
    except HTTPError as answer:
        answer.close()
        if answer.code == 416 and offset:
            raise _Unresumable("the server has nothing beyond the partial file") from None
        raise _Failed(f"the server answered {answer.code} {answer.reason}") from None
    except (OSError, HTTPException, ValueError) as trouble:  # ValueError: an invalid redirect
        reason = trouble.reason if isinstance(trouble, URLError) else trouble
        raise _Failed(f"no connection ({reason})") from None
    if not isinstance(response, HTTPResponse):
        raise _Failed("the answer did not come over HTTP")
    return response


class _Redirects(request.HTTPRedirectHandler):
    """Follows redirects, and closes the connection even if a redirect is invalid."""

    def http_error_302(
        self, req: request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage
    ) -> HTTPResponse | None:
        try:
            return super().http_error_302(req, fp, code, msg, headers)
        except (OSError, HTTPException, ValueError):
            fp.close()
            raise

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def _opener() -> request.OpenerDirector:
    """An opener for http and https alone, so that a redirect cannot lead to file: or ftp:."""
    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler,
        request.UnknownHandler,
        request.HTTPHandler,
        request.HTTPSHandler,
        request.HTTPDefaultErrorHandler,
        _Redirects,
        request.HTTPErrorProcessor,
    ):
        opener.add_handler(handler())
    return opener


def _blocks(response: HTTPResponse) -> Iterator[bytes]:
    while True:
        try:
            block = response.read1(_BLOCK)
        except (OSError, HTTPException) as cut:
            raise _Interrupted(f"the connection broke ({cut or type(cut).__name__})") from None
        if not block:
            return
        yield block


def _explain(failures: list[tuple[str, _Failed]], target: Path) -> DownloadError | ChecksumError:
    """One error for all addresses, with how to get the file by hand."""
    if not failures:
        return DownloadError(f"no address is known for {target.name}; try: place the file as {target}")
    failed = "; ".join(f"{url}: {failure}" for url, failure in failures)
    by_hand = (
        f"fetch {failures[0][0]} by hand and place it as {target}, "
        f"or as {target.parent.name}/{target.name} in a folder that THEREAFTER_DATA names"
    )
    if any(isinstance(failure, _Mismatch) for _, failure in failures):
        return ChecksumError(
            f"what was downloaded as {target.name} has the wrong content and was deleted ({failed}); try: {by_hand}"
        )
    return DownloadError(
        f"{target.name} could not be downloaded ({failed}); try again when the network is back, or {by_hand}"
    )


def storage_error(path: Path | str, trouble: OSError) -> StorageError:
    """The error for a file that cannot be written to the cache."""
    return StorageError(
        f"cannot write {path}: {trouble.strerror or trouble}; "
        "try: free some space, or set THEREAFTER_CACHE to a folder that can be written"
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


@contextmanager
def _alone(target: Path) -> Iterator[bool]:
    """Lock the download of `target`; yields False if the file system has no locks."""
    key = hashlib.sha256(os.fsencode(target.absolute())).hexdigest()[:24]
    try:
        folder = cache_folder() / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        handle = (folder / f"{key}.lock").open("ab")
    except OSError:
        yield False
        return
    with handle:  # closing it releases the lock
        yield _wait_for(handle, target.name)


def _wait_for(handle: IO[bytes], name: str) -> bool:
    noted = False
    while True:
        try:
            lock_now(handle)
            return True
        except (BlockingIOError, PermissionError):
            if not noted:
                progress.note(f"another process is downloading {name}; waiting for it")
                noted = True
            time.sleep(0.1)
        except OSError:
            return False
