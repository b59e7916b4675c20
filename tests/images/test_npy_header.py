"""Headers of .npy files, against numpy's own reading and writing of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from thereafter.errors import FormatError
from thereafter.vision.pictures.archives import npy_array

TYPES = ("|u1", "<i2", ">i4", "<f2", "<f4", ">f8", "|b1", "<U7", "|S3", "<c16", "|V5", "<M8[s]")
SHAPES = ((), (0,), (3,), (2, 3), (4, 1, 5))


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", TYPES)
def test_arrays_are_mapped_as_numpy_maps_them(tmp_path: Path, kind: str, order: str, version: tuple[int, int]):
    for shape in SHAPES:
        array = np.zeros(shape, kind, order)  # type: ignore[call-overload]
        array.reshape(-1).view(np.uint8)[:] = 7 if kind != "|b1" else 1
        with open(tmp_path / "a.npy", "wb") as file:
            np.lib.format.write_array(file, array, version)
        mapped, expected = npy_array(tmp_path / "a.npy"), np.load(tmp_path / "a.npy")
        assert (mapped.shape, mapped.dtype) == (expected.shape, expected.dtype)
        assert mapped.tobytes() == expected.tobytes()
        assert mapped.flags.f_contiguous == expected.flags.f_contiguous


def written(path: Path, header: bytes) -> Path:
    """A .npy of this header, with the numbers of an array [3, 4] behind it."""
    path.write_bytes(b"\x93NUMPY\x02\x00" + len(header).to_bytes(4, "little") + header + bytes(48))
    return path


def test_another_order_of_entries(tmp_path: Path):
    array = npy_array(written(tmp_path / "a.npy", b"{'shape': (3, 4), 'descr': '<f4', 'fortran_order': True}\n"))
    assert (array.shape, array.dtype, array.flags.f_contiguous) == ((3, 4), np.dtype("<f4"), True)


HOSTILE = (
    b"",
    b"{}",
    b"{'descr': '<f4', 'fortran_order': False}",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'more': (1,)}",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} + 1",
    b"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}",
    b"{'descr': '<f4', 'fortran_order': 'no', 'shape': (3,)}",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': '3'}",
    b"{'descr': 'nothing', 'fortran_order': False, 'shape': (3,)}",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (3L,)}" + b"(" * 3_000,
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (" + b"-" * 9_000 + b"1,)}",
    b"{'descr': __import__('os'), 'fortran_order': False, 'shape': (3,)}",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (%s)}" % (b"1, " * 3_000),
    b"{" * 9_000,
    b"{'descr': '<f4'" + b" " * 16_000,
)


@pytest.mark.parametrize("header", HOSTILE)
def test_a_header_that_is_none_is_refused(tmp_path: Path, header: bytes):
    with pytest.raises(FormatError):
        npy_array(written(tmp_path / "a.npy", header))


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads change places as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("restless")
def test_eight_threads_read_what_one_reads(tmp_path: Path):
    np.save(tmp_path / "a.npy", np.zeros((1, 4, 12, 12), np.uint8))
    with ThreadPoolExecutor(8) as pool:
        arrays = list(pool.map(lambda _: npy_array(tmp_path / "a.npy"), range(2_000)))
    assert {(array.shape, array.dtype) for array in arrays} == {((1, 4, 12, 12), np.dtype(np.uint8))}
