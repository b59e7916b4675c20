"""Named corpora: found in the right order, checked, fetched, and honestly missed."""

from __future__ import annotations

import functools
import gzip
import hashlib
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from refusals import assert_refused
from thereafter.data import corpora
from thereafter.data.catalogue import CARDS, CorpusCard, CorpusFile
from thereafter.data.download import content_problem
from thereafter.errors import ChecksumError, CorpusError, DownloadError, UnknownNameError

MEMORY_TASKS = ["remember-first", "count-and-fire", "balanced-brackets"]
SENTENCES = ["agreement", "reflexives", "filler-gap"]
TEXTS = [*SENTENCES, "python-docs", "python-code", *MEMORY_TASKS]
SERIES = ["noisy-sine", "seasonal", "mackey-glass", "many-seasons", "wave-shapes"]
CLIPS = ["cluttered-glyphs", "cluttered-digits", "moving-glyph", "moving-glyphs", "moving-digit", "moving-digits"]
BUILT_IN = [*TEXTS, *SERIES, "shapes", "catch", *CLIPS]
CLASSIC = {
    "ptb": ["train", "valid", "test"],
    "wikitext-2": ["train", "valid", "test"],
    "tinyshakespeare": ["text"],
    "time-machine": ["text"],
    "war-and-peace": ["text"],
    "multi30k": [f"{part}.{side}" for part in ("train", "valid", "test") for side in ("en", "de", "fr")],
    "ud-english-ewt": ["train", "valid", "test"],
    "sst2": ["train", "valid", "test"],
    "eng-fra": ["pairs"],
    "ett": ["ETTh1", "ETTm1"],
    "mnist": ["train", "train.labels", "test", "test.labels"],
    "flickr8k": ["captions", "pictures", "train.names", "valid.names", "test.names"],
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test's own, and no data folder unless a test asks for one."""
    monkeypatch.setenv("THEREAFTER_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("THEREAFTER_DATA", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small corpus "mine" (train, valid) with no address, in a data folder; gives the corpus's folder."""
    folder = tmp_path / "data" / "mine"
    folder.mkdir(parents=True)
    texts = {"train": b"one two\n" * 50, "valid": b"two one\n"}
    files = tuple(CorpusFile(k, f"{k}.txt", hashlib.sha256(t).hexdigest(), len(t)) for k, t in texts.items())
    monkeypatch.setitem(CARDS, "mine", CorpusCard("mine", "A test", "word", "here", "free", files))
    for part, text in texts.items():
        (folder / f"{part}.txt").write_bytes(text)
    monkeypatch.setenv("THEREAFTER_DATA", str(tmp_path / "data"))
    return folder


@pytest.fixture
def served(mine: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The corpus "mine" with an address: a real server over its folder, which is no longer the data folder."""
    asked: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            asked.append(self.path)

    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "THEREAFTER_DATA"):
        monkeypatch.delenv(name, raising=False)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(mine))) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        known = CARDS["mine"]
        here = f"http://127.0.0.1:{server.server_address[1]}"
        files = tuple(replace(file, urls=(f"{here}/{file.filename}",)) for file in known.files)
        monkeypatch.setitem(CARDS, "mine", replace(known, files=files))
        yield asked
        server.shutdown()
        thread.join()


def content(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def test_the_names() -> None:
    assert corpora.names() == BUILT_IN + list(CLASSIC)
    for name, parts in CLASSIC.items():
        assert [file.part for file in corpora.card(name).files] == parts
    assert all(corpora.card(name).builtin for name in BUILT_IN)
    assert {name for name in corpora.names() if corpora.card(name).kind == "text"} == {
        *TEXTS, "ptb", "wikitext-2", "tinyshakespeare", "time-machine", "war-and-peace"
    }  # fmt: skip


def test_default_tokens_are_those_of_the_rule_book() -> None:
    text = {name: corpora.card(name).tokens for name in corpora.names() if corpora.card(name).kind == "text"}
    words = {name for name, tokens in text.items() if tokens == "word"}
    assert words == {*SENTENCES, "ptb", "wikitext-2", *MEMORY_TASKS}
    assert set(text.values()) == {"word", "prose"}


@pytest.mark.parametrize("function", [corpora.card, corpora.locate, corpora.status])
def test_a_wrong_name_gets_the_nearest(function: Any) -> None:
    with assert_refused(UnknownNameError, "wikitext2", "wikitext-2"):
        function("wikitext2")


def test_addresses_can_only_answer_with_these_bytes() -> None:
    for name in CLASSIC:
        for file in corpora.card(name).files:
            assert re.fullmatch("[0-9a-f]{64}", file.sha256)
            assert len({url.endswith(".gz") for url in file.urls}) <= 1  # one name in the cache for all of them
            for url in file.urls:
                assert re.match(r"https://raw\.githubusercontent\.com/[\w.-]+/[\w.-]+/[0-9a-f]{40}/", url)
                assert url.removesuffix(".gz").endswith("/" + file.filename)
            assert file.urls or corpora.card(name).by_hand


@pytest.mark.corpus("each: the sha256 and the size of every file")
@pytest.mark.parametrize("name", CLASSIC)
def test_every_classic_corpus_is_what_its_source_note_says(name: str, data: Path) -> None:
    """Two truths that know nothing of the catalogue: the table in SOURCE.md, and the bytes themselves."""
    found = corpora.locate(name, download=False)
    assert list(found.parts) == CLASSIC[name]
    assert str(data / name) in found.detail
    note = (data / name / "SOURCE.md").read_text()
    for file in corpora.card(name).files:
        path = found.parts[file.part]
        assert path.name.removesuffix(".gz") == file.filename
        row = next(line for line in note.splitlines() if line.startswith(f"| {path.name} |"))
        assert file.sha256 in row
        assert re.search(rf"\b{file.bytes}\b", row)
        text = content(path)
        assert hashlib.sha256(text).hexdigest() == file.sha256
        assert len(text) == file.bytes
    assert corpora.status(name) == f"found in {data / name}"


@pytest.mark.corpus("ptb: the lines of its parts")
def test_penn_treebank_has_its_lines(data: Path) -> None:
    parts = corpora.locate("ptb").parts
    assert {part: content(path).count(b"\n") for part, path in parts.items()} == {
        "train": 42068, "valid": 3370, "test": 3761
    }  # fmt: skip


def test_wikitext_is_read_through_gzip(corpora_folder: Path) -> None:
    found = corpora.locate("wikitext-2")
    assert found.tokens == "word"
    assert [path.name for path in found.parts.values()] == ["train.txt.gz", "valid.txt.gz", "test.txt.gz"]


def test_both_plain_and_gz_are_accepted(mine: Path) -> None:
    plain = corpora.locate("mine").parts
    assert plain == {"train": mine / "train.txt", "valid": mine / "valid.txt"}
    (mine / "train.txt.gz").write_bytes(gzip.compress((mine / "train.txt").read_bytes()))
    assert corpora.locate("mine").parts["train"] == mine / "train.txt"
    (mine / "train.txt").unlink()
    assert corpora.locate("mine").parts["train"] == mine / "train.txt.gz"


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("change", [lambda t: t[:-1] + b"!", lambda t: t + b"more", lambda t: t[:-5], lambda t: b""])
def test_a_tampered_file_is_refused(mine: Path, change: Any, packed: bool) -> None:
    bad = change((mine / "train.txt").read_bytes())
    path = mine / "train.txt"
    if packed:
        path.unlink()
        path, bad = mine / "train.txt.gz", gzip.compress(bad)
    path.write_bytes(bad)
    with pytest.raises(ChecksumError) as raised:
        corpora.locate("mine")
    message = str(raised.value)
    assert message.startswith(f"{path} is not the file that the corpus 'mine' is made of: got ")
    assert f"expected 400 bytes with sha256 {CARDS['mine'].files[0].sha256}" in message
    assert "try: " in message
    assert path.read_bytes() == bad  # the user's file is not touched


def test_a_damaged_gzip_file_is_refused(mine: Path) -> None:
    packed = gzip.compress((mine / "train.txt").read_bytes())
    (mine / "train.txt").unlink()
    for broken in (packed[:-3], b"not gzip at all", packed[:30] + b"\xff" + packed[31:], b""):
        (mine / "train.txt.gz").write_bytes(broken)
        with pytest.raises(ChecksumError, match="got "):
            corpora.locate("mine")


def test_what_is_missing_is_named_with_its_places(mine: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (mine / "valid.txt").unlink()
    with pytest.raises(CorpusError) as raised:
        corpora.locate("mine")
    message = str(raised.value)
    for word in (
        "valid.txt (8 bytes, sha256 ",
        str(mine),
        str(cache / "corpora" / "mine"),
        CARDS["mine"].files[1].sha256,
    ):
        assert word in message
    assert "train.txt" not in message
    monkeypatch.setenv("THEREAFTER_DATA", str(mine / "nowhere"))
    with pytest.raises(CorpusError, match="which is not a folder"):
        corpora.locate("mine")
    monkeypatch.delenv("THEREAFTER_DATA")
    with assert_refused(CorpusError, "THEREAFTER_DATA"):
        corpora.locate("mine")


def test_a_corpus_without_address_says_how_to_make_it(cache: Path) -> None:
    with assert_refused(CorpusError, "eng-fra", "fra.txt", "fra-eng.zip"):
        corpora.locate("eng-fra")
    assert corpora.status("eng-fra") == "place by hand: fra.txt"


def test_without_download_nothing_is_fetched(served: list[str], cache: Path) -> None:
    with assert_refused(CorpusError, "thereafter data get mine"):
        corpora.locate("mine", download=False)
    assert corpora.status("mine") == "can be downloaded (0.0 MB)"
    assert served == []
    assert not cache.exists()


def test_data_folder_then_cache_then_network(
    served: list[str], mine: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = corpora.locate("mine")
    kept = cache / "corpora" / "mine"
    assert fetched.parts == {"train": kept / "train.txt", "valid": kept / "valid.txt"}
    assert served == ["/train.txt", "/valid.txt"]
    assert corpora.status("mine") == f"in the cache, {kept}"
    assert corpora.locate("mine") == fetched
    monkeypatch.setenv("THEREAFTER_DATA", str(mine.parent))
    assert corpora.locate("mine").parts == {"train": mine / "train.txt", "valid": mine / "valid.txt"}
    assert corpora.status("mine") == f"found in {mine}"
    (mine / "valid.txt").rename(mine / "away.txt")
    mixed = corpora.locate("mine")
    assert mixed.parts == {"train": mine / "train.txt", "valid": kept / "valid.txt"}
    assert mixed.detail == f"found in {mine} and {kept}"
    shutil.rmtree(kept)
    assert corpora.status("mine") == f"1 of 2 files missing, can be downloaded (0.0 MB); found in {mine}"
    (mine / "train.txt").write_bytes(b"spoilt")  # in the user's own folder this is said, not worked around
    with assert_refused(ChecksumError, "train.txt", "mine"):
        corpora.locate("mine")
    assert len(served) == 2


def test_a_damaged_cache_is_fetched_again_and_a_damaged_server_is_not_believed(
    served: list[str], mine: Path, cache: Path
) -> None:
    good = corpora.locate("mine").parts["train"]
    text = good.read_bytes()
    good.write_bytes(b"spoilt")
    with assert_refused(ChecksumError, "train.txt", "mine"):
        corpora.locate("mine", download=False)
    assert corpora.locate("mine").parts["train"].read_bytes() == text
    good.unlink()
    (mine / "train.txt").write_bytes(b"spoilt")
    with assert_refused(ChecksumError, "train.txt"):
        corpora.locate("mine")
    (mine / "train.txt").unlink()
    with assert_refused(DownloadError, 404, "mine/train.txt", "THEREAFTER_DATA"):
        corpora.locate("mine")
    assert [path.name for path in good.parent.iterdir()] == ["valid.txt"]


def test_a_good_file_is_checked_once(mine: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def counting(path: Path, **more: Any) -> str | None:
        looked.append(path.name)
        return content_problem(path, **more)

    monkeypatch.setattr(corpora, "content_problem", counting)
    corpora.locate("mine")
    corpora.locate("mine")
    assert len(looked) == 4  # the files are seconds old: too fresh to be remembered
    monkeypatch.setattr(corpora, "_SETTLED_NS", 0)
    corpora.locate("mine")
    looked.clear()
    corpora.locate("mine")
    assert looked == []
    times = (mine / "train.txt").stat()
    (mine / "train.txt").write_bytes(b"two one\n" * 50)  # same size, and the old time put back
    os.utime(mine / "train.txt", ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(ChecksumError):
        corpora.locate("mine")
    (mine / "train.txt").write_bytes(b"one two\n" * 50)
    corpora.locate("mine")
    for spoilt in ("{", "[]", '{"a": 3}', json.dumps({str(mine / "train.txt"): "yes"})):
        (cache / "verified.json").write_text(spoilt)
        looked.clear()
        corpora.locate("mine")
        assert looked == ["train.txt", "valid.txt"]


def test_a_cache_that_cannot_be_written_is_no_reason_to_refuse(mine: Path, cache: Path) -> None:
    cache.write_text("a file where the folder should be")
    assert set(corpora.locate("mine").parts) == {"train", "valid"}


def test_listing_imports_nothing_heavy() -> None:
    code = (
        "import sys; from thereafter.data import corpora; [corpora.status(n) for n in corpora.names()]; "
        "sys.exit(bool({'torch', 'numba', 'tokenizers', 'thereafter.text.builtin'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_content_problem_never_inflates_beyond_the_promise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = tmp_path / "bomb.gz"
    bomb.write_bytes(gzip.compress(bytes(50_000_000)))
    read: list[int] = []
    original = gzip.GzipFile.read

    def counting(self: gzip.GzipFile, size: int | None = -1) -> bytes:
        block = original(self, size)
        read.append(len(block))
        return block

    monkeypatch.setattr(gzip.GzipFile, "read", counting)
    problem = content_problem(bomb, sha256=hashlib.sha256(bytes(1000)).hexdigest(), size=1000)
    assert problem is not None
    assert problem.startswith("got more than 1,000 bytes")
    assert sum(read) == 1001


def test_content_problem_says_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    promise: dict[str, Any] = {"sha256": hashlib.sha256(b"right").hexdigest(), "size": 5}
    assert "got nothing (No such file" in str(content_problem(path, **promise))
    path.write_bytes(b"right")
    assert content_problem(path, **promise) is None
    path.write_bytes(b"wrong")
    assert hashlib.sha256(b"wrong").hexdigest() in str(content_problem(path, **promise))
    path.write_bytes(b"longer")
    assert "got 6 bytes, expected 5 bytes" in str(content_problem(path, **promise))
    assert "damaged gzip" in str(content_problem(path, compressed=True, **promise))
