"""What a source is, and what it is not."""

from __future__ import annotations

import gzip
import io
import os
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import assert_refused
from thereafter.base.progress import reporting
from thereafter.data import files
from thereafter.errors import EncodingError, OptionError, SourceError, StorageError
from thereafter.text.sources import Source, Texts, resolve


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "book.txt").write_bytes(b"one\r\ntwo")
    (tmp_path / "more.txt.gz").write_bytes(gzip.compress(b"three\n"))
    (tmp_path / "README.md").write_text("# notes\n")
    (tmp_path / ".hidden.txt").write_text("no")
    (tmp_path / "empty.txt").write_text("")
    below = tmp_path / "below"
    below.mkdir()
    (below / "a.text").write_text("four")
    return tmp_path


def only(texts: Texts) -> Source:
    assert list(texts.parts) == ["text"]
    return texts.parts["text"]


def test_a_path_is_read_again_and_again(folder: Path) -> None:
    for spelled in ("book.txt", folder / "book.txt", ["book.txt"]):
        texts = resolve(spelled)
        source = only(texts)
        assert [source.text(), source.text()] == ["one\ntwo"] * 2
        assert (texts.tokens, source.size) == ("prose", 8)
    assert "1 file, 8 bytes" in resolve("book.txt").detail


def test_several_files_keep_their_lines_apart(folder: Path) -> None:
    assert only(resolve(["book.txt", "empty.txt", "more.txt.gz", "book.txt"])).text() == "one\ntwo\nthree\none\ntwo"


def test_a_folder_gives_its_text_files_in_order(folder: Path) -> None:
    source = only(resolve("."))
    assert [path.name for path in source.files] == ["a.text", "book.txt", "empty.txt", "more.txt.gz"]
    assert source.text() == "four\none\ntwo\nthree\n"
    notes = folder / "notes"
    notes.mkdir()
    with assert_refused(SourceError, notes):
        resolve(notes)
    (notes / "b.md").write_text("b\n")
    (notes / "a.md").write_text("a\n")
    assert only(resolve(notes)).text() == "a\nb\n"


def test_a_glob(folder: Path) -> None:
    assert only(resolve("*.txt*")).text() == "one\ntwo\nthree\n"
    assert only(resolve("**/*.text")).text() == "four"
    (folder / "odd[1].txt").write_text("odd")
    assert only(resolve("odd[1].txt")).text() == "odd"
    with assert_refused(SourceError, "*.csv"):
        resolve("*.csv")


class Piped(io.TextIOWrapper):
    pass


def test_standard_input_is_kept_for_a_second_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Piped(io.BytesIO(gzip.compress("né\n".encode()))))
    source = only(resolve("-"))
    assert [source.text(), source.text()] == ["né\n"] * 2
    path = source.files[0]
    del source
    assert not path.exists()
    monkeypatch.setattr(sys, "stdin", io.StringIO("plain"))
    assert only(resolve("-")).text() == "plain"
    with assert_refused(SourceError):
        resolve(["-", "book.txt"])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_a_pipe_can_be_read_twice(folder: Path) -> None:
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: Path("pipe").write_text("flow"))
    writer.start()
    source = only(resolve(["pipe", "book.txt"]))
    writer.join()
    assert [source.text(), source.text()] == ["flow\none\ntwo"] * 2


def test_no_room_for_the_copy_of_a_stream(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(files.tempfile, "tempdir", str(tmp_path / "absent"))
    monkeypatch.setattr(sys, "stdin", Piped(io.BytesIO(b"x")))
    with assert_refused(StorageError, "TMPDIR"):
        resolve("-")


def test_a_string_is_never_taken_as_text(folder: Path) -> None:
    for got in ("the cat sat on the mat", "", "x" * 5000, "a\0b", "/", "no/such/folder/book.txt", "~nobody-here/x"):
        with pytest.raises(SourceError):
            resolve(got + "?" if got == "/" else got)
    with assert_refused(SourceError, "bok.txt", "book.txt", "text="):
        resolve("bok.txt")
    with assert_refused(SourceError, "wikitext-2"):
        resolve("wikitxt-2")
    with assert_refused(SourceError, "ptb"):
        resolve("zzzzzzz")
    for wrong in (b"book.txt", 7, None, [7], []):
        with pytest.raises(SourceError):
            resolve(wrong)  # type: ignore[arg-type]


def test_a_corpus_by_name_and_by_part(corpora_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ptb").write_text("a path of the same name")
    texts = resolve("ptb")
    assert (set(texts.parts), texts.tokens, texts.name) == ({"train", "valid", "test"}, "word", "ptb")
    assert only(resolve("./ptb")).text() == "a path of the same name"
    raw = (corpora_folder / "ptb" / "ptb.valid.txt").read_text(encoding="utf-8")
    for one in (resolve("ptb:valid"), resolve("ptb", part="valid"), resolve("ptb:valid", part="valid")):
        assert (only(one).text(), one.name, one.tokens) == (raw, "ptb:valid", "word")
    with assert_refused(OptionError, "valid"):
        resolve("ptb:vald")
    with assert_refused(OptionError, "parts"):
        resolve("ptb:valid", part="test")
    with assert_refused(OptionError, "./ptb"):
        resolve("./ptb", part="valid")


def test_text_given_as_text() -> None:
    assert Source.of_text("\ufeffa\r\nb\rc").text() == "a\nb\nc"
    with assert_refused(EncodingError, "U+D800", 2):
        Source.of_text("ab\ud800")
    with assert_refused(OptionError, "decode"):
        Source.of_text(b"bytes")  # type: ignore[arg-type]
    assert Source.of_text("né").size == 3
    texts = Texts.of_text("né")
    assert only(texts).text() == "né"
    assert resolve(texts) is texts
    assert only(resolve(only(texts))) == only(texts)


def test_fingerprints_follow_content_and_options(folder: Path) -> None:
    Path("copy.txt").write_bytes(Path("book.txt").read_bytes())
    base = only(resolve("book.txt")).fingerprint()
    assert only(resolve("copy.txt")).fingerprint() == base
    others = [
        only(resolve("book.txt", lower=True)),
        only(resolve("book.txt", letters_only=True)),
        only(resolve("book.txt", encoding="latin-1")),
        only(resolve(["book.txt", "book.txt"])),
        Source.of_text("one\ntwo"),
    ]
    assert len({base, *(other.fingerprint() for other in others)}) == 6
    assert (
        only(resolve("book.txt", encoding="latin1")).fingerprint()
        == only(resolve("book.txt", encoding="latin-1")).fingerprint()
    )


def test_lower_and_letters_only() -> None:
    text = "The 2nd CAT,\n\n-- ΟΔΟΣ_x ΟΔΟΣ"
    assert Source.of_text(text, lower=True).text() == text.lower()
    assert Source.of_text(text, letters_only=True).text() == "The nd CAT \n\n ΟΔΟΣ x ΟΔΟΣ"
    assert Source.of_text(text, lower=True, letters_only=True).text() == "the nd cat \n\n οδος x οδος"


@given(st.text(alphabet="aΣΑ1 ,\nİ", max_size=30), st.integers(1, 5))
def test_options_do_not_see_the_borders_of_blocks(text: str, block: int) -> None:
    from thereafter.text import sources

    chunks = [text[start : start + block] for start in range(0, len(text), block)]
    assert "".join(sources.lower_case(chunks)) == text.lower()
    assert "".join(sources.keep_letters(chunks)) == "".join(sources.keep_letters([text]))


class Bar:
    """Adds up what is reported."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, float | None]] = []
        self.done = 0.0
        self.ended = 0

    def begin(self, label: str, total: float | None, unit: str):  # type: ignore[no-untyped-def]
        self.begun.append((label, total))
        return self._advance

    def _advance(self, amount: float) -> None:
        self.done += amount

    def end(self, label: str) -> None:
        self.ended += 1

    def note(self, message: str) -> None:
        raise AssertionError(message)


@pytest.mark.parametrize("source", [["book.txt", "more.txt.gz"], "book.txt", "more.txt.gz", None])
def test_progress_reaches_its_total(folder: Path, source: object) -> None:
    read = only(resolve(source)) if source else Source.of_text("né\n" * 9)  # type: ignore[arg-type]
    bar = Bar()
    with reporting(bar):
        list(read.chunks("reading"))
    assert (bar.begun, bar.done, bar.ended) == ([("reading", read.size)], read.size, 1)
