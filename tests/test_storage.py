"""Writing loses nothing, and what is mapped back has been checked to the last byte."""

from __future__ import annotations

import json
import os
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from refusals import assert_refused
from thereafter.base.storage import map_arrays, replacing, write_arrays, write_text
from thereafter.errors import FormatError, StorageError

ARRAYS: dict[str, Any] = {
    "half": np.arange(12, dtype=np.float16).reshape(3, 4),
    "single": np.linspace(-1, 1, 7, dtype=np.float32),
    "double": np.array([[np.inf, -np.inf, np.nan, 0.0]]),
    "small": np.array([-128, 127], np.int8),
    "signed": np.array([-(2**31), 2**31 - 1], np.int32),
    "wide": np.array([[[2**62]]], np.int64),
    "unsigned": np.array([0, 2**64 - 1], np.uint64),
    "flags": np.array([True, False]),
    "one": np.array(3.5, np.float32),
    "none": np.empty((0, 5), np.int32),
}


@contextmanager
def full_disk(room: int) -> Iterator[None]:
    """The system itself refuses to let any file grow beyond `room` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_replacing_takes_the_place_only_when_all_went_well(tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder" / "a.txt"
    with replacing(target) as temporary:
        temporary.write_text("one")
        assert not target.exists()
    assert target.read_text() == "one"

    def interrupted(by: type[BaseException]) -> None:
        with replacing(target) as temporary:
            temporary.write_text("half of tw")
            raise by

    for kind in (ZeroDivisionError, KeyboardInterrupt):
        with pytest.raises(kind):
            interrupted(kind)
    assert target.read_text() == "one"
    assert names(target.parent) == ["a.txt"]


def test_files_are_as_readable_as_the_user_wants_them(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "a.txt", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    write_text(target, "old")
    write_arrays(tmp_path / "a.safetensors", ARRAYS)
    before = (tmp_path / "a.safetensors").read_bytes()
    with full_disk(1000):
        with assert_refused(StorageError, "a.txt"):
            write_text(target, "new" * 1000)
        with assert_refused(StorageError, "a.safetensors"):
            write_arrays(tmp_path / "a.safetensors", {"big": np.zeros(100_000)})
    assert target.read_text() == "old"
    assert (tmp_path / "a.safetensors").read_bytes() == before
    assert names(tmp_path) == ["a.safetensors", "a.txt"]


def test_a_last_move_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with assert_refused(StorageError, "No space left on device"):
        write_text(tmp_path / "a.txt", "x")
    assert names(tmp_path) == []


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    for target in (tmp_path / "file" / "a.txt", tmp_path / "folder", tmp_path / ("x" * 300)):
        with assert_refused(StorageError, tmp_path):
            write_text(target, "y")
    assert names(tmp_path) == ["file", "folder"]
    assert names(tmp_path / "folder") == []


def test_text_is_written_as_it_is(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "é😀\r\n\0\n")
    assert (tmp_path / "a.txt").read_bytes() == "é😀\r\n\0\n".encode()


def assert_same(got: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert set(got) == set(expected)
    for name, array in expected.items():
        assert got[name].dtype == array.dtype
        assert got[name].shape == array.shape
        np.testing.assert_array_equal(got[name], array)


def test_ours_and_theirs_read_and_write_alike(tmp_path: Path) -> None:
    facts = {"about": "é😀\n", "n": "3"}
    write_arrays(tmp_path / "ours", ARRAYS, facts)
    assert_same(load_file(tmp_path / "ours"), ARRAYS)
    save_file(ARRAYS, tmp_path / "theirs", metadata=facts)
    for name in ("ours", "theirs"):
        arrays, said = map_arrays(tmp_path / name)
        assert_same(arrays, ARRAYS)
        assert said == facts
    write_arrays(tmp_path / "empty", {})
    assert map_arrays(tmp_path / "empty") == ({}, {})


def test_strided_arrays_are_written_in_their_own_order(tmp_path: Path) -> None:
    square = np.arange(12, dtype=np.int32).reshape(3, 4)
    write_arrays(tmp_path / "a", {"turned": square.T, "sparse": square[:, ::2]})
    arrays, _ = map_arrays(tmp_path / "a")
    assert_same(arrays, {"turned": square.T, "sparse": square[:, ::2]})


def test_arrays_are_mapped_and_cannot_be_changed(tmp_path: Path) -> None:
    write_arrays(tmp_path / "a", {"x": np.arange(1000)})
    array = map_arrays(tmp_path / "a")[0]["x"]
    base: Any = array
    while base is not None and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)
    assert not array.flags.writeable
    write_arrays(tmp_path / "a", {"x": np.zeros(1000)})  # the old file stays where it is mapped
    assert array[999] == 999


def crafted(path: Path, header: object, data: bytes = b"\0" * 16) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def entry(dtype: Any = "F32", shape: Any = (4,), offsets: Any = (0, 16)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def test_the_crafted_good_one_is_good(tmp_path: Path) -> None:
    arrays, _ = map_arrays(crafted(tmp_path / "a", {"x": entry()}))
    assert arrays["x"].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    "header",
    [
        pytest.param({"x": entry(shape=(5,))}, id="shape larger than the data"),
        pytest.param({"x": entry(shape=(3,))}, id="shape smaller than the data"),
        pytest.param({"x": entry(offsets=(0, 20), shape=(5,))}, id="end beyond the file"),
        pytest.param({"x": entry(offsets=(-4, 12))}, id="negative beginning"),
        pytest.param({"x": entry(offsets=(16, 0))}, id="end before the beginning"),
        pytest.param({"x": entry(shape=(-2, -2))}, id="negative shape"),
        pytest.param({"x": entry(shape=(-4,))}, id="negative length"),
        pytest.param({"x": entry(shape=(10**30, 10**30))}, id="shape beyond all numbers"),
        pytest.param({"x": entry(shape=(10**400,))}, id="shape beyond floating point"),
        pytest.param({"x": entry(shape=(2**32, 2**32), offsets=(0, 0))}, id="shape that wraps to nothing"),
        pytest.param({"x": entry(shape=(float("inf"),))}, id="infinite shape"),
        pytest.param({"x": entry(shape=(float("nan"),))}, id="shape that is no number"),
        pytest.param({"x": entry(dtype="F8")}, id="unknown kind of number"),
        pytest.param({"x": entry(dtype="O")}, id="objects"),
        pytest.param({"x": entry(dtype=["F32"])}, id="a list for a kind"),
        pytest.param({"x": {"dtype": "F32"}}, id="entry without a shape"),
        pytest.param({"x": 3}, id="entry that is a number"),
        pytest.param({"x": entry(shape=4)}, id="shape that is a number"),
        pytest.param({"x": entry(offsets=(0, 8, 16))}, id="three offsets"),
        pytest.param({"x": entry(), "y": entry()}, id="two arrays in one place"),
        pytest.param(
            {"x": entry(shape=(3,), offsets=(0, 12)), "y": entry(shape=(2,), offsets=(8, 16))}, id="overlapping arrays"
        ),
        pytest.param(
            {"x": entry(shape=(1,), offsets=(0, 4)), "y": entry(shape=(2,), offsets=(8, 16))}, id="a hole between"
        ),
        pytest.param({"x": entry(shape=(2,), offsets=(0, 8))}, id="bytes nobody owns"),
        pytest.param({}, id="nobody owns anything"),
        pytest.param([1, 2], id="a list"),
        pytest.param(b"{not json", id="not JSON"),
        pytest.param(b"\xff\xfe\x00", id="not UTF-8"),
        pytest.param(b"[" * 100_000, id="nested beyond reading"),
        pytest.param(b'{"x": ' + b"9" * 5000 + b"}", id="a number of 5,000 digits"),
    ],
)
def test_crafted_headers_are_refused(tmp_path: Path, header: object) -> None:
    with assert_refused(FormatError, "a.safetensors"):
        map_arrays(crafted(tmp_path / "a.safetensors", header))


def test_files_cut_short_or_grown_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_arrays(path, {"x": np.arange(20), "y": np.arange(3.0)})
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with assert_refused(FormatError, "a.safetensors"):
            map_arrays(path)
    path.write_bytes(whole + b"\0")
    with assert_refused(FormatError, "a.safetensors"):
        map_arrays(path)
    path.write_bytes((2**63).to_bytes(8, "little") + whole[8:])
    with assert_refused(FormatError, path):
        map_arrays(path)


def test_what_is_not_a_file(tmp_path: Path) -> None:
    with assert_refused(FormatError, tmp_path):
        map_arrays(tmp_path)
    with assert_refused(FormatError, "nowhere"):
        map_arrays(tmp_path / "nowhere")


def test_devices_and_links_are_written_to_not_replaced(tmp_path: Path):
    link, real = tmp_path / "link", tmp_path / "real"
    real.write_text("old")
    link.symlink_to(real)
    with replacing(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with replacing(pipe) as place:
        assert place == pipe
    assert not pipe.is_file()
