"""Headers of .npy files, against numpy's own reading and writing of them."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from thereafter.vision.pictures.archives import npy_array, parse_header

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


def test_an_old_header_and_another_order_of_entries():
    assert parse_header(b"{'shape': (3L, 4L), 'descr': '<f4', 'fortran_order': True}\n") == (
        (3, 4),
        True,
        np.dtype("<f4"),
    )


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
    b"{'descr': __import__('os'), 'fortran_order': False, 'shape': (3,)}",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (%s)}" % (b"1, " * 3_000),
    b"{" * 9_000,
    b"{'descr': '<f4'" + b" " * 16_000,
)


@pytest.mark.parametrize("header", HOSTILE)
def test_a_header_that_is_none_is_refused(header: bytes):
    with pytest.raises((ValueError, TypeError)):
        parse_header(header)


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads change places as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("restless")
def test_eight_threads_read_what_one_reads():
    file = io.BytesIO()
    np.lib.format.write_array(file, np.zeros((1, 4, 12, 12), np.uint8))
    header = file.getvalue()[10 : 10 + int.from_bytes(file.getvalue()[8:10], "little")]
    with ThreadPoolExecutor(8) as pool:
        answers = set(pool.map(lambda _: parse_header(header), range(2_000)))
    assert answers == {((1, 4, 12, 12), False, np.dtype(np.uint8))}
