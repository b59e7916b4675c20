"""Bytes to normalised text, compared with Python's own decoding of the whole."""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth import core
from refusals import assert_refused
from thereafter.errors import EncodingError, OptionError, SourceError
from thereafter.text.reading import read_chunks

NASTY = "\0\x01 naïve 😀 אבג \u2028 漢字 e\u0301\r\nnext\rlast\x85\x1c\n\r\n\r"


def normal(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read(data: bytes, **options: object) -> str:
    return "".join(read_chunks(io.BytesIO(data), **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("block", core([1, 2, 3, 7, 1 << 20], [1, 1 << 20]))
def test_encodings_gzip_and_line_ends_at_any_block_border(encoding: str, zipped: bool, block: int) -> None:
    data = NASTY.encode(encoding)
    assert read(gzip.compress(data) if zipped else data, block=block) == normal(NASTY)


def test_utf16_big_endian_by_its_mark() -> None:
    assert read(b"\xfe\xff" + NASTY.encode("utf-16-be")) == normal(NASTY)


@given(st.text().filter(lambda text: not text.startswith("\ufeff")), st.integers(1, 9), st.booleans())
def test_any_text_survives(text: str, block: int, marked: bool) -> None:
    assert read(text.encode("utf-8-sig" if marked else "utf-8"), block=block) == normal(text)


@given(st.binary(max_size=64), st.integers(1, 9))
def test_random_bytes_are_text_or_a_clear_error(data: bytes, block: int) -> None:
    marks = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"), (b"", "utf-8"))
    mark, encoding = next(pair for pair in marks if data.startswith(pair[0]))
    try:
        expected = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as failed:
        at = len(mark) + failed.start
        with pytest.raises(EncodingError, match=rf"byte 0x{data[at]:02x} at byte offset {at} .*--encoding"):
            read(data, block=block)
    else:
        assert read(data, block=block) == normal(expected)


@pytest.mark.parametrize("block", core([1, 3, 4, 1 << 20], [1, 1 << 20]))
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_the_offset_is_that_of_the_offending_byte(block: int, mark: bytes) -> None:
    data = mark + "naïve\r\n".encode() * 3 + b"caf\xe9 au lait"
    at = data.index(b"\xe9 ")
    for content in (data, gzip.compress(data)):
        with pytest.raises(EncodingError, match=rf"byte 0xe9 at byte offset {at} .*--encoding latin-1"):
            read(content, block=block)
    assert read(data[len(mark) :], encoding="latin-1").endswith("café au lait")


def test_a_cut_character_at_the_end_is_an_error() -> None:
    with assert_refused(EncodingError, "0xc3", 3):
        read(b"abc\xc3")
    with assert_refused(EncodingError, "0x41", 4):
        read(b"\xff\xfea\x00\x41")


def test_utf16_without_a_mark_is_told_apart_from_text_with_nuls() -> None:
    for codec in ("utf-16-le", "utf-16-be"):
        with pytest.raises(EncodingError, match=f"--encoding {codec}"):
            read(("so long " * 10).encode(codec))
    assert read("é\0".encode() * 40) == "é\0" * 40
    assert read(b"a\0b\0") == "a\0b\0"
    assert read(b"a\0" * 40, encoding="utf-8") == "a\0" * 40
    assert read("\0".encode("utf-16")) == "\0"
    with assert_refused(EncodingError, "--encoding utf-32"):
        read("so long".encode("utf-32"))
    assert read("so long".encode("utf-32"), encoding="utf-32") == "so long"


def test_a_mark_in_the_middle_stays() -> None:
    assert read("\ufeffa\ufeffb".encode()) == "a\ufeffb"
    assert read("\ufeff\ufeffb".encode()) == "\ufeffb"
    assert read("\ufeffb".encode(), encoding="utf-8") == "b"


def test_gzip_is_recognised_by_content(tmp_path: Path) -> None:
    path = tmp_path / "renamed.txt"
    path.write_bytes(gzip.compress(b"one\n") + gzip.compress(b"two\n"))
    assert "".join(read_chunks(path)) == "one\ntwo\n"


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: data[:40] + b"\xff" * 9 + data[49:]])
def test_damaged_gzip(damage: object) -> None:
    data = gzip.compress(os.urandom(400).hex().encode(), mtime=0)
    with assert_refused(SourceError, "gzip"):
        read(damage(data))  # type: ignore[operator]


def test_paths_that_cannot_be_read(tmp_path: Path) -> None:
    with assert_refused(SourceError, "folder"):
        list(read_chunks(tmp_path))
    with assert_refused(SourceError, "absent"):
        list(read_chunks(tmp_path / "absent"))
    with assert_refused(SourceError, "NUL"):
        list(read_chunks("a\0b"))
    locked = tmp_path / "locked"
    locked.write_text("x")
    locked.chmod(0)
    if not os.access(locked, os.R_OK):
        with assert_refused(SourceError, "chmod"):
            list(read_chunks(locked))


@pytest.mark.parametrize("name", ["", "utf-9", "hex", "rot13", "a\0b", "ü"])
def test_unknown_encodings_are_refused_at_once(name: str) -> None:
    with assert_refused(OptionError, "--encoding latin-1"):
        read_chunks(io.BytesIO(b""), encoding=name)


def test_an_encoding_that_spells_half_a_pair() -> None:
    with pytest.raises(EncodingError):
        read(b"+2AA-", encoding="utf-7")
